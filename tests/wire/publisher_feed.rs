//! Set-up: one load, played as a pool and as an engine.
//! Claim: a pool announces the objects of exactly the blocks a step stored, under keys that are their standard
//! hashes, and takes back only what it announced; no batch has more events than a master sends; an engine
//! announces evictions before stores.

use std::collections::HashSet;
use std::time::Duration;

use kvatlas::index::hash::sequence_hashes;
use kvatlas::limits::POOL_BATCH_EVENTS;
use kvatlas::wire::cache::{Cache, Load};
use kvatlas::wire::feed::Feed;

const NOW: Duration = Duration::from_secs(1_700_000_000);

fn load(blocks_per_step: usize) -> Load {
    Load { seed: 3, block_size: 4, blocks_per_step, prefixes: 2, capacity: Some(8 * blocks_per_step) }
}

/// The texts that stand behind `key` in the maps of a payload, in order.
fn values(payload: &[u8], key: &str) -> Vec<String> {
    let key = [&[0xa0 | key.len() as u8], key.as_bytes()].concat();
    let places = payload.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
    let texts = places.map(|(at, _)| {
        let rest = &payload[at + key.len()..];
        // all texts here are shorter than 32 bytes
        let len = usize::from(rest[0] & 0x1f);
        String::from_utf8(rest[1..=len].to_vec()).unwrap()
    });
    texts.collect()
}

#[test]
fn a_pool_announces_standard_hashes() {
    for blocks_per_step in [3, POOL_BATCH_EVENTS + 6] {
        let mut cache = Cache::new(load(blocks_per_step));
        let mut feed = Feed::named("mooncake-master", None, 0).unwrap();
        let mut announced = HashSet::new();
        let mut taken_back = 0;
        for _ in 0..40 {
            let step = cache.step();
            let standard = sequence_hashes(&cache.last_prompt(), 4, 1337);
            let mut stored = Vec::new();
            for payload in feed.payloads(&step, &cache, NOW) {
                let keys = values(&payload, "object_key");
                assert!(keys.len() <= POOL_BATCH_EVENTS);
                for (kind, key) in values(&payload, "event_type").into_iter().zip(keys) {
                    if kind == "stored" {
                        announced.insert(key.clone());
                        stored.push(key);
                    } else {
                        assert!(announced.remove(&key), "taken back but never announced");
                        taken_back += 1;
                    }
                }
            }
            let wanted: Vec<_> = standard[step.depth..].iter().map(u64::to_string).collect();
            assert_eq!(stored, wanted);
            assert_eq!(announced.len(), cache.blocks());
        }
        assert!(taken_back > 0);
    }
}

#[test]
fn an_engine_makes_room_before_it_stores() {
    let mut cache = Cache::new(load(3));
    let mut feed = Feed::named("vllm-0.33.0", None, 5).unwrap();
    let mut evictions = 0;
    for _ in 0..40 {
        let step = cache.step();
        let payloads = feed.payloads(&step, &cache, NOW);
        assert_eq!(payloads.len(), 1, "a step is a batch");
        let tags = values(&payloads[0], "type");
        if step.evicted.is_empty() {
            assert_eq!(tags, ["BlockStored"]);
        } else {
            assert_eq!(tags, ["BlockRemoved", "BlockStored"]);
            evictions += 1;
        }
        assert_eq!(payloads[0].last(), Some(&5), "the rank ends the batch");
    }
    assert!(evictions > 0);
}

#[test]
fn every_family_has_a_feed_and_nothing_else_has() {
    for family in kvatlas::wire::family::FAMILIES {
        assert_eq!(Feed::named(family.id, None, 0).unwrap().kind(), family.engine);
    }
    assert_eq!(Feed::named("mooncake-master", None, 0).unwrap().kind(), "Mooncake");
    assert!(Feed::named("vllm", None, 0).is_none());
}
