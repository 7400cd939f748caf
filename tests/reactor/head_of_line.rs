//! Set-up: one reactor, and a client that is slow in every way: sends half a request, does not read a large
//! answer, asks for work of many turns, waits for something. Claim: another client is answered meanwhile, on
//! both drivers; and the slow one gets its answer too.

use std::io::Write;

use crate::support::{Client, drivers, play, request, settings};
use kvatlas::limits::TURN_BUDGET;

fn others_are_answered(address: std::net::SocketAddr) {
    for _ in 0..5 {
        let mut other = Client::connect(address);
        for _ in 0..20 {
            assert_eq!(other.get("/ping"), (200, b"pong".to_vec()));
        }
    }
}

#[test]
fn half_a_request_delays_nobody() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let address = reactors.addresses[0];
        let mut head = Client::connect(address);
        head.send("GET /pi");
        let mut body = Client::connect(address);
        body.send("POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\n01234");
        others_are_answered(address);
        head.send("ng HTTP/1.1\r\nhost: test\r\n\r\n");
        assert_eq!(head.receive().unwrap(), (200, b"pong".to_vec()));
        body.send("56789");
        assert_eq!(body.receive().unwrap(), (200, b"0123456789".to_vec()));
    }
}

#[test]
fn a_client_that_does_not_read_delays_nobody() {
    const BYTES: usize = 32 << 20;
    for driver in drivers() {
        let reactors = play(settings(driver));
        let address = reactors.addresses[0];
        let mut slow = Client::connect(address);
        slow.send(&request(&format!("/bytes?{BYTES}")));
        others_are_answered(address);
        let (status, body) = slow.receive().unwrap();
        assert_eq!((status, body.len()), (200, BYTES));
        assert_eq!(slow.get("/ping").0, 200);
    }
}

#[test]
fn a_large_body_that_trickles_in_delays_nobody() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let address = reactors.addresses[0];
        let body = vec![b'y'; 3 << 20];
        let mut slow = Client::connect(address);
        slow.send(&format!("POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", body.len()));
        let mut reader = Client::connect(address);
        for part in body.chunks(256 * 1024) {
            slow.stream.write_all(part).unwrap();
            assert_eq!(reader.get("/ping").0, 200);
        }
        assert_eq!(slow.receive().unwrap(), (200, body));
    }
}

#[test]
fn long_work_that_spends_its_turns_delays_nobody() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let address = reactors.addresses[0];
        let mut workers: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
        for worker in &mut workers {
            worker.send(&request("/work?20000"));
        }
        let mut other = Client::connect(address);
        assert_eq!(other.get("/ping").0, 200);
        let yields = reactors.counters[0].yields.get();
        for _ in 0..20 {
            assert_eq!(other.get("/ping").0, 200);
        }
        for worker in &mut workers {
            // The work was not over when the others were answered.
            worker.stream.set_nonblocking(true).unwrap();
            let early = worker.receive();
            assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            worker.stream.set_nonblocking(false).unwrap();
        }
        for worker in &mut workers {
            assert_eq!(worker.receive().unwrap(), (200, b"worked".to_vec()));
        }
        assert!(reactors.counters[0].yields.get() > yields);
        assert_ne!(TURN_BUDGET, 0);
    }
}

#[test]
fn a_waiting_answer_delays_only_its_own_connection() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let address = reactors.addresses[0];
        let mut slow = Client::connect(address);
        slow.send(&(request("/sleep?300") + &request("/ping")));
        others_are_answered(address);
        assert_eq!(slow.receive().unwrap().1, b"slept");
        assert_eq!(slow.receive().unwrap().1, b"pong");
    }
}
