//! Set-up: hashes, keys and rank numbers recorded from a running fleet (`tests/data/fleet/vectors.json`), and a naive
//! oracle that lays every chunk out as one text of bytes.
//! Claim: tokens resolve to exactly the recorded keys; the fast way agrees with the naive one; a resolution taken in
//! steps is the same as one taken at once; each limit refuses by name and before any work.

use std::collections::HashSet;

use kvatlas::fleet::key::{Key, KeyFault};
use kvatlas::fleet::tokens::{ResolveFault, chain, kv_rank, none_hash, resolve};
use kvatlas::limits::{FLEET_RESOLVED_KEYS, FLEET_WORLD_SIZE};
use proptest::prelude::*;
use serde_json::{Value, json};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../data/fleet/vectors.json")).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn hashes(tokens: &[u32], chunk_size: u64) -> Vec<String> {
    chain(tokens, chunk_size).map(|hash| hex(&hash)).collect()
}

/// The tokens of a recorded case: listed, or a named sequence.
fn tokens_of(case: &Value) -> Vec<u32> {
    if let Some(listed) = case.get("token_ids").or_else(|| case.get("tokens")).and_then(Value::as_array) {
        return listed.iter().map(|token| token.as_u64().unwrap() as u32).collect();
    }
    let name = case.get("prompt").or_else(|| case.get("tokens")).unwrap().as_str().unwrap();
    match name {
        "range512" => (0..512).collect(),
        "range600" => (0..600).collect(),
        "lcg1000" => (0..1000u64).map(|i| ((1_103_515_245 * i + 12345) % 151_936) as u32).collect(),
        range => {
            let (first, last) = range.split_once("..").expect(name);
            (first.parse().unwrap()..=last.parse().unwrap()).collect()
        }
    }
}

#[test]
fn the_hash_before_the_first_chunk_is_the_recorded_one() {
    assert_eq!(hex(&none_hash()), vectors()["none_hash"]);
}

#[test]
fn chunks_hash_as_recorded() {
    let vectors = vectors();
    let cases = vectors["chunks"].as_array().unwrap();
    assert_eq!(cases.len(), 29);
    for case in cases {
        let tokens = tokens_of(case);
        assert_eq!(tokens.len() as u64, case["n_tokens"], "{case}");
        let found = hashes(&tokens, case["chunk_size"].as_u64().unwrap());
        assert_eq!(found.len() as u64, case["n_chunks"], "{case}");
        if let Some(wanted) = case.get("hashes") {
            assert_eq!(json!(found), *wanted, "{case}");
        } else {
            assert_eq!(found[0], case["first"], "{case}");
            assert_eq!(found[1], case["second"], "{case}");
            assert_eq!(*found.last().unwrap(), case["last"], "{case}");
        }
    }
}

#[test]
fn keys_are_the_recorded_ones() {
    let vectors = vectors();
    let cases = vectors["keys"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let tokens = tokens_of(case);
        let text = |name: &str| case[name].as_str().unwrap();
        let number = |name: &str| case[name].as_u64().unwrap();
        let (model, salt) = (text("model_name"), text("cache_salt"));
        let keys = resolve(&tokens, number("chunk_size"), model, salt, number("world_size")).unwrap();
        assert_eq!((keys.chunks(), keys.keys()), (number("requested"), number("affected")));
        let found: Vec<Value> = keys.map(|key| shown(&key)).collect();
        assert_eq!(json!(found), case["keys"]);
    }
}

fn shown(key: &Key<'_>) -> Value {
    json!({"chunk_hash_hex": key.hash.to_string(), "model_name": key.model, "kv_rank": key.kv_rank as u64,
        "object_group_id": key.group, "cache_salt": key.salt})
}

#[test]
fn ranks_are_packed_as_recorded() {
    let vectors = vectors();
    let cases = vectors["kv_rank"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let world_size = case["world_size"].as_u64().unwrap();
        let ranks: Vec<i128> = (0..world_size).map(|rank| kv_rank(world_size, rank)).collect();
        let wanted = |name: &str| i128::from(case[name].as_u64().unwrap());
        assert_eq!(ranks[0], wanted("first"), "{case}");
        assert_eq!(*ranks.last().unwrap(), wanted("last"), "{case}");
        assert!(case["second"].is_null() == (world_size == 1));
        if world_size > 1 {
            assert_eq!(ranks[1], wanted("second"), "{case}");
        }
        let distinct: HashSet<i128> = ranks.into_iter().collect();
        assert_eq!(distinct.len() as u64, case["distinct"], "{case}");
    }
}

#[test]
fn two_ranks_with_the_same_number_are_two_keys() {
    let keys: Vec<i128> = resolve(&[1], 1, "m", "", 257).unwrap().map(|key| key.kv_rank).collect();
    assert_eq!(keys.len(), 257);
    assert_eq!(keys[0], keys[256]);
}

