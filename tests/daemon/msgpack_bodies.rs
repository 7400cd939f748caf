//! Set-up: a daemon whose bodies come as msgpack, with values of every kind in every place.
//! Claim: an unknown member is never an error, whatever sound value it has; a known one of a wrong type is refused by
//! its name, as in JSON; byte strings among the extra keys are their hexadecimal digits; publishers register so too.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Response, Source, exchange, settle};
use kvatlas::wire::engine::{EngineEvent, ExtraKey, Stored};
use rmp::encode::{
    write_array_len, write_bin, write_ext_meta, write_f64, write_map_len, write_sint, write_str, write_uint,
};
use serde_json::{Value, json};

const TOKENS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn post(daemon: &Daemon, path: &str, kind: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n"
    );
    exchange(daemon.address(), &[head.as_bytes(), body].concat())
}

fn packed(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

/// A map of members that JSON has, then of one whose value is given, under any key, in front or at the end.
fn map(known: &Value, key: &[u8], value: &[u8], in_front: bool) -> Vec<u8> {
    let members = known.as_object().unwrap();
    let mut out = Vec::new();
    write_map_len(&mut out, members.len() as u32 + 1).unwrap();
    let mut known = Vec::new();
    for (name, value) in members {
        known.extend(packed(&json!(name)));
        known.extend(packed(value));
    }
    let odd = [key, value].concat();
    out.extend(if in_front { [odd, known] } else { [known, odd] }.concat());
    out
}

fn with(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Sound values that JSON has no word for, and some that it has.
fn values() -> Vec<(&'static str, Vec<u8>)> {
    let nested = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
    vec![
        ("nil", vec![0xc0]),
        ("bool", vec![0xc3]),
        ("integer", vec![0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("negative", with(|out| _ = write_sint(out, i64::MIN).unwrap())),
        ("text", packed(&json!("text"))),
        ("array", packed(&json!([1, [2], {"a": [null]}]))),
        ("map", packed(&json!({"a": {"b": 1}}))),
        ("byte string", with(|out| write_bin(out, b"\xff\x00").unwrap())),
        ("empty byte string", with(|out| write_bin(out, b"").unwrap())),
        (
            "extension",
            with(|out| {
                write_ext_meta(out, 3, 7).unwrap();
                out.extend([1, 2, 3]);
            }),
        ),
        (
            "timestamp",
            with(|out| {
                write_ext_meta(out, 4, -1).unwrap();
                out.extend([0; 4]);
            }),
        ),
        ("not a number", with(|out| write_f64(out, f64::NAN).unwrap())),
        ("infinity", with(|out| write_f64(out, f64::INFINITY).unwrap())),
        ("no UTF-8", vec![0xa2, 0xff, 0xfe]),
        ("map with integer keys", vec![0x82, 0x01, 0xc0, 0xff, 0x90]),
        ("map with a byte string as key", vec![0x81, 0xc4, 0x01, 0xff, 0xc0]),
        ("map with keys that stand twice", vec![0x82, 0xa1, b'a', 0x01, 0xa1, b'a', 0x02]),
        ("map with a key that is no UTF-8", vec![0x81, 0xa1, 0xff, 0x01]),
        ("deep", nested(60)),
    ]
}

fn queries() -> [(&'static str, Value); 2] {
    let small = |prompt: &str| json!({ "model": MODEL, "block_size": 2, prompt: [1, 2, 3, 4] });
    [("/query", small("token_ids")), ("/query_by_hash", small("seq_hashes"))]
}

#[test]
fn an_unknown_member_is_never_an_error() {
    let daemon = Daemon::start(1);
    let keys =
        [packed(&json!("hit_detail")), vec![0x07], vec![0xc4, 0x01, 0xff], vec![0xa1, 0xff], vec![0xc0]];
    let registration = json!({ "endpoint": "tcp://127.0.0.1:9", "type": "vLLM", "modelname": MODEL,
        "instance_id": "a", "block_size": 2, "dp_rank": 0 });
    for (name, value) in values() {
        for key in &keys {
            for in_front in [false, true] {
                for (path, known) in &queries() {
                    let answer =
                        post(&daemon, path, "application/msgpack", &map(known, key, &value, in_front));
                    assert_eq!(answer.status, 200, "{path} {name} {key:x?}: {:?}", answer.body);
                }
                for path in ["/register", "/unregister"] {
                    let body = map(&registration, key, &value, in_front);
                    let answer = post(&daemon, path, "application/x-msgpack", &body);
                    assert_eq!(answer.status, 200, "{path} {name} {key:x?}: {:?}", answer.body);
                }
            }
        }
    }
}

#[test]
fn what_is_no_msgpack_is_an_error_wherever_it_stands() {
    let daemon = Daemon::start(1);
    let deep = [vec![0x91; 5000], vec![0xc0]].concat();
    let broken: [&[u8]; 5] =
        [&[0xc1], &[0xdd, 0xff, 0xff, 0xff, 0xff], &[0xc6, 0xff, 0xff, 0xff, 0xff], &[0xa5, b'a'], &deep];
    for (path, known) in &queries() {
        for key in ["unknown", "tenant_id", "extra_keys"] {
            for value in broken {
                let body = map(known, &packed(&json!(key)), value, false);
                let answer = post(&daemon, path, "application/msgpack", &body);
                assert_eq!(answer.status, 400, "{path} {key} {value:x?}");
                assert!(answer.error().contains("invalid msgpack"), "{}", answer.error());
            }
        }
    }
}

/// Every field of a body with values that its type does not have.
#[test]
fn a_known_member_of_a_wrong_type_is_named() {
    let daemon = Daemon::start(1);
    let text = "expected a string";
    let fields = [
        ("model", text),
        ("lora_name", text),
        ("tenant_id", text),
        ("instance_id", text),
        ("cache_salt", text),
        ("additional_salt", text),
        ("lora_id", "expected an integer"),
        ("block_size", "expected an unsigned 32-bit integer"),
        ("detail", "expected true or false"),
        ("medium", "expected a string or a list of strings"),
    ];
    let scalar = ["nil", "bool", "integer", "negative", "text", "array"];
    for (field, expected) in fields {
        for (name, value) in values().into_iter().filter(|(name, _)| !scalar.contains(name)) {
            let mut known = queries()[0].1.clone();
            known.as_object_mut().unwrap().remove(field);
            let body = map(&known, &packed(&json!(field)), &value, false);
            let answer = post(&daemon, "/query", "application/msgpack", &body);
            assert_eq!((answer.status, answer.error()), (400, format!("{field}: {expected}")), "{name}");
        }
    }
    for field in ["endpoint", "replay_endpoint", "type", "modelname", "instance_id", "additionalsalt"] {
        let mut known = json!({ "endpoint": "tcp://127.0.0.1:9", "type": "vLLM", "modelname": MODEL,
            "instance_id": "a", "block_size": 2, "dp_rank": 0 });
        known.as_object_mut().unwrap().remove(field);
        let body = map(&known, &packed(&json!(field)), &[0xc4, 0x01, 0xff], false);
        let answer = post(&daemon, "/register", "application/msgpack", &body);
        assert_eq!((answer.status, answer.error()), (400, format!("{field}: {text}")));
    }
    for (name, value) in values() {
        let odd = ["extension", "timestamp", "not a number", "infinity", "no UTF-8"];
        let odd = odd.contains(&name) || (name.starts_with("map with ") && !name.ends_with("twice"));
        let body =
            map(&queries()[0].1, &packed(&json!("extra_keys")), &[&[0x92, 0xc0][..], &value].concat(), true);
        let answer = post(&daemon, "/query", "application/msgpack", &body);
        assert_eq!(answer.status, if odd { 400 } else { 200 }, "{name}: {:?}", answer.body);
        assert!(!odd || answer.error().starts_with("extra_keys: "), "{}", answer.error());
    }
}

#[test]
fn extra_keys_are_taken_as_an_engine_sends_them() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 4, 0);
    daemon.register(&engine.registration("a"));
    engine.joined();
    let digest: Vec<u8> = (0..32).map(|at| at * 7).collect();
    let digits = digest.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    // the digest as digits, which an event's byte string is the same as
    let keys = [Some(vec![ExtraKey::Text(digits.clone()), ExtraKey::Text("slt".into())]), None];
    let hashes = engine.hashes(&TOKENS);
    let stored = engine.stored(&hashes, &TOKENS, 0..2, "GPU");
    engine.events(&[EngineEvent::Stored(Stored { extra_keys: Some(&keys), ..stored })]);
    settle(&[&daemon], &[&engine]);
    let small = json!({ "model": MODEL, "block_size": 4, "token_ids": TOKENS });
    let mut spelled = small.clone();
    spelled["extra_keys"] = json!([[digits, "slt"], null]);
    let expected = daemon.ask(&spelled);
    assert_eq!(expected["default"]["a"]["longest_matched"], 8);
    let sent = with(|out| {
        write_array_len(out, 2).unwrap();
        write_array_len(out, 2).unwrap();
        write_bin(out, &digest).unwrap();
        write_str(out, "slt").unwrap();
        out.push(0xc0);
    });
    let body = map(&small, &packed(&json!("extra_keys")), &sent, false);
    assert_eq!(post(&daemon, "/query", "application/msgpack", &body).json(), expected);
}

/// The same as with JSON, by the publisher that was meant.
#[test]
fn publishers_come_and_go_by_msgpack() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    let mut endpoint = engine.registration("a");
    endpoint["lora_name"] = Value::Null;
    let answer = post(&daemon, "/register", "application/msgpack", &packed(&endpoint));
    let expected = json!({ "status": "registered successfully", "instance_id": "a" });
    assert_eq!((answer.status, answer.json()), (200, expected));
    engine.joined();
    engine.store(&TOKENS, 0..4, "GPU");
    settle(&[&daemon], &[&engine]);
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS });
    assert_eq!(daemon.ask(&question)["default"]["a"]["longest_matched"], 8);
    let mut gone = Vec::new();
    write_map_len(&mut gone, 2).unwrap();
    write_str(&mut gone, "dp_rank").unwrap();
    write_uint(&mut gone, 0).unwrap();
    write_str(&mut gone, "instance_id").unwrap();
    write_str(&mut gone, "a").unwrap();
    let answer = post(&daemon, "/unregister", "application/msgpack", &gone);
    let expected = json!({ "status": "unregistered successfully", "removed_instances": ["a|default|0"] });
    assert_eq!((answer.status, answer.json()), (200, expected));
    for path in ["/register", "/unregister"] {
        let answer = post(&daemon, path, "application/msgpack", b"{}");
        assert_eq!((answer.status, answer.error().as_str()), (400, "expected a msgpack map"));
    }
}
