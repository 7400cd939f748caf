//! Set-up: a courier under load, servers that hang, hang up or close idle connections. Claim: every order that is
//! taken has exactly one outcome; a request is never sent twice; no class and no server takes the threads of
//! another; queues, threads and idle connections are bounded; a stop waits as long as it may and no longer.

mod support {
    pub mod mp_server;
}

use std::collections::HashSet;
use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kvatlas::fleet::courier::{Class, Courier, Method, Order, Outcome};
use kvatlas::limits::{
    COURIER_DISPATCH_THREADS, COURIER_IDLE_PER_SERVER, COURIER_QUEUE, COURIER_RELAY_THREADS,
    COURIER_RESYNC_THREADS,
};
use support::mp_server::{Manner, MpServer};

/// When something is given up for lost; no test waits so long unless it fails.
const LOST: Duration = Duration::from_secs(40);
const CLASSES: [(Class, usize); 3] = [
    (Class::Dispatch, COURIER_DISPATCH_THREADS),
    (Class::Relay, COURIER_RELAY_THREADS),
    (Class::Resync, COURIER_RESYNC_THREADS),
];

struct Bench {
    courier: Courier,
    outcomes: Receiver<(u64, Outcome)>,
    // threads are counted: one test at a time
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, outcomes) = channel();
        let courier = Courier::start(move |ticket, outcome| {
            // a test that is over wants no more
            let _ = sender.send((ticket, outcome));
        });
        Self { courier, outcomes, _alone: alone }
    }

    fn next(&self) -> (u64, Outcome) {
        self.outcomes.recv_timeout(LOST).unwrap()
    }
}

fn order(server: &MpServer, ticket: u64, class: Class) -> Order {
    Order {
        ticket,
        method: Method::Delete,
        ip: server.ip(),
        port: server.port(),
        segments: vec!["objects".into()],
        query: Vec::new(),
        body: Some(br#"{"keys":[]}"#.to_vec()),
        class,
        total: LOST,
    }
}

fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + LOST;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn courier_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("courier-")).count()
}

#[test]
fn an_idle_connection_that_was_closed_is_not_used() {
    let (bench, server) = (Bench::new(), MpServer::start());
    for ticket in 0..20 {
        bench.courier.send(order(&server, ticket, Class::Relay)).unwrap();
        assert!(bench.next().1.is_ok());
        assert_eq!(server.take_seen().len(), 1, "the request comes once");
        if ticket % 2 == 0 {
            server.close_connections();
            eventually("the connection is closed", || server.open() == 0);
        }
    }
    assert_eq!(server.connections(), 11, "and one that is open is used");
}

#[test]
fn bytes_that_nobody_asked_for_end_a_connection() {
    let (bench, server) = (Bench::new(), MpServer::start());
    let twice = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".repeat(2);
    server.behave(Manner::RawOpen(twice.into_bytes()));
    for ticket in 0..5 {
        bench.courier.send(order(&server, ticket, Class::Relay)).unwrap();
        assert_eq!(bench.next().1.unwrap().body, b"ok");
        // the second answer may come a little after the first
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.connections(), 5);
}

#[test]
fn a_request_is_never_sent_twice() {
    let (bench, server) = (Bench::new(), MpServer::start());
    for ticket in 0..20 {
        // every other one on a connection that has worked
        if ticket % 2 == 0 {
            server.behave(Manner::Good);
            bench.courier.send(order(&server, 1000, Class::Relay)).unwrap();
            assert!(bench.next().1.is_ok());
        }
        server.behave(Manner::Hangup);
        server.take_seen();
        bench.courier.send(order(&server, ticket, Class::Relay)).unwrap();
        assert!(bench.next().1.is_err());
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(server.take_seen().len(), 1);
    }
}

