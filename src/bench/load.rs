//! Batches of one publisher under a made-up load: an engine's cache, some of whose steps share a batch.

use std::time::Duration;

use crate::wire::cache::{Cache, Load, Step};
use crate::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use crate::wire::family::Family;

/// Where the blocks of a bench lie.
const MEDIUM: &str = "GPU";

/// The shape of every batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Store events a batch; each has a removal before it once the cache is full.
    pub events: u32,
    /// Blocks a store event.
    pub blocks: u32,
    /// Tokens a block.
    pub tokens: u32,
    /// Prefixes that prompts share.
    pub prefixes: u32,
    /// Most blocks held; `None` never evicts.
    pub capacity: Option<u32>,
}

/// A batch to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Its payload.
    pub payload: Vec<u8>,
    /// Events in it.
    pub events: u64,
    /// Blocks that they store.
    pub stored: u64,
    /// Blocks that they remove.
    pub removed: u64,
}

/// Makes one batch after the other.
#[derive(Debug)]
pub struct Maker {
    cache: Cache,
    family: &'static Family,
    events: u32,
}

impl Maker {
    /// The batches of this seed; other seeds share nothing with it.
    pub fn new(shape: Shape, family: &'static Family, seed: u64) -> Self {
        let cache = Cache::new(Load {
            seed,
            block_size: shape.tokens as usize,
            blocks_per_step: shape.blocks as usize,
            prefixes: shape.prefixes as usize,
            capacity: shape.capacity.map(|blocks| blocks as usize),
        });
        Self { cache, family, events: shape.events.max(1) }
    }

    /// The next batch, stamped `now` (since 1970).
    pub fn make(&mut self, now: Duration) -> Made {
        let steps: Vec<Step> = (0..self.events).map(|_| self.cache.step()).collect();
        let spell = |hashes: &[u64]| -> Vec<Hash> {
            hashes.iter().map(|&hash| Hash::of(self.family, hash)).collect()
        };
        let spelled: Vec<_> = steps.iter().map(|step| (spell(&step.hashes), spell(&step.evicted))).collect();
        let mut events = Vec::with_capacity(2 * steps.len());
        let mut made = Made::default();
        for (step, (stored, removed)) in steps.iter().zip(&spelled) {
            if !removed.is_empty() {
                events.push(EngineEvent::Removed(Removed::plain(removed, Some(MEDIUM))));
            }
            let parent = step.parent.map(|hash| Hash::of(self.family, hash));
            let store = Stored::plain(stored, parent, &step.tokens, self.cache.block_size() as u32);
            events.push(EngineEvent::Stored(Stored { medium: Some(MEDIUM), ..store }));
            made.stored += stored.len() as u64;
            made.removed += removed.len() as u64;
        }
        made.events = events.len() as u64;
        made.payload = payload(self.family, &events, now);
        made
    }
}

/// A batch of these events, stamped `now` (since 1970).
pub fn payload(family: &Family, events: &[EngineEvent<'_>], now: Duration) -> Vec<u8> {
    let stamp = Stamp::Seconds(now.as_secs_f64());
    encode_batch(family, &EngineBatch { stamp, events, rank: Some(0) })
}

/// A chain of blocks behind `parent` as store events of at most `most` blocks each, one batch an event.
///
/// # Panics
/// Never where `tokens` has the tokens of all `hashes`.
pub fn stores(
    family: &Family,
    parent: Option<u64>,
    (hashes, tokens): (&[u64], &[u32]),
    block_size: usize,
    most: usize,
    now: Duration,
) -> Vec<Vec<u8>> {
    let spelled: Vec<Hash> = hashes.iter().map(|&hash| Hash::of(family, hash)).collect();
    let mut parent = parent.map(|hash| Hash::of(family, hash));
    let mut batches = Vec::new();
    for (at, part) in spelled.chunks(most).enumerate() {
        let from = at * most * block_size;
        let store =
            Stored::plain(part, parent, &tokens[from..from + part.len() * block_size], block_size as u32);
        let event = EngineEvent::Stored(Stored { medium: Some(MEDIUM), ..store });
        batches.push(payload(family, &[event], now));
        parent = part.last().copied();
    }
    batches
}

/// A removal of these blocks as one batch.
pub fn removal(family: &Family, hashes: &[u64], now: Duration) -> Vec<u8> {
    let spelled: Vec<Hash> = hashes.iter().map(|&hash| Hash::of(family, hash)).collect();
    payload(family, &[EngineEvent::Removed(Removed::plain(&spelled, Some(MEDIUM)))], now)
}
