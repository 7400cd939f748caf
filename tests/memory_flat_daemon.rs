//! Set-up: a whole daemon whose allocations are counted, and an engine that it hears over ZMQ: it stores and
//! removes a million blocks; then it begins anew a thousand times, with blocks, without closing the connection.
//! Claim: neither the index nor the process as a whole holds more at the end of the second half than the first
//! half ever did, but for a small slack.

#[path = "support/counting.rs"]
mod counting;
#[path = "support/fleet.rs"]
mod fleet;

use counting::live_in_all;
use fleet::{Ask, Daemon, Engine, Source, eventually};
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Removed, Stamp, Stored, encode_batch};

/// How much more the second half may need than the first: requests and log lines on their way.
const SLACK: isize = 256 * 1024;

struct Case {
    daemon: Daemon,
    engine: Engine,
    /// Number of the next batch.
    next: u64,
    rounds: Vec<isize>,
}

impl Case {
    fn new(rounds: usize) -> Self {
        let (daemon, engine) = (Daemon::start(1), Engine::new(1, 2, 0));
        daemon.register(&engine.registration("a"));
        engine.joined();
        Self { daemon, engine, next: 0, rounds: Vec::with_capacity(rounds) }
    }

    /// Past the publisher's own memory, which would grow.
    fn send(&mut self, event: &EngineEvent<'_>, stamp: u64) {
        let batch =
            EngineBatch { stamp: Stamp::Integer(stamp), events: std::slice::from_ref(event), rank: Some(0) };
        let payload = encode_batch(self.engine.family, &batch);
        let frames = vec![Vec::new(), self.next.to_be_bytes().to_vec(), payload];
        self.engine.publisher.raw(frames).unwrap();
        self.next += 1;
    }

    fn counter(&self, name: &str) -> u64 {
        self.daemon.services(self.engine.endpoint())[0]["stream"][name].as_u64().unwrap()
    }

    /// Waits until a counter is there and so many blocks are held, and notes what that takes.
    fn note(&mut self, name: &str, value: u64, blocks: u64) {
        eventually(name, || self.counter(name) == value && self.counter("blocks_held") == blocks);
        self.rounds.push(live_in_all());
    }

    fn are_flat(&self, what: &str) {
        let (early, late) = self.rounds.split_at(self.rounds.len() / 2);
        let (early, late) = (early.iter().max().unwrap(), late.last().unwrap());
        println!("{what}: {early}, then {late}");
        assert!(*late <= early + SLACK, "{what}: grows from {early} to {late}");
    }
}

/// One test: what another one holds would count as well.
#[test]
fn memory_is_flat() {
    a_million_blocks();
    a_thousand_restarts();
}

fn a_million_blocks() {
    const ROUNDS: u32 = 123;
    const BLOCKS: u32 = 8192;
    let mut case = Case::new(ROUNDS as usize);
    for round in 0..ROUNDS {
        let tokens: Vec<u32> = (0..2 * BLOCKS).map(|token| round * 2 * BLOCKS + token).collect();
        let hashes = case.engine.hashes(&tokens);
        let stored = Stored { medium: Some("GPU"), ..Stored::plain(&hashes, None, &tokens, 2) };
        case.send(&EngineEvent::Stored(stored), 1);
        case.send(&EngineEvent::Removed(Removed::plain(&hashes, Some("GPU"))), 1);
        drop((tokens, hashes));
        case.note("blocks_removed", u64::from((round + 1) * BLOCKS), 0);
    }
    const { assert!(ROUNDS * BLOCKS >= 1_000_000) };
    case.are_flat("a million blocks");
}

fn a_thousand_restarts() {
    const LIVES: u32 = 1000;
    let mut case = Case::new(LIVES as usize);
    for life in 0..=LIVES {
        let tokens: Vec<u32> = (0..64).map(|token| life * 64 + token).collect();
        let hashes = case.engine.hashes(&tokens);
        let stored = Stored { medium: Some("GPU"), ..Stored::plain(&hashes, None, &tokens, 2) };
        case.next = 0;
        case.send(&EngineEvent::Stored(stored), u64::from(life));
        case.note("batches", u64::from(life) + 1, 32);
        assert_eq!(case.counter("restarts"), u64::from(life));
    }
    case.are_flat("a thousand restarts");
}
