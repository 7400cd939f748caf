//! Set-up: trace files, good and bad.
//! Claim: requests come as they are written; a line that is none is named by its number and its fault, however long
//! it is; equal ids are equal tokens, and the prompt is as long as it is said to be.

use kvatlas::bench::trace::{ID_TOKENS, Request, Requests, TraceError};
use kvatlas::limits::{BENCH_LINE_BYTES, BENCH_REQUEST_TOKENS};

fn all(text: &str) -> Result<Vec<Request>, String> {
    Requests::new(text.as_bytes()).collect::<Result<_, TraceError>>().map_err(|error| error.to_string())
}

fn line(timestamp: &str, input: u64, ids: &[u64]) -> String {
    format!(
        "{{\"timestamp\": {timestamp}, \"input_length\": {input}, \"output_length\": 3, \"hash_ids\": {ids:?}}}\n"
    )
}

#[test]
fn requests_come_as_they_are_written() {
    let text = [
        line("0", 600, &[4, 9]),
        "\n".to_owned(),
        line("1.5", 0, &[]),
        line("7", 512, &[4]).trim_end().to_owned(),
    ];
    let requests = all(&text.concat()).unwrap();
    let stamps: Vec<f64> = requests.iter().map(|request| request.timestamp).collect();
    assert_eq!(stamps, [0.0, 1.5, 7.0]);
    assert_eq!((requests[0].input_length, &requests[0].hash_ids[..]), (600, &[4, 9][..]));
    assert!(all("").unwrap().is_empty());
}

#[test]
fn equal_ids_are_equal_tokens() {
    let text = [line("0", 600, &[4, 9]), line("1", 1024, &[4, 8]), line("1", 300, &[7])].concat();
    let requests = all(&text).unwrap();
    let prompts: Vec<_> = requests.iter().map(|request| request.prompt(5)).collect();
    assert_eq!(prompts.iter().map(Vec::len).collect::<Vec<_>>(), [600, 1024, 300]);
    let first = ID_TOKENS as usize;
    assert_eq!(prompts[0][..first], prompts[1][..first]);
    assert_ne!(prompts[0][first..], prompts[1][first..600]);
    assert_ne!(prompts[2][..], prompts[0][..300]);
    assert_ne!(requests[0].prompt(6), prompts[0], "another seed, other tokens");
    assert_eq!(requests[0].output(5, 0).len(), 3);
    assert_ne!(requests[0].output(5, 0), requests[1].output(5, 1));
}

#[test]
fn a_bad_line_is_named() {
    let good = line("5", 1, &[1]);
    for (bad, words) in [
        ("nonsense\n".to_owned(), "line 3, column 2: expected"),
        (
            "{\"timestamp\": 6, \"hash_ids\": []}\n".to_owned(),
            "line 3, column 32: missing field `input_length`",
        ),
        (line("4", 1, &[1]), "line 3: timestamp 4 is before that of the line before, 5"),
        (line("-1", 1, &[1]), "line 3: timestamp -1 is no time"),
        (line("9", 513, &[1]), "line 3: 513 tokens of input need 2 hash_ids, there are 1"),
        (line("9", BENCH_REQUEST_TOKENS, &[1]), "are more than"),
        ("x".repeat(BENCH_LINE_BYTES + 1) + "\n", "line 3: longer than"),
        ("x".repeat(3 * BENCH_LINE_BYTES), "line 3: longer than"),
    ] {
        let error = all(&[good.as_str(), "\n", &bad, &good].concat()).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let marked = all(&["\u{feff}", &good].concat()).unwrap_err();
    assert!(marked.contains("line 1: begins with a byte order mark"), "{marked}");
    let short = line("9", 1, &[1]);
    let blanks = " ".repeat(BENCH_LINE_BYTES - short.trim_end().len());
    let longest = format!("{blanks}{short}");
    assert_eq!(all(&longest).unwrap().len(), 1);
}
