//! Set-up: objects come and go in a `mooncake_master`.
//! Claim: its batches are, byte for byte, what a master sends, for both settings of both switches; and its
//! keys spell the hashes that C++ `std::stoull` would read.

use std::fs;
use std::path::{Path, PathBuf};

use kvatlas::wire::pool::{Master, PoolEvent, key_hash};
use proptest::prelude::*;
use serde_json::Value;

const STAMP: u64 = 1_739_145_600_000;

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

const STORED: &str = "93cf00000194ed27dc0091de0014a86576656e745f696401a974696d657374616d70cf00000194ed27dc00\
aa6576656e745f74797065a673746f726564a474797065ab426c6f636b53746f726564aa6d6f64656c5f6e616d65c0aa626c6f636b5f7369\
7a65c0af6164646974696f6e616c5f73616c74c0a96c6f72615f6e616d65c0a974656e616e745f6964a764656661756c74aa6261636b656e\
645f6964a66e6f64652d61a867726f75705f6964c0a66d656469756da3637075a764705f72616e6bc0aa6f626a6563745f6b6579a5313233\
3435aa7365715f68617368657391cd3039ac626c6f636b5f68617368657391cd3039ae626173655f626c6f636b5f69647800ab706172656e\
745f68617368c0a9746f6b656e5f696473c0b1706172656e745f626c6f636b5f68617368c000";

const REMOVED: &str = "93cf00000194ed27dc0091de0011a86576656e745f696402a974696d657374616d70cf00000194ed27dc00\
aa6576656e745f74797065a772656d6f766564a474797065ac426c6f636b52656d6f766564aa6d6f64656c5f6e616d65c0aa626c6f636b5f\
73697a65c0af6164646974696f6e616c5f73616c74c0a96c6f72615f6e616d65c0a974656e616e745f6964a764656661756c74aa6261636b\
656e645f6964a66e6f64652d61a867726f75705f6964c0a66d656469756da3637075a764705f72616e6bc0aa6f626a6563745f6b6579b230\
7866666666666666666666666666666666aa7365715f68617368657391cfffffffffffffffffac626c6f636b5f68617368657391ffae6261\
73655f626c6f636b5f696478c000";

#[test]
fn reference_bytes() {
    let mut master = Master::new("node-a");
    assert_eq!(hex(&master.encode(STAMP, &[PoolEvent::stored("12345")]).unwrap()), STORED);
    assert_eq!(hex(&master.encode(STAMP, &[PoolEvent::removed("0xffffffffffffffff")]).unwrap()), REMOVED);
}

/// Every combination of the two switches has its own number of pairs.
#[test]
fn switches_set_the_number_of_pairs() {
    let headers = [
        (true, true, "de0014", "de0011"),
        (false, true, "de0011", "8f"),
        (true, false, "de0013", "de0010"),
        (false, false, "de0010", "8e"),
    ];
    for (legacy_compat, object_key, stored, removed) in headers {
        let mut master = Master { legacy_compat, object_key, ..Master::new("node-a") };
        let mut header = |event| hex(&master.encode(STAMP, &[event]).unwrap())[22..].to_owned();
        assert!(header(PoolEvent::stored("1")).starts_with(stored));
        assert!(header(PoolEvent::removed("1")).starts_with(removed));
    }
}

/// A key that is no hash is announced by its name alone; without names it is passed over and takes no id.
#[test]
fn unparsed_keys_need_the_object_key() {
    let opaque = PoolEvent::stored("model@tp_rank:0@87c447e7e156b622");
    let mut named = Master::new("n");
    assert!(hex(&named.encode(STAMP, &[opaque]).unwrap()).contains(&hex(b"\xaaseq_hashes\x90")));
    assert!(named.encode(STAMP, &[PoolEvent::stored("")]).is_none());
    let mut unnamed = Master { object_key: false, ..Master::new("n") };
    assert!(unnamed.encode(STAMP, &[opaque]).is_none());
    let batch = unnamed.encode(STAMP, &[opaque, PoolEvent::stored("7")]).unwrap();
    assert!(hex(&batch).contains(&hex(b"\xa8event_id\x01")), "the passed over event must not take an id");
}

/// The recorded batches of a master, encoded again from what they mean.
#[test]
fn recorded_batches_encode_to_the_recorded_bytes() {
    let folder = std::env::var_os("KVATLAS_CONFORMANCE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"), PathBuf::from);
    let folder = folder.join("payloads/mooncake");
    if !folder.is_dir() {
        eprintln!("no recorded payloads beside this checkout: nothing to compare");
        return;
    }
    let switches = [
        ("stored_dec", true, true),
        ("stored_hex", true, true),
        ("stored_opaque_key", true, true),
        ("removed_dec", true, true),
        ("removed_opaque", true, true),
        ("disk", true, true),
        ("medium_nil", true, true),
        ("batch64", true, true),
        ("no_legacy", false, true),
    ];
    for (name, legacy_compat, object_key) in switches {
        let file = folder.join(format!("mooncake_{name}.json"));
        let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let events = record["expect"]["events"].as_array().unwrap();
        let wanted = record["frames"]["payload_hex"].as_str().unwrap();
        let backend = events[0]["backend_id"].as_str().unwrap();
        let next_event_id = event_id(wanted);
        let mut master = Master { legacy_compat, object_key, next_event_id, ..Master::new(backend) };
        let events: Vec<_> = events
            .iter()
            .map(|event| PoolEvent {
                stored: event["op"] == "store",
                key: event["object_key"].as_str().unwrap(),
                medium: event["medium_wire"].as_str(),
                tenant: event["tenant_id"].as_str().unwrap(),
                group: None,
            })
            .collect();
        assert_eq!(hex(&master.encode(STAMP, &events).unwrap()), wanted, "{name}");
    }
}

/// The first event id of a recorded batch; all of them are small.
fn event_id(payload: &str) -> u64 {
    let key = hex(b"\xa8event_id");
    let at = payload.find(&key).unwrap() + key.len();
    u64::from_str_radix(&payload[at..at + 2], 16).unwrap()
}

#[test]
fn keys_spell_hashes_as_stoull_reads_them() {
    let none = ["", "0x", "0X", " ", "-", "+", "12a", "1 ", "0x1g", "+-1", "--1", "18446744073709551616"];
    for key in none.into_iter().chain(["0x10000000000000000", "0x-1", "0x 1", " 0x1", "model@1", "１"]) {
        assert_eq!(key_hash(key), None, "{key:?}");
    }
    let some = [
        ("0", 0),
        ("18446744073709551615", u64::MAX),
        ("0xFFffFFffFFffFFff", u64::MAX),
        ("0X10", 16),
        (" \t\n42", 42),
        ("+42", 42),
        ("-1", u64::MAX),
        (" -2", u64::MAX - 1),
        ("-18446744073709551615", 1),
        ("000000000000000000000000000001", 1),
    ];
    for (key, hash) in some {
        assert_eq!(key_hash(key), Some(hash), "{key:?}");
    }
}

proptest! {
    /// What a key says comes back, in both spellings; and no key at all does harm.
    #[test]
    fn any_key(hash: u64, text in ".{0,24}") {
        prop_assert_eq!(key_hash(&hash.to_string()), Some(hash));
        prop_assert_eq!(key_hash(&format!("0x{hash:x}")), Some(hash));
        let events = [PoolEvent::stored(&text)];
        prop_assert_eq!(Master::new("n").encode(STAMP, &events).is_some(), !text.is_empty());
    }
}
