//! Set-up: a client that sends many requests at once, in fragments of any size. Claim: the answers come in the
//! order of the requests, also when an early one takes longer than a late one, over TCP and a socket file,
//! until a request asks to close.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::support::{Client, LOST, drivers, play, request, settings};
use kvatlas::reactor::{Listen, Settings};

#[test]
fn answers_come_in_the_order_of_requests() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        for step in [1, 7, 100, 100_000] {
            let mut client = Client::connect(reactors.addresses[0]);
            let mut text = String::new();
            for number in 0..60 {
                text += &request(["/sleep?3", "/ping", "/nowhere", "/work?2"][number % 4]);
                text += "POST /echo HTTP/1.1\r\ncontent-length: 2\r\nhost: t\r\n\r\n";
                write!(text, "{number:02}").unwrap();
            }
            let mut sender = client.stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || {
                for part in text.as_bytes().chunks(step) {
                    sender.write_all(part).unwrap();
                }
            });
            for number in 0..60 {
                let expected = [(200, "slept"), (200, "pong"), (404, ""), (200, "worked")][number % 4];
                let (status, body) = client.receive().unwrap();
                assert_eq!((status, body.as_slice()), (expected.0, expected.1.as_bytes()));
                let (status, body) = client.receive().unwrap();
                assert_eq!((status, body), (200, format!("{number:02}").into_bytes()));
            }
            sending.join().unwrap();
        }
        assert_eq!(reactors.counters[0].requests.get(), 4 * 120);
    }
}

#[test]
fn answers_that_fill_the_write_buffer_go_out_in_between() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let mut client = Client::connect(reactors.addresses[0]);
        client.send(&(request("/bytes?200000").repeat(20) + &request("/ping")));
        for _ in 0..20 {
            assert_eq!(client.receive().unwrap().1.len(), 200_000);
        }
        assert_eq!(client.receive().unwrap().1, b"pong");
    }
}

#[test]
fn a_last_request_and_a_refused_one_end_the_connection() {
    for driver in drivers() {
        let reactors = play(settings(driver));
        let mut client = Client::connect(reactors.addresses[0]);
        client.send(
            "GET /ping HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\nGET /ping HTTP/1.1\r\nhost: t\r\n\r\n",
        );
        assert_eq!(client.receive().unwrap().0, 200);
        assert!(client.ends());
        let mut client = Client::connect(reactors.addresses[0]);
        client.send("GET /ping HTTP/1.1\r\nhost: t\r\n\r\n\x01\x02\x03");
        assert_eq!(client.receive().unwrap().0, 200);
        assert_eq!(client.receive().unwrap().0, 400);
        assert!(client.ends());
        assert_eq!(reactors.counters[0].requests_refused.get(), 1);
    }
}

#[test]
fn a_client_that_waits_for_the_go_ahead_gets_it() {
    let reactors = play(settings(drivers()[0]));
    let mut client = Client::connect(reactors.addresses[0]);
    client.send("POST /echo HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    let mut interim = [0; 25];
    client.stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi");
    assert_eq!(client.receive().unwrap(), (200, b"hi".to_vec()));
}

#[test]
fn a_socket_file_serves_on_every_reactor() {
    for driver in drivers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http");
        let listen = vec![Listen::Unix(path.clone())];
        let reactors = play(Settings { reactors: 2, listen, driver, ..Settings::default() });
        for _ in 0..40 {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(LOST)).unwrap();
            stream.write_all(b"GET /ping HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("pong"), "{answer}");
        }
        let accepted: u64 = reactors.counters.iter().map(|of| of.connections_accepted.get()).sum();
        assert_eq!(accepted, 40);
        drop(reactors);
        assert!(!path.exists(), "the file goes with the daemon");
    }
}
