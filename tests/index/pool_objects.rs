//! Set-up: shards fed with real master payloads whose keys are a connector's, beside an engine.
//! Claim: an object counts for the block whose hash an engine announced, before or after it, on this shard or
//! another; it counts once while any rank's object is there, or with `tp_size` once all are; what no engine
//! announces matches nothing; and nothing is left when everybody has gone.

use crate::shard::registration;
use kvatlas::event::{self, Batch};
use kvatlas::index::apply::Cursor;
use kvatlas::index::context::{ContextKey, Lora};
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::publisher::{Class, Registration, Scope};
use kvatlas::index::shard::Shard;
use kvatlas::index::walk::Filter;
use kvatlas::metrics::PublisherStats;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::pool::{Master, PoolEvent};
use std::sync::Arc;

const TOKENS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const BLOCK: u32 = 4;
/// What the engine calls the two blocks of [`TOKENS`].
const NAMES: [u64; 2] = [0x1453_887b_2877_d089, 0x9988_7766_5544_3322];

struct Fleet {
    shard: Shard,
}

impl Fleet {
    fn new() -> Self {
        Self { shard: Shard::new(DEFAULT_SEED) }
    }

    fn register(&mut self, class: Class, change: impl Fn(&mut Registration)) -> (u32, Arc<PublisherStats>) {
        let mut registration = Registration { class, block_size: BLOCK, ..registration("i") };
        change(&mut registration);
        let stats = Arc::new(PublisherStats::default());
        (self.shard.add_publisher(Arc::new(registration), stats.clone()).expect("registers"), stats)
    }

    fn apply(&mut self, publisher: u32, payload: &[u8]) {
        let mut batch = Batch::default();
        event::decode(payload, &mut batch).expect("decodes");
        let mut cursor = Cursor::default();
        while !self.shard.apply(publisher, payload, &batch, &mut cursor, 1) {}
    }

    fn announce(&mut self, engine: u32) {
        let hashes = NAMES.map(Hash::Unsigned);
        let stored = EngineEvent::Stored(Stored::plain(&hashes, None, &TOKENS, BLOCK));
        let family = Family::named("vllm-0.33.0").expect("known");
        let batch = EngineBatch { stamp: Stamp::Seconds(1.0), events: &[stored], rank: Some(0) };
        self.apply(engine, &encode_batch(family, &batch));
    }

    fn objects(&mut self, pool: u32, stored: bool, keys: &[String]) {
        let event = |key| if stored { PoolEvent::stored(key) } else { PoolEvent::removed(key) };
        let events: Vec<PoolEvent<'_>> = keys.iter().map(|key| event(key.as_str())).collect();
        let payload = Master::new("daemon").encode(1, &events).expect("sends");
        self.apply(pool, &payload);
    }

    /// Tokens matched, and those of them on CPU.
    fn ask(&mut self) -> (u32, u32) {
        let key = ContextKey {
            tenant: "default".into(),
            model: "m".into(),
            lora: Lora::Base,
            block_size: BLOCK,
            additional_salt: String::new(),
            cache_salt: String::new(),
        };
        let Some(context) = self.shard.find_context(&key) else { return (0, 0) };
        let mut hashes = Vec::new();
        let mut path = Path::of_tokens(&TOKENS, &[], BLOCK, DEFAULT_SEED, &mut hashes);
        self.shard.query(&[context], &mut path, Filter::ALL);
        let answer = self.shard.answer();
        answer.hits().next().map_or((0, 0), |hit| (hit.longest * BLOCK, answer.common(0)[1] * BLOCK))
    }

    fn leave(mut self, publishers: &[u32]) {
        for publisher in publishers {
            self.shard.remove_publisher(*publisher);
        }
        while !self.shard.purge(3) {}
        assert_eq!(self.shard.owned_bytes(), Shard::new(DEFAULT_SEED).owned_bytes());
    }
}

fn key(name: u64, rank: u32) -> String {
    format!("Qwen3-8B@tp_rank:{rank}@group:0@{name:016x}")
}

fn keys(rank: u32) -> Vec<String> {
    NAMES.iter().map(|name| key(*name, rank)).collect()
}

#[test]
fn an_object_counts_before_and_after_the_announcement() {
    for pool_first in [false, true] {
        let mut fleet = Fleet::new();
        let (engine, _) = fleet.register(Class::Engine, |_| {});
        let (pool, stats) = fleet.register(Class::Pool, |_| {});
        if pool_first {
            fleet.objects(pool, true, &keys(0));
            assert_eq!(fleet.ask(), (0, 0), "nobody announced it");
            fleet.announce(engine);
        } else {
            fleet.announce(engine);
            fleet.objects(pool, true, &keys(0));
        }
        assert_eq!(fleet.ask(), (8, 8), "pool first: {pool_first}");
        assert_eq!(stats.keys_resolved.get(), 2);
        assert_eq!(stats.keys_waited.get(), if pool_first { 2 } else { 0 });
        fleet.objects(pool, false, &keys(0)[1..]);
        assert_eq!(fleet.ask(), (8, 4));
        fleet.leave(&[engine, pool]);
    }
}

