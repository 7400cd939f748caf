//! Engines that speak to one shard: payloads made ahead from a seed, then decoded and applied.
//!
//! Shared by the benches of the index and the test of its bytes; each uses its part.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;
use std::time::Duration;

use kvatlas::event::{self, Batch};
use kvatlas::index::apply::Cursor;
use kvatlas::index::context::ContextKey;
use kvatlas::index::hash::DEFAULT_SEED;
use kvatlas::index::publisher::{Class, Registration};
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::metrics::PublisherStats;
use kvatlas::wire::cache::{Cache, Load};
use kvatlas::wire::chain::Chain;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::feed::Feed;

/// Tokens a block.
pub const BLOCK: usize = 16;
/// Blocks a batch.
pub const STEP: usize = 8;
/// Blocks that one turn of a reactor applies before others come.
const BUDGET: usize = 256;
/// Who encodes: maps, as vLLM sends them today.
const FAMILY: &str = "vllm-0.33.0";
/// Requests that an engine works at side by side.
const SIDE_BY_SIDE: usize = 16;

/// One batch on its way.
pub struct Payload {
    /// Engine that sent it.
    pub engine: usize,
    /// msgpack.
    pub bytes: Vec<u8>,
}

/// SplitMix64: the step and the finaliser.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A text of so many blocks, the same for the same seed.
pub fn text(seed: u64, blocks: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    (0..blocks * BLOCK).map(|_| (random(&mut state) % 128_000) as u32).collect()
}

/// A text that begins with `prefix` and goes on for `blocks` blocks of its own.
pub fn continued(prefix: &[u32], seed: u64, blocks: usize) -> Vec<u32> {
    [prefix, &text(seed, blocks)].concat()
}

/// One engine's wire: its own hash function, its own names.
pub struct Engine {
    number: usize,
    chain: Chain,
    family: &'static Family,
}

impl Engine {
    /// Engine `number`, whose hashes are its own.
    pub fn new(number: usize) -> Self {
        let family = Family::named(FAMILY).expect("a known family");
        Self { number, chain: Chain::new(0x5eed + number as u64), family }
    }

    fn encode(&self, event: &EngineEvent<'_>) -> Payload {
        let batch =
            EngineBatch { stamp: Stamp::Seconds(1.7e9), events: std::slice::from_ref(event), rank: Some(0) };
        Payload { engine: self.number, bytes: encode_batch(self.family, &batch) }
    }

    fn spell(&self, names: &[u64]) -> Vec<Hash> {
        names.iter().map(|name| Hash::of(self.family, *name)).collect()
    }

    /// Stores a whole text, a batch a step.
    pub fn stores(&self, text: &[u32]) -> Vec<Payload> {
        let mut parent = None;
        let steps = text.chunks(STEP * BLOCK);
        steps
            .map(|tokens| {
                let names = self.chain.extend(parent, tokens, BLOCK);
                let above = parent.map(|parent| Hash::of(self.family, parent));
                parent = names.last().copied();
                let spelled = self.spell(&names);
                let plain = Stored::plain(&spelled, above, tokens, BLOCK as u32);
                self.encode(&EngineEvent::Stored(Stored { medium: Some("GPU"), ..plain }))
            })
            .collect()
    }

    /// Removes a whole text, the last block first, a batch a step.
    pub fn removals(&self, text: &[u32]) -> Vec<Payload> {
        let mut names = self.chain.extend(None, text, BLOCK);
        names.reverse();
        let steps = names.chunks(STEP);
        steps
            .map(|names| self.encode(&EngineEvent::Removed(Removed::plain(&self.spell(names), Some("GPU")))))
            .collect()
    }
}

/// Takes turns: some lists side by side, one element each a round.
pub fn side_by_side(lists: Vec<Vec<Payload>>) -> Vec<Payload> {
    let mut all = Vec::new();
    let mut waiting = lists.into_iter().map(Vec::into_iter);
    let mut now: Vec<_> = waiting.by_ref().take(SIDE_BY_SIDE).collect();
    while !now.is_empty() {
        now.retain_mut(|list| match list.next() {
            Some(payload) => {
                all.push(payload);
                true
            }
            None => false,
        });
        now.extend(waiting.by_ref().take(SIDE_BY_SIDE - now.len()));
    }
    all
}

