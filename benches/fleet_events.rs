//! What a batch of 100,000 events costs the coordinator, and how long queries to the index of the same process take
//! meanwhile, against the time when nothing happens.
//!
//! `kvatlas serve --fleet` runs as a process of its own, with one reactor for the index. Batches come over HTTP; their
//! cost is the CPU time of the coordinator's thread by the kernel's account, from the first byte to the answer. One
//! keep-alive connection asks the index one question at a time, and every answer is checked.

#[path = "../tests/support/fleet.rs"]
mod fleet;
#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fleet::{Ask, Engine, MODEL, Source, eventually, nothing};
use serde_json::json;
use support::Client;

/// Events of a batch.
const EVENTS: u64 = 100_000;
/// Times that a batch is sent for its cost.
const ROUNDS: usize = 10;
/// Times that one is sent while the index is asked.
const BESIDE: usize = 20;
/// CPU seconds of the reference for such a batch.
const REFERENCE: f64 = 3.6;
/// Tokens a block, and blocks of the prompt that is asked for, all of them held.
const BLOCK: usize = 16;
const DEPTH: usize = 64;
/// Questions asked while nothing happens.
const IDLE: usize = 20_000;

struct Service {
    child: Child,
    index: SocketAddr,
    fleet: SocketAddr,
}