#[test]
fn a_removal_reaches_an_object_that_waits() {
    let mut fleet = Fleet::new();
    let (engine, _) = fleet.register(Class::Engine, |_| {});
    let (pool, _) = fleet.register(Class::Pool, |_| {});
    fleet.objects(pool, true, &keys(0));
    fleet.objects(pool, false, &keys(0)[..1]);
    fleet.announce(engine);
    assert_eq!(fleet.ask(), (8, 4), "the first object went before its hash was known");
    fleet.leave(&[engine, pool]);
}

#[test]
fn objects_of_several_ranks_count_once_while_any_is_there() {
    let mut fleet = Fleet::new();
    let (engine, _) = fleet.register(Class::Engine, |_| {});
    let (pool, _) = fleet.register(Class::Pool, |_| {});
    fleet.announce(engine);
    for rank in 0..2 {
        fleet.objects(pool, true, &keys(rank));
    }
    assert_eq!(fleet.ask(), (8, 8));
    fleet.objects(pool, false, &keys(0));
    assert_eq!(fleet.ask(), (8, 8), "the other rank's objects are there");
    fleet.objects(pool, false, &keys(1));
    assert_eq!(fleet.ask(), (8, 0));
    fleet.leave(&[pool, engine]);
}

#[test]
fn with_tp_size_all_ranks_must_be_there() {
    for pool_first in [false, true] {
        let mut fleet = Fleet::new();
        let (engine, _) = fleet.register(Class::Engine, |_| {});
        let (pool, _) = fleet.register(Class::Pool, |registration| registration.tp_size = Some(2));
        if !pool_first {
            fleet.announce(engine);
        }
        fleet.objects(pool, true, &keys(0));
        fleet.objects(pool, true, &keys(1)[..1]);
        if pool_first {
            fleet.announce(engine);
        }
        assert_eq!(fleet.ask(), (8, 4), "the second block lacks rank 1");
        fleet.objects(pool, true, &keys(1)[1..]);
        assert_eq!(fleet.ask(), (8, 8));
        fleet.objects(pool, false, &keys(0)[..1]);
        assert_eq!(fleet.ask(), (8, 4), "the first block lacks rank 0 again");
        fleet.objects(pool, true, &keys(0)[..1]);
        assert_eq!(fleet.ask(), (8, 8));
        fleet.leave(&[pool, engine]);
    }
}

#[test]
fn another_shard_tells_where_a_hash_stands() {
    for pool_first in [false, true] {
        let (mut engines, mut pools) = (Fleet::new(), Fleet::new());
        let (engine, _) = engines.register(Class::Engine, |_| {});
        let (pool, _) = pools.register(Class::Pool, |_| {});
        if !pool_first {
            engines.announce(engine);
        }
        pools.objects(pool, true, &keys(0));
        let (wants, _) = pools.shard.take_mail();
        assert_eq!(wants.len(), 2);
        for want in wants {
            engines.shard.want(want, 1);
        }
        if pool_first {
            assert!(!engines.shard.has_mail(), "nothing is known yet");
            engines.announce(engine);
        }
        let (_, founds) = engines.shard.take_mail();
        assert_eq!(founds.len(), 2);
        for (reactor, found) in founds {
            assert_eq!(reactor, 1);
            while !pools.shard.found(&found, 1) {}
        }
        assert_eq!(pools.ask(), (8, 8));
        pools.objects(pool, false, &keys(0));
        assert_eq!(pools.ask(), (0, 0));
        pools.leave(&[pool]);
        engines.leave(&[engine]);
    }
}

#[test]
fn a_key_without_a_hash_is_counted_and_matches_nothing() {
    let mut fleet = Fleet::new();
    let (pool, stats) = fleet.register(Class::Pool, |_| {});
    fleet.objects(pool, true, &["opaque".to_owned()]);
    assert_eq!(stats.skipped[event::Skip::UnparsedKey as usize].get(), 1);
    assert_eq!(stats.blocks_held.get(), 0);
    fleet.leave(&[pool]);
}

#[test]
fn the_scope_of_a_removal_is_the_object_or_its_medium() {
    for (scope, left) in [(None, 0), (Some(Scope::Object), 0), (Some(Scope::Medium), 4)] {
        let mut fleet = Fleet::new();
        let (engine, _) = fleet.register(Class::Engine, |_| {});
        let (pool, stats) = fleet.register(Class::Pool, |registration| registration.removal_scope = scope);
        fleet.announce(engine);
        let name = key(NAMES[0], 0);
        fleet.objects(pool, true, std::slice::from_ref(&name));
        let on_disk = PoolEvent { medium: Some("disk"), ..PoolEvent::stored(&name) };
        let payload = Master::new("daemon").encode(1, &[on_disk]).expect("sends");
        fleet.apply(pool, &payload);
        assert_eq!(stats.blocks_held.get(), 2, "on cpu and on disk");
        fleet.objects(pool, false, std::slice::from_ref(&name));
        assert_eq!(stats.blocks_held.get() * 4, left, "{scope:?}");
        fleet.leave(&[pool, engine]);
    }
}
