//! Set-up: endpoints at which nobody listens, at which a web server answers, and at which somebody greets in a
//! language of their own or hangs up; a daemon on one and two reactors is told to subscribe to each.
//! Claim: the stream stays `connecting`, and `/services` says since when, how often it was tried in vain, what
//! went wrong last and when; `/metrics` counts the same. A publisher that comes at last is heard.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::fleet::{Ask, Daemon, Engine, LOST, Source, eventually, join};
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde_json::{Value, json};

/// Answers every connection so, and then hangs up, or waits for the other side to.
fn server(greeting: &'static [u8], stays: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut heard = [0; 64];
                let _ = stream.read(&mut heard);
                let _ = stream.write_all(greeting);
                while stays && stream.read(&mut heard).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

/// A port at which nobody listens, of an address of the loopback that no other test uses: it stays free.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.25:0").unwrap().local_addr().unwrap()
}

fn registration(address: SocketAddr) -> Value {
    json!({
        "endpoint": format!("tcp://{address}"), "type": "vLLM", "modelname": "m",
        "instance_id": "i", "block_size": 2, "dp_rank": 0,
    })
}

fn stream(daemon: &Daemon, address: SocketAddr) -> Value {
    daemon.services(&format!("tcp://{address}"))[0]["stream"].clone()
}

/// Subscribes in vain until `counter` has risen; the error of the last attempt must begin like `what`.
fn fails(address: SocketAddr, counter: &str, what: &str) {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        daemon.register(&registration(address));
        eventually(counter, || stream(&daemon, address)[counter].as_u64() >= Some(2));
        let stream = stream(&daemon, address);
        assert_eq!((&stream["state"], &stream["disconnects"]), (&json!("connecting"), &json!(0)), "{stream}");
        assert!(stream["last_error"]["at"].as_u64() >= stream["since"].as_u64(), "{stream}");
        let page = String::from_utf8(daemon.get("/metrics").body).unwrap();
        let name = format!("kvatlas_stream_{counter}_total{{");
        let line = page.lines().find(|line| line.starts_with(&name)).unwrap();
        assert!(line.rsplit(' ').next().unwrap().parse::<u64>().unwrap() >= 2, "{line}");
        let error = stream["last_error"]["message"].as_str().unwrap();
        assert!(error.starts_with(what), "{error}");
    }
}

const BROKEN_OFF: &str = "connected to the endpoint, but the handshake was broken off";

#[test]
fn nobody_listens() {
    fails(nobody(), "connect_failed", "cannot connect to the endpoint");
}

#[test]
fn a_web_server_is_no_publisher() {
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    fails(server(answer, false), "handshake_failed", BROKEN_OFF);
}

#[test]
fn whoever_hangs_up_is_no_publisher() {
    fails(server(b"", false), "handshake_failed", BROKEN_OFF);
}

/// libzmq gives up on who breaks the protocol; the daemon does not, but takes its time.
#[test]
fn whoever_speaks_another_language_is_no_publisher() {
    // a greeting of ZMTP 3 whose mechanism is unknown
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0SILENCE".to_vec();
    greeting.resize(64, 0);
    let address = server(greeting.leak(), true);
    let daemon = Daemon::start(1);
    daemon.register(&registration(address));
    eventually("a refusal", || stream(&daemon, address)["handshake_failed"].as_u64() >= Some(1));
    let stream = stream(&daemon, address);
    assert_eq!(stream["state"], "connecting");
    let error = stream["last_error"]["message"].as_str().unwrap();
    assert!(
        error.starts_with("connected to the endpoint, but the other side does not speak ZMTP"),
        "{error}"
    );
}

#[test]
fn a_publisher_that_comes_at_last_is_heard() {
    let (daemon, address) = (Daemon::start(1), nobody());
    daemon.register(&registration(address));
    eventually("an attempt", || stream(&daemon, address)["connect_failed"].as_u64() >= Some(1));
    let publisher = Publisher::bind(PublisherOptions::new(format!("tcp://{address}"))).unwrap();
    assert!(publisher.wait_subscriber(LOST).unwrap());
    let engine = Engine { publisher, ..Engine::new(1, 2, 0) };
    join(&[&daemon], &[&engine as &dyn Source]);
    let stream = stream(&daemon, address);
    assert_ne!(stream["state"], "connecting", "{stream}");
    assert_eq!(stream["disconnects"], 0, "{stream}");
}