#[test]
fn a_million_tokens_resolve_in_steps() {
    let tokens: Vec<u32> = (0..1_000_000).collect();
    for (chunk_size, wanted) in [(1, 1_000_000), (4, 250_000)] {
        let mut keys = resolve(&tokens, chunk_size, "m", "", 1).unwrap();
        assert_eq!(keys.keys(), wanted);
        let (mut count, mut last) = (0, None);
        loop {
            let before = count;
            for key in keys.by_ref().take(1000) {
                count += 1;
                last = Some(key.hash);
            }
            if count == before {
                break;
            }
        }
        assert_eq!(count, wanted);
        let once = chain(&tokens, chunk_size).last().unwrap();
        assert_eq!(last.unwrap().bytes(), once);
    }
}

#[test]
fn limits_are_named() {
    let refused =
        |tokens: &[u32], world_size| resolve(tokens, 1, "m", "", world_size).unwrap_err().to_string();
    assert_eq!(refused(&[], 1_000_000_000), "world_size is too large (limit=65536, got=1000000000)");
    assert_eq!(refused(&[1], u64::MAX), format!("world_size is too large (limit=65536, got={})", u64::MAX));
    let tokens = vec![0; 62];
    assert_eq!(
        refused(&tokens, FLEET_WORLD_SIZE),
        "too many keys in a single request: chunks x world_size (limit=4000000, got=4063232)"
    );
    let most = vec![0; 61];
    assert_eq!(resolve(&most, 1, "m", "", FLEET_WORLD_SIZE).unwrap().keys(), 61 * FLEET_WORLD_SIZE);
    let million = vec![0; 1_000_000];
    assert_eq!(resolve(&million, 1, "m", "", 4).unwrap().keys(), FLEET_RESOLVED_KEYS);
    assert_eq!(resolve(&million, 1, "m", "", 5).unwrap_err(), ResolveFault::Keys(5_000_000));
}

#[test]
fn a_model_is_judged_only_where_there_is_a_chunk() {
    assert_eq!(resolve(&[1, 2, 3], 4, "a@b", "", 1).unwrap().count(), 0);
    let fault = resolve(&[1, 2, 3, 4], 4, "a@b", "", 1).unwrap_err();
    assert_eq!(fault, ResolveFault::Key(KeyFault::ModelCharacter("'a@b'".to_owned())));
}

#[test]
fn a_salt_is_judged_always_and_first() {
    let fault = resolve(&[], 4, "m", "a@b", u64::MAX).unwrap_err();
    assert!(matches!(fault, ResolveFault::Key(KeyFault::SaltCharacter("'@'", _))));
    assert!(resolve(&[], 4, "m", &"é".repeat(128), 1).is_ok());
    let fault = resolve(&[], 4, "m", &"é".repeat(129), 1).unwrap_err();
    assert_eq!(fault, ResolveFault::Key(KeyFault::SaltLength(129)));
}

#[test]
fn odd_sizes_give_nothing() {
    assert_eq!(chain(&[1, 2, 3], 0).count(), 0);
    assert_eq!(chain(&[1, 2, 3], u64::MAX).count(), 0);
    assert_eq!(resolve(&[1, 2, 3], 1, "m", "", 0).unwrap().count(), 0);
}

/// Every chunk as one text: the hash before it, the tokens, highest byte first.
fn naive(tokens: &[u32], chunk_size: usize) -> Vec<[u8; 32]> {
    let mut before = *blake3::hash(&[0u8; 12]).as_bytes();
    let mut all = Vec::new();
    let mut rest = tokens;
    while rest.len() >= chunk_size {
        let mut text = before.to_vec();
        for token in &rest[..chunk_size] {
            text.extend([(token >> 24) as u8, (token >> 16) as u8, (token >> 8) as u8, *token as u8]);
        }
        before = *blake3::hash(&text).as_bytes();
        all.push(before);
        rest = &rest[chunk_size..];
    }
    all
}

proptest! {
    #[test]
    fn the_chain_is_the_naive_one(
        tokens in proptest::collection::vec(any::<u32>(), 0..1200), chunk_size in 1..700usize
    ) {
        let fast: Vec<[u8; 32]> = chain(&tokens, chunk_size as u64).collect();
        prop_assert_eq!(fast, naive(&tokens, chunk_size));
    }

    #[test]
    fn keys_are_chunks_times_ranks(
        tokens in proptest::collection::vec(any::<u32>(), 0..40), chunk_size in 1..6u64, world_size in 1..9u64
    ) {
        let found: Vec<Key<'_>> = resolve(&tokens, chunk_size, "m", "s", world_size).unwrap().collect();
        let mut wanted = Vec::new();
        for hash in naive(&tokens, chunk_size as usize) {
            for rank in 0..world_size {
                wanted.push((hash.to_vec(), (world_size << 24) + (rank << 16) + (world_size << 8) + rank));
            }
        }
        let found: Vec<(Vec<u8>, u64)> =
            found.iter().map(|key| (key.hash.bytes().to_vec(), key.kv_rank as u64)).collect();
        prop_assert_eq!(found, wanted);
    }
}
