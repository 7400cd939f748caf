//! Set-up: real publishers and replay endpoints in this process, good and bad ones, and a reactor that follows
//! them. Claim: what was lost or sent too early is fetched, in both shapes of reply, however often the
//! publisher's socket cuts its answer short; an endpoint that is silent, endless, without end or talks nonsense
//! costs the wait and the trust, not the stream, and no other stream waits for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{LOST, drivers, eventually};
use kvatlas::http::Request;
use kvatlas::reactor::{Reactors, Seat, Service, Settings, start};
use kvatlas::rt::{Driver, Signal, Task};
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::endpoint::{self, Endpoint};
use kvatlas::stream::replay::{Ended, Replay, Reply, parse};
use kvatlas::stream::subscription::{self, Subscription};
use kvatlas::stream::topics::Topics;
use kvatlas::stream::trust::{Action, Numbered, Trust};
use kvatlas::wire::family::ReplayShape;
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use xxhash_rust::xxh3::xxh3_64;

const IDLE: Duration = Duration::from_millis(400);
const SHAPES: [ReplayShape; 2] = [ReplayShape::ThreeFrames, ReplayShape::FourFrames];

/// What the caller of a tracker has: the payloads applied, and what it was told.
#[derive(Default, Debug)]
struct Seen {
    applied: Vec<Vec<u8>>,
    trust: Option<Trust>,
    asked: Vec<u64>,
    restarts: usize,
    malformed: u64,
}

/// One endpoint on its reactor.
struct Follower {
    topics: RefCell<Topics<Vec<u8>>>,
    replay_endpoint: Option<Endpoint>,
    contexts: Arc<Contexts>,
    seat: Rc<Seat<()>>,
    seen: Arc<Mutex<Seen>>,
    /// Ends the answer that is under way.
    replaying: RefCell<Rc<Signal>>,
    tasks: Rc<RefCell<Vec<Task<()>>>>,
    close: Rc<Signal>,
}

fn numbered(sequence: u64, payload: &[u8]) -> Numbered<Vec<u8>> {
    Numbered { sequence, content: xxh3_64(payload), bytes: payload.len(), message: payload.to_vec() }
}

impl Follower {
    fn take(self: &Rc<Self>, frames: &[zmq::Message]) {
        let [topic, sequence, payload] = frames else { return };
        let sequence = u64::from_be_bytes(sequence[..].try_into().unwrap());
        if self.topics.borrow_mut().advance(topic, sequence, xxh3_64(payload)).is_some() {
            self.seen.lock().unwrap().applied.push(payload.to_vec());
            return;
        }
        let mut actions = Vec::new();
        self.topics.borrow_mut().live(topic, numbered(sequence, payload), Instant::now(), &mut actions);
        self.obey(actions);
    }

    fn obey(self: &Rc<Self>, actions: Vec<Action<Vec<u8>>>) {
        for action in actions {
            let mut seen = self.seen.lock().unwrap();
            match action {
                Action::Apply(_, payload) => seen.applied.push(payload),
                Action::Drop(_) | Action::Trust(_) => {}
                Action::Restart | Action::StartOver => {
                    seen.applied.clear();
                    seen.restarts += 1;
                }
                Action::AskReplay { from, ticket } => {
                    seen.asked.push(from);
                    drop(seen);
                    self.replaying.replace(Signal::new()).set();
                    let task = self.seat.ingest.spawn(self.clone().replay(from, ticket));
                    self.tasks.borrow_mut().push(task);
                }
            }
        }
        self.seen.lock().unwrap().trust = Some(self.topics.borrow().trust());
    }

    async fn replay(self: Rc<Self>, from: u64, ticket: u64) {
        let close = self.replaying.borrow().clone();
        let endpoint = self.replay_endpoint.as_ref().unwrap();
        let mut replay =
            Replay::ask(&self.contexts, endpoint, subscription::Settings::default(), from).unwrap();
        let on = async |topic: Option<&[u8]>, sequence, payload: &[u8]| {
            let (mut actions, reply) = (Vec::new(), numbered(sequence, payload));
            self.topics.borrow_mut().replayed(ticket, topic, reply, Instant::now(), &mut actions);
            self.obey(actions);
            self.topics.borrow().wants(ticket)
        };
        let ended = replay.answer(&self.seat.ingest, &close, IDLE, on).await;
        self.seen.lock().unwrap().malformed += replay.malformed();
        let mut actions = Vec::new();
        let now = Instant::now();
        match ended {
            Ended::Complete => _ = self.topics.borrow_mut().replay_end(ticket, now, &mut actions),
            Ended::Silent | Ended::Failed(_) => {
                self.topics.borrow_mut().replay_failed(ticket, now, &mut actions);
            }
            Ended::Enough | Ended::Closed => {}
        }
        self.obey(actions);
    }
}

