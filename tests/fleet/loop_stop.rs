//! Set-up: the program, ended by a signal while a server takes its time with a DELETE, a client waits, and
//! connections lie idle.
//! Claim: it ends soon and in order, with exit code 0.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::coordinator::{eventually, receive, store};
use crate::fleet_process::Process;
use crate::mp_server::{Manner, MpServer};
use serde_json::json;

/// Far less than the deadline of a request to a server.
const SOON: Duration = Duration::from_secs(15);

fn evicting(server: &MpServer) -> Process {
    let process = Process::start(
        &["--eviction-check-interval", "0.02", "--chunk-size", "4"],
        &[("ENABLE_STARTUP_RESYNC", "false")],
    );
    let body = json!({"ip": "127.0.0.1", "http_port": server.port(), "instance_id": "a"});
    process.done("POST", "/instances", &body);
    process.done(
        "POST",
        "/quota/events",
        &json!({"instance_id": "a", "seq": 1, "events": [store(0, "s", 1)]}),
    );
    process.done("PUT", "/quota/s", &json!({"limit_gb": 0}));
    eventually("a DELETE is under way", || server.seen().iter().any(|seen| seen.method == "DELETE"));
    process
}

fn ends_in_order(process: Process) {
    let start = Instant::now();
    process.signal("TERM");
    let (status, said) = process.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
}

#[test]
fn a_delete_that_takes_too_long_does_not_delay_it() {
    let server = MpServer::start();
    server.behave(Manner::Silent);
    ends_in_order(evicting(&server));
    assert_eq!(server.seen().len(), 1, "none is begun on the way down");
}

#[test]
fn a_client_that_waits_and_one_that_is_idle_do_not_delay_it() {
    let server = MpServer::start();
    server.behave(Manner::Silent);
    let process = evicting(&server);
    let mut idle = TcpStream::connect(process.address()).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: c\r\n\r\n").unwrap();
    assert_eq!(receive(&mut idle).unwrap().status, 200);
    let mut waiting = TcpStream::connect(process.address()).unwrap();
    waiting.write_all(b"GET /cache/prefetches/a/x HTTP/1.1\r\nhost: c\r\n\r\n").unwrap();
    eventually("the poll is passed on", || server.seen().iter().any(|seen| seen.method == "GET"));
    ends_in_order(process);
}

#[test]
fn a_delete_that_is_answered_soon_is_waited_for() {
    let server = MpServer::start();
    server.behave(Manner::Slow(Duration::from_millis(200)));
    server.store(&[(crate::mp_server::Object::numbered(0, "m", "s"), 1)]);
    ends_in_order(evicting(&server));
    assert!(server.objects().is_empty(), "it did not end before that");
}

#[test]
fn a_resync_under_way_does_not_delay_it() {
    let server = MpServer::start();
    server.behave(Manner::Silent);
    let process = Process::start(&[], &[("RESYNC_POLL_INTERVAL", "0.01")]);
    let body = json!({"ip": "127.0.0.1", "http_port": server.port(), "instance_id": "a"});
    process.done("POST", "/instances", &body);
    eventually("a listing is under way", || !server.seen().is_empty());
    ends_in_order(process);
}
