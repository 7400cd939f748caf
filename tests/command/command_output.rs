//! Set-up: commands whose standard output is a full device; a bench that is killed while its own daemon runs.
//! Claim: output that cannot be written is an error with exit code 73 and one line of words, never a panic; a
//! daemon that a command started ends with it, however that ends.

use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const KVATLAS: &str = env!("CARGO_BIN_EXE_kvatlas");

/// Runs a command into a full device: its exit code, and what it says about that.
fn into_a_full_device(args: &[&str]) -> (Option<i32>, String) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(KVATLAS).args(args).stdin(Stdio::null()).stdout(full).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(&config, "{}").unwrap();
    let config = config.path().to_str().unwrap();
    let ingest = ["bench", "ingest", "--publishers", "1", "--rate", "20", "--seconds", "0.2", "--no-gate"];
    let commands: [&[&str]; 4] = [
        &["serve", "--check-config", "--config", config],
        &["publish", "--bind", "tcp://127.0.0.1:0", "--batches", "1"],
        &ingest,
        &["demo"],
    ];
    for args in commands {
        let (code, words) = into_a_full_device(args);
        assert_eq!(code, Some(73), "{args:?}: {words}");
        assert!(words.contains("cannot write to standard output"), "{args:?}: {words}");
        assert!(!words.contains("panicked"), "{args:?}: {words}");
    }
}

/// Processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| state(*id).is_some_and(|(_, of)| of == parent)).collect()
}

/// State and parent of a process that is there.
fn state(id: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_daemon_ends_with_the_command_that_started_it() {
    let mut bench = Command::new(KVATLAS)
        .args(["bench", "ingest", "--publishers", "1", "--rate", "20", "--seconds", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = bench.id();
    eventually("the bench starts its daemon", || {
        children(id).iter().any(|child| {
            // it has asked to end with its parent before it opens anything
            fs::read_dir(format!("/proc/{child}/fd")).is_ok_and(|fds| fds.count() > 8)
        })
    });
    let daemon = children(id)[0];
    bench.kill().unwrap();
    bench.wait().unwrap();
    eventually("the daemon ends", || state(daemon).is_none_or(|(state, _)| state == 'Z'));
}
