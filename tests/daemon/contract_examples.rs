//! Set-up: a daemon, and the example bodies of the contract and of clients in the field (only the address of the
//! publisher is one of this machine).
//! Claim: they are accepted and answered in the contract's shape, whatever else stands in them; what the contract
//! does not allow is refused with the status and the sentence that the semantics name.

use std::collections::BTreeSet;

use crate::fleet::{self, Ask, Daemon, Engine, MODEL, Source, eventually, exchange, settle};
use kvatlas::http;
use kvatlas::wire::engine::{EngineEvent, Stored};
use serde_json::{Value, json};

const REGISTER: &str = r#"{
  "endpoint": "tcp://1.1.1.1:5557",
  "replay_endpoint": "tcp://1.1.1.1:5558",
  "type": "vLLM",
  "modelname": "deepseek",
  "lora_name": "sql-adapter",
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 128,
  "dp_rank": 0,
  "additionalsalt": "w8a8"
}"#;

const UNREGISTER: &str = r#"{
  "type": "vLLM",
  "modelname": "deepseek",
  "lora_name": "sql-adapter",
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 128,
  "dp_rank": 0
}"#;

const QUERY: &str = r#"{
  "model": "deepseek",
  "lora_name": "sql-adapter",
  "token_ids": [101, 15, 100, 55, 89],
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 64,
  "cache_salt": "w8a8"
}"#;

const QUERY_BY_HASH: &str = r#"{
  "model": "deepseek",
  "lora_name": "sql-adapter",
  "seq_hashes": [1234567890, 9876543210],
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 64,
  "cache_salt": "w8a8"
}"#;

/// The contract's registration, of a publisher on this machine.
fn registration(endpoint: &str) -> String {
    let body = REGISTER.replace("tcp://1.1.1.1:5557", endpoint).replace("1.1.1.1", "127.0.0.1");
    assert!(!body.contains("1.1.1.1"));
    body
}

fn post(daemon: &Daemon, path: &str, body: &str) -> fleet::Response {
    let answer = daemon.call("POST", path, body.as_bytes());
    assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
    answer
}

/// An instance's entry has exactly the contract's keys and types.
fn check_shape(entry: &Value) {
    let object = entry.as_object().unwrap();
    let keys: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["longest_matched", "GPU", "DP", "CPU", "DISK"]));
    for (key, value) in object {
        match value {
            Value::Object(ranks) if key == "DP" => {
                assert!(ranks.iter().all(|(rank, tokens)| rank.parse::<u32>().is_ok() && tokens.is_u64()));
            }
            number => assert!(number.is_u64(), "{key}: {number}"),
        }
    }
}

#[test]
fn the_contracts_bodies_are_answered_in_its_shape() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(5, 128, 0);
    let answer = post(&daemon, "/register", &registration(engine.endpoint()));
    assert_eq!(answer.status, 200);
    let registered = json!({ "status": "registered successfully", "instance_id": "vllm-prefill-node1" });
    assert_eq!(answer.json(), registered);
    for body in [QUERY, QUERY_BY_HASH] {
        let path = if body == QUERY { "/query" } else { "/query_by_hash" };
        let answer = post(&daemon, path, body);
        assert_eq!(answer.status, 200, "{path}");
        let zeros = json!({ "longest_matched": 0, "GPU": 0, "DP": { "0": 0 }, "CPU": 0, "DISK": 0 });
        assert_eq!(answer.json(), json!({ "default": { "vllm-prefill-node1": zeros } }));
    }
    let answer = post(&daemon, "/unregister", UNREGISTER);
    assert_eq!(answer.status, 200);
    let gone = json!({
        "status": "unregistered successfully", "removed_instances": ["vllm-prefill-node1|default|0"]
    });
    assert_eq!(answer.json(), gone);
    let answer = post(&daemon, "/unregister", UNREGISTER);
    assert_eq!(
        (answer.status, answer.error()),
        (404, "service not found: vllm-prefill-node1|default|0".into())
    );
}

