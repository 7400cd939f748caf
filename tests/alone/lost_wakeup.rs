//! Set-up: real publishers in this process, bursts of random sizes with random pauses, one to three
//! subscriptions on a reactor, both drivers. Claim: every message arrives, in order, without a further one to
//! push it; a subscription that is closed ends while it waits and leaves no descriptor. Control: a drain that
//! waits after one message hangs on the rest of a burst.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{alone, descriptors, drivers, eventually};
use kvatlas::http::Request;
use kvatlas::limits::ZMQ_FRAMES;
use kvatlas::reactor::{Reactors, Seat, Service, Settings, start};
use kvatlas::rt::{Driver, Readable, Signal, Task, run, sleep, spawn};
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::endpoint;
use kvatlas::stream::subscription::{self, Subscription};
use proptest::test_runner::TestRng;

/// What the subscriptions of a test have seen: the last number of each, and messages out of order.
#[derive(Default)]
struct Seen {
    last: [AtomicU64; 3],
    messages: AtomicU64,
    disorder: AtomicUsize,
}

/// Counts what arrives.
struct Listener {
    seat: Seat<()>,
    endpoints: Vec<String>,
    contexts: Arc<Contexts>,
    seen: Arc<Seen>,
    close: Rc<Signal>,
    tasks: RefCell<Vec<Task<()>>>,
}

impl Service for Listener {
    type Message = ();

    async fn answer(self: Rc<Self>, _: &Request<'_>, _: &mut Vec<u8>) {}

    fn message(self: &Rc<Self>, _: usize, (): ()) {
        self.close.set();
    }

    fn started(self: &Rc<Self>) {
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let endpoint = endpoint::check(endpoint).unwrap();
            let mut subscription =
                Subscription::open(&self.contexts, &endpoint, subscription::Settings::default()).unwrap();
            let (seen, turn, close) = (self.seen.clone(), self.seat.ingest.clone(), self.close.clone());
            let task = self.seat.ingest.spawn(async move {
                let on = async |frames: &[zmq::Message]| {
                    let number = u64::from_be_bytes(frames[1][..8].try_into().unwrap());
                    let last = seen.last[index].swap(number, Ordering::AcqRel);
                    seen.messages.fetch_add(1, Ordering::AcqRel);
                    if last != 0 && number != last && number != last + 1 {
                        seen.disorder.fetch_add(1, Ordering::AcqRel);
                    }
                };
                subscription.drain(&turn, &close, on).await.unwrap();
            });
            self.tasks.borrow_mut().push(task);
        }
    }

    async fn stop(self: Rc<Self>) {
        self.close.set();
        for task in self.tasks.take() {
            task.await;
        }
    }
}

fn publisher(context: &zmq::Context) -> (zmq::Socket, String) {
    let socket = context.socket(zmq::PUB).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_sndhwm(0).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint)
}

fn publish(socket: &zmq::Socket, number: u64) {
    socket.send_multipart([b"".as_slice(), &number.to_be_bytes(), b"payload"], 0).unwrap();
}

fn listen(driver: Driver, endpoints: Vec<String>) -> (Reactors<()>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let contexts = Contexts::new().unwrap();
    let shared = seen.clone();
    let make = move |seat| {
        Rc::new(Listener {
            seat,
            endpoints: endpoints.clone(),
            contexts: contexts.clone(),
            seen: shared.clone(),
            close: Signal::new(),
            tasks: RefCell::default(),
        })
    };
    let settings = Settings { driver, ..Settings::default() };
    (start(settings, make).unwrap(), seen)
}

/// Publishes number 1 until it arrives: a subscription takes a while to be known.
fn join(socket: &zmq::Socket, last: &AtomicU64) {
    eventually("the subscription is known", || {
        publish(socket, 1);
        std::thread::sleep(Duration::from_millis(2));
        last.load(Ordering::Acquire) == 1
    });
}

#[test]
fn every_message_arrives() {
    let _alone = alone();
    let mut random = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    for driver in drivers() {
        for streams in [1, 3] {
            let context = zmq::Context::new();
            let publishers: Vec<_> = (0..streams).map(|_| publisher(&context)).collect();
            let (reactors, seen) = listen(driver, publishers.iter().map(|(_, at)| at.clone()).collect());
            for ((socket, _), last) in publishers.iter().zip(&seen.last) {
                join(socket, last);
            }
            let mut number = 1;
            for _ in 0..400 {
                let burst =
                    1 + u64::from(rand_below(&mut random, 10)).pow(2) * u64::from(rand_below(&mut random, 4));
                for _ in 0..burst {
                    number += 1;
                    for (socket, _) in &publishers {
                        publish(socket, number);
                    }
                    if rand_below(&mut random, 40) == 0 {
                        std::thread::sleep(Duration::from_micros(rand_below(&mut random, 300).into()));
                    }
                }
                // Nothing more is sent until all of it is there.
                for last in &seen.last[..streams] {
                    eventually("the burst is there", || last.load(Ordering::Acquire) == number);
                }
            }
            assert_eq!(seen.disorder.load(Ordering::Acquire), 0);
            reactors.stop();
            reactors.join().unwrap();
        }
    }
}

