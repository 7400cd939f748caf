//! Set-up: every wire version of every engine; for each a store, a removal and a clear that use all fields it has.
//! Claim: what it encodes is decoded to the same meaning: all of the fields that the version has, none of the
//! others, the hashes in either spelling, and with them the rank and the time of the batch.

use kvatlas::event::describe;
use kvatlas::wire::engine::{
    EngineBatch, EngineEvent, ExtraKey, Hash, Removed, Stamp, Stored, Tokens, encode_batch,
};
use kvatlas::wire::family::{FAMILIES, Family, Field, Shape};
use serde_json::{Map, Value, json};

/// Hashes at the ends of what fits: both halves of 64 bits.
const HASHES: [u64; 3] = [1, u64::MAX, 1 << 63];
const PARENT: u64 = 0xfedc_ba98_7654_3210;
const TOKENS: [u32; 6] = [0, 127, 128, 65_536, u32::MAX, 7];
const IMAGE: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn extra_keys() -> Vec<Option<Vec<ExtraKey>>> {
    let salt = ExtraKey::Text("salt".into());
    vec![Some(vec![salt]), None, Some(vec![ExtraKey::At(IMAGE.into(), -5)])]
}

fn lookahead() -> Vec<Vec<u32>> {
    vec![vec![1], vec![], vec![u32::MAX, 2]]
}

struct Content {
    hashes: Vec<Hash>,
    parent: Option<Hash>,
    extra_keys: Vec<Option<Vec<ExtraKey>>>,
    lookahead: Vec<Vec<u32>>,
}

fn full(content: &Content) -> [EngineEvent<'_>; 3] {
    let stored = Stored {
        lora_id: Some(-3),
        lora_name: Some("sql"),
        medium: Some("cpu"),
        extra_keys: Some(&content.extra_keys),
        group_idx: Some(2),
        spec_kind: Some("full_attention"),
        sliding_window: Some(4096),
        locality: Some("LOCAL"),
        ownership: Some("ENGINE"),
        session_id: Some("request-1"),
        lookahead: Some(&content.lookahead),
        cache_salt: Some("customer"),
        token_offset: Some(64),
        ..Stored::plain(&content.hashes, content.parent, &TOKENS, 2)
    };
    let removed = Removed {
        group_idx: Some(2),
        locality: Some("LOCAL"),
        ownership: Some("ENGINE"),
        ..Removed::plain(&content.hashes, Some("disk"))
    };
    [EngineEvent::Stored(stored), EngineEvent::Removed(removed), EngineEvent::Cleared(Some("GPU"))]
}

fn opening(op: &str, index: usize, fields: &[Field], medium: &str, name: &str) -> Map<String, Value> {
    let has = fields.contains(&Field::Medium);
    let mut out = Map::new();
    out.insert("op".into(), json!(op));
    out.insert("index".into(), json!(index));
    out.insert("medium_wire".into(), if has { json!(medium) } else { Value::Null });
    if op != "clear" || has {
        let class = if has { name.to_lowercase() } else { "unspecified".into() };
        out.insert("medium_class".into(), json!(class));
        out.insert("medium".into(), json!(if has { name } else { "GPU" }));
    }
    out
}

