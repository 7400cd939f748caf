//! Set-up: a server that stores chunks of tokens, and clients that have sequences deleted on it.
//! Claim: `POST /cache/delete` names exactly the keys of the sequence, in batches that servers take, without the
//! pinned ones unless forced; its answer sums those of the server.

use crate::coordinator::{Answer, Fleet, quiet};
use crate::mp_server::{Manner, MpServer};
use kvatlas::fleet::tokens;
use serde_json::{Value, json};

fn fleet_and_server() -> (Fleet, MpServer) {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    (fleet, server)
}

fn sequence(tokens: &[u32], more: &Value) -> Value {
    let mut body = json!({"instance_id": "a", "model_name": "m", "world_size": 1, "token_ids": tokens, "cache_salt": "s"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn delete(fleet: &Fleet, tokens: &[u32], more: &Value) -> Answer {
    fleet.post("/cache/delete", &sequence(tokens, more))
}

/// Keys as they are sent, four tokens a chunk.
fn keys(tokens: &[u32], world: u64) -> Vec<Value> {
    let keys = tokens::resolve(tokens, 4, "m", "s", world).unwrap();
    keys.map(|key| {
        json!({
            "chunk_hash_hex": key.hash.to_string(), "model_name": "m", "kv_rank": key.kv_rank as i64,
            "object_group_id": 0, "cache_salt": "s",
        })
    })
    .collect()
}

#[test]
fn the_keys_of_the_sequence_are_deleted_on_the_server() {
    let (fleet, server) = fleet_and_server();
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let answer = delete(&fleet, &tokens, &json!({"world_size": 2}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json(),
        json!({"instance_id": "a", "requested": 2, "affected": 4, "skipped": 0, "status": "deleted"})
    );
    let seen = server.seen();
    assert_eq!(
        (seen.len(), seen[0].method.as_str(), seen[0].target.as_str()),
        (1, "DELETE", "/cache/objects")
    );
    assert_eq!(seen[0].json(), json!({"keys": keys(&tokens, 2), "tier": "all", "force": false}));
    server.take_seen();
    delete(&fleet, &tokens, &json!({"tier": "l2", "force": true}));
    assert_eq!(server.seen()[0].json(), json!({"keys": keys(&tokens, 1), "tier": "l2", "force": true}));
}

#[test]
fn a_sequence_without_a_chunk_is_a_noop() {
    let (fleet, server) = fleet_and_server();
    let answer = delete(&fleet, &[1, 2, 3], &json!({}));
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"instance_id": "a", "requested": 0, "affected": 0, "skipped": 0, "status": "noop"}))
    );
    assert!(server.seen().is_empty());
}

#[test]
fn what_cannot_be_asked_is_refused_in_order() {
    let (fleet, server) = fleet_and_server();
    let tokens = [1, 2, 3, 4];
    let unknown = json!({"instance_id": "b"});
    let bad_salt = json!({"cache_salt": "a@b"});
    assert_eq!(delete(&fleet, &tokens, &json!({"instance_id": "b", "tier": "l3"})).status, 422);
    let answer = delete(&fleet, &tokens, &json!({"instance_id": "b", "cache_salt": "a@b"}));
    assert_eq!(answer.status, 404);
    assert_eq!(delete(&fleet, &tokens, &unknown).detail(), "no MP server registered with instance_id='b'");
    for (more, text) in [
        (bad_salt, "cache_salt must not contain"),
        (json!({"model_name": "a@b"}), "model_name"),
        (json!({"world_size": 65_537}), "65536"),
        (json!({"world_size": 65_536, "token_ids": vec![0; 400]}), "4000000"),
    ] {
        let answer = delete(&fleet, &tokens, &more);
        assert_eq!(answer.status, 400, "{more}: {}", answer.text());
        assert!(answer.text().replace(',', "").contains(text), "{}", answer.text());
    }
    assert!(server.seen().is_empty());
}

#[test]
fn many_keys_go_in_batches_and_their_answers_are_summed() {
    let (fleet, server) = fleet_and_server();
    let tokens: Vec<u32> = (0..4 * 12_500).collect();
    let pinned = &tokens[..40];
    let pin = json!({"model_name": "m", "world_size": 2, "token_ids": pinned, "cache_salt": "s"});
    assert_eq!(fleet.post("/cache/pins", &pin).json()["affected"], 20);
    let answer = delete(&fleet, &tokens, &json!({"world_size": 2}));
    assert_eq!(
        (answer.status, answer.json()),
        (
            200,
            json!({"instance_id": "a", "requested": 12_500, "affected": 24_980, "skipped": 20, "status": "deleted"})
        )
    );
    let batches: Vec<Vec<Value>> =
        server.seen().iter().map(|seen| seen.json()["keys"].as_array().unwrap().clone()).collect();
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10_000, 10_000, 4_980]);
    assert_eq!(batches.concat(), keys(&tokens, 2)[20..], "without the pinned ones, in order");
    server.take_seen();
    let answer = delete(&fleet, &tokens, &json!({"world_size": 2, "force": true}));
    assert_eq!((&answer.json()["affected"], &answer.json()["skipped"]), (&json!(25_000), &json!(0)));
    assert_eq!(fleet.get("/cache/pins").json()["total"], 0, "pins are dropped");
}

#[test]
fn pins_of_the_second_tier_do_not_protect_the_first() {
    let (fleet, server) = fleet_and_server();
    let tokens = [1, 2, 3, 4];
    let pin = json!({"model_name": "m", "world_size": 1, "token_ids": tokens, "cache_salt": "s"});
    fleet.post("/cache/pins", &pin);
    for tier in ["l2", "all"] {
        let answer = delete(&fleet, &tokens, &json!({"tier": tier})).json();
        assert_eq!((&answer["affected"], &answer["skipped"]), (&json!(0), &json!(1)));
    }
    assert!(server.seen().is_empty(), "nothing is left to ask for");
    let answer = delete(&fleet, &tokens, &json!({"tier": "l1"})).json();
    assert_eq!((&answer["affected"], &answer["skipped"]), (&json!(1), &json!(0)));
    delete(&fleet, &tokens, &json!({"tier": "l1", "force": true}));
    assert_eq!(fleet.get("/cache/pins").json()["total"], 1, "that is the business of the second tier");
}

#[test]
fn a_server_that_does_not_do_it_is_502_and_pins_stay() {
    let (fleet, server) = fleet_and_server();
    let tokens = [1, 2, 3, 4];
    let pin = json!({"model_name": "m", "world_size": 1, "token_ids": tokens, "cache_salt": "s"});
    fleet.post("/cache/pins", &pin);
    let raw = |body: &str| {
        Manner::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
    };
    for manner in [
        Manner::Status(500),
        Manner::Status(404),
        Manner::Redirect("/x".to_owned()),
        Manner::Hangup,
        Manner::NotOk,
        raw("hello"),
        raw("[]"),
        raw("{\"deleted\": -1}"),
        raw("{\"skipped\": \"no\"}"),
    ] {
        server.behave(manner.clone());
        let answer = delete(&fleet, &tokens, &json!({"force": true}));
        assert_eq!(answer.status, 502, "{manner:?}: {}", answer.text());
        assert!(answer.detail().as_str().unwrap().starts_with("cache delete on 'a' failed: "));
    }
    assert_eq!(fleet.get("/cache/pins").json()["total"], 1);
    server.behave(raw("{\"deleted\": 5, \"skipped\": 7}"));
    let answer = delete(&fleet, &tokens, &json!({"force": true})).json();
    assert_eq!((&answer["affected"], &answer["skipped"]), (&json!(5), &json!(7)), "as the server says");
}