/// The registered adapter and salt are those of an engine that names neither; both must be asked for.
#[test]
fn the_contracts_registration_makes_blocks_findable() {
    let daemon = Daemon::start(2);
    let engine = Engine::new(5, 128, 0);
    assert_eq!(post(&daemon, "/register", &registration(engine.endpoint())).status, 200);
    engine.joined();
    let tokens: Vec<u32> = (0..256).collect();
    engine.store(&tokens, 0..2, "GPU");
    let mut question: Value = serde_json::from_str(QUERY).unwrap();
    question["block_size"] = json!(128);
    question["token_ids"] = json!(tokens);
    let found = || daemon.ask(&question)["default"]["vllm-prefill-node1"].take();
    // nobody answers at the replay endpoint, so what came meanwhile waits a moment
    eventually("a hit", || found()["longest_matched"] == 256);
    let entry = &found();
    check_shape(entry);
    let full = json!({ "longest_matched": 256, "GPU": 256, "DP": { "0": 256 }, "CPU": 0, "DISK": 0 });
    assert_eq!(*entry, full);
    for (key, value) in [("lora_name", json!("")), ("cache_salt", json!("w4a4")), ("model", json!("qwen"))] {
        let mut other = question.clone();
        other[key] = value;
        let answer = daemon.ask(&other);
        assert_eq!(answer["default"]["vllm-prefill-node1"]["longest_matched"], 0, "{key}");
    }
}

/// MindIE Motor registers without a replay endpoint, asks without a tenant, and reads two members.
#[test]
fn mindie_motor_is_served() {
    let daemon = Daemon::start(2);
    let engines = [Engine::new(1, 4, 0), Engine::new(2, 4, 1)];
    for engine in &engines {
        daemon.register(&json!({
            "endpoint": engine.endpoint(), "type": "vLLM", "modelname": MODEL, "block_size": 4,
            "instance_id": "vllm-prefill-7", "dp_rank": engine.rank,
            "store_backend": "memcache", "medium_endpoints": { "xpu": "tcp://*:1", "cpu": null, "disk": [] },
        }));
        engine.joined();
        engine.store(&[1, 2, 3, 4, 5, 6, 7, 8], 0..2 - engine.rank as usize, "GPU");
    }
    settle(&[&daemon], &[&engines[0], &engines[1]]);
    let answer = daemon.ask(&json!({
        "model": MODEL, "block_size": 4, "token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9], "hit_detail": true,
    }));
    let entry = &answer["default"]["vllm-prefill-7"];
    check_shape(entry);
    assert_eq!((&entry["longest_matched"], &entry["DP"]), (&json!(8), &json!({ "0": 8, "1": 4 })));
    // it polls /services to find out what a restarted conductor lost
    let services = daemon.get("/services").json();
    let ranks: Vec<&Value> = services["services"].as_array().unwrap().iter().map(|s| &s["DPRank"]).collect();
    assert_eq!(ranks, [0, 1]);
    let gone = daemon.post(
        "/unregister",
        &json!({ "type": "vLLM", "modelname": MODEL, "block_size": 4, "instance_id": "vllm-prefill-7", "dp_rank": 1 }),
    );
    assert_eq!(gone.json()["removed_instances"], json!(["vllm-prefill-7|default|1"]));
}

/// Proxies of the first generation send three members; those of the second give a content type of their own.
#[test]
fn proxies_are_served() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    daemon.register(&engine.registration("p"));
    engine.joined();
    engine.store(&[5, 6], 0..1, "GPU");
    settle(&[&daemon], &[&engine]);
    let body = format!(r#"{{"token_ids": [5, 6, 7], "model": "{MODEL}", "block_size": 2}}"#);
    let length = body.len();
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
        let head = format!(
            "POST /query HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        let answer = exchange(daemon.address(), format!("{head}{body}").as_bytes());
        assert_eq!(answer.json()["default"]["p"]["longest_matched"], 2, "{kind}");
    }
}

#[test]
fn a_missing_field_is_named() {
    let daemon = Daemon::start(1);
    let bodies: [(&str, &str, &[&str]); 4] = [
        ("/register", REGISTER, &["endpoint", "type", "modelname", "instance_id", "block_size", "dp_rank"]),
        ("/unregister", UNREGISTER, &["instance_id"]),
        ("/query", QUERY, &["model", "token_ids", "block_size"]),
        ("/query_by_hash", QUERY_BY_HASH, &["model", "seq_hashes", "block_size"]),
    ];
    for (path, body, required) in bodies {
        let body: Value = serde_json::from_str(&body.replace("1.1.1.1", "127.0.0.1")).unwrap();
        for field in required {
            for absent in [None, Some(Value::Null)] {
                let mut body = body.clone();
                match absent {
                    None => drop(body.as_object_mut().unwrap().remove(*field)),
                    Some(null) => body[field] = null,
                }
                let answer = daemon.post(path, &body);
                assert_eq!(answer.status, 400, "{path} without {field}");
                assert!(answer.error().starts_with(field), "{path} without {field}: {}", answer.error());
            }
        }
    }
    assert_eq!(daemon.get("/services").json()["count"], 0, "nothing that was refused is registered");
}