/// Follows all endpoints on one reactor.
struct Playground {
    followers: Vec<(Rc<Follower>, Endpoint)>,
    seat: Rc<Seat<()>>,
    contexts: Arc<Contexts>,
}

impl Service for Playground {
    type Message = ();

    async fn answer(self: Rc<Self>, _: &Request<'_>, _: &mut Vec<u8>) {}

    fn message(self: &Rc<Self>, _: usize, (): ()) {}

    fn started(self: &Rc<Self>) {
        for (follower, endpoint) in &self.followers {
            let settings = subscription::Settings::default();
            let mut subscription = Subscription::open(&self.contexts, endpoint, settings).unwrap();
            let follower = follower.clone();
            let task = self.seat.ingest.spawn({
                let follower = follower.clone();
                async move {
                    let on = async |frames: &[zmq::Message]| follower.take(frames);
                    subscription.drain(&follower.seat.ingest, &follower.close, on).await.unwrap();
                }
            });
            follower.tasks.borrow_mut().push(task);
            let mut actions = Vec::new();
            follower.topics.borrow_mut().begin(Instant::now(), &mut actions);
            follower.obey(actions);
        }
    }

    async fn stop(self: Rc<Self>) {
        for (follower, _) in &self.followers {
            follower.close.set();
            follower.replaying.borrow().set();
            for task in follower.tasks.take() {
                task.await;
            }
        }
    }
}

fn follow(driver: Driver, endpoints: &[(&str, Option<&str>)]) -> (Reactors<()>, Vec<Arc<Mutex<Seen>>>) {
    let contexts = Contexts::new().unwrap();
    let seen: Vec<_> = endpoints.iter().map(|_| Arc::new(Mutex::new(Seen::default()))).collect();
    let check = |text: &str| endpoint::check(text).unwrap();
    let endpoints: Vec<_> = endpoints.iter().map(|(live, replay)| (check(live), replay.map(check))).collect();
    let shared = seen.clone();
    let make = move |seat: Seat<()>| {
        let seat = Rc::new(seat);
        let follower = |seen: &Arc<Mutex<Seen>>, replay_endpoint: &Option<Endpoint>| {
            Rc::new(Follower {
                topics: RefCell::new(Topics::new(replay_endpoint.is_some().then_some(IDLE))),
                replay_endpoint: replay_endpoint.clone(),
                contexts: contexts.clone(),
                seat: seat.clone(),
                seen: seen.clone(),
                replaying: RefCell::default(),
                tasks: Rc::default(),
                close: Signal::new(),
            })
        };
        let followers = endpoints
            .iter()
            .zip(&shared)
            .map(|((live, replay), seen)| (follower(seen, replay), live.clone()))
            .collect();
        Rc::new(Playground { followers, seat: seat.clone(), contexts: contexts.clone() })
    };
    (start(Settings { driver, ..Settings::default() }, make).unwrap(), seen)
}

fn publisher(shape: ReplayShape, replay_hwm: i32) -> Publisher {
    let mut options = PublisherOptions::new("tcp://127.0.0.1:*");
    options.replay = Some("tcp://127.0.0.1:*".into());
    options.replay_shape = shape;
    options.replay_hwm = replay_hwm;
    Publisher::bind(options).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    format!("batch {number}").into_bytes()
}

fn has(seen: &Mutex<Seen>, wanted: impl IntoIterator<Item = u64>, live: bool) -> bool {
    let seen = seen.lock().unwrap();
    let wanted: Vec<_> = wanted.into_iter().map(payload).collect();
    let trusted = match seen.trust {
        Some(Trust::Live) => live,
        Some(Trust::Partial(_)) => !live,
        _ => false,
    };
    seen.applied == wanted && trusted
}

#[test]
fn what_was_sent_before_and_what_was_lost_is_fetched() {
    for (driver, shape) in drivers().into_iter().flat_map(|driver| SHAPES.map(|shape| (driver, shape))) {
        let publisher = publisher(shape, 0);
        (0..5).for_each(|number| _ = publisher.send(payload(number)).unwrap());
        let (_reactors, seen) =
            follow(driver, &[(publisher.endpoint(), Some(publisher.replay_endpoint().unwrap()))]);
        eventually("the first replay", || has(&seen[0], 0..5, true));
        assert!(publisher.wait_subscriber(LOST).unwrap());
        publisher.send(payload(5)).unwrap();
        publisher.lose(payload(6)).unwrap();
        publisher.lose(payload(7)).unwrap();
        publisher.send(payload(8)).unwrap();
        eventually("the gap is filled", || has(&seen[0], 0..9, true));
        publisher.repeat(3).unwrap();
        publisher.send(payload(9)).unwrap();
        eventually("a repeat counts once", || has(&seen[0], 0..10, true));
        publisher.renumber(0).unwrap();
        publisher.lose(payload(100)).unwrap();
        publisher.send(payload(101)).unwrap();
        eventually("a new life replaces the old one", || has(&seen[0], 100..102, true));
        let seen = seen[0].lock().unwrap();
        assert_eq!((&seen.asked[..], seen.restarts, seen.malformed), (&[0, 5, 0][..], 1, 0));
    }
}

#[test]
fn an_answer_that_the_publishers_socket_cut_short_is_asked_for_again() {
    const BATCHES: u64 = 5000;
    for driver in drivers() {
        let publisher = publisher(ReplayShape::FourFrames, 1000);
        (0..BATCHES).for_each(|number| publisher.post(payload(number)).unwrap());
        let (_reactors, seen) =
            follow(driver, &[(publisher.endpoint(), Some(publisher.replay_endpoint().unwrap()))]);
        eventually("all of it", || seen[0].lock().unwrap().applied.len() as u64 == BATCHES);
        assert!(publisher.wait_subscriber(LOST).unwrap());
        publisher.send(payload(BATCHES)).unwrap();
        eventually("all of it and the next", || has(&seen[0], 0..=BATCHES, true));
    }
}

/// A replay endpoint that answers every request in its own way, until it is dropped.
struct Oddity {
    stop: Arc<AtomicBool>,
    endpoint: String,
    thread: Option<JoinHandle<()>>,
}

impl Oddity {
    /// `answer` gets the number asked from and says the frames of each reply.
    fn new(answer: impl Fn(u64) -> Box<dyn Iterator<Item = Vec<Vec<u8>>>> + Send + 'static) -> Self {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::ROUTER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(10).unwrap();
        socket.set_sndtimeo(10).unwrap();
        socket.set_router_mandatory(true).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                let Ok(request) = socket.recv_multipart(0) else { continue };
                let from = u64::from_be_bytes(request[2][..].try_into().unwrap());
                for frames in answer(from) {
                    let message = [&request[..1], &frames[..]].concat();
                    // Whoever asked may have gone, or be slow: this endpoint does not mind.
                    while socket.send_multipart(&message, 0) == Err(zmq::Error::EAGAIN) {
                        if stopped.load(Ordering::Acquire) {
                            return;
                        }
                    }
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                }
            }
        });
        Self { stop, endpoint, thread: Some(thread) }
    }
}

