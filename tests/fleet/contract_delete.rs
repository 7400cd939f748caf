//! Set-up: a running coordinator and an MP server that stores what prompts made.
//! Claim: `POST /cache/delete` deletes on the named server what the tokens name, but nothing pinned unless forced,
//! and says how much that was.

use crate::coordinator::{Fleet, quiet};
use crate::mp_server::{Manner, MpServer};
use crate::wire::{error, said};
use kvatlas::fleet::settings::Settings;
use serde_json::{Value, json};

fn ask(tokens: &Value) -> Value {
    json!({"instance_id": "s", "model_name": "m", "world_size": 1, "token_ids": tokens, "cache_salt": "a"})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn outcome(requested: u64, affected: u64, skipped: u64, status: &str) -> (u16, Value) {
    let counts = json!({"instance_id": "s", "requested": requested, "affected": affected, "skipped": skipped, "status": status});
    (200, counts)
}

#[test]
fn keys_are_sent_as_the_server_wants_them() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    let delete = |body: &Value| said(&fleet.post("/cache/delete", body));
    let tokens = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(delete(&ask(&tokens)), outcome(2, 2, 0, "deleted"));
    let seen = server.take_seen();
    assert_eq!(
        (seen.len(), seen[0].method.as_str(), seen[0].target.as_str()),
        (1, "DELETE", "/cache/objects")
    );
    let sent = seen[0].json();
    assert_eq!(
        (&sent["tier"], &sent["force"], sent.as_object().unwrap().len()),
        (&json!("all"), &json!(false), 3)
    );
    assert_eq!(
        sent["keys"][0],
        json!({"chunk_hash_hex": "6309ed506b8721905753f5c73c070bb21c3aafbd9b474b1e231f41368b71123c",
            "model_name": "m", "kv_rank": 16_777_472, "object_group_id": 0, "cache_salt": "a"})
    );
    assert_eq!(
        delete(&with(with(ask(&tokens), "tier", json!("l1")), "force", json!("yes"))),
        outcome(2, 2, 0, "deleted")
    );
    let sent = server.take_seen()[0].json();
    assert_eq!((&sent["tier"], &sent["force"]), (&json!("l1"), &json!(true)));
    assert_eq!(delete(&ask(&json!([1, 2, 3]))), outcome(0, 0, 0, "noop"));
    assert!(server.take_seen().is_empty());
}

#[test]
fn what_is_pinned_is_held_back_unless_forced() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    let delete = |body: &Value| said(&fleet.post("/cache/delete", body));
    let pin = json!({"model_name": "m", "world_size": 1, "token_ids": [1, 2, 3, 4], "cache_salt": "a"});
    for _ in 0..2 {
        assert_eq!(fleet.post("/cache/pins", &pin).status, 200);
    }
    let tokens = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(delete(&ask(&tokens)), outcome(2, 1, 1, "deleted"));
    assert_eq!(server.take_seen()[0].json()["keys"].as_array().unwrap().len(), 1);
    // nothing is left to send
    assert_eq!(delete(&ask(&json!([1, 2, 3, 4]))), outcome(1, 0, 1, "deleted"));
    assert!(server.take_seen().is_empty());
    // pins are of storage, not of a server's memory
    assert_eq!(delete(&with(ask(&tokens), "tier", json!("l1"))), outcome(2, 2, 0, "deleted"));
    assert_eq!(fleet.get("/cache/pins").json()["pins"][0]["pin_count"], 2);
    assert_eq!(delete(&with(ask(&tokens), "force", json!(true))), outcome(2, 2, 0, "deleted"));
    assert_eq!(said(&fleet.get("/cache/pins")), (200, json!({"total": 0, "pins": []})));
}

#[test]
fn many_keys_go_in_batches() {
    let fleet = Fleet::start(Settings { chunk_size: 1, ..quiet() });
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    let tokens: Vec<u32> = (0..25_001).collect();
    assert_eq!(
        said(&fleet.post("/cache/delete", &ask(&json!(tokens)))),
        outcome(25_001, 25_001, 0, "deleted")
    );
    let sizes: Vec<usize> =
        server.take_seen().iter().map(|seen| seen.json()["keys"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [10_000, 10_000, 5001]);
}

#[test]
fn refusals() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    let delete = |body: &Value| said(&fleet.post("/cache/delete", body));
    let tokens = json!([1, 2, 3, 4]);
    let unknown = error(404, "no MP server registered with instance_id='s'");
    assert_eq!(
        delete(&with(ask(&tokens), "cache_salt", json!("a@b"))),
        unknown,
        "the server comes before the salt"
    );
    assert_eq!(delete(&with(ask(&tokens), "tier", json!("l3"))).0, 422);
    assert_eq!(delete(&with(ask(&tokens), "force", json!(2))).0, 422);
    server.join(fleet.address(), "s");
    let salt = "cache_salt must not contain frozenset({'@'}) (got 'a@b')";
    assert_eq!(delete(&with(ask(&tokens), "cache_salt", json!("a@b"))), error(400, salt));
    let world = "world_size is too large (limit=65536, got=65537)";
    assert_eq!(delete(&with(ask(&tokens), "world_size", json!(65_537))), error(400, world));
    for manner in [
        Manner::Status(503),
        Manner::NotOk,
        Manner::Hangup,
        Manner::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]".to_vec()),
        Manner::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"deleted\":\"x\"}".to_vec()),
        Manner::Redirect("http://127.0.0.1:1/".into()),
    ] {
        let told = format!("{manner:?}");
        server.behave(manner);
        let (status, answer) = delete(&ask(&tokens));
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 502 && detail.starts_with("cache delete on 's' failed: "),
            "{told}: {status} {answer}"
        );
    }
}