#[test]
fn a_bad_field_is_named() {
    let daemon = Daemon::start(1);
    let query = |name: &str, value: Value| {
        let mut body = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2] });
        body[name] = value;
        body
    };
    for (name, value) in [
        ("block_size", json!(0)),
        ("block_size", json!(-1)),
        ("block_size", json!("2")),
        ("token_ids", json!([1, 4_294_967_296_u64])),
        ("token_ids", json!([1, -1])),
        ("token_ids", json!([1.5])),
        ("token_ids", json!("1 2")),
        ("model", json!(7)),
        ("instance_id", json!(["a"])),
        ("medium", json!(3)),
        ("medium", json!(["GPU", ""])),
        ("detail", json!("yes")),
        ("extra_keys", json!([null, null, null])),
        ("seq_hashes", json!([1])),
    ] {
        let answer = daemon.post("/query", &query(name, value.clone()));
        assert_eq!(answer.status, 400, "{name} = {value}");
        let error = answer.error();
        assert!(error.contains(name), "{name} = {value}: {error}");
    }
    let both = json!({ "model": MODEL, "block_size": 2, "token_ids": [], "lora_name": "a", "lora_id": 1 });
    let answer = daemon.post("/query", &both);
    assert_eq!(answer.status, 400);
    assert!(answer.error().contains("lora_name") && answer.error().contains("lora_id"), "{}", answer.error());
    for body in ["", "[]", "{", "null", "{\"model\": }", "\u{fffd}"] {
        for path in ["/query", "/query_by_hash", "/register", "/unregister"] {
            let answer = post(&daemon, path, body);
            assert_eq!(answer.status, 400, "{path} {body:?}");
            assert!(!answer.error().is_empty());
        }
    }
}

#[test]
fn endpoints_that_nobody_can_connect_to_are_refused() {
    let daemon = Daemon::start(1);
    let body: Value = serde_json::from_str(&REGISTER.replace("1.1.1.1", "127.0.0.1")).unwrap();
    for name in ["endpoint", "replay_endpoint"] {
        for bad in
            ["tcp://*:5557", "tcp://0.0.0.0:5557", "inproc://a", "http://a:1", "tcp://a", "127.0.0.1:1"]
        {
            let mut body = body.clone();
            body[name] = json!(bad);
            let answer = daemon.post("/register", &body);
            assert_eq!(answer.status, 400, "{name} {bad}");
            assert!(answer.error().starts_with(name), "{bad}: {}", answer.error());
        }
    }
    assert_eq!(daemon.get("/services").json()["count"], 0);
}

#[test]
fn registering_again_changes_nothing() {
    let daemon = Daemon::start(2);
    let engine = Engine::new(1, 2, 0);
    daemon.register(&engine.registration("a"));
    engine.joined();
    engine.store(&[1, 2, 3, 4], 0..2, "GPU");
    settle(&[&daemon], &[&engine]);
    let before = daemon.services(engine.endpoint());
    for _ in 0..3 {
        daemon.register(&engine.registration("a"));
    }
    let after = daemon.services(engine.endpoint());
    assert_eq!(after.len(), 1);
    assert_eq!(after[0]["stream"]["batches"], before[0]["stream"]["batches"]);
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4] });
    assert_eq!(daemon.ask(&question)["default"]["a"]["longest_matched"], 4);
}

