//! Set-up: a running coordinator that is sent batches of events and prompts as large as they come, right and wrong,
//! in the usual spelling and in another one.
//! Claim: they are taken or refused whole, and while that goes on others are answered.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::coordinator::{Answer, Fleet, quiet};
use crate::wire::{Wire, fault, fault_in, refused, said};
use serde_json::{Value, json};

/// A batch of stores of one byte, each of about 230 bytes of text; `last` comes after them.
fn batch(events: usize, last: &str) -> String {
    let mut body = String::with_capacity(events * 240);
    body.push_str(r#"{"instance_id": "server-1", "seq": 1, "tier": "l2", "events": ["#);
    for number in 0..events {
        let _ = write!(
            body,
            r#"{{"type": "store", "key": {{"chunk_hash_hex": "{number:064x}", "model_name": "meta-llama/Llama-3.1-8B", "kv_rank": 16777472, "object_group_id": 0, "cache_salt": "tenant-a"}}, "bytes": 1}}, "#
        );
    }
    body.push_str(last);
    body.push_str("]}");
    body
}

fn last(bytes: &str) -> String {
    format!(
        r#"{{"type": "store", "key": {{"chunk_hash_hex": "ff", "model_name": "m", "kv_rank": 1}}, "bytes": {bytes}}}"#
    )
}

/// How often others are answered while `ask` waits for its answer, once its request is sent.
fn answered_during(address: SocketAddr, ask: impl FnOnce() -> Answer) -> (Answer, usize) {
    let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = Wire::to(address);
            while !over.load(Ordering::Acquire) {
                wire.goes_on();
                count.fetch_add(1, Ordering::AcqRel);
            }
        });
        while count.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        let before = count.load(Ordering::Acquire);
        let answer = ask();
        let during = count.load(Ordering::Acquire) - before;
        over.store(true, Ordering::Release);
        (answer, during)
    })
}

/// Sends all but the last byte, then counts what is answered from that byte on: reading is no part of it.
fn held(fleet: &Fleet, method: &str, path: &str, body: &str) -> (Answer, usize) {
    let mut wire = Wire::to(fleet.address());
    let length = body.len();
    wire.send(format!("{method} {path} HTTP/1.1\r\nhost: c\r\ncontent-length: {length}\r\n\r\n").as_bytes());
    let (last, rest) = body.as_bytes().split_last().unwrap();
    wire.send(rest);
    let told = answered_during(fleet.address(), || {
        wire.send(&[*last]);
        wire.receive()
    });
    wire.goes_on();
    told
}

#[test]
fn twenty_thousand_events() {
    let fleet = Fleet::start(quiet());
    let body = batch(20_000, &last("1"));
    assert!(body.len() > 4_500_000);
    assert_eq!(
        said(&fleet.call("POST", "/quota/events", body.as_bytes())),
        (200, json!({"recorded": 20_001}))
    );
    assert_eq!((fleet.usage("tenant-a"), fleet.usage("_default")), (20_000, 1));
    // again they are nothing new
    assert_eq!(
        said(&fleet.call("POST", "/quota/events", body.as_bytes())),
        (200, json!({"recorded": 20_001}))
    );
    assert_eq!((fleet.usage("tenant-a"), fleet.metric("keys")), (20_000, 20_001.0));
}

#[test]
fn a_hundred_thousand_events_while_others_are_answered() {
    let fleet = Fleet::start(quiet());
    let nothing = (200, json!({"total_gb": 0.0, "by_cache_salt": []}));
    // one bad event, the last
    let body = batch(100_000, &last("-1"));
    assert!(body.len() > 23_000_000);
    let (answer, during) = held(&fleet, "POST", "/quota/events", &body);
    let place = json!(["body", "events", 100_000, "bytes"]);
    let message = "Input should be greater than or equal to 0";
    let wanted = json!([fault_in("greater_than_equal", place, message, json!(-1), json!({"ge": 0}))]);
    assert_eq!(said(&answer), refused(wanted));
    assert!(during >= 5, "answers while a bad batch was read: {during}");
    assert_eq!(said(&fleet.get("/quota")), nothing);
    // the text ends too soon
    let (answer, during) = held(&fleet, "POST", "/quota/events", &body[..body.len() - 1]);
    let wanted = json!({"error": "Expecting ',' delimiter"});
    let place = json!(["body", body.len() - 1]);
    let wanted = json!([fault_in("json_invalid", place, "JSON decode error", json!({}), wanted)]);
    assert_eq!(said(&answer), refused(wanted));
    assert!(during >= 5, "answers while half a batch was read: {during}");
    assert_eq!(said(&fleet.get("/quota")), nothing);
    // one in an unusual spelling, the last
    let (answer, during) = held(&fleet, "POST", "/quota/events", &batch(100_000, &last("\"1_0\"")));
    assert_eq!(said(&answer), (200, json!({"recorded": 100_001})));
    assert!(during >= 5, "answers while an unusual batch was read: {during}");
    assert_eq!((fleet.usage("tenant-a"), fleet.usage("_default")), (100_000, 10));
    // all as usual
    let fleet = Fleet::start(quiet());
    let (answer, during) = held(&fleet, "POST", "/quota/events", &batch(100_000, &last("7")));
    assert_eq!(said(&answer), (200, json!({"recorded": 100_001})));
    assert!(during >= 5, "answers while a batch was read: {during}");
    assert_eq!((fleet.usage("tenant-a"), fleet.usage("_default")), (100_000, 7));
}

