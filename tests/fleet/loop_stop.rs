//! Set-up: the program, ended by a signal while a server takes its time with a DELETE, clients wait for what is passed
//! on or saved, and connections lie idle.
//! Claim: it ends soon and in order, with exit code 0; every request under way has its answer, a change that is being
//! saved the true one; what is given up is one line of the log.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::coordinator::{eventually, receive, store};
use crate::fleet_process::Process;
use crate::mp_server::{Manner, MpServer};
use kvatlas::fleet::vault::FILE;
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
    // a second signal changes nothing
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
    process.signal("TERM");
    let answer = receive(&mut waiting).unwrap();
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(answer.detail(), "prefetch status from 'a' failed: the coordinator stops");
    ends_in_order(process);
}

#[test]
fn all_that_wait_are_answered_and_one_line_tells_of_them() {
    const CLIENTS: usize = 60;
    let server = MpServer::start();
    server.behave(Manner::Silent);
    let process = Process::start(&[], &[("ENABLE_STARTUP_RESYNC", "false")]);
    let body = json!({"ip": "127.0.0.1", "http_port": server.port(), "instance_id": "a"});
    process.done("POST", "/instances", &body);
    let body = json!({"instance_id": "a", "model_name": "m", "world_size": 1, "token_ids": [1]}).to_string();
    let request =
        format!("POST /cache/prefetches HTTP/1.1\r\nhost: c\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(process.address()).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            client
        })
        .collect();
    let taken = format!("kvatlas_fleet_prefetches_total {CLIENTS}\n");
    eventually("all wait", || process.call("GET", "/metrics", "").text().contains(&taken));
    process.signal("TERM");
    for client in &mut clients {
        let answer = receive(client).unwrap();
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert_eq!(answer.detail(), "prefetch submit to 'a' failed: the coordinator stops");
    }
    drop(clients);
    let (status, said) = process.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("requests={CLIENTS}")), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("WARN")).count(), 1, "{said}");
}

#[test]
fn a_change_that_is_being_saved_is_answered() {
    /// Keys that take longer to save than connections are kept open for anything else.
    const KEYS: u64 = 250_000;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::keeping(folder.path());
    let file = folder.path().join(FILE);
    let before = file.metadata().unwrap().len();
    let tokens: Vec<u32> = (0..5000).collect();
    let body = json!({"model_name": "m", "world_size": KEYS / 1250, "token_ids": tokens}).to_string();
    let mut client = TcpStream::connect(process.address()).unwrap();
    let head = format!("POST /cache/pins HTTP/1.1\r\nhost: c\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(body.as_bytes()).unwrap();
    eventually("it is being saved", || file.metadata().unwrap().len() > before);
    process.signal("TERM");
    let answer = receive(&mut client).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["affected"], KEYS);
    drop(client);
    ends_in_order(process);
    let process = Process::keeping(folder.path());
    assert_eq!(process.get("/cache/pins?limit=1")["total"], KEYS);
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
