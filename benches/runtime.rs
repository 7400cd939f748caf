//! What the runtime of this build costs: wakes from one reactor to another, ZMQ messages, HTTP, memory.
//!
//! Prints one line a figure: `case,value,unit`. `scripts/compare-runtimes` builds it on every runtime there is, runs
//! them in turn and puts the figures side by side. Every number and answer that arrives is checked.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::hint::black_box;
use std::io;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kvatlas::http::Request;
use kvatlas::reactor::{Reactors, Seat, Service, Settings, start};
use kvatlas::rt::pin::Cpus;
use kvatlas::rt::{self, Driver, Readable, Signal, Wake};
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::endpoint;
use kvatlas::stream::subscription::{self, Subscription};
use mimalloc::MiMalloc;
use support::{Client, eventually, play, request, settings};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Round trips between two reactors, each asleep when the bell is rung.
const ROUND_TRIPS: usize = 20_000;
/// Bursts, messages of each, and the pause after each.
const BURSTS: u64 = 2_000;
const BURST: u64 = 64;
const PAUSE: Duration = Duration::from_micros(300);
/// Messages sent without a pause.
const FLOOD: u64 = 400_000;
/// Requests of one client that waits for each answer.
const REQUESTS: usize = 20_000;
/// Clients that ask together, and how often.
const CLIENTS: usize = 16;
const ROUNDS: usize = 3_000;
/// Busy-polling that is tried, microseconds, and how long nothing happens after each question, microseconds.
const BUSY: [u32; 3] = [0, 20, 50];
const QUIET: [u64; 3] = [0, 30, 300];
/// Questions of one such measurement.
const QUESTIONS: u64 = 5_000;
/// The argument by which this program asks itself for the memory of so many reactors.
const MEMORY: &str = "--memory-of";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, reactors] = &arguments[..]
        && flag == MEMORY
    {
        return report_memory(reactors.parse().unwrap());
    }
    wakes();
    busy_polling();
    bursts();
    flood();
    http();
    memory();
}

fn print(case: &str, value: f64, unit: &str) {
    assert!(!case.contains(','));
    println!("{case},{value:.2},{unit}");
}

fn print_times(case: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let time = times[((times.len() - 1) as f64 * part) as usize];
        print(&format!("{case} {name}"), time.as_nanos() as f64 / 1e3, "us");
    }
}

/// Two threads, each with an executor and nothing else, ring each other.
fn wakes() {
    let cpus = Cpus::of_this_thread().unwrap();
    let bells = [Wake::new().unwrap(), Wake::new().unwrap()];
    let [ping, pong] = bells.clone();
    let seat = cpus.seat(1, 2);
    let echo = thread::spawn(move || {
        seat.map(rt::pin::pin).transpose().unwrap();
        rt::run(Driver::IoUring, |_| async move {
            let readable = Readable::new(std::os::fd::AsFd::as_fd(&*ping)).unwrap();
            for _ in 0..ROUND_TRIPS {
                readable.wait().await.unwrap();
                assert!(ping.clear(), "woken for nothing");
                pong.notify();
            }
        })
        .unwrap();
    });
    let [ping, pong] = bells;
    let seat = cpus.seat(0, 2);
    let times = thread::spawn(move || {
        seat.map(rt::pin::pin).transpose().unwrap();
        rt::run(Driver::IoUring, |_| async move {
            let readable = Readable::new(std::os::fd::AsFd::as_fd(&*pong)).unwrap();
            let mut times = Vec::with_capacity(ROUND_TRIPS);
            for _ in 0..ROUND_TRIPS {
                let begun = Instant::now();
                ping.notify();
                readable.wait().await.unwrap();
                assert!(pong.clear(), "woken for nothing");
                times.push(begun.elapsed());
            }
            times
        })
        .unwrap()
    });
    let times = times.join().unwrap();
    echo.join().unwrap();
    print_times("wake: round trip of two reactors", times);
}

/// Answers every number with the next one.
struct Echo {
    seat: Seat<u64>,
}

impl Service for Echo {
    type Message = u64;