#[test]
fn no_class_and_no_server_takes_the_threads_of_another() {
    let (bench, hanging, good) = (Bench::new(), MpServer::start(), MpServer::start());
    hanging.behave(Manner::Silent);
    for (class, threads) in CLASSES {
        for ticket in 0..2 * threads as u64 {
            bench.courier.send(order(&hanging, ticket, class)).unwrap();
        }
        let share = threads.div_ceil(2);
        eventually("its share hangs", || hanging.seen().len() == share);
        for ticket in 1000..1010 {
            bench.courier.send(order(&good, ticket, class)).unwrap();
        }
        let told: HashSet<u64> = (0..10).map(|_| bench.next()).map(|(ticket, _)| ticket).collect();
        assert_eq!(told, (1000..1010).collect());
        assert_eq!(hanging.take_seen().len(), share, "not more than its share");
    }
    let all: usize = CLASSES.iter().map(|(_, threads)| threads).sum();
    assert!(courier_threads() <= all);
    assert_eq!(bench.courier.under_way(Class::Dispatch), 2 * COURIER_DISPATCH_THREADS);
    // those that hang fail; their server's next ones come to the threads
    hanging.behave(Manner::Good);
    hanging.close_connections();
    let outcomes: Vec<Outcome> = (0..2 * all).map(|_| bench.next().1).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), all / 2);
    assert_eq!(bench.courier.under_way(Class::Dispatch), 0);
}

#[test]
fn a_full_queue_refuses_and_every_order_has_one_outcome() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.behave(Manner::Silent);
    let mut taken = HashSet::new();
    let mut ticket = 0;
    eventually("the queue is full", || {
        ticket += 1;
        let took = bench.courier.send(order(&server, ticket, Class::Relay)).is_ok();
        if took {
            taken.insert(ticket);
        }
        !took
    });
    assert!(taken.len() >= COURIER_QUEUE && taken.len() <= COURIER_QUEUE + COURIER_RELAY_THREADS);
    assert!(bench.courier.send(order(&server, 0, Class::Dispatch)).is_ok(), "another class has its own");
    taken.insert(0);
    server.behave(Manner::Good);
    server.close_connections();
    while !taken.is_empty() {
        let (ticket, _) = bench.next();
        assert!(taken.remove(&ticket), "{ticket} twice");
    }
    assert!(bench.outcomes.try_recv().is_err());
}

#[test]
fn idle_threads_end_and_idle_connections_are_few() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.behave(Manner::Slow(Duration::from_millis(300)));
    let mut count = 0;
    for (class, threads) in CLASSES {
        for _ in 0..threads {
            bench.courier.send(order(&server, 0, class)).unwrap();
            count += 1;
        }
    }
    assert!((0..count).all(|_| bench.next().1.is_ok()));
    assert!(server.connections() > COURIER_IDLE_PER_SERVER, "otherwise this shows nothing");
    eventually("few stay open", || server.open() <= COURIER_IDLE_PER_SERVER);
    assert!(courier_threads() > 0);
    eventually("threads end", || courier_threads() == 0);
    eventually("connections too", || server.open() == 0);
    server.behave(Manner::Good);
    bench.courier.send(order(&server, 1, Class::Relay)).unwrap();
    assert!(bench.next().1.is_ok(), "others begin");
}

#[test]
fn a_stop_waits_as_long_as_it_may() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.behave(Manner::Slow(Duration::from_millis(200)));
    for ticket in 0..30 {
        bench.courier.send(order(&server, ticket, Class::Dispatch)).unwrap();
    }
    assert!(bench.courier.stop(Duration::MAX), "all are carried out");
    assert_eq!((0..30).filter(|_| bench.outcomes.try_recv().unwrap().1.is_ok()).count(), 30);
    assert!(bench.courier.send(order(&server, 0, Class::Relay)).is_err(), "nothing is taken any more");
    drop(bench);

    let bench = Bench::new();
    server.behave(Manner::Silent);
    for ticket in 0..30 {
        bench.courier.send(order(&server, ticket, Class::Dispatch)).unwrap();
    }
    assert!(!bench.courier.stop(Duration::from_millis(200)));
    let share = COURIER_DISPATCH_THREADS / 2;
    let given_up = (0..30 - share).map(|_| bench.outcomes.try_recv().unwrap().1);
    assert!(given_up.into_iter().all(|outcome| outcome.unwrap_err().0.contains("stopped")));
    assert!(bench.outcomes.try_recv().is_err(), "those under way are left to their threads");
}

#[test]
fn an_order_that_waits_too_long_is_not_sent() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.behave(Manner::Silent);
    let total = Duration::from_millis(200);
    for ticket in 0..4 {
        bench.courier.send(Order { total, ..order(&server, ticket, Class::Resync) }).unwrap();
    }
    let failures: Vec<String> = (0..4).map(|_| bench.next().1.unwrap_err().0).collect();
    assert_eq!(failures.iter().filter(|failure| failure.contains("not sent in time")).count(), 3);
    assert_eq!(server.seen().len(), 1);
}