fn rand_below(random: &mut TestRng, bound: u32) -> u32 {
    use proptest::prelude::Rng;
    random.next_u32() % bound
}

#[test]
fn a_drain_that_waits_after_one_message_hangs() {
    let _alone = alone();
    for driver in drivers() {
        let context = zmq::Context::new();
        let (socket, at) = publisher(&context);
        let got = Arc::new(AtomicU64::new(0));
        let count = got.clone();
        let contexts = Contexts::new().unwrap();
        let naive = std::thread::spawn(move || {
            run(driver, |_| async move {
                let subscriber = contexts.socket(zmq::SUB).unwrap();
                subscriber.set_subscribe(b"").unwrap();
                subscriber.connect(&at).unwrap();
                let readable = Readable::raw(subscriber.get_fd().unwrap()).unwrap();
                let reading = spawn(async move {
                    loop {
                        readable.wait().await.unwrap();
                        let Ok(frames) = subscriber.recv_multipart(zmq::DONTWAIT) else { continue };
                        count.fetch_add(1, Ordering::AcqRel);
                        if frames.len() == 1 {
                            return;
                        }
                    }
                });
                // Bounded: the test is about a hang.
                sleep(Duration::from_millis(800)).await;
                drop(reading);
            })
            .unwrap();
        });
        std::thread::sleep(Duration::from_millis(300));
        for number in 0..200 {
            publish(&socket, number);
        }
        naive.join().unwrap();
        let got = got.load(Ordering::Acquire);
        assert!(got < 200, "it saw all {got}: then this control proves nothing");
    }
}

#[test]
fn a_waiting_subscription_is_closed_and_leaves_nothing() {
    let _alone = alone();
    for driver in drivers() {
        let before = descriptors();
        let context = zmq::Context::new();
        let (socket, at) = publisher(&context);
        let (reactors, seen) = listen(driver, vec![at, "tcp://127.0.0.1:1".into()]);
        join(&socket, &seen.last[0]);
        // Closed by a message, while the reactor runs on.
        assert!(reactors.port.send(0, ()).is_ok());
        reactors.port.flush();
        std::thread::sleep(Duration::from_millis(20));
        let messages = seen.messages.load(Ordering::Acquire);
        publish(&socket, 2);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(seen.messages.load(Ordering::Acquire), messages);
        reactors.stop();
        reactors.join().unwrap();
        drop((socket, context));
        eventually("all descriptors are closed", || descriptors() == before);
    }
}

#[test]
fn frames_beyond_the_bound_are_dropped_and_counted() {
    let _alone = alone();
    for driver in drivers() {
        let context = zmq::Context::new();
        let (socket, at) = publisher(&context);
        let contexts = Contexts::new().unwrap();
        let thread = std::thread::spawn(move || {
            run(driver, |_| async move {
                let endpoint = endpoint::check(&at).unwrap();
                let mut subscription =
                    Subscription::open(&contexts, &endpoint, subscription::Settings::default()).unwrap();
                let turn = kvatlas::rt::Turn::new(kvatlas::rt::Line::Ingest);
                let close = Signal::new();
                let mut shapes = Vec::new();
                let on = async |frames: &[zmq::Message]| match frames.len() {
                    1 if &frames[0][..] == b"end" => close.set(),
                    1 => {}
                    count => shapes.push((count, frames.last().unwrap().to_vec())),
                };
                subscription.drain(&turn, &close, on).await.unwrap();
                (shapes, subscription.received().frames_dropped)
            })
            .unwrap()
        });
        while !thread.is_finished() {
            socket.send("hello", 0).unwrap();
            socket.send_multipart((0..1000u32).map(|number| number.to_be_bytes().to_vec()), 0).unwrap();
            socket.send_multipart(["a", "b", "c"], 0).unwrap();
            socket.send("end", 0).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let (shapes, dropped) = thread.join().unwrap();
        let long = shapes.iter().filter(|(count, _)| *count == ZMQ_FRAMES).count();
        assert!(long > 0);
        assert!(shapes.contains(&(3, b"c".to_vec())));
        assert!(shapes.iter().all(|(count, last)| match *count {
            ZMQ_FRAMES => last == &(ZMQ_FRAMES as u32 - 1).to_be_bytes(),
            count => count == 3 && last == b"c",
        }));
        assert_eq!(dropped, (long * (1000 - ZMQ_FRAMES)) as u64);
    }
}

#[test]
fn a_full_context_is_followed_by_another() {
    let _alone = alone();
    let contexts = Contexts::with_limit(3).unwrap();
    let mut sockets: Vec<_> = (0..7).map(|_| contexts.socket(zmq::SUB).unwrap()).collect();
    assert_eq!(contexts.count(), 3);
    sockets.drain(..3);
    sockets.extend((0..5).map(|_| contexts.socket(zmq::SUB).unwrap()));
    assert_eq!(contexts.count(), 3, "places are used again");
    drop(sockets);
}
