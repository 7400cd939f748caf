//! Set-up: the recorded payloads of every engine family, each with the meaning it is said to have.
//! Claim: encoding the meaning again gives the recorded bytes, for every family and every kind of event.

use std::fs;
use std::path::{Path, PathBuf};

use kvatlas::wire::engine::{
    EngineBatch, EngineEvent, ExtraKey, Hash, Removed, Stamp, Stored, Tokens, encode_batch,
};
use kvatlas::wire::family::{FAMILIES, Family};
use serde_json::Value;

/// The folder of recorded payloads; `None` where this checkout has none.
fn conformance() -> Option<PathBuf> {
    let folder = std::env::var_os("KVATLAS_CONFORMANCE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"), PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// How the integers of a recording may be spelled; the stated meaning does not say it for removals.
#[derive(Clone, Copy)]
enum Spelling {
    Unsigned,
    Signed,
}

/// The parts of a recorded event that an [`EngineEvent`] borrows.
#[derive(Default)]
struct Parts {
    hashes: Vec<Hash>,
    flat: Vec<u32>,
    bigrams: Vec<[u32; 2]>,
    extra_keys: Option<Vec<Option<Vec<ExtraKey>>>>,
    lookahead: Option<Vec<Vec<u32>>>,
}

fn hash(value: &Value, spelling: Spelling) -> Hash {
    let bits: u64 = value.as_str().unwrap().parse().unwrap();
    match spelling {
        Spelling::Unsigned => Hash::Unsigned(bits),
        Spelling::Signed => Hash::Signed(bits as i64),
    }
}

fn uint(value: &Value) -> Option<u32> {
    value.as_u64().map(|value| value as u32)
}

fn uints(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|value| uint(value).unwrap()).collect()
}

fn extra_key(value: &Value) -> ExtraKey {
    match value {
        Value::String(text) => ExtraKey::Text(text.clone()),
        pair => ExtraKey::At(pair[0].as_str().unwrap().into(), pair[1].as_i64().unwrap()),
    }
}

fn parts(event: &Value, spelling: Spelling) -> Parts {
    let mut parts = Parts::default();
    let list = |key: &str| event[key].as_array().cloned().unwrap_or_default();
    parts.hashes = list("hashes").iter().map(|value| hash(value, spelling)).collect();
    match list("token_ids").first() {
        Some(Value::Array(_)) => {
            let pairs = list("token_ids");
            parts.bigrams =
                pairs.iter().map(|pair| [uint(&pair[0]).unwrap(), uint(&pair[1]).unwrap()]).collect();
        }
        Some(_) => parts.flat = uints(&event["token_ids"]),
        None => {}
    }
    parts.extra_keys = event["extra_keys"].as_array().map(|blocks| {
        blocks.iter().map(|keys| keys.as_array().map(|keys| keys.iter().map(extra_key).collect())).collect()
    });
    parts.lookahead = event["lookahead_token_ids"].as_array().map(|lists| lists.iter().map(uints).collect());
    parts
}

fn event<'a>(event: &'a Value, parts: &'a Parts, spelling: Spelling) -> EngineEvent<'a> {
    let text = |key: &str| event[key].as_str();
    match event["op"].as_str().unwrap() {
        "clear" => EngineEvent::Cleared(None),
        "remove" => EngineEvent::Removed(Removed::plain(&parts.hashes, text("medium_wire"))),
        "store" => EngineEvent::Stored(Stored {
            hashes: &parts.hashes,
            parent: (!event["parent"].is_null()).then(|| hash(&event["parent"], spelling)),
            tokens: if parts.bigrams.is_empty() {
                Tokens::Flat(&parts.flat)
            } else {
                Tokens::Bigrams(&parts.bigrams)
            },
            block_size: uint(&event["block_size"]).unwrap(),
            lora_id: event["lora_id"].as_i64(),
            lora_name: text("lora_name"),
            medium: text("medium_wire"),
            extra_keys: parts.extra_keys.as_deref(),
            group_idx: uint(&event["group_idx"]),
            spec_kind: text("kv_cache_spec_kind"),
            sliding_window: uint(&event["kv_cache_spec_sliding_window"]),
            locality: text("locality"),
            ownership: text("ownership"),
            session_id: text("session_id"),
            lookahead: parts.lookahead.as_deref(),
            cache_salt: text("cache_salt"),
            token_offset: None,
        }),
        other => panic!("unknown op {other}"),
    }
}

