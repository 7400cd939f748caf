//! Set-up: a shard on which one publisher holds a million blocks; another one, of another instance, holds some of
//! the same blocks on another medium. The first leaves, and is taken away in bounded steps.
//! Claim: from its leave on nobody is answered by what it left, between any two steps the answers of the other are
//! exact, whoever registers meanwhile counts at once, and in the end all memory is given back.

use std::sync::Arc;

use crate::shard::registration;
use kvatlas::event::{self, Batch};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::index::walk::Filter;
use kvatlas::wire::chain::Chain;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;

const PROMPTS: u32 = 1000;
const BLOCKS: usize = 1000;
const STEP: usize = 256;

/// Each prompt shares its first quarter with three others.
fn prompt(number: u32, blocks: usize) -> Vec<u32> {
    let own = |at: usize| if at < BLOCKS / 4 { number / 4 } else { number };
    (0..blocks).map(|at| own(at) * 10_000 + at as u32).collect()
}

struct World {
    shard: Shard,
}

impl World {
    fn register(&mut self, instance: &str) -> u32 {
        self.shard.add_publisher(Arc::new(registration(instance)), Arc::default()).unwrap()
    }

    fn store(&mut self, publisher: u32, secret: u64, tokens: &[u32], medium: &str) {
        let family = Family::named("vllm-0.33.0").unwrap();
        let hashes = Chain::new(secret).extend(None, tokens, 1);
        let hashes: Vec<Hash> = hashes.into_iter().map(Hash::Unsigned).collect();
        let stored = Stored { medium: Some(medium), ..Stored::plain(&hashes, None, tokens, 1) };
        let events = [EngineEvent::Stored(stored)];
        let payload =
            encode_batch(family, &EngineBatch { stamp: Stamp::Seconds(0.0), events: &events, rank: None });
        let (mut batch, mut cursor) = (Batch::default(), Cursor::default());
        event::decode(&payload, &mut batch).unwrap();
        while !self.shard.apply(publisher, &payload, &batch, &mut cursor, 64) {}
    }

    /// (instance, blocks, on GPU, on CPU) of whoever matches.
    fn ask(&mut self, tokens: &[u32]) -> Vec<(String, u32, u32, u32)> {
        let contexts: Vec<u32> =
            self.shard.find_context(&base_key(&registration("any"))).into_iter().collect();
        let mut hashes = Vec::new();
        let mut path = Path::of_tokens(tokens, &[], 1, DEFAULT_SEED, &mut hashes);
        self.shard.query(&contexts, &mut path, Filter::ALL);
        let answer = self.shard.answer();
        let hit = |(at, hit): (usize, kvatlas::index::answer::Hit)| {
            let name = self.shard.instance_name(hit.instance).to_owned();
            let [gpu, cpu, _] = answer.common(at as u32);
            (name, hit.longest, gpu, cpu)
        };
        let mut found: Vec<_> = answer.hits().enumerate().map(hit).collect();
        found.retain(|(_, longest, ..)| *longest > 0);
        found.sort();
        found
    }

    fn held(&self) -> u64 {
        self.shard.context_keys().map(|(_, held)| held).sum()
    }
}

#[test]
fn a_million_blocks_go_step_by_step() {
    let mut world = World { shard: Shard::new(DEFAULT_SEED) };
    let start = world.shard.owned_bytes();
    let (large, small) = (world.register("large"), world.register("small"));
    for number in 0..PROMPTS {
        world.store(large, 1, &prompt(number, BLOCKS), "GPU");
    }
    // what the other holds ends within the shared part, behind it, and after every block of the first
    let lengths = [100, 600, BLOCKS + 50];
    for (at, length) in lengths.into_iter().enumerate() {
        world.store(small, 2, &prompt(at as u32 * 40, length), "CPU");
    }
    // a quarter of each prompt is shared by four: stored each time, but one block
    let distinct = (PROMPTS as usize / 4 * (BLOCKS / 4) + PROMPTS as usize * (BLOCKS * 3 / 4)) as u64;
    let kept: u64 = lengths.iter().map(|length| *length as u64).sum();
    assert_eq!(world.held(), distinct + kept);
    let full = world.shard.owned_bytes();
    let blocks = BLOCKS as u32;
    assert_eq!(world.ask(&prompt(7, BLOCKS)), [("large".into(), blocks, blocks, 0)]);
    assert_eq!(world.ask(&prompt(0, BLOCKS))[0], ("large".into(), blocks, blocks, 0));

    world.shard.remove_publisher(large);
    let mut third = None;
    let (mut before, mut steps) = (world.held(), 0_u32);
    loop {
        let done = world.shard.purge(STEP);
        steps += 1;
        let now = world.held();
        assert!(before - now <= STEP as u64, "{} blocks in one step", before - now);
        before = now;
        for (at, length) in lengths.into_iter().enumerate().filter(|(at, _)| steps as usize % 16 == *at) {
            let length = length as u32;
            let answer = world.ask(&prompt(at as u32 * 40, BLOCKS + 100));
            assert_eq!(answer, [("small".into(), length, 0, length)], "after {steps} steps");
        }
        if steps % 64 == 7 {
            assert_eq!(world.ask(&prompt((steps % PROMPTS) | 1, BLOCKS)), [], "nothing of it is an answer");
        }
        if steps == 1000 {
            let number = world.register("third");
            world.store(number, 3, &prompt(7, BLOCKS), "GPU");
            third = Some(number);
            before = world.held();
        }
        if steps >= 1000 && steps % 64 == 1 {
            assert_eq!(world.ask(&prompt(7, BLOCKS)), [("third".into(), blocks, blocks, 0)]);
        }
        if done {
            break;
        }
    }
    assert!(u64::from(steps) >= distinct / STEP as u64, "{steps} steps");
    assert_eq!(world.held(), kept + BLOCKS as u64);
    let left = world.shard.owned_bytes();
    assert!(left < full / 50, "{left} of {full} bytes are left for {} blocks", world.held());

    world.shard.remove_publisher(small);
    world.shard.remove_publisher(third.unwrap());
    while !world.shard.purge(STEP) {}
    assert_eq!((world.held(), world.shard.owned_bytes()), (0, start));
}

/// An empty publisher, one that never held anything, and one that leaves twice over, cost nothing.
#[test]
fn nothing_to_purge() {
    let mut world = World { shard: Shard::new(DEFAULT_SEED) };
    let start = world.shard.owned_bytes();
    assert!(world.shard.purge(STEP));
    let number = world.register("a");
    world.shard.remove_publisher(number);
    world.shard.remove_publisher(number);
    while !world.shard.purge(1) {}
    assert_eq!(world.shard.owned_bytes(), start);
    assert_eq!(world.shard.find_instance("a"), None);
}
