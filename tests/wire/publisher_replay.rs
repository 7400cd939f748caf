//! Set-up: a publisher with a replay endpoint, and a real ZMQ DEALER in this process that asks it.
//! Claim: the answer is every buffered batch from the number asked for, in order and in the family's shape,
//! then number −1 with an empty payload; a malformed request gets no answer and does no harm. On purpose an
//! answer may be slow, have no end, or never come; what is published meanwhile is not held up by it.

use std::time::Duration;

use kvatlas::wire::family::ReplayShape;
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use kvatlas::wire::replay::Manner;

/// Long enough for a loaded machine; nothing is asserted about how long anything takes.
const PATIENCE_MS: i32 = 20_000;

/// Long enough to hear what does not come.
const SILENCE_MS: i32 = 300;

const END: [u8; 8] = [0xff; 8];

fn publisher(replay_shape: ReplayShape, buffer_steps: usize) -> Publisher {
    Publisher::bind(PublisherOptions {
        replay: Some("tcp://127.0.0.1:0".into()),
        topic: b"kv".to_vec(),
        replay_shape,
        buffer_steps,
        ..PublisherOptions::new("tcp://127.0.0.1:0")
    })
    .unwrap()
}

fn dealer(publisher: &Publisher) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::DEALER).unwrap();
    socket.set_rcvtimeo(PATIENCE_MS).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.connect(publisher.replay_endpoint().unwrap()).unwrap();
    socket
}

fn ask(socket: &zmq::Socket, first: u64) {
    socket.send_multipart([&b""[..], &first.to_be_bytes()], 0).unwrap();
}

/// All frames of an answer's messages, the terminator last.
fn answer(socket: &zmq::Socket) -> Vec<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    loop {
        let frames = socket.recv_multipart(0).unwrap();
        let last = frames[frames.len() - 2] == END;
        messages.push(frames);
        if last {
            return messages;
        }
    }
}