fn encode(family: &Family, expect: &Value, spelling: Spelling) -> String {
    let recorded = expect["events"].as_array().unwrap();
    let parts: Vec<_> = recorded.iter().map(|event| parts(event, spelling)).collect();
    let events: Vec<_> = recorded.iter().zip(&parts).map(|(e, parts)| event(e, parts, spelling)).collect();
    let stamp = match expect["ts"].as_u64() {
        Some(integer) => Stamp::Integer(integer),
        None => Stamp::Seconds(expect["ts"].as_f64().unwrap()),
    };
    hex(&encode_batch(family, &EngineBatch { stamp, events: &events, rank: uint(&expect["dp_rank"]) }))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn recorded_meanings_encode_to_the_recorded_bytes() {
    let Some(folder) = conformance() else {
        eprintln!("no recorded payloads beside this checkout: nothing to compare");
        return;
    };
    let (mut compared, mut digests) = (0, 0);
    for family in FAMILIES {
        let files = fs::read_dir(folder.join("payloads/family").join(family.id)).unwrap();
        for file in files.map(|entry| entry.unwrap().path()) {
            let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            // of a digest the meaning states the last 8 bytes only
            if file.to_str().unwrap().contains("bytes32") {
                digests += 1;
                continue;
            }
            let wanted = record["frames"]["payload_hex"].as_str().unwrap();
            let unsigned = encode(family, &record["expect"], Spelling::Unsigned);
            let signed = encode(family, &record["expect"], Spelling::Signed);
            assert!(
                wanted == unsigned || wanted == signed,
                "{}: wanted\n{wanted}\nencoded\n{unsigned}\nor\n{signed}",
                file.display()
            );
            compared += 1;
        }
    }
    assert!(compared > 700 && digests < 50, "{compared} compared, {digests} passed over");
}

/// A digest of 32 bytes is written whole, as a byte string, for the block and for its parent.
#[test]
fn digests_are_byte_strings() {
    let digest = |first: u8| -> [u8; 32] { std::array::from_fn(|place| first + place as u8) };
    let family = Family::named("vllm-2025-09-01").unwrap();
    let stored = Stored::plain(&[Hash::Digest([0; 32])], Some(Hash::Digest([0; 32])), &[1], 1);
    let block = [Hash::Digest(digest(1))];
    let stored =
        Stored { hashes: &block, parent: Some(Hash::Digest(digest(65))), medium: Some("GPU"), ..stored };
    let events = [EngineEvent::Stored(stored)];
    let batch = EngineBatch { stamp: Stamp::Integer(0), events: &events, rank: None };
    let wanted = format!(
        "93009197ab426c6f636b53746f72656491c420{}c420{}910101c0a3475055c0",
        hex(&digest(1)),
        hex(&digest(65))
    );
    assert_eq!(hex(&encode_batch(family, &batch)), wanted);
}

/// SGLang 0.5.18 appends the salt of a salted store as a map in the eighth place, and only then.
#[test]
fn a_salt_takes_the_eighth_place() {
    let family = Family::named("sglang-0.5.18").unwrap();
    let hashes = [Hash::Signed(-1)];
    let plain = Stored { medium: Some("GPU"), ..Stored::plain(&hashes, None, &[1], 1) };
    let encode = |stored| {
        let events = [EngineEvent::Stored(stored)];
        hex(&encode_batch(family, &EngineBatch { stamp: Stamp::Integer(0), events: &events, rank: Some(0) }))
    };
    let common = "ab426c6f636b53746f72656491ffc0910101c0a3475055";
    assert_eq!(encode(plain), format!("93009197{common}00"));
    let salted = Stored { cache_salt: Some("s"), ..plain };
    assert_eq!(encode(salted), format!("93009198{common}81aa63616368655f73616c74a17300"));
}

/// The field lists are those of the recorded table of families.
#[test]
fn field_lists_are_the_recorded_ones() {
    let Some(folder) = conformance() else { return };
    let table = fs::read(folder.join("families.json")).unwrap();
    let table: Vec<Value> = serde_json::from_slice(&table).unwrap();
    assert_eq!(table.len(), FAMILIES.len());
    for recorded in table {
        let family = Family::named(recorded["fid"].as_str().unwrap()).unwrap();
        for (key, fields) in
            [("stored", family.stored), ("removed", family.removed), ("cleared", family.cleared)]
        {
            let recorded = recorded[key].as_array().unwrap().iter();
            let names: Vec<_> = recorded.map(|f| f.as_str().unwrap().split('=').next().unwrap()).collect();
            let own: Vec<_> = fields.iter().map(|field| field.name()).collect();
            assert_eq!(own, names, "{} {key}", family.id);
        }
        let four = recorded["replay"].as_str().unwrap().contains("topic");
        assert_eq!(family.replay == kvatlas::wire::family::ReplayShape::FourFrames, four, "{}", family.id);
        assert_eq!(family.rank, recorded["rank"].as_str(), "{}", family.id);
        assert_eq!(family.engine, recorded["engine"].as_str().unwrap(), "{}", family.id);
        assert_eq!(family.signed, recorded["signed"].as_bool().unwrap(), "{}", family.id);
        assert_eq!(family.bytes, recorded["bytes_ok"].as_bool().unwrap(), "{}", family.id);
    }
}

/// One golden event a shape, for checkouts without recordings.
#[test]
fn every_shape_has_its_bytes() {
    let encode = |family: &str, event: EngineEvent<'_>, rank| {
        let family = Family::named(family).unwrap();
        hex(&encode_batch(
            family,
            &EngineBatch { stamp: Stamp::Seconds(1_700_000_000.25), events: &[event], rank },
        ))
    };
    let hashes = [Hash::Unsigned(4_893_664_530_129_990_787)];
    let stored = EngineEvent::Stored(Stored {
        medium: Some("GPU"),
        session_id: Some("req-1"),
        ..Stored::plain(&hashes, None, &[1, 2, 3, 4], 4)
    });
    let array = "93cb41d954fc40100000919cab426c6f636b53746f72656491cf43e9c9f66053b483c0940102030404c0a3475055c0c0c0c0c000";
    assert_eq!(encode("atom-2026-08", stored, Some(0)), array);
    let fields = "a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf43e9c9f66053b483b1706172656e745f626c6f63\
                  6b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055";
    let session = "aa73657373696f6e5f6964a57265712d31";
    let short = format!("93cb41d954fc401000009188{fields}{session}00");
    assert_eq!(encode("sglang-0.5.23", stored, Some(0)), short, "eight pairs in a short map");
    let wide = format!("93cb41d954fc4010000091de0009{fields}a96c6f72615f6e616d65c0{session}00");
    assert_eq!(encode("vllm-0.33.0", stored, Some(0)), wide, "nine pairs of sixteen declared ones");
    let map = "82a27473cb41d954fc40100000a66576656e74739181a474797065b0416c6c426c6f636b73436c6561726564";
    assert_eq!(encode("vllm-mapbatch", EngineEvent::Cleared(None), None), map);
    let oldest = "92cb41d954fc401000009192ac426c6f636b52656d6f76656491cf43e9c9f66053b483";
    let removed = EngineEvent::Removed(Removed::plain(&hashes, Some("GPU")));
    assert_eq!(encode("vllm-2025-04-30", removed, Some(7)), oldest, "no rank and no medium in those days");
}
