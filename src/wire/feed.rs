//! Steps of a cache as payloads of one family, or of a pool.

use std::collections::HashMap;
use std::time::Duration;

use super::cache::{Cache, Step};
use super::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use super::family::{Family, ReplayShape};
use super::pool::{FIRST_SEQUENCE, Master, PoolEvent};
use crate::config::DEFAULT_HASH_SEED;
use crate::index::hash::sequence_hashes;
use crate::limits::POOL_BATCH_EVENTS;

/// Name of the pool's family.
pub const POOL: &str = "mooncake-master";

/// Who speaks.
#[derive(Debug)]
pub enum Feed {
    /// An engine of one family.
    Engine {
        /// Its family.
        family: &'static Family,
        /// Where its blocks lie.
        medium: String,
        /// Its rank.
        rank: u32,
    },
    /// A storage pool that holds what the engine stores, under standard hashes.
    Pool {
        /// Its master.
        master: Master,
        /// Where its objects lie.
        medium: String,
        /// Key of every object held, by the engine's hash of the block.
        keys: HashMap<u64, String>,
    },
}

impl Feed {
    /// The feed of a family, or of a pool; `None` for an unknown name.
    pub fn named(name: &str, medium: Option<String>, rank: u32) -> Option<Self> {
        if name == POOL {
            let medium = medium.unwrap_or_else(|| "cpu".into());
            return Some(Self::Pool { master: Master::new("pool-0"), medium, keys: HashMap::new() });
        }
        let family = Family::named(name)?;
        Some(Self::Engine { family, medium: medium.unwrap_or_else(|| "GPU".into()), rank })
    }

    /// The `type` of a registration.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Engine { family, .. } => family.engine,
            Self::Pool { .. } => "Mooncake",
        }
    }

    /// Number of the first batch.
    pub fn first_seq(&self) -> u64 {
        if matches!(self, Self::Pool { .. }) { FIRST_SEQUENCE } else { 0 }
    }

    /// Frames of a replay answer.
    pub fn replay_shape(&self) -> ReplayShape {
        match self {
            Self::Engine { family, .. } => family.replay,
            Self::Pool { .. } => ReplayShape::ThreeFrames,
        }
    }

    /// The payloads that announce `step`, evictions first, as engines make room before they store.
    pub fn payloads(&mut self, step: &Step, cache: &Cache, now: Duration) -> Vec<Vec<u8>> {
        match self {
            Self::Engine { family, medium, rank } => {
                vec![engine_payload(family, medium, *rank, step, cache, now)]
            }
            Self::Pool { master, medium, keys } => pool_payloads(master, medium, keys, step, cache, now),
        }
    }
}

fn engine_payload(
    family: &Family,
    medium: &str,
    rank: u32,
    step: &Step,
    cache: &Cache,
    now: Duration,
) -> Vec<u8> {
    let spell = |hashes: &[u64]| hashes.iter().map(|&hash| Hash::of(family, hash)).collect::<Vec<_>>();
    let (stored, evicted) = (spell(&step.hashes), spell(&step.evicted));
    let parent = step.parent.map(|hash| Hash::of(family, hash));
    let store = Stored::plain(&stored, parent, &step.tokens, cache.block_size() as u32);
    let store = EngineEvent::Stored(Stored { medium: Some(medium), ..store });
    let remove = EngineEvent::Removed(Removed::plain(&evicted, Some(medium)));
    let events = [remove, store];
    let events = if evicted.is_empty() { &events[1..] } else { &events };
    encode_batch(family, &EngineBatch { stamp: Stamp::Seconds(now.as_secs_f64()), events, rank: Some(rank) })
}

fn pool_payloads(
    master: &mut Master,
    medium: &str,
    keys: &mut HashMap<u64, String>,
    step: &Step,
    cache: &Cache,
    now: Duration,
) -> Vec<Vec<u8>> {
    let depth = step.depth + step.hashes.len();
    let prompt = cache.prompt(step.prompt, depth);
    let standard = sequence_hashes(&prompt, cache.block_size(), DEFAULT_HASH_SEED);
    for (&engine, &standard) in step.hashes.iter().zip(&standard[step.depth..]) {
        keys.insert(engine, standard.to_string());
    }
    let gone: Vec<_> = step.evicted.iter().filter_map(|hash| keys.remove(hash)).collect();
    let removed = gone.iter().map(|key| PoolEvent::removed(key));
    let stored = step.hashes.iter().filter_map(|hash| keys.get(hash)).map(|key| PoolEvent::stored(key));
    let events: Vec<_> =
        removed.chain(stored).map(|event| PoolEvent { medium: Some(medium), ..event }).collect();
    let now = now.as_millis() as u64;
    events.chunks(POOL_BATCH_EVENTS).filter_map(|events| master.encode(now, events)).collect()
}
