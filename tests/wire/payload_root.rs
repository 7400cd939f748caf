//! Set-up: stored events of RFC #1527 with tokens, a parent in either spelling or none, and a depth or none.
//! Claim: SGLang's root constant says the same as no parent, so that it goes with a depth of 0; a real parent does
//! not, and the blocks are where the event says.

use crate::shard::registration;
use kvatlas::event::{self, Batch, Event, Skip};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::publisher::Registration;
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::index::walk::Filter;
use kvatlas::metrics::PublisherStats;
use rmp::encode::{write_array_len, write_map_len, write_nil, write_sint, write_str, write_uint};
use std::sync::Arc;

/// What SGLang names as the parent of a first block.
const ROOT: i64 = 5_740_354_900_026_072_187;
const TOKENS: [u32; 4] = [1, 2, 3, 4];

fn stored(parents: &[(&str, Option<i64>)], depth: Option<u64>, with_tokens: bool) -> Vec<u8> {
    let mut out = vec![0x92, 1, 0x91];
    write_map_len(&mut out, 5 + parents.len() as u32).unwrap();
    write_str(&mut out, "event_type").unwrap();
    write_str(&mut out, "stored").unwrap();
    for (name, parent) in parents {
        write_str(&mut out, name).unwrap();
        match parent {
            Some(parent) => _ = write_sint(&mut out, *parent).unwrap(),
            None => write_nil(&mut out).unwrap(),
        }
    }
    write_str(&mut out, "base_block_idx").unwrap();
    match depth {
        Some(depth) => _ = write_uint(&mut out, depth).unwrap(),
        None => write_nil(&mut out).unwrap(),
    }
    write_str(&mut out, "block_size").unwrap();
    write_uint(&mut out, 2).unwrap();
    write_str(&mut out, "seq_hashes").unwrap();
    write_array_len(&mut out, 2).unwrap();
    write_uint(&mut out, 70).unwrap();
    write_uint(&mut out, 71).unwrap();
    write_str(&mut out, "token_ids").unwrap();
    if with_tokens {
        write_array_len(&mut out, 4).unwrap();
        for token in TOKENS {
            write_uint(&mut out, u64::from(token)).unwrap();
        }
    } else {
        write_nil(&mut out).unwrap();
    }
    out
}

/// Blocks of the prompt that are held once the event is applied.
fn held(payload: &[u8], batch: &Batch) -> u32 {
    let registration = Arc::new(Registration { block_size: 2, ..registration("i") });
    let key = base_key(&registration);
    let mut shard = Shard::new(DEFAULT_SEED);
    let publisher = shard.add_publisher(registration, Arc::new(PublisherStats::default())).unwrap();
    let mut cursor = Cursor::default();
    while !shard.apply(publisher, payload, batch, &mut cursor, 1) {}
    let Some(context) = shard.find_context(&key) else { return 0 };
    let mut hashes = Vec::new();
    let mut path = Path::of_tokens(&TOKENS, &[], 2, DEFAULT_SEED, &mut hashes);
    shard.query(&[context], &mut path, Filter::ALL);
    shard.answer().hits().next().map_or(0, |hit| hit.longest)
}

#[test]
fn the_root_constant_is_the_root() {
    let mut batch = Batch::default();
    let (root, nothing) = (Some(ROOT), None);
    for depth in [Some(0), None] {
        for parents in [
            &[("parent_hash", root)][..],
            &[("parent_block_hash", root)],
            &[("parent_hash", root), ("parent_block_hash", root)],
            &[("parent_hash", root), ("parent_block_hash", nothing)],
            &[("parent_hash", nothing), ("parent_block_hash", root)],
        ] {
            let payload = stored(parents, depth, true);
            event::decode(&payload, &mut batch).unwrap();
            assert!(batch.skipped.is_empty(), "{parents:?} {depth:?}: {:?}", batch.skipped);
            assert_eq!(held(&payload, &batch), 2, "{parents:?} {depth:?}");
        }
    }
    let payload = stored(&[("parent_hash", root)], Some(0), false);
    event::decode(&payload, &mut batch).unwrap();
    assert!(matches!(batch.events[..], [Event::Store(_)]));
}

#[test]
fn a_real_parent_is_not_the_root() {
    let mut batch = Batch::default();
    for parents in [
        &[("parent_hash", Some(69))][..],
        &[("parent_hash", Some(0))],
        &[("parent_block_hash", Some(ROOT + 1))],
        &[("parent_hash", Some(69)), ("parent_block_hash", Some(ROOT))],
    ] {
        event::decode(&stored(parents, Some(0), true), &mut batch).unwrap();
        assert_eq!(batch.skipped.len(), 1, "{parents:?}");
        assert_eq!(batch.skipped[0].reason, Skip::Conflict, "{parents:?}");
    }
}
