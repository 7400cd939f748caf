//! Set-up: `kvatlas bench` with flags and files that cannot be.
//! Claim: each is refused before anything is started, with the exit code of its kind and the flag's or file's name.

use crate::bench;

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (bad, empty) = (file("bad.jsonl", "{\"timestamp\": 0}\n"), file("empty.jsonl", "\n"));
    let line = |stamp: &str| format!("{{\"timestamp\": {stamp}, \"input_length\": 0, \"hash_ids\": []}}\n");
    let endless = file("endless.jsonl", &(line("0") + &line("1e300")));
    let three_days = file("days.jsonl", &(line("0") + "\n" + &line("259200000")));
    let every_hour: String = (0..30).map(|hour| line(&(hour * 3_599_000).to_string())).collect();
    let long = file("long.jsonl", &every_hour);
    let back = file("back.jsonl", &(line("7") + &line("6")));
    let marked = file("marked.jsonl", &("\u{feff}".to_owned() + &line("0")));
    for (code, arguments, words) in [
        (64, &["ingest", "--rate", "0"][..], "--rate"),
        (64, &["ingest", "--rate", "fast"], "or max"),
        (64, &["ingest", "--rate", "-1"], "--rate"),
        (64, &["ingest", "--seconds", "0"], "--seconds"),
        (64, &["query", "--seconds", "-3"], "--seconds"),
        (64, &["trace", &bad, "--speed", "-2"], "--speed"),
        (64, &["ingest", "--events", "4096", "--blocks", "4096"], "--events"),
        (64, &["ingest", "--tokens", "1000000", "--blocks", "100"], "--tokens"),
        (64, &["ingest", "--capacity", "7"], "--capacity"),
        (64, &["ingest", "--family", "vllm-1999"], "--family"),
        (64, &["ingest", "--target", "http://127.0.0.1:1", "--reactors", "2"], "--reactors"),
        (64, &["ingest", "--server-pid", "1"], "--target"),
        (64, &["ingest", "--late-share", "101"], "--late-share"),
        (64, &["query", "--depth", "0"], "--depth"),
        (64, &["query", "--hit", "50,101"], "--hit"),
        (64, &["query", "--depth", "1000000", "--prompts", "1000"], "--prompts"),
        (64, &["trace"], "FILE"),
        (64, &["trace", &bad, "--speed", "0"], "--speed"),
        (64, &["trace", &long], "--speed: the trace would take more than"),
        (65, &["trace", &endless], "endless.jsonl: line 2: timestamp 1e300 jumps from 0.0"),
        (65, &["trace", &three_days], "days.jsonl: line 3: timestamp 259200000.0 jumps from 0.0"),
        (65, &["trace", &back], "back.jsonl: line 2: timestamp 6 is before that of the line before, 7"),
        (65, &["trace", &marked], "marked.jsonl: line 1: begins with a byte order mark"),
        (65, &["trace", &bad], "bad.jsonl: line 1, column 16: missing field `input_length`"),
        (65, &["trace", &empty], "empty.jsonl: there is no request"),
        (66, &["trace", "nowhere.jsonl"], "nowhere.jsonl"),
        (69, &["ingest", "--target", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (69, &["query", "--bind", "256.0.0.1"], "--bind"),
        (64, &["ingest", "--bind", "0.0.0.0"], "--advertise"),
        (64, &["ingest", "--base-port", "65535", "--publishers", "2"], "--base-port"),
        (73, &["ingest", "--histogram", "/nonexistent/lag.hgrm"], "--histogram"),
    ] {
        let (found, _, said) = bench::bench(arguments);
        assert_eq!(found, code, "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