    async fn answer(self: Rc<Self>, _: &Request<'_>, _: &mut Vec<u8>) {}

    fn message(self: &Rc<Self>, from: usize, number: u64) {
        self.seat.port.reply(from, number + 1).unwrap();
    }
}

/// One reactor is asked by message, by a thread that never sleeps and has a core of its own: the figures are the
/// reactor's alone. As many reactors as cores would not poll at all.
fn busy_polling() {
    let cpus = Cpus::of_this_thread().unwrap();
    let Some(seat) = cpus.seat(1, 2) else { return };
    let asker = thread::spawn(move || {
        for busy_poll_us in BUSY {
            let settings = Settings { driver: Driver::IoUring, busy_poll_us, ..Settings::default() };
            let reactors = start(settings, |seat| Rc::new(Echo { seat })).unwrap();
            // the reactor has the first core
            rt::pin::pin(seat).unwrap();
            for quiet in QUIET {
                ask_by_message(&reactors, busy_poll_us, quiet);
            }
            drop(reactors);
            cpus.spread().unwrap();
        }
    });
    asker.join().unwrap();
}

fn ask_by_message(reactors: &Reactors<u64>, busy: u32, quiet: u64) {
    let (port, reactor) = (&reactors.port, Thread::named("reactor-0"));
    let mut times = Vec::with_capacity(QUESTIONS as usize);
    let before = reactor.used();
    for number in 0..QUESTIONS {
        let begun = Instant::now();
        port.send(0, number).unwrap();
        port.flush();
        let mut answer = None;
        while answer.is_none() {
            port.drain(1, |_, number| answer = Some(number));
            std::hint::spin_loop();
        }
        times.push(begun.elapsed());
        assert_eq!(answer, Some(number + 1));
        let next = Instant::now() + Duration::from_micros(quiet);
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
    let used = reactor.used().since(&before);
    let case = format!("busy polling {busy} us; a message after {quiet} us of quiet");
    print_times(&format!("{case}: answered"), times);
    print(&format!("{case}: CPU of the reactor"), used.nanos as f64 / QUESTIONS as f64, "ns/message");
}

/// Counts what one subscription receives, which must be 1, 2, 3, ….
struct Counter {
    seat: Seat<()>,
    endpoint: String,
    contexts: Arc<Contexts>,
    seen: Arc<AtomicU64>,
    close: Rc<Signal>,
}

impl Service for Counter {
    type Message = ();

    async fn answer(self: Rc<Self>, _: &Request<'_>, _: &mut Vec<u8>) {}

    fn message(self: &Rc<Self>, _: usize, (): ()) {}

    fn started(self: &Rc<Self>) {
        let endpoint = endpoint::check(&self.endpoint).unwrap();
        let unlimited = subscription::Settings { receive_hwm: 0, ..subscription::Settings::default() };
        let mut subscription = Subscription::open(&self.contexts, &endpoint, unlimited).unwrap();
        let counter = self.clone();
        drop(self.seat.ingest.spawn(async move {
            let on = async |frames: &[zmq::Message]| {
                let number = u64::from_be_bytes(frames[1][..8].try_into().unwrap());
                let before = counter.seen.swap(number, Ordering::AcqRel);
                assert!(number == before + 1 || number == 0, "{number} after {before}");
            };
            subscription.drain(&counter.seat.ingest, &counter.close, on).await.unwrap();
        }));
    }

    async fn stop(self: Rc<Self>) {
        self.close.set();
    }
}

/// A publisher, and a reactor that hears it.
struct Wire {
    publisher: zmq::Socket,
    /// Kept alive.
    _reactors: Reactors<()>,
    seen: Arc<AtomicU64>,
    sent: u64,
}

impl Wire {
    fn new() -> Self {
        let publisher = zmq::Context::new().socket(zmq::PUB).unwrap();
        publisher.set_sndhwm(0).unwrap();
        publisher.set_linger(0).unwrap();
        publisher.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = publisher.get_last_endpoint().unwrap().unwrap();
        let (contexts, seen) = (Contexts::new().unwrap(), Arc::<AtomicU64>::default());
        let shared = seen.clone();
        let make = move |seat| {
            let (endpoint, contexts, seen) = (endpoint.clone(), contexts.clone(), shared.clone());
            Rc::new(Counter { seat, endpoint, contexts, seen, close: Signal::new() })
        };
        seen.store(u64::MAX, Ordering::Release);
        let reactors = start(Settings { driver: Driver::IoUring, ..Settings::default() }, make).unwrap();
        let wire = Self { publisher, _reactors: reactors, seen, sent: 0 };
        // A subscription that has not arrived yet misses what is sent.
        eventually("the first message", || {
            wire.publish(0);
            thread::sleep(Duration::from_millis(5));
            wire.seen.load(Ordering::Acquire) == 0
        });
        thread::sleep(Duration::from_millis(50));
        wire
    }

    fn publish(&self, number: u64) {
        let number = number.to_be_bytes();
        self.publisher.send_multipart([b"".as_slice(), &number, b"a payload of some bytes"], 0).unwrap();
    }

    fn send(&mut self, count: u64) {
        for _ in 0..count {
            self.sent += 1;
            self.publish(self.sent);
        }
    }

    /// Spins until all has arrived.
    fn arrive(&self) {
        let begun = Instant::now();
        while self.seen.load(Ordering::Acquire) != self.sent {
            assert!(begun.elapsed() < support::LOST, "lost after {}", self.seen.load(Ordering::Acquire));
            std::hint::spin_loop();
        }
    }
}

fn bursts() {
    let mut wire = Wire::new();
    let reactor = Thread::named("reactor-0");
    let (before, mut times) = (reactor.used(), Vec::with_capacity(BURSTS as usize));
    for _ in 0..BURSTS {
        thread::sleep(PAUSE);
        let begun = Instant::now();
        wire.send(BURST);
        wire.arrive();
        times.push(begun.elapsed());
    }
    let used = reactor.used().since(&before);
    print_times("burst of 64 ZMQ messages: until the last is drained", times);
    print("burst of 64 ZMQ messages: sleeps of the reactor", used.sleeps as f64 / BURSTS as f64, "a burst");
    let messages = (BURSTS * BURST) as f64;
    print("burst of 64 ZMQ messages: CPU of the reactor", used.nanos as f64 / messages, "ns/message");
}

fn flood() {
    let mut wire = Wire::new();
    let reactor = Thread::named("reactor-0");
    let (before, begun) = (reactor.used(), Instant::now());
    wire.send(FLOOD);
    wire.arrive();
    let (taken, used) = (begun.elapsed().as_secs_f64(), reactor.used().since(&before));
    print("ZMQ messages without a pause", FLOOD as f64 / taken / 1e3, "k/s");
    print("ZMQ messages without a pause: CPU of the reactor", used.nanos as f64 / FLOOD as f64, "ns/message");
}

fn http() {
    let reactors = play(Settings { reactors: 2, ..settings(Driver::IoUring) });
    let threads = [Thread::named("reactor-0"), Thread::named("reactor-1")];
    let mut client = Client::connect(reactors.addresses[0]);
    let mut ask = |target: &str, right: &str| {
        let question = request(target);
        let mut times = Vec::with_capacity(REQUESTS);
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            client.send(&question);
            let (status, body) = client.receive().unwrap();
            times.push(begun.elapsed());
            assert_eq!((status, &body[..]), (200, right.as_bytes()));
        }
        times
    };
    print_times("HTTP: one client", ask("/ping", "pong"));
    // One of the two is the reactor that answers anyway, the other is asked by message.
    let (zero, one) = (ask("/ask?0", "49"), ask("/ask?1", "64"));
    let total = |times: &[Duration]| times.iter().sum::<Duration>();
    let far = if total(&zero) > total(&one) { zero } else { one };
    print_times("HTTP: one client asks another reactor", far);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(reactors.addresses[0])).collect();
    let question = request("/ping");
    let before: Vec<_> = threads.iter().map(Thread::used).collect();
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for client in &mut clients {
            client.send(&question);
        }
        for client in &mut clients {
            let (status, body) = client.receive().unwrap();
            assert_eq!((status, &body[..]), (200, &b"pong"[..]));
        }
    }
    let taken = begun.elapsed().as_secs_f64();
    let nanos: u64 =
        threads.iter().zip(&before).map(|(thread, before)| thread.used().since(before).nanos).sum();
    let requests = (CLIENTS * ROUNDS) as f64;
    print("HTTP: 16 clients of 2 reactors", requests / taken / 1e3, "k/s");
    print("HTTP: 16 clients: CPU of both reactors", nanos as f64 / requests, "ns/request");
    let mut client = Client::connect(reactors.addresses[0]);
    let (begun, bytes) = (Instant::now(), 8 << 20);
    let question = format!("POST /echo HTTP/1.1\r\nhost: test\r\ncontent-length: {bytes}\r\n\r\n");
    let question = question + &"x".repeat(bytes);
    for _ in 0..16 {
        let mut sender = client.stream.try_clone().unwrap();
        let body = thread::scope(|scope| {
            scope.spawn(|| io::Write::write_all(&mut sender, question.as_bytes()).unwrap());
            client.receive().unwrap().1
        });
        assert!(body.len() == bytes && body.iter().all(|&byte| byte == b'x'));
        black_box(body);
    }
    let taken = begun.elapsed().as_secs_f64();
    print("HTTP: bodies of 8 MiB there and back", 16.0 * 8.0 / taken, "MiB/s");
}

