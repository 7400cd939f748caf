//! Set-up: `kvatlas bench ingest` that is stopped by a signal in the middle: against a running daemon, and against one
//! that it has started.
//! Claim: what it registered is unregistered, the daemon that it started is gone, and the exit code is that of the signal.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::bench;
use crate::fleet::{Ask, Daemon, eventually};

const LOAD: [&str; 7] = ["ingest", "--publishers", "3", "--rate", "5", "--seconds", "600"];

#[test]
fn a_running_daemon_forgets_the_bench() {
    let daemon = Daemon::start(1);
    let url = format!("http://{}", daemon.address());
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let mut child =
            bench::command(&[&LOAD[..], &["--target", &url]].concat()).stdout(Stdio::null()).spawn().unwrap();
        eventually("all are registered and heard", || {
            let services = daemon.get("/services").json();
            let all = services["services"].as_array().unwrap();
            all.len() == 3 && all.iter().all(|service| service["stream"]["messages"].as_u64() > Some(0))
        });
        bench::signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        assert_eq!(daemon.get("/services").json()["count"], 0, "{name}");
    }
}

#[test]
fn its_own_daemon_ends_with_it() {
    let mut child = bench::command(&LOAD).stdout(Stdio::null()).spawn().unwrap();
    let id = child.id();
    let mut daemon = String::new();
    eventually("it has a daemon", || {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        daemon = children.trim().to_owned();
        !daemon.is_empty()
    });
    let place = Path::new("/proc").join(&daemon);
    assert!(place.exists());
    bench::signal(id, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.exists(), "the daemon {daemon} goes on");
}
