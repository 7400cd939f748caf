//! Set-up: two threads that send each other a number back and forth and sleep on their eventfds in between,
//! with rings so small that senders wait for room too. Claim: no wake-up is lost between "the rings are empty"
//! and "asleep", nor between "the ring is full" and "waiting". Control: a receiver that looks first and then
//! sleeps without the handshake does lose one.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kvatlas::mesh::port::{Port, connect_with};
use kvatlas::rt::Wake;

/// Blocks on a bell; false when it is not rung for so long that it never will be.
fn rung(wake: &Wake, millis: u16) -> bool {
    // The `zmq` crate's poll takes plain descriptors: no unsafe code is needed here.
    let mut items = [zmq::PollItem::from_fd(wake.as_fd().as_raw_fd(), zmq::POLLIN)];
    zmq::poll(&mut items, i64::from(millis)).unwrap() > 0
}

/// Long enough that a handshake with a hole loses one here.
const LAST: u32 = 24_000;

fn pair(capacity: usize) -> (Vec<Port<u32>>, Vec<Arc<Wake>>) {
    let wakes: Vec<_> = (0..2).map(|_| Wake::new().unwrap()).collect();
    (connect_with(wakes.clone(), capacity, [64, 64]), wakes)
}

/// One side: answers each burst of numbers with the next one, and sleeps when there is nothing, until one
/// side has seen `LAST`.
fn play(port: &Port<u32>, wakes: &[Arc<Wake>], done: &AtomicBool, burst: u32) {
    let me = port.id();
    let mut seen = 0;
    while !done.load(Ordering::SeqCst) {
        port.awake();
        let before = seen;
        port.drain(16, |_, number| {
            assert!(number > seen, "order");
            seen = number;
        });
        if seen >= LAST {
            done.store(true, Ordering::SeqCst);
            wakes[1 - me].notify();
            return;
        }
        if seen > before && seen.is_multiple_of(burst) {
            for number in seen + 1..=seen + burst {
                port.send(1 - me, number).unwrap();
            }
        }
        port.flush();
        if port.sleep() {
            assert!(rung(&wakes[me], 20_000), "{me} sleeps for ever at {seen}");
            wakes[me].clear();
        }
    }
}

#[test]
fn no_wake_up_is_lost_between_two_sleepers() {
    for (capacity, burst) in [(64, 1), (2, 8), (1, 3)] {
        let (mut ports, wakes) = pair(capacity);
        let (second, first) = (ports.pop().unwrap(), ports.pop().unwrap());
        let done = AtomicBool::new(false);
        for number in 1..=burst {
            first.send(1, number).unwrap();
        }
        thread::scope(|scope| {
            let (wakes, done) = (&wakes, &done);
            scope.spawn(move || play(&second, wakes, done, burst));
            play(&first, wakes, done, burst);
        });
    }
}

#[test]
fn a_receiver_without_the_handshake_loses_one() {
    let (ports, wakes) = pair(8);
    // Looks, and decides to sleep.
    assert!(ports[1].is_empty());
    // Between look and sleep a message comes; the sender sees nobody asleep.
    ports[0].send(1, 1).unwrap();
    ports[0].flush();
    // It sleeps: nobody rings, and a message waits.
    assert!(!rung(&wakes[1], 50));
    assert!(!ports[1].is_empty());
    // With the handshake it would not have slept.
    assert!(!ports[1].sleep());
}
