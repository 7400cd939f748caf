//! Set-up: a running coordinator with a registered server that is not there, and values of every kind in every field
//! of every request.
//! Claim: the answer is never a 500 and always JSON, and the connection goes on.

use crate::coordinator::{Fleet, quiet};
use crate::wire::{Wire, said};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A request that is taken, as text of each field.
fn requests() -> Vec<(&'static str, &'static str, Value)> {
    let key = json!({"chunk_hash_hex": "aa", "model_name": "m", "kv_rank": 1, "object_group_id": 0, "cache_salt": "a"});
    let tokens = json!({"instance_id": "dead", "model_name": "m", "world_size": 1, "token_ids": [1, 2, 3, 4],
        "cache_salt": "a", "tier": "l2", "force": false});
    vec![
        (
            "POST",
            "/instances",
            json!({"instance_id": "i", "ip": "h", "http_port": 1, "metadata": {"a": "b"},
            "p2p_advertised_url": "", "mq_port": 0}),
        ),
        ("PUT", "/quota/config", json!({"default_limit_gb": 1, "tier": "l2"})),
        ("PUT", "/quota/a", json!({"limit_gb": 1, "tier": "l2"})),
        (
            "POST",
            "/quota/events",
            json!({"instance_id": "i", "seq": 1, "tier": "l2",
            "events": [{"type": "store", "key": key, "bytes": 1}]}),
        ),
        ("POST", "/cache/prefetches", tokens.clone()),
        ("POST", "/cache/pins", tokens.clone()),
        ("DELETE", "/cache/pins", tokens.clone()),
        ("POST", "/cache/delete", tokens),
        (
            "POST",
            "/blend/fingerprints",
            json!({"ranges": [{"model_scope": "m", "tokens": [1, 2, 3, 4],
            "object_keys": ["k"], "old_st_base": 0}]}),
        ),
        ("DELETE", "/blend/fingerprints", json!({"object_keys": ["k"]})),
        ("POST", "/blend/match", json!({"model_scope": "m", "tokens_b64": "AAAA"})),
    ]
}

/// Pointers to every value within.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

/// `body` with this text as the value there.
fn with(body: &Value, pointer: &str, spelled: &str) -> String {
    let mut body = body.clone();
    *body.pointer_mut(pointer).unwrap() = json!("PLACE");
    body.to_string().replace("\"PLACE\"", spelled)
}

/// Some answer, and a connection that goes on.
fn survives(wire: &mut Wire, method: &str, path: &str, body: &str) {
    let answer = wire.ask(method, path, body);
    // integers of any length come back, which not every reader of JSON can read
    let status = if body.len() < 4000 { said(&answer).0 } else { answer.status };
    assert!(answer.body.starts_with(b"{") && answer.body.ends_with(b"}"), "{method} {path} {body}");
    assert!(matches!(status, 200 | 400 | 404 | 422 | 502), "{status} for {method} {path} {body}");
    assert_eq!(answer.header("connection"), None, "{method} {path} {body}");
}

fn start() -> Fleet {
    let fleet = Fleet::start(quiet());
    let dead = json!({"instance_id": "dead", "ip": "127.0.0.1", "http_port": 1});
    assert_eq!(fleet.post("/instances", &dead).status, 200);
    fleet
}

#[test]
fn odd_values_in_every_field() {
    let fleet = start();
    let mut wire = Wire::to(fleet.address());
    let long = format!("\"{}\"", "x".repeat(100_000));
    let digits = "7".repeat(4000);
    let odd = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "1.5",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e19",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1180591620717411303424",
        &digits,
        "\"\"",
        "\" \"",
        "\"1\"",
        "\"1e5\"",
        "\"inf\"",
        "\"nan\"",
        "\"a@b\"",
        "\"a/b\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"\u{202e}\u{0}\"",
        &long,
        "[]",
        "[null]",
        "[[[[]]]]",
        "{}",
        "{\"\\ud800\": 1}",
        "{\"a\": 1, \"a\": 2}",
        "[1, 2, 3, 4, NaN]",
        "\"aa\"",
        "65536",
        "65537",
    ];
    for (method, path, body) in requests() {
        let mut pointers = Vec::new();
        places(&body, "", &mut pointers);
        for pointer in pointers.iter().filter(|pointer| !pointer.is_empty()) {
            for spelled in odd {
                survives(&mut wire, method, path, &with(&body, pointer, spelled));
            }
        }
    }
    wire.goes_on();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Bytes exchanged, cut and repeated: a body that was nearly right.
    #[test]
    fn damaged_bodies(which in 0..11_usize, edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6)) {
        thread_local!(static FLEET: Fleet = start());
        let (method, path, body) = requests().swap_remove(which);
        let mut bytes = body.to_string().into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match how {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => { let tail = bytes[at..].to_vec(); bytes.extend(tail) }
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        FLEET.with(|fleet| {
            let mut wire = Wire::to(fleet.address());
            let answer = wire.ask_as("application/json", method, path, &bytes);
            let status = said(&answer).0;
            assert!(matches!(status, 200 | 400 | 404 | 422 | 502), "{status}");
            wire.goes_on();
        });
    }
}
