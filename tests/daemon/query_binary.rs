//! A daemon that one engine feeds is asked the same question in every encoding: the answers agree, and what is
//! wrong with a binary body is named as in a JSON one.

use crate::fleet::{self, Ask, Daemon, Engine, MODEL, exchange, join, settle};
use serde_json::{Value, json};

const BLOCK: u32 = 4;

fn ask(daemon: &Daemon, path: &str, content: &str, accept: &str, body: &[u8]) -> fleet::Response {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: {content}\r\naccept: {accept}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    exchange(daemon.address(), &[head.as_bytes(), body].concat())
}

fn small() -> Value {
    json!({"model": MODEL, "block_size": BLOCK, "detail": true})
}

fn packed(object: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(object).unwrap()
}

/// A map with one more member, whose value is given as msgpack.
fn packed_with(object: &Value, key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = packed(object);
    assert_eq!(bytes[0] & 0xf0, 0x80, "a small map");
    bytes[0] += 1;
    bytes.extend(rmp_serde::to_vec(key).unwrap());
    bytes.extend(value);
    bytes
}

fn bin(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc6];
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
    out
}

#[test]
fn every_encoding_of_a_question_has_the_same_answer() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(7, BLOCK, 0);
    daemon.register(&engine.registration("a"));
    join(&[&daemon], &[&engine]);
    let prompt: Vec<u32> = (100..120).collect();
    engine.store(&prompt, 0..4, "GPU");
    settle(&[&daemon], &[&engine]);
    let hashes =
        kvatlas::index::hash::sequence_hashes(&prompt, BLOCK as usize, kvatlas::index::hash::DEFAULT_SEED);
    for by_hash in [false, true] {
        let (path, key) = if by_hash { ("/query_by_hash", "seq_hashes") } else { ("/query", "token_ids") };
        let numbers = if by_hash { json!(hashes) } else { json!(prompt) };
        let little: Vec<u8> = if by_hash {
            hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect()
        } else {
            prompt.iter().flat_map(|token| token.to_le_bytes()).collect()
        };
        let mut whole = small();
        whole[key] = numbers;
        let expected = ask(&daemon, path, "application/json", "*/*", whole.to_string().as_bytes()).json();
        assert_eq!(expected["default"]["a"]["longest_matched"], 16);
        let target = format!("{path}?model={MODEL}&block_size={BLOCK}&detail=true");
        let bodies = [
            (path, "application/msgpack", packed(&whole)),
            (path, "application/x-msgpack; v=1", packed_with(&small(), key, &bin(&little))),
            (target.as_str(), "application/octet-stream", little),
        ];
        for (target, content, body) in bodies {
            let answer = ask(&daemon, target, content, "application/json", &body);
            assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
            assert_eq!(still(answer.json()), still(expected.clone()), "{content}");
            let answer = ask(&daemon, target, content, "text/html, application/msgpack;q=0.9", &body);
            assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/msgpack")));
            let value: Value = rmp_serde::from_slice(&answer.body).unwrap();
            assert_eq!(still(value), still(expected.clone()), "{content}");
        }
    }
}

/// Without what changes from one moment to the next.
fn still(mut answer: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|key, _| !key.contains("age") && !key.contains("since"));
                members.values_mut().for_each(clean);
            }
            Value::Array(items) => items.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut answer);
    answer
}

#[test]
fn what_is_wrong_with_a_binary_body_is_named() {
    let daemon = Daemon::start(1);
    let refused = |path: &str, content: &str, body: &[u8], message: &str| {
        let answer = ask(&daemon, path, content, "application/msgpack", body);
        assert_eq!((answer.status, answer.error().as_str()), (400, message), "{content} {body:02x?}");
    };
    let pack = "application/msgpack";
    refused("/query", pack, b"", "expected a msgpack map");
    refused("/query", pack, &packed(&json!([1])), "expected a msgpack map");
    refused("/query", pack, &packed(&small()), "token_ids: required");
    refused(
        "/query",
        pack,
        &packed_with(&small(), "token_ids", &bin(&[1; 6])),
        "token_ids: expected a multiple of 4 bytes, not 6",
    );
    refused(
        "/query",
        pack,
        &packed_with(&small(), "token_ids", &packed(&json!([1, -1]))),
        "token_ids[1]: expected an unsigned 32-bit integer",
    );
    refused(
        "/query",
        pack,
        &packed_with(&small(), "token_ids", &[0xdd, 0xff, 0xff, 0xff, 0xff]),
        "token_ids: invalid msgpack",
    );
    refused(
        "/query",
        pack,
        &packed_with(&small(), "block_size", &packed(&json!(5))),
        "block_size: given twice with different values",
    );
    refused(
        "/query",
        pack,
        &packed_with(&json!({"block_size": 4}), "token_ids", &bin(&[])),
        "model: required",
    );
    let mut long = packed_with(&small(), "token_ids", &bin(&[]));
    long.push(0);
    let at = long.len() - 1;
    refused("/query", pack, &long, &format!("invalid msgpack at byte {at}"));
    let bytes = "application/octet-stream";
    refused("/query", bytes, &[1, 2, 3], "token_ids: expected a multiple of 4 bytes, not 3");
    refused("/query_by_hash", bytes, &[0; 12], "seq_hashes: expected a multiple of 8 bytes, not 12");
    refused("/query?model=m&block_size=x", bytes, &[0; 8], "block_size: expected an unsigned 32-bit integer");
    refused("/query?model=m&block_size=4&token_ids=1", bytes, &[0; 8], "token_ids: belongs into the body");
    refused("/query?block_size=4", bytes, &[0; 8], "model: required");
}
