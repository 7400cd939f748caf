//! Set-up: `kvatlas bench` against a daemon in a process of its own, which is frozen by SIGSTOP while it is measured.
//! Claim: the run ends soon after its time, with a report that says that the daemon did not answer and with exit code
//! 69; Ctrl-C ends it as well, with a report and 130, and the second Ctrl-C at once, without one.

use std::process::{Child, Output, Stdio};

use crate::bench::{self, Served};
use crate::fleet::{Ask, eventually};
use serde_json::Value;

/// Starts a bench, and freezes the daemon once it has heard something.
fn frozen(daemon: &Served, arguments: &[&str]) -> Child {
    let url = format!("http://{}", daemon.address());
    let mut command = bench::command(&[arguments, &["--json", "--target", &url]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it measures", || {
        let services = daemon.get("/services").json();
        let heard = |service: &Value| service["stream"]["blocks_stored"].as_u64() > Some(0);
        services["services"].as_array().unwrap().iter().any(heard)
    });
    bench::signal(daemon.id(), "STOP");
    child
}

/// Waits for its end, which must come long before anybody has waited for an answer for as long as may be.
fn end(mut child: Child) -> (Option<i32>, Option<Value>, String) {
    eventually("it ends", || child.try_wait().unwrap().is_some());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code(), serde_json::from_slice(&stdout).ok(), String::from_utf8(stderr).unwrap())
}

const SHORT: [&str; 7] = ["ingest", "--publishers", "2", "--rate", "20", "--seconds", "3"];
const LONG: [&str; 7] = ["ingest", "--publishers", "2", "--rate", "20", "--seconds", "600"];

#[test]
fn a_run_whose_daemon_is_frozen_ends_and_says_so() {
    let daemon = Served::start();
    let (code, report, said) = end(frozen(&daemon, &SHORT));
    let report = report.expect("a report");
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("did not answer"), "{said}");
    assert_eq!((&report["stopped"], &report["unanswered"]), (&Value::Bool(false), &Value::Bool(true)));
    let kept_up = report["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == "kept up").unwrap();
    assert_eq!(kept_up["passed"], false);
    assert!(kept_up["words"].as_str().unwrap().contains("did not answer"), "{kept_up}");
}

#[test]
fn ctrl_c_ends_it_with_a_report() {
    let daemon = Served::start();
    let child = frozen(&daemon, &LONG);
    bench::signal(child.id(), "INT");
    let (code, report, said) = end(child);
    let report = report.expect("a report");
    assert_eq!(code, Some(130), "{said}");
    assert_eq!((&report["stopped"], &report["unanswered"]), (&Value::Bool(true), &Value::Bool(true)));
}

#[test]
fn the_second_ctrl_c_ends_it_at_once() {
    let daemon = Served::start();
    let mut child = frozen(&daemon, &LONG);
    eventually("it ends", || {
        let ended = child.try_wait().unwrap().is_some();
        if !ended {
            bench::signal(child.id(), "INT");
        }
        ended
    });
    let (code, report, said) = end(child);
    assert_eq!((code, report), (Some(130), None), "{said}");
}