impl Drop for Oddity {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn reply(number: u64) -> Vec<Vec<u8>> {
    vec![Vec::new(), number.to_be_bytes().to_vec(), payload(number)]
}

#[test]
fn an_answer_cut_short_on_purpose_is_asked_for_until_it_is_whole() {
    const CUT: u64 = 100;
    const BATCHES: u64 = 2000;
    for driver in drivers() {
        let publisher = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:*")).unwrap();
        let cut = Oddity::new(|from| {
            let end = vec![Vec::new(), vec![0xff; 8], Vec::new()];
            Box::new((from..BATCHES.min(from + CUT)).map(reply).chain([end]))
        });
        let (_reactors, seen) = follow(driver, &[(publisher.endpoint(), Some(&cut.endpoint))]);
        assert!(publisher.wait_subscriber(LOST).unwrap());
        (0..BATCHES).for_each(|number| _ = publisher.lose(payload(number)).unwrap());
        publisher.send(payload(BATCHES)).unwrap();
        eventually("all of it", || seen[0].lock().unwrap().applied.len() as u64 == BATCHES + 1);
        // The publisher's own message is not in these answers, so nothing shows that they are its own.
        eventually("as far as it can be trusted", || has(&seen[0], 0..=BATCHES, false));
        let asked = seen[0].lock().unwrap().asked.len() as u64;
        assert!((BATCHES / CUT..=2 * BATCHES / CUT).contains(&asked), "{asked}");
    }
}

#[test]
fn a_silent_endpoint_costs_the_wait_and_the_trust() {
    for driver in drivers() {
        let publisher = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:*")).unwrap();
        let silent = Oddity::new(|_| Box::new(std::iter::empty()));
        let (_reactors, seen) = follow(driver, &[(publisher.endpoint(), Some(&silent.endpoint))]);
        assert!(publisher.wait_subscriber(LOST).unwrap());
        publisher.send(payload(0)).unwrap();
        eventually("nothing is missing", || has(&seen[0], 0..1, true));
        publisher.lose(payload(1)).unwrap();
        publisher.send(payload(2)).unwrap();
        publisher.send(payload(3)).unwrap();
        eventually("the stream goes on", || has(&seen[0], [0, 2, 3], false));
        publisher.send(payload(4)).unwrap();
        eventually("and on", || has(&seen[0], [0, 2, 3, 4], false));
        assert!(seen[0].lock().unwrap().asked.len() <= 2);
    }
}

#[test]
fn an_answer_without_end_is_taken_as_it_is() {
    for driver in drivers() {
        let publisher = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:*")).unwrap();
        let endless = Oddity::new(|from| {
            let nonsense = [vec![b"x".to_vec()], vec![Vec::new(), vec![1, 2], vec![3]], vec![vec![]; 6]];
            Box::new(nonsense.into_iter().chain((from..4).map(reply)))
        });
        let (_reactors, seen) = follow(driver, &[(publisher.endpoint(), Some(&endless.endpoint))]);
        assert!(publisher.wait_subscriber(LOST).unwrap());
        eventually("the replies, and that there may be more", || has(&seen[0], 0..4, false));
        (0..4).for_each(|number| _ = publisher.lose(payload(number)).unwrap());
        publisher.send(payload(4)).unwrap();
        eventually("the next number shows that there were none", || has(&seen[0], 0..5, true));
        let seen = seen[0].lock().unwrap();
        assert_eq!(seen.malformed, 3 * seen.asked.len() as u64);
    }
}

#[test]
fn no_stream_waits_for_the_endless_answer_to_another() {
    for driver in drivers() {
        let busy = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:*")).unwrap();
        let other = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:*")).unwrap();
        let flood = Oddity::new(|from| Box::new((from..).map(reply)));
        let (_reactors, seen) =
            follow(driver, &[(busy.endpoint(), Some(&flood.endpoint)), (other.endpoint(), None)]);
        assert!(other.wait_subscriber(LOST).unwrap());
        eventually("the flood has begun", || seen[0].lock().unwrap().applied.len() > 1000);
        for number in 0..50 {
            other.send(payload(number)).unwrap();
            eventually("the other stream is followed", || has(&seen[1], 0..=number, true));
        }
        let before = seen[0].lock().unwrap().applied.len();
        eventually("the flood goes on", || seen[0].lock().unwrap().applied.len() > before);
    }
}

#[test]
fn replies_are_read_by_position_from_the_end() {
    let frames = |parts: &[&[u8]]| parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>();
    let (seven, end) = (7u64.to_be_bytes(), [0xff; 8]);
    let batch = |topic| Some(Reply::Batch { topic, sequence: 7, payload: b"p" });
    assert_eq!(parse(&frames(&[b"", &seven, b"p"])), batch(None));
    assert_eq!(parse(&frames(&[b"", b"topic", &seven, b"p"])), batch(Some(b"topic".as_slice())));
    assert_eq!(parse(&frames(&[b"", b"", &seven, b"p"])), batch(Some(b"".as_slice())));
    assert_eq!(parse(&frames(&[b"", &end, b""])), Some(Reply::End));
    assert_eq!(parse(&frames(&[b"", b"topic", &end, b""])), Some(Reply::End));
    let none: [&[&[u8]]; 7] = [
        &[],
        &[b"", &seven],
        &[b"x", &seven, b"p"],
        &[b"", &end, b"p"],
        &[b"", &seven[1..], b"p"],
        &[b"", b"a", b"b", &seven, b"p"],
        &[b"", b"", b""],
    ];
    for parts in none {
        assert_eq!(parse(&frames(parts)), None, "{parts:?}");
    }
}