/// The refusal of a batch in which everything is wrong does not grow with it.
#[test]
fn a_batch_of_nothing_but_faults() {
    let fleet = Fleet::start(quiet());
    let body = format!(r#"{{"instance_id": 1, "seq": 0, "events": [{}]}}"#, vec!["{}"; 500_000].join(","));
    let (answer, during) = held(&fleet, "POST", "/quota/events", &body);
    let faults = answer.json()["detail"].as_array().unwrap().clone();
    assert_eq!((answer.status, faults.len()), (422, 1000));
    assert_eq!(
        faults[0],
        fault("string_type", json!(["body", "instance_id"]), "Input should be a valid string", json!(1))
    );
    assert_eq!(
        faults[2],
        fault("missing", json!(["body", "events", 0, "type"]), "Field required", json!({}))
    );
    assert!(during >= 5, "answers while faults were counted: {during}");
}

#[test]
fn batches_of_several_servers_do_not_mix() {
    let fleet = Fleet::start(quiet());
    let events = |kind: &str| {
        let event = |number: usize| crate::coordinator::event(kind, number as u64, "a", 3);
        json!({"instance_id": kind, "seq": 1, "events": (0..20_000).map(event).collect::<Vec<Value>>()})
    };
    let (stores, deletes) = (events("store").to_string(), events("delete").to_string());
    for _ in 0..3 {
        thread::scope(|scope| {
            for body in [&stores, &deletes, &stores, &deletes] {
                let fleet = &fleet;
                scope.spawn(move || {
                    let answer = fleet.call("POST", "/quota/events", body.as_bytes());
                    assert_eq!(said(&answer), (200, json!({"recorded": 20_000})));
                });
            }
        });
        // whichever came last was whole
        assert!(matches!(fleet.usage("a"), 0 | 60_000), "{}", fleet.usage("a"));
    }
}

#[test]
fn a_million_tokens_are_forwarded_judged_and_pinned() {
    let fleet = Fleet::start(quiet());
    let tokens: Vec<u32> = (0..1_000_000).collect();
    let body = |last: &str| {
        let tokens = json!(tokens).to_string();
        format!(
            r#"{{"instance_id": "x", "model_name": "m", "world_size": 1, "token_ids": {}{last}]}}"#,
            &tokens[..tokens.len() - 1]
        )
    };
    let unknown = crate::wire::error(404, "no MP server registered with instance_id='x'");
    for last in ["", ", 7", ", \"7\""] {
        assert_eq!(said(&held(&fleet, "POST", "/cache/prefetches", &body(last)).0), unknown);
    }
    let (answer, during) = held(&fleet, "POST", "/cache/pins", &body(""));
    assert_eq!(said(&answer), (200, json!({"requested": 250_000, "affected": 250_000, "status": "pinned"})));
    assert!(during >= 5, "answers while tokens were hashed: {during}");
    let place = json!(["body", "token_ids", 1_000_000]);
    let wanted = json!([fault("int_type", place, "Input should be a valid integer", json!(null))]);
    assert_eq!(said(&held(&fleet, "POST", "/cache/pins", &body(", null")).0), refused(wanted));
}

/// Long bodies of every request are read while others are answered, also where they are refused.
#[test]
fn long_bodies_of_any_request() {
    let fleet = Fleet::start(quiet());
    let tokens = json!((0..1_000_000).collect::<Vec<u32>>()).to_string();
    let named = format!(
        r#"{{"instance_id": "x", "model_name": "m", "world_size": 1, "token_ids": {tokens}, "x": 1}}"#
    );
    let range = format!(r#"{{"model_scope": "m", "tokens": {tokens}, "object_keys": [], "old_st_base": 0}}"#);
    let long = |name: &str| format!(r#"{{"{name}": "{}"}}"#, "x".repeat(8_000_000));
    let unknown = crate::wire::error(404, "no MP server registered with instance_id='x'");
    let pinned = json!({"requested": 250_000, "affected": 250_000, "status": "pinned"});
    for (method, path, body, wanted) in [
        ("POST", "/cache/prefetches", named.clone(), Some(unknown.clone())),
        ("POST", "/cache/delete", named.clone(), Some(unknown)),
        ("POST", "/cache/pins", named, Some((200, pinned))),
        (
            "POST",
            "/blend/fingerprints",
            format!(r#"{{"ranges": [{range}]}}"#),
            Some((200, json!({"inserted": 0}))),
        ),
        (
            "DELETE",
            "/blend/fingerprints",
            format!(r#"{{"object_keys": [{}]}}"#, vec!["\"k\""; 500_000].join(",")),
            Some((200, json!({"removed": 0}))),
        ),
        ("POST", "/blend/match", long("tokens_b64"), None),
        ("PUT", "/quota/a", long("limit_gb"), None),
        ("PUT", "/quota/config", long("default_limit_gb"), None),
        ("POST", "/instances", long("ip"), None),
    ] {
        let (answer, during) = held(&fleet, method, path, &body);
        let (status, answer) = said(&answer);
        match wanted {
            Some(wanted) => {
                assert_eq!((status, answer), wanted, "{method} {path}");
                assert!(during >= 2, "answers while {path} was read: {during}");
            }
            None => assert_eq!((status, answer["detail"].is_array()), (422, true), "{method} {path}"),
        }
    }
}
