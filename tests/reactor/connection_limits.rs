//! Set-up: a reactor with small limits. Claim: a silent connection is ended and an active one is not, one that
//! never takes its answer is ended, a slow request is not a silent client; one connection too many hears 503
//! and makes room for none; both drivers.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Client, drivers, eventually, play, request, settings};
use kvatlas::reactor::Settings;

#[test]
fn silence_ends_a_connection() {
    for driver in drivers() {
        let reactors = play(Settings { idle: Duration::from_millis(500), ..settings(driver) });
        let address = reactors.addresses[0];
        let mut silent = Client::connect(address);
        let mut half = Client::connect(address);
        half.send("GET /pi");
        let mut deaf = Client::connect(address);
        deaf.send(&request("/bytes?67108864"));
        let mut busy = Client::connect(address);
        for _ in 0..2 {
            // Longer than the idle time, but the service works.
            assert_eq!(busy.get("/sleep?600").1, b"slept");
        }
        assert!(silent.ends());
        assert!(half.ends());
        let counters = &reactors.counters[0];
        eventually("only the last is open", || counters.connections_open.get() <= 1);
        assert_eq!(counters.connections_expired.get(), 3);
        assert!(deaf.receive().is_err(), "its answer was cut");
    }
}

#[test]
fn a_request_that_trickles_for_ever_ends_its_connection() {
    for driver in drivers() {
        let reactors = play(Settings { request: Duration::from_millis(600), ..settings(driver) });
        let address = reactors.addresses[0];
        // Never silent for long, never whole.
        let mut trickle = Client::connect(address);
        let mut sender = trickle.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            sender.write_all(b"GET /").unwrap();
            while sender.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // Never between requests either, but each in good time.
        let mut busy = Client::connect(address);
        busy.send("GET /pi");
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(30));
            busy.send("ng HTTP/1.1\r\nhost: t\r\n\r\nGET /pi");
            assert_eq!(busy.receive().unwrap().0, 200);
        }
        assert!(trickle.ends());
        sending.join().unwrap();
        assert_eq!(reactors.counters[0].connections_expired.get(), 1);
    }
}

#[test]
fn one_connection_too_many_hears_503() {
    for driver in drivers() {
        let reactors = play(Settings { connections: 3, ..settings(driver) });
        let address = reactors.addresses[0];
        let mut clients: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            assert_eq!(client.get("/ping").0, 200);
        }
        for _ in 0..5 {
            let mut refused = Client::connect(address);
            refused.send(&request("/ping"));
            assert_eq!(refused.receive().unwrap().0, 503);
            assert!(refused.ends());
        }
        let counters = &reactors.counters[0];
        assert_eq!(counters.connections_refused.get(), 5);
        assert_eq!((counters.connections_open.get(), counters.connections_accepted.get()), (3, 3));
        drop(clients.pop());
        eventually("its place is free", || counters.connections_open.get() == 2);
        assert_eq!(Client::connect(address).get("/ping").0, 200);
    }
}

#[test]
fn a_crowd_beyond_every_limit_leaves_the_reactor_well() {
    for driver in drivers() {
        let reactors = play(Settings { connections: 2, ..settings(driver) });
        let address = reactors.addresses[0];
        let mut first = Client::connect(address);
        assert_eq!(first.get("/ping").0, 200);
        let crowd: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(first.get("/ping").0, 200);
        let counters = &reactors.counters[0];
        eventually("the crowd was seen", || counters.connections_refused.get() == 299);
        drop(crowd);
        eventually("and has gone", || counters.connections_open.get() == 1);
        assert_eq!(Client::connect(address).get("/ping").0, 200);
    }
}

#[test]
fn a_head_has_less_time_than_a_request() {
    for driver in drivers() {
        let reactors = play(Settings { head: Duration::from_millis(300), ..settings(driver) });
        let mut head = Client::connect(reactors.addresses[0]);
        head.send("GET /pi");
        let mut body = Client::connect(reactors.addresses[0]);
        body.send("GET /ping HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\n");
        assert!(head.ends());
        body.send("ab");
        assert_eq!(body.receive().unwrap().0, 200, "a slow body is none of its business");
    }
}

#[test]
fn long_requests_that_are_not_whole_share_a_bound() {
    for driver in drivers() {
        let reactors = play(Settings { held: 1_000_000, ..settings(driver) });
        let long = |client: &mut Client| {
            client.send("GET /ping HTTP/1.1\r\nhost: t\r\ncontent-length: 900000\r\n\r\n");
            client.send(&"a".repeat(800_000));
        };
        let counters = &reactors.counters[0];
        let mut first = Client::connect(reactors.addresses[0]);
        long(&mut first);
        eventually("the first is taken in", || counters.bytes_in.get() >= 800_000);
        let mut second = Client::connect(reactors.addresses[0]);
        long(&mut second);
        assert_eq!(second.receive().unwrap().0, 503);
        assert_eq!(
            Client::connect(reactors.addresses[0]).get("/ping").0,
            200,
            "short ones are not concerned"
        );
        first.send(&"a".repeat(100_000));
        assert_eq!(first.receive().unwrap().0, 200, "nor is the one that was there");
        let mut third = Client::connect(reactors.addresses[0]);
        drop(first);
        eventually("its bytes are given back", || counters.connections_open.get() <= 2);
        long(&mut third);
        third.send(&"a".repeat(100_000));
        assert_eq!(third.receive().unwrap().0, 200);
    }
}
