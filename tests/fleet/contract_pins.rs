//! Set-up: a running coordinator that pins and unpins the keys of prompts.
//! Claim: chunks, keys and limits are counted as the contract says; checks come in its order; pins are counted by
//! exact key and can be listed.

use crate::coordinator::{Fleet, quiet, store};
use crate::wire::{Wire, error, fault, fault_in, refused, said};
use kvatlas::fleet::settings::Settings;
use serde_json::{Value, json};

fn prompt(tokens: &Value, world_size: u64, salt: &str) -> Value {
    json!({"model_name": "m", "world_size": world_size, "token_ids": tokens, "cache_salt": salt})
}

fn counted(requested: u64, affected: u64, status: &str) -> (u16, Value) {
    (200, json!({"requested": requested, "affected": affected, "status": status}))
}

fn unpin(fleet: &Fleet, body: &Value) -> (u16, Value) {
    said(&fleet.call("DELETE", "/cache/pins", body.to_string().as_bytes()))
}

#[test]
fn chunks_and_keys_are_counted() {
    let fleet = Fleet::start(quiet());
    let tokens = json!([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (tokens, world, requested, affected) in [
        (json!([]), 1, 0, 0),
        (json!([1, 2, 3]), 8, 0, 0),
        (tokens.clone(), 1, 2, 2),
        (tokens.clone(), 8, 2, 16),
        // a world of 257 has a rank that is another's too
        (tokens.clone(), 257, 2, 514),
        (tokens.clone(), 65_536, 2, 131_072),
    ] {
        let body = prompt(&tokens, world, "a");
        assert_eq!(said(&fleet.post("/cache/pins", &body)), counted(requested, affected, "pinned"));
        assert_eq!(unpin(&fleet, &body), counted(requested, affected, "unpinned"));
        // of nothing, too
        assert_eq!(unpin(&fleet, &body), counted(requested, affected, "unpinned"));
        assert_eq!(fleet.metric("keys_pinned") as u64, 0);
    }
    assert_eq!(
        said(&fleet.post("/cache/pins", &json!({"model_name": "m@", "world_size": 1}))),
        counted(0, 0, "pinned")
    );
}

#[test]
fn the_keys_are_those_of_the_vectors() {
    let fleet = Fleet::start(quiet());
    let key = |rank: u64| {
        let hash = "6309ed506b8721905753f5c73c070bb21c3aafbd9b474b1e231f41368b71123c";
        json!({"chunk_hash_hex": hash, "model_name": "m", "kv_rank": rank, "object_group_id": 0, "cache_salt": "a"})
    };
    let body = prompt(&json!([1, 2, 3, 4]), 2, "a");
    for count in 1..=3 {
        assert_eq!(said(&fleet.post("/cache/pins", &body)), counted(1, 2, "pinned"));
        let (status, page) = said(&fleet.get("/cache/pins"));
        let mut pins = page["pins"].as_array().unwrap().clone();
        pins.sort_by_key(|pin| pin["key"]["kv_rank"].as_u64());
        let wanted = json!([
            {"key": key(33_554_944), "pin_count": count}, {"key": key(33_620_481), "pin_count": count}
        ]);
        assert_eq!((status, json!(pins), &page["total"]), (200, wanted, &json!(2)));
    }
    for left in [2, 1] {
        unpin(&fleet, &body);
        assert_eq!(fleet.get("/cache/pins?limit=1").json()["pins"][0]["pin_count"], left);
    }
    unpin(&fleet, &body);
    assert_eq!(said(&fleet.get("/cache/pins")), (200, json!({"total": 0, "pins": []})));
}

#[test]
fn pins_of_one_tenant_or_model_page_by_page() {
    let fleet = Fleet::start(quiet());
    let tokens: Vec<u32> = (0..40).collect();
    for (model, salt) in [("m", "a"), ("m", ""), ("n", "a")] {
        let body = json!({"model_name": model, "world_size": 1, "token_ids": tokens, "cache_salt": salt});
        assert_eq!(said(&fleet.post("/cache/pins", &body)), counted(10, 10, "pinned"));
    }
    let total = |query: &str| {
        let (status, page) = said(&fleet.get(&format!("/cache/pins{query}")));
        (status, page["total"].as_u64().unwrap(), page["pins"].as_array().unwrap().len())
    };
    assert_eq!(total(""), (200, 30, 30));
    assert_eq!(total("?cache_salt=a"), (200, 20, 20));
    assert_eq!(total("?cache_salt=&x=1"), (200, 10, 10));
    assert_eq!(total("?cache_salt=a&model_name=n"), (200, 10, 10));
    assert_eq!(total("?cache_salt=b"), (200, 0, 0));
    assert_eq!(total("?offset=25"), (200, 30, 5));
    assert_eq!(total("?offset=30&limit=7"), (200, 30, 0));
    assert_eq!(total("?offset=18446744073709551615"), (200, 30, 0));
    let mut pages = Vec::new();
    for offset in (0..30).step_by(7) {
        let page = fleet.get(&format!("/cache/pins?offset={offset}&limit=7")).json();
        pages.extend(page["pins"].as_array().unwrap().clone());
    }
    assert_eq!(json!(pages), fleet.get("/cache/pins").json()["pins"]);
    let (status, answer) = said(&fleet.get("/cache/pins?offset=-1&limit=x"));
    assert_eq!(
        (status, answer),
        refused(json!([
            fault_in(
                "greater_than_equal",
                json!(["query", "offset"]),
                "Input should be greater than or equal to 0",
                json!("-1"),
                json!({"ge": 0})
            ),
            fault(
                "int_parsing",
                json!(["query", "limit"]),
                "Input should be a valid integer, unable to parse string as an integer",
                json!("x")
            ),
        ]))
    );
}

#[test]
fn checks_come_in_order() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for method in ["POST", "DELETE"] {
        let mut ask = |body: &Value| said(&wire.ask(method, "/cache/pins", &body.to_string()));
        let many = json!(vec![0; 1_000_001]);
        let long = "é".repeat(129);
        // the form first
        let (status, answer) = ask(&json!({"world_size": 0, "token_ids": many, "cache_salt": "a@b"}));
        assert_eq!((status, answer["detail"].as_array().unwrap().len()), (422, 2));
        // then how many
        let text = "too many token_ids in a single request (limit=1000000, got=1000001)";
        assert_eq!(ask(&prompt(&many, 1, "a@b")), error(400, text));
        // then the salt, also of nothing
        for tokens in [json!([]), json!([1, 2, 3, 4])] {
            for (salt, shown, quoted) in [
                ("a@b", "@", "'a@b'"),
                ("a/b", "/", "'a/b'"),
                ("a\\b", "\\\\", r"'a\\b'"),
                ("\0", "\\x00", r"'\x00'"),
            ] {
                let text = format!("cache_salt must not contain frozenset({{'{shown}'}}) (got {quoted})");
                assert_eq!(ask(&prompt(&tokens, 1, salt)), error(400, &text));
            }
            let text = "cache_salt exceeds max length 128 (got 129)";
            assert_eq!(ask(&prompt(&tokens, 1, &long)), error(400, text));
            assert_eq!(ask(&prompt(&tokens, 1, &long[2..])).0, 200);
        }
        // then the model, of something only
        let model = |tokens: Value| json!({"model_name": "m@x", "world_size": 1, "token_ids": tokens});
        assert_eq!(ask(&model(json!([1, 2, 3]))).0, 200);
        assert_eq!(
            ask(&model(json!([1, 2, 3, 4]))),
            error(400, "model_name must not contain '@' (got 'm@x')")
        );
        // then how many keys they are
        let text = "world_size is too large (limit=65536, got=1000000000)";
        assert_eq!(ask(&prompt(&json!([1, 2, 3, 4]), 1_000_000_000, "")), error(400, text));
        let tokens = json!(vec![7; 400]);
        let text = "too many keys in a single request: chunks x world_size (limit=4000000, got=6553600)";
        assert_eq!(ask(&prompt(&tokens, 65_536, "")), error(400, text));
    }
    let (status, answer) =
        said(&wire.ask("POST", "/cache/pins", &prompt(&json!([1, 2, 3, 4]), u64::MAX, "").to_string()));
    assert_eq!(
        (status, answer["detail"].as_str().map(|text| text.contains("world_size"))),
        (400, Some(true))
    );
    for world in ["18446744073709551616", "1180591620717411303424", "1e19"] {
        let body = format!(r#"{{"model_name": "m", "world_size": {world}, "token_ids": [1, 2, 3, 4]}}"#);
        let (status, answer) = said(&wire.ask("POST", "/cache/pins", &body));
        assert_eq!((status, &answer["detail"][0]["loc"]), (422, &json!(["body", "world_size"])), "{world}");
    }
    wire.goes_on();
}

#[test]
fn tokens_that_are_none_matter_within_a_chunk_only() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let mut ask = |tokens: &str| {
        let body = format!(r#"{{"model_name": "m", "world_size": 1, "token_ids": [{tokens}]}}"#);
        said(&wire.ask("POST", "/cache/pins", &body))
    };
    assert_eq!(ask("1, 2, 3, 4, -1, 4294967296"), counted(1, 1, "pinned"));
    assert_eq!(ask("\"1\", 2.0, true, \"0_4\", -9223372036854775808"), counted(1, 1, "pinned"));
    let least = |at: u64, input: Value| {
        let message = "Input should be greater than or equal to 0";
        fault_in("greater_than_equal", json!(["body", "token_ids", at]), message, input, json!({"ge": 0}))
    };
    let most = |at: u64, input: Value| {
        let message = "Input should be less than or equal to 4294967295";
        fault_in(
            "less_than_equal",
            json!(["body", "token_ids", at]),
            message,
            input,
            json!({"le": 4_294_967_295_u64}),
        )
    };
    assert_eq!(
        ask("-1, 4294967295, 4294967296, 0, 5, -6"),
        refused(json!([least(0, json!(-1)), most(2, json!(4_294_967_296_u64))]))
    );
    let (status, answer) = ask("1, null, NaN, \"x\", 1.5");
    let places: Vec<&Value> =
        answer["detail"].as_array().unwrap().iter().map(|fault| &fault["loc"][2]).collect();
    assert_eq!((status, json!(places)), (422, json!([1, 2, 3, 4])));
    assert_eq!(ask("1, 2, 3, 99999999999999999999").0, 422);
}

#[test]
fn pins_outlive_what_they_pin() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.02, ..quiet() });
    let body = prompt(&json!([1, 2, 3, 4]), 1, "a");
    assert_eq!(said(&fleet.post("/cache/pins", &body)), counted(1, 1, "pinned"));
    let key = fleet.get("/cache/pins").json()["pins"][0]["key"].clone();
    fleet.report(&json!([{"type": "store", "key": key, "bytes": 5}, store(1, "a", 7)]));
    fleet.report(&json!([{"type": "delete", "key": key, "bytes": 0}]));
    assert_eq!(fleet.get("/cache/pins").json()["total"], 1);
    fleet.report(&json!([{"type": "store", "key": key, "bytes": 5}]));
    assert_eq!(
        said(&fleet.get("/cache/pins")),
        (200, json!({"total": 1, "pins": [{"key": key, "pin_count": 1}]}))
    );
    assert_eq!(fleet.usage("a"), 12);
}

#[test]
fn a_million_tokens() {
    for chunk_size in [1, 4] {
        let fleet = Fleet::start(Settings { chunk_size, ..quiet() });
        let tokens: Vec<u32> = (0..1_000_000).collect();
        let body = prompt(&json!(tokens), 1, "a");
        let chunks = 1_000_000 / chunk_size;
        assert_eq!(said(&fleet.post("/cache/pins", &body)), counted(chunks, chunks, "pinned"));
        assert_eq!(fleet.metric("keys_pinned") as u64, chunks);
        assert_eq!(unpin(&fleet, &body), counted(chunks, chunks, "unpinned"));
        assert_eq!(fleet.metric("keys_pinned") as u64, 0);
    }
}