#[test]
fn who_is_answered_for() {
    let daemon = Daemon::start(4);
    let engine = Engine::new(1, 2, 3);
    for instance in ["a", "b", "c"] {
        daemon.register(&engine.registration(instance));
    }
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2] });
    let zeros = |ranks: Value| json!({ "longest_matched": 0, "GPU": 0, "DP": ranks, "CPU": 0, "DISK": 0 });
    let known = zeros(json!({ "3": 0 }));
    let all = json!({ "default": { "a": known.clone(), "b": known.clone(), "c": known.clone() } });
    assert_eq!(daemon.ask(&question), all);
    let with = |name: &str, value: Value| {
        let mut question = question.clone();
        question[name] = value;
        question
    };
    // whatever is asked of it, everybody who is registered stands there
    for (name, value) in [
        ("model", json!("another")),
        ("block_size", json!(16)),
        ("lora_name", json!("x")),
        ("cache_salt", json!("x")),
        ("token_ids", json!([])),
    ] {
        assert_eq!(daemon.ask(&with(name, value)), all, "{name}");
    }
    assert_eq!(daemon.ask(&with("tenant_id", json!("nobody"))), json!({}));
    assert_eq!(daemon.ask(&with("instance_id", json!("b"))), json!({ "default": { "b": known } }));
    for stranger in ["z", "", "\"\\\n\u{1f5ff}"] {
        let answer = daemon.ask(&with("instance_id", json!(stranger)));
        assert_eq!(answer, json!({ "default": { stranger: zeros(json!({})) } }));
        let mut question = with("instance_id", json!(stranger));
        question["tenant_id"] = json!("nobody");
        assert_eq!(daemon.ask(&question), json!({ "nobody": { stranger: zeros(json!({})) } }));
    }
    // an instance of another tenant is as unknown under this one
    let mut question = with("instance_id", json!("a"));
    question["tenant_id"] = json!("nobody");
    assert_eq!(daemon.ask(&question), json!({ "nobody": { "a": zeros(json!({})) } }));
}

#[test]
fn refusals_of_the_protocol() {
    let limits = http::Limits { body_bytes: 4096, ..http::Limits::default() };
    let daemon = Daemon::with(1, limits);
    for path in ["/", "/query/", "/Query", "/v1/query"] {
        let answer = daemon.call("POST", path, b"{}");
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.error().is_empty());
    }
    for (path, method, allow) in [
        ("/query", "GET", "post"),
        ("/query_by_hash", "PUT", "post"),
        ("/register", "DELETE", "post"),
        ("/unregister", "GET", "post"),
        ("/services", "POST", "get, head"),
        ("/global_view", "POST", "get, head"),
        ("/metrics", "PATCH", "get, head"),
        ("/readyz", "POST", "get, head"),
    ] {
        let answer = daemon.call(method, path, b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
        assert!(!answer.error().is_empty());
    }
    let head = daemon.call("HEAD", "/query", b"");
    assert_eq!((head.status, head.header("allow")), (405, Some("post")));
    assert!(head.body.is_empty(), "an answer to HEAD has no body");
    assert_ne!(head.header("content-length"), Some("0"));
    let large = daemon.call("POST", "/query", &[b' '; 4097]);
    assert_eq!(large.status, 413);
    assert!(!large.error().is_empty());
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(http::Limits::default().head_bytes));
    assert_eq!(exchange(daemon.address(), long.as_bytes()).status, 431);
}

/// An engine that names the adapter itself says the same as a registration that does.
#[test]
fn an_adapter_is_no_base_model() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(3, 2, 0);
    daemon.register(&engine.registration("a"));
    engine.joined();
    let hashes = engine.hashes(&[1, 2]);
    let stored = engine.stored(&hashes, &[1, 2], 0..1, "GPU");
    engine.events(&[EngineEvent::Stored(Stored { lora_name: Some("sql"), lora_id: Some(4), ..stored })]);
    settle(&[&daemon], &[&engine]);
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2] });
    for (name, value, longest) in [
        ("lora_name", json!("sql"), 2),
        ("lora_name", json!(""), 0),
        ("lora_name", json!(null), 0),
        ("lora_name", json!("SQL"), 0),
        ("lora_id", json!(4), 0),
    ] {
        let mut question = question.clone();
        question[name] = value.clone();
        assert_eq!(daemon.ask(&question)["default"]["a"]["longest_matched"], longest, "{name} = {value}");
    }
}

#[test]
fn an_empty_type_is_no_type() {
    let daemon = Daemon::start(1);
    let response = daemon.post(
        "/register",
        &json!({"endpoint": "tcp://127.0.0.1:5557", "type": "", "modelname": "m", "instance_id": "i",
            "block_size": 16, "dp_rank": 0}),
    );
    assert_eq!(response.status, 400);
    assert!(response.error().starts_with("type"), "{}", response.error());
}
