//! Set-up: each `kvatlas bench` is stopped by Ctrl-C in the middle of its measurement, against a daemon behind a proxy
//! that counts the questions.
//! Claim: it reports on the part before, in text and in JSON, says first of all that it was stopped, counts nothing
//! that it did not send as its own fault nor a pause before it as lag, unregisters what it registered, and ends with 130.

use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bench::{self, number, passed};
use crate::fleet::{Ask, Daemon, eventually};
use serde_json::Value;

static QUESTIONS: AtomicU64 = AtomicU64::new(0);

fn count(target: &str, body: Vec<u8>) -> Vec<u8> {
    if target.starts_with("/query") {
        QUESTIONS.fetch_add(1, Ordering::Relaxed);
    }
    body
}

/// A trace of ten minutes, a request every 20 ms.
fn trace() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let line = |number: u64| {
        let stamp = number * 20;
        format!("{{\"timestamp\": {stamp}, \"input_length\": 512, \"hash_ids\": [{}]}}\n", number % 7)
    };
    let file = folder.path().join("trace.jsonl");
    std::fs::write(&file, (0..30_000).map(line).collect::<String>()).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

/// Runs a bench until it has done something, and stops it.
fn stopped(daemon: &Daemon, url: &str, arguments: &[&str]) -> Output {
    let before = QUESTIONS.load(Ordering::Relaxed);
    let mut command = bench::command(&[arguments, &["--target", url]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it measures", || {
        let services = daemon.get("/services").json();
        let heard = |service: &Value| service["stream"]["blocks_stored"].as_u64() > Some(0);
        let stores = services["services"].as_array().unwrap().iter().any(heard);
        stores && (arguments[0] == "ingest" || QUESTIONS.load(Ordering::Relaxed) > before + 20)
    });
    bench::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{arguments:?}: {said}");
    assert!(said.contains("stopped by a signal"), "{said}");
    assert_eq!(daemon.get("/services").json()["count"], 0, "{arguments:?}");
    output
}

#[test]
fn a_part_is_reported_as_a_part() {
    let daemon = Daemon::start(1);
    let (url, (_folder, file)) = (bench::proxy(daemon.address(), count), trace());
    for (arguments, done) in [
        (&["ingest", "--publishers", "2", "--rate", "50", "--seconds", "600"][..], "/sent/batches"),
        (
            &["query", "--depth", "4,8", "--prompts", "2", "--owners", "2", "--seconds", "600"],
            "/cells/0/requests",
        ),
        (
            &[
                "query",
                "--depth",
                "4",
                "--prompts",
                "2",
                "--owners",
                "2",
                "--seconds",
                "600",
                "--rate",
                "100",
            ],
            "/cells/0/requests",
        ),
        (&["trace", &file, "--workers", "2"], "/requests"),
    ] {
        let arguments =
            [arguments, if arguments[0] == "query" { &[] } else { &["--settle-ms", "60000"][..] }].concat();
        let patient = [&arguments[..], &["--late-ms", "60000"]].concat();
        let text = String::from_utf8(stopped(&daemon, &url, &patient).stdout).unwrap();
        assert!(text.starts_with("STOPPED by a signal"), "{text}");
        let output = stopped(&daemon, &url, &[&patient[..], &["--json"]].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["stopped"], &report["unanswered"]), (&Value::Bool(true), &Value::Bool(false)));
        assert!(number(&report, done) > 0, "{report}");
        assert!(passed(&report, "generator valid"), "{report}");
        assert!(arguments[0] != "query" || passed(&report, "answers right"), "{report}");
    }
}

/// A request every 20 ms, and the last one much later.
#[test]
fn a_pause_before_the_stop_is_no_lag() {
    let (daemon, folder) = (Daemon::start(1), tempfile::tempdir().unwrap());
    let line = |number: u64| {
        let stamp = if number < 40 { number * 20 } else { 600_000 };
        format!("{{\"timestamp\": {stamp}, \"input_length\": 512, \"hash_ids\": [{number}]}}\n")
    };
    let file = folder.path().join("trace.jsonl");
    std::fs::write(&file, (0..=40).map(line).collect::<String>()).unwrap();
    let url = format!("http://{}", daemon.address());
    let bounds = ["--workers", "2", "--settle-ms", "4000", "--late-ms", "60000", "--json", "--target", &url];
    let mut command = bench::command(&[&["trace", file.to_str().unwrap()][..], &bounds].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("all workers have stored", || {
        let services = daemon.get("/services").json();
        let services = services["services"].as_array().unwrap();
        let heard = |service: &Value| service["stream"]["blocks_stored"].as_u64() > Some(0);
        services.len() == 2 && services.iter().all(heard)
    });
    std::thread::sleep(Duration::from_secs(7));
    bench::signal(child.id(), "INT");
    let report: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(report["stopped"], Value::Bool(true));
    assert!(passed(&report, "kept up"), "{report}");
}