/// The texts of a fleet: `shared` prefixes of `prefix` blocks that every engine holds, and behind each of
/// them, on each engine, one text of `own` blocks.
pub fn fleet_texts(engine: usize, shared: usize, prefix: usize, own: usize) -> Vec<Vec<u32>> {
    let texts = (0..shared).map(|number| {
        let prefix = text(number as u64, prefix);
        continued(&prefix, ((engine as u64 + 1) << 32) | number as u64, own)
    });
    texts.collect()
}

/// Payloads of a cache of `capacity` blocks that evicts the least recently used leaf: those that fill it, and
/// `steps` more.
pub fn churn(engine: usize, capacity: usize, steps: usize) -> (Vec<Payload>, Vec<Payload>) {
    let mut cache = Cache::new(Load {
        seed: engine as u64,
        block_size: BLOCK,
        blocks_per_step: STEP,
        prefixes: 64,
        capacity: Some(capacity),
    });
    let mut feed = Feed::named(FAMILY, None, 0).expect("a known family");
    let mut take = |steps: usize| {
        let mut all = Vec::new();
        for _ in 0..steps {
            let step = cache.step();
            let payloads = feed.payloads(&step, &cache, Duration::from_secs(1_700_000_000));
            all.extend(payloads.into_iter().map(|bytes| Payload { engine, bytes }));
        }
        all
    };
    (take(capacity / STEP), take(steps))
}

/// A shard and the engines that are registered there.
pub struct Fleet {
    /// The shard.
    pub shard: Shard,
    /// Publisher number of each engine.
    pub publishers: Vec<u32>,
    /// Statistics of each engine.
    pub stats: Vec<Arc<PublisherStats>>,
    batch: Batch,
}

/// What engine `number` registers: an instance of its own.
pub fn registration(number: usize) -> Registration {
    Registration {
        tenant: "default".into(),
        instance: format!("engine-{number}"),
        rank: 0,
        class: Class::Engine,
        model: "model".into(),
        lora_name: String::new(),
        block_size: BLOCK as u32,
        additional_salt: String::new(),
        standard_hashes: false,
        tp_size: None,
        removal_scope: None,
    }
}

impl Fleet {
    /// An empty shard with so many engines.
    pub fn new(engines: usize) -> Self {
        let shard = Shard::new(DEFAULT_SEED);
        let mut fleet = Self { shard, publishers: Vec::new(), stats: Vec::new(), batch: Batch::default() };
        fleet.register(engines);
        fleet
    }

    /// So many engines more.
    pub fn register(&mut self, engines: usize) {
        for _ in 0..engines {
            let (number, stats) = (self.publishers.len(), Arc::new(PublisherStats::default()));
            let publisher = self.shard.add_publisher(Arc::new(registration(number)), stats.clone());
            self.publishers.push(publisher.expect("there is room"));
            self.stats.push(stats);
        }
    }

    /// Decodes and applies payloads.
    pub fn hear(&mut self, payloads: &[Payload]) {
        for payload in payloads {
            self.decode(payload);
            let publisher = self.publishers[payload.engine];
            let mut cursor = Cursor::default();
            while !self.shard.apply(publisher, &payload.bytes, &self.batch, &mut cursor, BUDGET) {}
        }
    }

    /// Decodes and forgets.
    pub fn decode(&mut self, payload: &Payload) {
        self.batch.clear();
        event::decode(&payload.bytes, &mut self.batch).expect("a good payload");
    }

    /// Blocks held, counted once an owner.
    pub fn held(&self) -> u64 {
        self.stats.iter().map(|stats| stats.blocks_held.get()).sum()
    }

    /// The number of the context that all engines share.
    pub fn context(&self) -> u32 {
        let key: ContextKey = base_key(&registration(0));
        self.shard.find_context(&key).expect("registered")
    }

    /// Everybody leaves.
    pub fn leave(&mut self) {
        for publisher in std::mem::take(&mut self.publishers) {
            self.shard.remove_publisher(publisher);
        }
        while !self.shard.purge(BUDGET) {}
    }
}
