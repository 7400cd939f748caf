//! Set-up: one context whose watched subscriptions to a live publisher are opened and closed by the hundred, at
//! every stage of their connection.
//! Claim: every close is heard by its watch, also by one that begins to listen only when all is over; one that was
//! there before goes on receiving, and a further one still connects and receives.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{LOST, drivers};
use kvatlas::rt::{Driver, Line, Signal, Task, Turn, run, sleep, spawn};
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::endpoint::{self, Endpoint};
use kvatlas::stream::subscription::{Link, Settings, Subscription};

/// Subscriptions open at a time, and how often they all go.
const AT_A_TIME: usize = 40;
const ROUNDS: usize = 8;

/// A thread that runs until this is dropped.
struct Beside {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Calls `work` again and again on a thread of its own.
    fn start(mut work: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                work();
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A watched subscription on its way.
struct Open {
    up: Rc<Signal>,
    messages: Rc<Cell<u64>>,
    close: Rc<Signal>,
    draining: Task<()>,
    watching: Task<()>,
}

impl Open {
    fn new(contexts: &Contexts, endpoint: &Endpoint) -> Self {
        let (mut subscription, mut watch) =
            Subscription::open_watched(contexts, endpoint, Settings::default()).unwrap();
        let (up, close, messages) = (Signal::new(), Signal::new(), Rc::new(Cell::new(0)));
        let watching = spawn({
            let up = up.clone();
            async move {
                let turn = Turn::new(Line::Ingest);
                let on = |link| {
                    if link == Link::Up {
                        up.set();
                    }
                };
                watch.run(&turn, on).await.unwrap();
            }
        });
        let draining = spawn({
            let (messages, close) = (messages.clone(), close.clone());
            async move {
                let turn = Turn::new(Line::Ingest);
                let on = async |_: &[zmq::Message]| messages.set(messages.get() + 1);
                subscription.drain(&turn, &close, on).await.unwrap();
            }
        });
        Self { up, messages, close, draining, watching }
    }

    /// Whether its connection came up.
    async fn connects(&self) -> bool {
        self.up.wait_at_most(sleep(LOST)).await.is_none()
    }

    /// Whether a message comes, from now on.
    async fn receives(&self) -> bool {
        let (before, end) = (self.messages.get(), Instant::now() + LOST);
        while self.messages.get() == before && Instant::now() < end {
            sleep(Duration::from_millis(1)).await;
        }
        self.messages.get() > before
    }

    /// Closes it; ends when the watch has heard of the end.
    async fn over(self) {
        self.close.set();
        self.draining.await;
        self.watching.await;
    }
}

/// A subscription that is over before anybody listens to its watch; says what the watch heard.
async fn late(contexts: &Contexts, endpoint: &Endpoint) -> Vec<Link> {
    let (mut subscription, mut watch) =
        Subscription::open_watched(contexts, endpoint, Settings::default()).unwrap();
    let (turn, close) = (Turn::new(Line::Ingest), Signal::new());
    let on = async |_: &[zmq::Message]| close.set();
    subscription.drain(&turn, &close, on).await.unwrap();
    drop(subscription);
    let mut heard = Vec::new();
    watch.run(&turn, |link| heard.push(link)).await.unwrap();
    heard
}

async fn churn(endpoint: Endpoint) -> Result<(), &'static str> {
    let contexts = Contexts::new().unwrap();
    let witness = Open::new(&contexts, &endpoint);
    if late(&contexts, &endpoint).await.first() != Some(&Link::Up) {
        return Err("a watch that was late did not hear what had happened");
    }
    for round in 0..ROUNDS {
        let open: Vec<Open> = (0..AT_A_TIME).map(|_| Open::new(&contexts, &endpoint)).collect();
        let mut closing = Vec::new();
        for (at, one) in open.into_iter().enumerate() {
            // before it connects, as soon as it did, and in the middle of messages
            match (round + at) % 3 {
                0 => {}
                1 if one.connects().await => {}
                2 if one.receives().await => {}
                _ => return Err("one of many never connected or never received"),
            }
            // one by one, or while others still connect
            if round % 2 == 0 {
                one.over().await;
            } else {
                one.close.set();
                closing.push(one);
            }
        }
        for one in closing {
            one.over().await;
        }
    }
    if contexts.count() != 1 {
        return Err("it is not about one context");
    }
    let further = Open::new(&contexts, &endpoint);
    if !further.connects().await || !further.receives().await {
        return Err("a further one does not receive");
    }
    further.over().await;
    if !witness.receives().await {
        return Err("the first one does not receive");
    }
    witness.over().await;
    Ok(())
}

fn survives(driver: Driver) {
    let context = zmq::Context::new();
    let publisher = context.socket(zmq::PUB).unwrap();
    publisher.set_linger(0).unwrap();
    publisher.bind("tcp://127.0.0.1:0").unwrap();
    let endpoint = endpoint::check(&publisher.get_last_endpoint().unwrap().unwrap()).unwrap();
    let _beside = Beside::start(move || {
        publisher.send("message", 0).unwrap();
        thread::sleep(Duration::from_millis(1));
    });
    let (tell, outcome) = mpsc::channel();
    thread::spawn(move || tell.send(run(driver, |_| churn(endpoint)).unwrap()));
    // a thread of libzmq that waits for ever lets nobody close anything any more
    let outcome = outcome.recv_timeout(3 * LOST).expect("it comes to an end");
    assert_eq!(outcome, Ok(()), "{driver:?}");
}

#[test]
fn subscriptions_come_and_go_by_the_hundred() {
    drivers().into_iter().for_each(survives);
}