/// What the version says of the full events.
fn meaning(family: &Family) -> Value {
    let texts: Vec<String> = HASHES.iter().map(u64::to_string).collect();
    let mut store = opening("store", 0, family.stored, "cpu", "CPU");
    store.insert("hashes".into(), json!(texts));
    store.insert("parent".into(), json!(PARENT.to_string()));
    store.insert("token_ids".into(), json!(TOKENS));
    store.insert("block_size".into(), json!(2));
    let salted = family.salt_map || family.stored.contains(&Field::CacheSalt);
    for (field, name, value) in [
        (Field::LoraId, "lora_id", json!(-3)),
        (Field::LoraName, "lora_name", json!("sql")),
        (Field::ExtraKeys, "extra_keys", json!([["salt"], null, [[IMAGE, -5]]])),
        (Field::GroupIdx, "group_idx", json!(2)),
        (Field::SpecKind, "kv_cache_spec_kind", json!("full_attention")),
        (Field::SlidingWindow, "kv_cache_spec_sliding_window", json!(4096)),
        (Field::Locality, "locality", json!("LOCAL")),
        (Field::Ownership, "ownership", json!("ENGINE")),
        (Field::SessionId, "session_id", json!("request-1")),
        (Field::LookaheadTokenIds, "lookahead_token_ids", json!([[1], [], [u32::MAX, 2]])),
    ] {
        if family.stored.contains(&field) {
            store.insert(name.into(), value);
        }
    }
    if salted {
        store.insert("cache_salt".into(), json!("customer"));
    }
    let mut remove = opening("remove", 1, family.removed, "disk", "DISK");
    remove.insert("hashes".into(), json!(texts));
    for (field, name, value) in
        [(Field::GroupIdx, "group_idx", json!(2)), (Field::Locality, "locality", json!("LOCAL"))]
    {
        if family.removed.contains(&field) {
            remove.insert(name.into(), value);
        }
    }
    let clear = opening("clear", 2, family.cleared, "GPU", "GPU");
    json!({
        "batch": "accept",
        "ts": 1_700_000_000.25,
        "dp_rank": family.rank.map(|_| 3),
        "events": [store, remove, clear],
        "skipped": [],
    })
}

#[test]
fn every_field_of_every_version() {
    for family in FAMILIES {
        let content = Content {
            hashes: HASHES.iter().map(|bits| Hash::of(family, *bits)).collect(),
            parent: Some(Hash::of(family, PARENT)),
            extra_keys: extra_keys(),
            lookahead: lookahead(),
        };
        let events = full(&content);
        let batch = EngineBatch { stamp: Stamp::Seconds(1_700_000_000.25), events: &events, rank: Some(3) };
        let payload = encode_batch(family, &batch);
        assert_eq!(describe(&payload), meaning(family), "{}", family.id);
    }
}

#[test]
fn nothing_optional_is_nothing() {
    for family in FAMILIES {
        let hashes = [Hash::of(family, 5)];
        let events = [
            EngineEvent::Stored(Stored::plain(&hashes, None, &[1, 2], 2)),
            EngineEvent::Removed(Removed::plain(&hashes, None)),
            EngineEvent::Cleared(None),
        ];
        let batch = EngineBatch { stamp: Stamp::Integer(7), events: &events, rank: None };
        let expected = json!({
            "batch": "accept", "ts": 7, "dp_rank": null, "skipped": [],
            "events": [
                {
                    "op": "store", "index": 0, "medium_wire": null, "medium_class": "unspecified", "medium": "GPU",
                    "hashes": ["5"], "parent": null, "token_ids": [1, 2], "block_size": 2,
                },
                {
                    "op": "remove", "index": 1, "medium_wire": null, "medium_class": "unspecified",
                    "medium": "GPU", "hashes": ["5"],
                },
                { "op": "clear", "index": 2, "medium_wire": null },
            ],
        });
        assert_eq!(describe(&encode_batch(family, &batch)), expected, "{}", family.id);
    }
}

/// A digest counts by its last eight bytes; pages of pairs count by their first tokens.
#[test]
fn digests_and_bigrams() {
    let mut digest = [0xaa; 32];
    digest[24..].copy_from_slice(&PARENT.to_be_bytes());
    for family in FAMILIES {
        let hashes = [if family.bytes { Hash::Digest(digest) } else { Hash::of(family, PARENT) }];
        let plain = Stored::plain(&hashes, None, &[], 2);
        let pairs = [[1, 2], [2, 3]];
        let stored = Stored { tokens: Tokens::Bigrams(&pairs), ..plain };
        let events = [EngineEvent::Stored(stored)];
        let batch = EngineBatch { stamp: Stamp::Integer(0), events: &events, rank: None };
        let told = describe(&encode_batch(family, &batch));
        assert_eq!(told["events"][0]["hashes"], json!([PARENT.to_string()]), "{}", family.id);
        assert_eq!(told["events"][0]["token_ids"], json!([1, 2]), "{}", family.id);
    }
}

#[test]
fn the_versions_cover_every_layout() {
    let has = |batch, event| FAMILIES.iter().any(|family| family.batch == batch && family.event == event);
    assert!(has(Shape::Array, Shape::Array) && has(Shape::Array, Shape::Map) && has(Shape::Map, Shape::Map));
    assert!(FAMILIES.iter().any(|family| family.rank.is_none()));
}
