//! Set-up: servers that take a request and say nothing, for longer than the coordinator waits (half a minute).
//! Claim: the keys of such a DELETE are planned again afterwards, not before; a client whose prefetch is passed on
//! to one has a 502.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::coordinator::{Fleet, store};
use crate::evictions::{count, quota, sweeping, victims};
use crate::mp_server::{Manner, MpServer};
use kvatlas::limits::FLEET_UPSTREAM_TIME;
use serde_json::json;

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let fleet = Fleet::start(sweeping());
    let server = MpServer::start();
    server.behave(Manner::Silent);
    let body = json!({"ip": "127.0.0.1", "http_port": server.port(), "instance_id": "a"});
    assert_eq!(fleet.post("/instances", &body).status, 200);
    fleet.report(&json!([store(0, "s", 100)]));
    quota(&fleet, "s", 0);

    let body = br#"{"instance_id": "a", "model_name": "m", "world_size": 1, "token_ids": [1]}"#;
    let mut client = TcpStream::connect(fleet.address()).unwrap();
    client.set_read_timeout(Some(10 * FLEET_UPSTREAM_TIME)).unwrap();
    let head = format!(
        "POST /cache/prefetches HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("{\"detail\":\"prefetch submit to 'a' failed: "), "{answer}");

    let end = Instant::now() + 10 * FLEET_UPSTREAM_TIME;
    while victims(&server).len() < 2 {
        // before the first is given up there is no second
        let (sent, failed) = (victims(&server).len() as u64, count(&fleet, "eviction_requests_failed_total"));
        assert!(sent <= failed + 1);
        assert!(Instant::now() < end, "it is never sent again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(&fleet, "eviction_requests_failed_total"), 1);
    assert_eq!(victims(&server), [[0], [0]]);
}