fn memory() {
    let program = std::env::current_exe().unwrap();
    for reactors in ["0", "1", "2"] {
        let output = Command::new(&program).args([MEMORY, reactors]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8(output.stdout).unwrap());
    }
}

/// What this process takes with so many reactors, each of which has answered; 0 is what it takes anyway.
fn report_memory(count: usize) {
    let reactors = (count > 0).then(|| play(Settings { reactors: count, ..settings(Driver::IoUring) }));
    if let Some(reactors) = &reactors {
        let counters = &reactors.counters;
        eventually("every reactor has answered", || {
            let mut client = Client::connect(reactors.addresses[0]);
            assert_eq!(client.get("/ping"), (200, b"pong".to_vec()));
            counters.iter().all(|counters| counters.requests.get() > 0)
        });
        eventually("the clients are gone", || {
            counters.iter().all(|counters| counters.connections_open.get() == 0)
        });
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let case = format!("memory of {count} reactors");
    print(&case, field(&status, "VmRSS:") as f64 / 1024.0, "MiB");
    print(&format!("{case}: descriptors"), (support::descriptors() + rt::left_behind()) as f64, "");
    print(&format!("{case}: threads"), field(&status, "Threads:") as f64, "");
}

/// A number of a file of `/proc`.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A thread of this process.
struct Thread(String);

/// What a thread has used so far.
struct Used {
    /// Time on a CPU.
    nanos: u64,
    /// Times that it waited for something.
    sleeps: u64,
}

impl Thread {
    /// The eldest thread of this name: helpers that a runtime starts inherit it.
    fn named(name: &str) -> Self {
        let tasks = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
        let of_name =
            |path: &std::path::PathBuf| fs::read_to_string(path.join("comm")).unwrap().trim() == name;
        let mut found: Vec<_> = tasks.filter(of_name).map(|path| path.to_str().unwrap().to_owned()).collect();
        let number = |path: &String| path.rsplit('/').next().unwrap().parse::<u64>().unwrap();
        found.sort_by_key(number);
        Self(found.swap_remove(0))
    }

    fn used(&self) -> Used {
        let schedule = fs::read_to_string(format!("{}/schedstat", self.0)).unwrap();
        let status = fs::read_to_string(format!("{}/status", self.0)).unwrap();
        Used { nanos: field(&schedule, ""), sleeps: field(&status, "voluntary_ctxt_switches:") }
    }
}

impl Used {
    fn since(&self, before: &Self) -> Self {
        Self { nanos: self.nanos - before.nanos, sleeps: self.sleeps - before.sleeps }
    }
}
