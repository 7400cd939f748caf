//! How long queries take while a long replay is applied by the same reactor, against the time when nothing happens.
//!
//! One daemon of one reactor, one keep-alive connection, one question at a time, every answer checked. The replay
//! comes over sockets from a publisher whose ring holds all batches; it is registered, heard out and unregistered
//! a few times, and only what was asked between registration and the end of the replay counts.
//!
//! In the field publisher and router run elsewhere. Here the reactor has the first core for itself, and all other
//! threads share the others, where the publisher, a process of its own, stands back behind the asker (`nice`).
//! Needs two cores and `taskset`.

#[path = "../tests/support/fleet.rs"]
mod fleet;
#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::{Ask, Daemon, Engine, MODEL, eventually, join, settle};
use kvatlas::daemon::directory::Listing;
use kvatlas::stream::stats::State;
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use support::Client;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Tokens a block, as engines have it.
const BLOCK: usize = 16;
/// Blocks of the prompt that is asked for, all of them held.
const DEPTH: usize = 64;
/// Batches of the replay, and blocks that each stores.
const BATCHES: usize = 10_000;
const STEP: usize = 8;
/// Times that the replay is heard.
const ROUNDS: usize = 8;
/// Questions asked before, while nothing happens.
const IDLE: usize = 30_000;

/// One connection that asks one question again and again.
struct Asker {
    client: Client,
    question: String,
    answer: Vec<u8>,
}

impl Asker {
    fn new(daemon: &Daemon, prompt: &[u32]) -> Self {
        let body = json!({
            "model": MODEL, "block_size": BLOCK, "token_ids": prompt, "instance_id": "asked",
        });
        let right = daemon.ask(&body);
        assert_eq!(right["default"]["asked"]["longest_matched"], DEPTH * BLOCK);
        let body = body.to_string();
        let head = format!("POST /query HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut asker =
            Self { client: Client::connect(daemon.address()), question: head + &body, answer: Vec::new() };
        asker.client.send(&asker.question);
        asker.answer = asker.client.receive().unwrap().1;
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&asker.answer).unwrap(), right);
        asker
    }

    fn ask(&mut self) -> Duration {
        let start = Instant::now();
        self.client.send(&self.question);
        let (status, answer) = self.client.receive().unwrap();
        let taken = start.elapsed();
        assert_eq!((status, &answer), (200, &self.answer));
        taken
    }
}

/// A publisher whose ring holds a whole replay; nobody hears it yet.
struct Past {
    process: Child,
    endpoint: String,
    replay: String,
    blocks: u64,
}

impl Past {
    fn long() -> Self {
        let (batches, step) = (BATCHES.to_string(), STEP.to_string());
        let mut process = Command::new("nice")
            .args(["-n", "5", env!("CARGO_BIN_EXE_kvatlas"), "publish", "--rate", "0", "--stay", "3600"])
            .args(["--bind", "tcp://127.0.0.1:0", "--replay", "tcp://127.0.0.1:0", "--seed", "7"])
            .args(["--prefixes", "64", "--batches", &batches, "--buffer-steps", &batches])
            .args(["--blocks-per-event", &step, "--block-size", &BLOCK.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut line = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        let (start, totals) = (line(), line());
        let text = |name: &str| start[name].as_str().unwrap().to_owned();
        let (endpoint, replay) = (text("endpoint"), text("replay_endpoint"));
        Self { process, endpoint, replay, blocks: totals["blocks_held"].as_u64().unwrap() }
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Moves the publisher and every thread of this process but the reactor to the other cores.
fn leave_the_first_core(publisher: u32) {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cores > 1, "the reactor cannot have a core for itself");
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let others = threads.filter(|path| fs::read_to_string(path.join("comm")).unwrap().trim() != "reactor-0");
    let others = others.map(|path| path.file_name().unwrap().to_owned());
    let publishers = fs::read_dir(format!("/proc/{publisher}/task")).unwrap();
    let publishers = publishers.map(|entry| entry.unwrap().file_name());
    for thread in others.chain(publishers) {
        let status = Command::new("taskset")
            .args(["--pid", "--cpu-list", &format!("1-{}", cores - 1)])
            .arg(&thread)
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("taskset is installed").success(), "{}", thread.display());
    }
}

fn print(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
    println!(
        "{what:<14} {:>8} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
        times.len(),
        micros(at(0.5)),
        micros(at(0.9)),
        micros(at(0.99)),
        micros(at(1.0)),
    );
    at(0.99)
}

/// The registration of the publisher with the replay.
fn listing(daemon: &Daemon) -> Arc<Listing> {
    let books = daemon.directory.books();
    books.publishers.values().find(|listing| listing.key.instance == "replayed").expect("registered").clone()
}

/// Hears the replay once, and asks meanwhile.
fn hear(daemon: &Daemon, past: &Past, asker: &mut Asker) -> (Vec<Duration>, Duration) {
    daemon.register(&json!({
        "endpoint": past.endpoint, "replay_endpoint": past.replay, "type": "vLLM",
        "modelname": MODEL, "instance_id": "replayed", "block_size": BLOCK, "dp_rank": 0,
    }));
    let listing = listing(daemon);
    let held = &listing.stats.publisher.blocks_held;
    // the publisher may sleep a while before it looks at its requests
    while held.get() == 0 {
        asker.ask();
    }
    let (start, mut times) = (Instant::now(), Vec::new());
    while held.get() < past.blocks {
        times.push(asker.ask());
    }
    let taken = start.elapsed();
    eventually("the end of the replay", || listing.stats.state().0 == State::Live);
    daemon.post("/unregister", &json!({ "instance_id": "replayed" }));
    eventually("the purge", || held.get() == 0);
    (times, taken)
}

fn main() {
    let daemon = Daemon::patient(1);
    let engine = Engine::new(1, BLOCK as u32, 0);
    let prompt: Vec<u32> = (0..DEPTH * BLOCK).map(|at| (at * 7919 % 128_000) as u32).collect();
    daemon.register(&engine.registration("asked"));
    join(&[&daemon], &[&engine]);
    engine.store(&prompt, 0..DEPTH, "GPU");
    settle(&[&daemon], &[&engine]);
    let past = Past::long();
    leave_the_first_core(past.process.id());
    let mut asker = Asker::new(&daemon, &prompt);
    for _ in 0..IDLE / 10 {
        asker.ask();
    }
    println!(
        "{:<14} {:>8} {:>9} {:>9} {:>9} {:>9}  (microseconds)",
        "", "queries", "p50", "p90", "p99", "most"
    );
    let idle = print("idle", (0..IDLE).map(|_| asker.ask()).collect());
    let (mut times, mut taken) = (Vec::new(), Duration::ZERO);
    for _ in 0..ROUNDS {
        let (more, time) = hear(&daemon, &past, &mut asker);
        times.extend(more);
        taken += time;
    }
    let during = print("during replay", times);
    let rate = (BATCHES * ROUNDS) as f64 / taken.as_secs_f64();
    println!(
        "p99 is {:.2} times that of idle; {rate:.0} batches a second applied",
        during.as_secs_f64() / idle.as_secs_f64()
    );
}
