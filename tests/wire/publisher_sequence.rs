//! Set-up: a publisher and a real ZMQ subscriber in this process.
//! Claim: a subscriber sees topic, big-endian number and payload of every batch in order, numbered from 0, and
//! exactly the losses, holes, repeats and restarts that were asked for.

use std::time::Duration;

use kvatlas::wire::publisher::{PublishError, Publisher, PublisherOptions};

/// Long enough for a loaded machine; nothing is asserted about how long anything takes.
const PATIENCE_MS: i32 = 20_000;

fn subscriber(endpoint: &str) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_rcvtimeo(PATIENCE_MS).unwrap();
    socket.set_subscribe(b"").unwrap();
    socket.set_reconnect_ivl(20).unwrap();
    socket.connect(endpoint).unwrap();
    socket
}

fn start(options: PublisherOptions) -> (Publisher, zmq::Socket) {
    let publisher = Publisher::bind(options).unwrap();
    let subscriber = subscriber(publisher.endpoint());
    wait(&publisher);
    (publisher, subscriber)
}

fn wait(publisher: &Publisher) {
    assert!(publisher.wait_subscriber(Duration::from_millis(PATIENCE_MS as u64)).unwrap());
}

fn next(socket: &zmq::Socket) -> (Vec<u8>, u64, Vec<u8>) {
    let frames = socket.recv_multipart(0).unwrap();
    let [topic, seq, payload] = &frames[..] else { panic!("{} frames", frames.len()) };
    (topic.clone(), u64::from_be_bytes(seq[..].try_into().unwrap()), payload.clone())
}

fn payload(number: u8) -> Vec<u8> {
    vec![number; 3]
}

fn anywhere() -> PublisherOptions {
    PublisherOptions::new("tcp://127.0.0.1:0")
}

#[test]
fn every_batch_arrives_numbered_from_zero() {
    let (publisher, subscriber) = start(PublisherOptions { topic: b"kv@pod@model".to_vec(), ..anywhere() });
    for number in 0..100 {
        assert_eq!(publisher.send(payload(number)).unwrap(), u64::from(number));
    }
    for number in 100..200 {
        publisher.post(payload(number)).unwrap();
    }
    for number in 0..200 {
        assert_eq!(next(&subscriber), (b"kv@pod@model".to_vec(), u64::from(number), payload(number)));
    }
}

#[test]
fn a_pool_starts_at_its_own_first_number() {
    let (publisher, subscriber) = start(PublisherOptions { first_seq: 1, ..anywhere() });
    assert_eq!(publisher.send(payload(9)).unwrap(), 1);
    assert_eq!(next(&subscriber), (vec![], 1, payload(9)));
}

#[test]
fn what_was_posted_last_still_leaves_when_a_publisher_stops() {
    let (publisher, subscriber) = start(anywhere());
    for number in 0..50 {
        publisher.post(payload(number)).unwrap();
    }
    drop(publisher);
    for number in 0..50 {
        assert_eq!(next(&subscriber).1, number);
    }
}

#[test]
fn losses_and_holes_use_up_numbers() {
    let (publisher, subscriber) = start(anywhere());
    publisher.send(payload(0)).unwrap();
    assert_eq!(publisher.lose(payload(1)).unwrap(), 1);
    assert_eq!(publisher.hole(2).unwrap(), 4);
    assert_eq!(publisher.send(payload(4)).unwrap(), 4);
    assert_eq!(next(&subscriber), (vec![], 0, payload(0)));
    assert_eq!(next(&subscriber), (vec![], 4, payload(4)));
}

#[test]
fn a_repeat_is_the_same_batch_under_its_old_number() {
    let (publisher, subscriber) = start(PublisherOptions { buffer_steps: 2, ..anywhere() });
    for number in 0..3 {
        publisher.send(payload(number)).unwrap();
    }
    assert_eq!(publisher.repeat(1).unwrap(), 1);
    assert_eq!(publisher.repeat(0), Err(PublishError::NotBuffered(0)), "the ring holds two");
    let seen: Vec<_> = (0..4).map(|_| next(&subscriber).1).collect();
    assert_eq!(seen, [0, 1, 2, 1]);
}

#[test]
fn raw_frames_are_sent_as_they_are() {
    let (publisher, subscriber) = start(anywhere());
    publisher.raw(vec![b"alone".to_vec()]).unwrap();
    publisher.send(payload(0)).unwrap();
    assert_eq!(subscriber.recv_multipart(0).unwrap(), [b"alone".to_vec()]);
    assert_eq!(next(&subscriber).1, 0, "raw frames take no number");
}

#[test]
fn a_restart_begins_again_on_the_same_address() {
    let (publisher, subscriber) = start(anywhere());
    for number in 0..3 {
        publisher.send(payload(number)).unwrap();
    }
    let before: Vec<_> = (0..3).map(|_| next(&subscriber).1).collect();
    let endpoint = publisher.endpoint().to_owned();
    publisher.restart(Duration::from_millis(20), 0).unwrap();
    // libzmq subscribes again on the subscriber's own thread, so that one has to look at its socket
    while !publisher.wait_subscriber(Duration::ZERO).unwrap() {
        subscriber.poll(zmq::POLLIN, 10).unwrap();
    }
    assert_eq!(publisher.endpoint(), endpoint);
    assert_eq!(publisher.send(payload(77)).unwrap(), 0);
    assert_eq!(before, [0, 1, 2]);
    assert_eq!(next(&subscriber), (vec![], 0, payload(77)), "the subscriber came back by itself");
    assert_eq!(publisher.repeat(2), Err(PublishError::NotBuffered(2)), "the old ring is gone");
}

#[test]
fn a_new_life_behind_a_relay_keeps_its_connections() {
    let (publisher, subscriber) = start(anywhere());
    publisher.send(payload(0)).unwrap();
    publisher.send(payload(1)).unwrap();
    publisher.renumber(0).unwrap();
    publisher.send(payload(50)).unwrap();
    let seen: Vec<_> = (0..3).map(|_| next(&subscriber)).map(|(_, seq, payload)| (seq, payload[0])).collect();
    assert_eq!(seen, [(0, 0), (1, 1), (0, 50)]);
}

#[test]
fn nobody_there_is_told() {
    let publisher = Publisher::bind(anywhere()).unwrap();
    assert!(!publisher.wait_subscriber(Duration::ZERO).unwrap());
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    let publisher = Publisher::bind(anywhere()).unwrap();
    let error = Publisher::bind(PublisherOptions::new(publisher.endpoint())).unwrap_err();
    assert!(error.to_string().contains(publisher.endpoint()), "{error}");
}