fn seq(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[test]
fn three_frames() {
    let publisher = publisher(ReplayShape::ThreeFrames, 100);
    for number in 0..3u8 {
        publisher.send(vec![number]).unwrap();
    }
    let dealer = dealer(&publisher);
    ask(&dealer, 1);
    let wanted =
        [vec![vec![], seq(1), vec![1]], vec![vec![], seq(2), vec![2]], vec![vec![], END.to_vec(), vec![]]];
    assert_eq!(answer(&dealer), wanted);
}

#[test]
fn four_frames() {
    let publisher = publisher(ReplayShape::FourFrames, 100);
    for number in 0..2u8 {
        publisher.send(vec![number]).unwrap();
    }
    let dealer = dealer(&publisher);
    ask(&dealer, 0);
    let wanted = [
        vec![vec![], b"kv".to_vec(), seq(0), vec![0]],
        vec![vec![], b"kv".to_vec(), seq(1), vec![1]],
        vec![vec![], vec![], END.to_vec(), vec![]],
    ];
    assert_eq!(answer(&dealer), wanted);
}

#[test]
fn the_ring_holds_the_last_batches_the_lost_ones_too() {
    let publisher = publisher(ReplayShape::ThreeFrames, 3);
    publisher.send(vec![0]).unwrap();
    publisher.send(vec![1]).unwrap();
    publisher.lose(vec![2]).unwrap();
    publisher.hole(1).unwrap();
    publisher.send(vec![4]).unwrap();
    let dealer = dealer(&publisher);
    ask(&dealer, 0);
    let numbers: Vec<_> = answer(&dealer).into_iter().map(|frames| frames[1].clone()).collect();
    assert_eq!(numbers, [seq(1), seq(2), seq(4), END.to_vec()], "one fell out, one never was");
    ask(&dealer, 100);
    assert_eq!(answer(&dealer).len(), 1, "nothing newer: the terminator alone");
}

#[test]
fn malformed_requests_get_no_answer() {
    let publisher = publisher(ReplayShape::ThreeFrames, 100);
    publisher.send(vec![5]).unwrap();
    let dealer = dealer(&publisher);
    let malformed: [&[&[u8]]; 5] =
        [&[b""], &[b"", b"1234567"], &[b"", b"123456789"], &[b"x", &[0; 8]], &[b"", &[0; 8], b"more"]];
    for request in malformed {
        dealer.send_multipart(request, 0).unwrap();
    }
    // requests are answered in order: what comes first belongs to the good one
    ask(&dealer, 0);
    assert_eq!(answer(&dealer), [vec![vec![], seq(0), vec![5]], vec![vec![], END.to_vec(), vec![]]]);
    assert_eq!(dealer.recv_multipart(zmq::DONTWAIT), Err(zmq::Error::EAGAIN));
}

#[test]
fn a_long_replay_is_whole() {
    let publisher = publisher(ReplayShape::ThreeFrames, 10_000);
    for number in 0..6000u32 {
        publisher.post(number.to_be_bytes().to_vec()).unwrap();
    }
    publisher.hole(0).unwrap();
    let dealer = dealer(&publisher);
    ask(&dealer, 0);
    let messages = answer(&dealer);
    assert_eq!(messages.len(), 6001);
    let in_order = messages.iter().zip(0u64..6000).all(|(frames, number)| frames[1] == seq(number));
    assert!(in_order);
}

#[test]
fn after_a_restart_only_the_new_life_is_replayed() {
    let publisher = publisher(ReplayShape::ThreeFrames, 100);
    publisher.send(vec![1]).unwrap();
    publisher.restart(std::time::Duration::ZERO, 0).unwrap();
    publisher.send(vec![2]).unwrap();
    let dealer = dealer(&publisher);
    ask(&dealer, 0);
    assert_eq!(answer(&dealer), [vec![vec![], seq(0), vec![2]], vec![vec![], END.to_vec(), vec![]]]);
}

/// A publisher with three batches and bad manners.
fn ill_mannered(replay_manner: Manner) -> Publisher {
    let options = PublisherOptions::new("tcp://127.0.0.1:0");
    let replay = Some("tcp://127.0.0.1:0".into());
    let publisher = Publisher::bind(PublisherOptions { replay, replay_manner, ..options }).unwrap();
    for number in 0..3u8 {
        publisher.send(vec![number]).unwrap();
    }
    publisher
}

#[test]
fn a_slow_answer_holds_nothing_up() {
    let pause = Duration::from_millis(50);
    let publisher = ill_mannered(Manner { pause, ..Manner::default() });
    let dealer = dealer(&publisher);
    ask(&dealer, 0);
    ask(&dealer, 2);
    assert_eq!(dealer.recv_multipart(0).unwrap()[1], seq(0));
    // the answer is not over, and what is published now is no part of it
    assert_eq!(publisher.send(vec![3]).unwrap(), 3);
    let numbers = |answer: Vec<Vec<Vec<u8>>>| answer.into_iter().map(|frames| frames[1].clone());
    let first: Vec<_> = numbers(answer(&dealer)).collect();
    assert_eq!(first, [seq(1), seq(2), END.to_vec()]);
    let second: Vec<_> = numbers(answer(&dealer)).collect();
    assert_eq!(second[0], seq(2), "one answer behind the other");
    assert_eq!(second.last().unwrap(), &END);
}

#[test]
fn an_answer_without_end_and_none_at_all() {
    let publisher = ill_mannered(Manner { endless: true, ..Manner::default() });
    let unended = dealer(&publisher);
    ask(&unended, 1);
    ask(&unended, 2);
    for number in [1, 2, 2] {
        assert_eq!(unended.recv_multipart(0).unwrap()[1], seq(number));
    }
    let mute = ill_mannered(Manner { mute: u64::MAX, ..Manner::default() });
    let unheard = dealer(&mute);
    ask(&unheard, 0);
    for dealer in [unended, unheard] {
        dealer.set_rcvtimeo(SILENCE_MS).unwrap();
        assert_eq!(dealer.recv_multipart(0), Err(zmq::Error::EAGAIN));
    }
    assert_eq!(mute.send(vec![3]).unwrap(), 3);
}