impl Service {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = folder.path().join("ports");
        let fleet = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kvatlas"));
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--reactors",
            "1",
            "--log-level",
            "warn",
            "--fleet",
        ]);
        command.arg("--fleet-listen").arg(fleet.to_string()).arg("--port-file").arg(&ports);
        command.env("LMCACHE_MP_COORDINATOR_EVICTION_CHECK_INTERVAL", "0");
        command.env("LMCACHE_MP_COORDINATOR_ENABLE_STARTUP_RESYNC", "false");
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut index = None;
        eventually("it listens", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it listened");
            index = fs::read_to_string(&ports).ok().and_then(|text| text.lines().next()?.parse().ok());
            index.is_some()
        });
        Self { child, index: index.unwrap(), fleet }
    }

    /// CPU time that the coordinator's thread has used.
    fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of_fleet = tasks
            .map(|task| task.unwrap().path())
            .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("fleet")));
        let spent = of_fleet.map(|task| {
            let schedule = fs::read_to_string(task.join("schedstat")).unwrap();
            schedule.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        let spent: Vec<u64> = spent.collect();
        assert_eq!(spent.len(), 1, "one thread is the coordinator's");
        Duration::from_nanos(spent[0])
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole request that reports a batch of one kind.
fn batch(kind: &str) -> Vec<u8> {
    let mut body = String::from("{\"instance_id\":\"mp-0\",\"seq\":1,\"tier\":\"l2\",\"events\":[");
    for number in 0..EVENTS {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let comma = if number == 0 { "" } else { ", " };
        write!(
            body,
            "{comma}{{\"type\": \"{kind}\", \"key\": {{\"chunk_hash_hex\": \"{spread:016x}{number:048x}\", \
             \"model_name\": \"meta-llama/Llama-3.1-70B\", \"kv_rank\": {}, \"object_group_id\": 0, \
             \"cache_salt\": \"tenant-{}\"}}, \"bytes\": 1048576}}",
            67_109_888 + number % 4 * 65_537,
            number % 10
        )
        .unwrap();
    }
    body.push_str("]}");
    let length = body.len();
    let head = format!(
        "POST /quota/events HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head, body].concat().into_bytes()
}

/// Sends a batch, and checks that all of it was recorded.
fn report(fleet: SocketAddr, request: &[u8]) {
    let mut stream = TcpStream::connect(fleet).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("{\"recorded\":100000}"), "{answer}");
}

fn keys(fleet: SocketAddr) -> u64 {
    let page = String::from_utf8(fleet.get("/metrics").body).unwrap();
    page.lines().find_map(|line| line.strip_prefix("kvatlas_fleet_keys ")).unwrap().parse().unwrap()
}

/// One connection that asks one question again and again.
struct Asker {
    client: Client,
    question: String,
    answer: Vec<u8>,
}

impl Asker {
    fn new(index: SocketAddr, prompt: &[u32]) -> Self {
        let body = json!({"model": MODEL, "block_size": BLOCK, "token_ids": prompt, "instance_id": "asked"});
        let answer = index.post("/query", &body);
        assert_eq!(answer.json()["default"]["asked"]["longest_matched"], DEPTH * BLOCK);
        let body = body.to_string();
        let head = format!("POST /query HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n", body.len());
        Self { client: Client::connect(index), question: head + &body, answer: answer.body }
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

/// Fills the index of the service with one prompt.
fn filled(index: SocketAddr, engine: &Engine, prompt: &[u32]) {
    index.register(&engine.registration("asked"));
    let last = || index.services(engine.endpoint())[0]["stream"]["last_sequence"].as_u64();
    eventually("a subscription", || {
        let seq = engine.publisher().send(nothing()).unwrap();
        thread::sleep(Duration::from_millis(2));
        last() >= Some(seq)
    });
    engine.store(prompt, 0..DEPTH, "GPU");
    let seq = engine.publisher().send(nothing()).unwrap();
    eventually("the prompt is held", || last() >= Some(seq));
}

fn print(what: &str, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_nanos() as f64 / 1000.0;
    let (p50, p90, p99, most) = (at(0.5), at(0.9), at(0.99), at(1.0));
    println!("{what:<22} {:>8} {p50:>9.1} {p90:>9.1} {p99:>9.1} {most:>9.1}", times.len());
    p99
}

fn cost(service: &Service, requests: &[Vec<u8>; 3]) {
    println!(
        "a batch of {EVENTS} events, {:.1} MB; milliseconds of the coordinator's CPU",
        requests[0].len() as f64 / 1e6
    );
    for (kind, request) in ["store", "store again", "delete"].into_iter().zip(requests) {
        let mut spent = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            if kind != "store again" {
                // what is new or gone must be gone or there before
                report(service.fleet, &requests[if kind == "store" { 2 } else { 0 }]);
            }
            let before = service.cpu();
            report(service.fleet, request);
            spent.push(service.cpu().saturating_sub(before).as_secs_f64());
            assert_eq!(keys(service.fleet), if kind == "delete" { 0 } else { EVENTS });
        }
        spent.sort_by(f64::total_cmp);
        let (least, middle) = (spent[0], spent[ROUNDS / 2]);
        println!(
            "{kind:<22} least {:>7.1}, median {:>7.1}: 1/{:.0} of the reference",
            least * 1e3,
            middle * 1e3,
            REFERENCE / middle
        );
    }
}

fn beside(service: &Service, requests: &[Vec<u8>; 3], asker: &mut Asker) {
    println!(
        "{:<22} {:>8} {:>9} {:>9} {:>9} {:>9}  (microseconds)",
        "index", "queries", "p50", "p90", "p99", "most"
    );
    let idle = print("idle", (0..IDLE).map(|_| asker.ask()).collect());
    let (busy, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut times = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..BESIDE {
                busy.store(true, Ordering::Release);
                report(service.fleet, &requests[round % 3]);
                busy.store(false, Ordering::Release);
                thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Release);
        });
        while !over.load(Ordering::Acquire) {
            let counts = busy.load(Ordering::Acquire);
            let taken = asker.ask();
            if counts {
                times.push(taken);
            }
        }
    });
    let during = print("while a batch comes", times);
    println!("p99 is {:.2} times that of idle", during / idle);
}

fn main() {
    let service = Service::start();
    let engine = Engine::new(1, BLOCK as u32, 0);
    let prompt: Vec<u32> = (0..DEPTH * BLOCK).map(|at| (at * 7919 % 128_000) as u32).collect();
    filled(service.index, &engine, &prompt);
    let store = batch("store");
    let requests = [store.clone(), store, batch("delete")];
    cost(&service, &requests);
    // only now: an idle connection would be closed meanwhile
    let mut asker = Asker::new(service.index, &prompt);
    for _ in 0..IDLE / 10 {
        asker.ask();
    }
    beside(&service, &requests, &mut asker);
}
