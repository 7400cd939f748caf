//! Set-up: ports with tiny rings, driven by hand on one thread. Claim: messages arrive once and in order,
//! queues are bounded and give the message back, replies pass a jam of requests, and a reader that makes room
//! rings the sender that waits for it.

use std::sync::Arc;

use kvatlas::mesh::port::{Port, connect_with};
use kvatlas::rt::Wake;

fn mesh(count: usize, ring: usize, backlog: [usize; 2]) -> (Vec<Port<u32>>, Vec<Arc<Wake>>) {
    let wakes: Vec<_> = (0..count).map(|_| Wake::new().unwrap()).collect();
    (connect_with(wakes.clone(), ring, backlog), wakes)
}

fn take(port: &Port<u32>, budget: usize) -> Vec<(usize, u32)> {
    let mut taken = Vec::new();
    let count = port.drain(budget, |from, message| taken.push((from, message)));
    assert_eq!(count, taken.len());
    taken
}

#[test]
fn order_is_kept_through_ring_and_backlog() {
    let (ports, _) = mesh(2, 4, [100, 100]);
    for number in 0..50 {
        ports[0].send(1, number).unwrap();
    }
    let mut got = Vec::new();
    while got.len() < 50 {
        ports[0].flush();
        let taken = take(&ports[1], 3);
        assert!(!taken.is_empty());
        got.extend(taken.into_iter().map(|(from, number)| {
            assert_eq!(from, 0);
            number
        }));
    }
    assert_eq!(got, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_gives_the_message_back_and_replies_pass_it() {
    let (ports, _) = mesh(2, 4, [3, 2]);
    let sent = (0..100).take_while(|&number| ports[0].send(1, number).is_ok()).count();
    assert_eq!(sent, 4 + 3);
    assert_eq!(ports[0].send(1, 99), Err(99));
    assert_eq!(ports[0].traffic().full, 2);
    ports[0].reply(1, 1000).unwrap();
    ports[0].flush();
    assert_eq!(take(&ports[1], 2), [(0, 1000), (0, 0)], "the reply comes first");
    ports[0].flush();
    assert_eq!(take(&ports[1], 100).len(), 4);
    ports[0].flush();
    assert_eq!(take(&ports[1], 100).len(), 2);
    assert!(ports[1].is_empty());
    assert_eq!(ports[0].send(9, 1), Err(1), "nobody has that number");
}

#[test]
fn a_bell_is_rung_only_for_a_sleeper_and_once() {
    let (ports, wakes) = mesh(2, 4, [3, 3]);
    ports[0].send(1, 1).unwrap();
    ports[0].flush();
    assert!(!wakes[1].clear(), "awake: it looks by itself");
    assert!(!ports[1].sleep(), "a message waits");
    take(&ports[1], 10);
    assert!(ports[1].sleep());
    ports[0].flush();
    assert!(!wakes[1].clear(), "nothing new was sent");
    for number in 0..3 {
        ports[0].send(1, number).unwrap();
        ports[0].flush();
    }
    assert!(wakes[1].clear());
    assert_eq!(ports[0].traffic().rung, 1);
    assert_eq!(ports[1].traffic().rung, 0);
}

#[test]
fn room_rings_the_sender_that_waits_for_it() {
    let (ports, wakes) = mesh(3, 2, [10, 10]);
    for number in 0..5 {
        ports[2].send(0, number).unwrap();
    }
    ports[1].send(0, 77).unwrap();
    ports[2].flush();
    ports[1].flush();
    assert!(!wakes[2].clear());
    take(&ports[0], 100);
    assert!(wakes[2].clear(), "its backlog can move");
    assert!(!wakes[1].clear(), "it has none");
    ports[2].flush();
    assert_eq!(take(&ports[0], 100), [(2, 2), (2, 3)]);
    assert!(wakes[2].clear());
    ports[2].flush();
    assert_eq!(take(&ports[0], 100), [(2, 4)]);
    assert!(!wakes[2].clear(), "nothing is left to move");
}

#[test]
fn a_port_reaches_itself_and_nobody_is_served_last_for_ever() {
    let (ports, _) = mesh(3, 8, [10, 10]);
    ports[1].send(1, 5).unwrap();
    ports[1].flush();
    assert_eq!(take(&ports[1], 10), [(1, 5)]);
    let mut first = [0; 3];
    for round in 0..30 {
        for port in &ports {
            port.send(0, round).unwrap();
            port.flush();
        }
        first[take(&ports[0], 1)[0].0] += 1;
        take(&ports[0], 100);
    }
    assert!(first.iter().all(|&count| count >= 5), "{first:?}");
}
