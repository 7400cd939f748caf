//! Set-up: a daemon and engines whose blocks differ in salt, adapter, tenant or extra keys, over the same tokens.
//! Claim: a query meets exactly the blocks of its own context; a lone `cache_salt` reads both ways, and where
//! both readings exist each instance is answered by its longer one.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Pool, Source, settle, with};
use kvatlas::wire::engine::{EngineEvent, ExtraKey, Stored};
use serde_json::{Value, json};

const TOKENS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const IMAGE: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn registered(daemon: &Daemon, engine: &Engine, instance: &str, more: Value) {
    daemon.register(&with(engine.registration(instance), more));
    engine.joined();
}

/// Stores the first `blocks` blocks of the tokens, each event like `like` says.
fn store(engine: &Engine, blocks: usize, like: impl for<'a> Fn(Stored<'a>) -> Stored<'a>) {
    let hashes = engine.hashes(&TOKENS);
    engine.events(&[EngineEvent::Stored(like(engine.stored(&hashes, &TOKENS, 0..blocks, "GPU")))]);
}

fn longest(daemon: &Daemon, instance: &str, more: Value) -> u64 {
    let question = with(json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS }), more);
    let tenant = question["tenant_id"].as_str().unwrap_or("default").to_owned();
    daemon.ask(&question)[tenant][instance]["longest_matched"].as_u64().unwrap_or(0)
}

#[test]
fn a_salt_of_the_deployment() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    registered(&daemon, &engine, "a", json!({ "additional_salt": "w8a8" }));
    engine.store(&TOKENS, 0..4, "GPU");
    settle(&[&daemon], &[&engine]);
    for (more, tokens) in [
        (json!({ "cache_salt": "w8a8" }), 8),
        (json!({ "additional_salt": "w8a8" }), 8),
        (json!({ "additionalsalt": "w8a8", "cache_salt": "" }), 8),
        (json!({}), 0),
        (json!({ "cache_salt": "" }), 0),
        (json!({ "cache_salt": "w4a4" }), 0),
        (json!({ "cache_salt": "w8a8", "additional_salt": "w8a8" }), 0),
    ] {
        assert_eq!(longest(&daemon, "a", more.clone()), tokens, "{more}");
    }
}

#[test]
fn a_salt_of_the_request() {
    let daemon = Daemon::start(1);
    // SGLang names it in a field, or in a map in the eighth place; vLLM in the extra keys of the first block
    let engines = [
        Engine::of_family("sglang-0.5.23", 1, 2, 0),
        Engine::of_family("sglang-0.5.18", 2, 2, 1),
        Engine::new(3, 2, 2),
    ];
    for (at, engine) in engines.iter().enumerate() {
        registered(&daemon, engine, &at.to_string(), json!({ "additional_salt": "w" }));
        if at < 2 {
            store(engine, 4, |stored| Stored { cache_salt: Some("customer"), ..stored });
        } else {
            let mut keys = vec![None; 4];
            keys[0] = Some(vec![ExtraKey::Text("customer".into())]);
            let hashes = engine.hashes(&TOKENS);
            let stored = engine.stored(&hashes, &TOKENS, 0..4, "GPU");
            engine.events(&[EngineEvent::Stored(Stored { extra_keys: Some(&keys), ..stored })]);
        }
    }
    settle(&[&daemon], &[&engines[0], &engines[1], &engines[2]]);
    for instance in ["0", "1", "2"] {
        for (more, tokens) in [
            (json!({ "cache_salt": "customer", "additional_salt": "w" }), 8),
            (json!({ "cache_salt": "w", "additional_salt": "customer" }), 0),
            (json!({ "cache_salt": "customer" }), 0),
            (json!({ "cache_salt": "w" }), 0),
            (json!({}), 0),
        ] {
            assert_eq!(longest(&daemon, instance, more.clone()), tokens, "{instance} {more}");
        }
    }
}

#[test]
fn the_longer_reading_answers_for_each_instance() {
    let daemon = Daemon::start(1);
    let engines: Vec<Engine> =
        (0..4).map(|secret| Engine::of_family("sglang-0.5.23", secret, 2, secret as u32 % 2)).collect();
    // of the deployment: 3 blocks of a, 1 of b; of the request: 1 of a, 4 of b
    for (engine, instance, blocks) in [(&engines[0], "a", 3), (&engines[2], "b", 1)] {
        registered(&daemon, engine, instance, json!({ "additional_salt": "s" }));
        engine.store(&TOKENS, 0..blocks, "GPU");
    }
    for (engine, instance, blocks) in [(&engines[1], "a", 1), (&engines[3], "b", 4)] {
        registered(&daemon, engine, instance, json!({}));
        store(engine, blocks, |stored| Stored { cache_salt: Some("s"), ..stored });
    }
    settle(&[&daemon], &engines.iter().map(|engine| engine as &dyn Source).collect::<Vec<_>>());
    let answer = daemon
        .ask(&json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS, "cache_salt": "s" }))["default"]
        .take();
    let expected = json!({
        "a": { "longest_matched": 6, "GPU": 6, "DP": { "0": 6, "1": 0 }, "CPU": 0, "DISK": 0 },
        "b": { "longest_matched": 8, "GPU": 8, "DP": { "0": 0, "1": 8 }, "CPU": 0, "DISK": 0 },
    });
    assert_eq!(answer, expected);
    assert_eq!(longest(&daemon, "a", json!({ "additional_salt": "s" })), 6);
    assert_eq!(longest(&daemon, "b", json!({ "additional_salt": "s" })), 2);
}

#[test]
fn adapters_by_name_and_by_number() {
    let daemon = Daemon::start(1);
    let (named, numbered) = (Engine::new(1, 2, 0), Engine::of_family("vllm-2025-09-09", 2, 2, 1));
    registered(&daemon, &named, "named", json!({}));
    registered(&daemon, &numbered, "numbered", json!({}));
    store(&named, 4, |stored| Stored { lora_name: Some("sql"), lora_id: Some(1), ..stored });
    store(&numbered, 4, |stored| Stored { lora_id: Some(1), ..stored });
    settle(&[&daemon], &[&named, &numbered]);
    for (more, first, second) in [
        (json!({ "lora_name": "sql" }), 8, 0),
        (json!({ "lora_id": 1 }), 0, 8),
        (json!({ "lora_id": 2 }), 0, 0),
        (json!({}), 0, 0),
    ] {
        let found = (longest(&daemon, "named", more.clone()), longest(&daemon, "numbered", more.clone()));
        assert_eq!(found, (first, second), "{more}");
    }
}

#[test]
fn a_child_is_where_its_parent_is() {
    let daemon = Daemon::start(1);
    let engine = Engine::of_family("sglang-0.5.23", 1, 2, 0);
    registered(&daemon, &engine, "a", json!({}));
    store(&engine, 1, |stored| Stored { cache_salt: Some("s"), lora_name: Some("sql"), ..stored });
    // what follows says neither
    engine.store(&TOKENS, 1..4, "GPU");
    settle(&[&daemon], &[&engine]);
    assert_eq!(longest(&daemon, "a", json!({ "cache_salt": "s", "lora_name": "sql" })), 8);
    assert_eq!(longest(&daemon, "a", json!({ "lora_name": "sql" })), 0);
    assert_eq!(longest(&daemon, "a", json!({})), 0);
}

/// Names that ignore the adapter stand in several contexts.
#[test]
fn a_child_is_with_that_parent_whose_adapter_it_names() {
    let daemon = Daemon::start(1);
    let engines = [Engine::new(1, 2, 0), Engine::new(2, 2, 1)];
    for (at, engine) in engines.iter().enumerate() {
        registered(&daemon, engine, &at.to_string(), json!({}));
        let (base, adapter) = (None, Some("sql"));
        // the second engine stores both in the other order
        for lora_name in if at == 0 { [base, adapter] } else { [adapter, base] } {
            store(engine, 2, |stored| Stored { lora_name, ..stored });
        }
        let hashes = engine.hashes(&TOKENS);
        for (lora_name, blocks) in [(base, 2..3), (adapter, 2..4)] {
            let stored = engine.stored(&hashes, &TOKENS, blocks, "GPU");
            engine.events(&[EngineEvent::Stored(Stored { lora_name, ..stored })]);
        }
    }
    settle(&[&daemon], &[&engines[0], &engines[1]]);
    for instance in ["0", "1"] {
        assert_eq!(longest(&daemon, instance, json!({})), 6, "{instance}");
        assert_eq!(longest(&daemon, instance, json!({ "lora_name": "sql" })), 8, "{instance}");
    }
}

#[test]
fn extra_keys_must_be_the_same() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    registered(&daemon, &engine, "a", json!({}));
    let image = |offset| Some(vec![ExtraKey::At(IMAGE.into(), offset)]);
    let keys = [None, image(0), image(-2), None];
    let hashes = engine.hashes(&TOKENS);
    let stored = engine.stored(&hashes, &TOKENS, 0..4, "GPU");
    engine.events(&[EngineEvent::Stored(Stored { extra_keys: Some(&keys), ..stored })]);
    settle(&[&daemon], &[&engine]);
    let image = |offset: i64| json!([[IMAGE, offset]]);
    for (keys, tokens) in [
        (json!([null, image(0), image(-2), null]), 8),
        (json!([[], image(0), image(-2), []]), 8),
        (json!([null, image(0), image(-1), null]), 4),
        (json!([null, image(1), image(-2), null]), 2),
        (json!([image(0), image(0), image(-2), null]), 0),
        (json!([null, null, null, null]), 2),
    ] {
        assert_eq!(longest(&daemon, "a", json!({ "extra_keys": keys })), tokens, "{keys}");
    }
    // a plain question never meets an image
    assert_eq!(longest(&daemon, "a", json!({})), 2);
}

/// A salt among the extra keys of a question is what it is among those of an event.
#[test]
fn extra_keys_may_carry_the_salt() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    registered(&daemon, &engine, "a", json!({}));
    let keys = [Some(vec![ExtraKey::Text("customer".into())]), None, None, None];
    let hashes = engine.hashes(&TOKENS);
    let stored = engine.stored(&hashes, &TOKENS, 0..4, "GPU");
    engine.events(&[EngineEvent::Stored(Stored { extra_keys: Some(&keys), ..stored })]);
    let plain: Vec<u32> = TOKENS.iter().map(|token| token + 100).collect();
    engine.store(&plain, 0..4, "GPU");
    settle(&[&daemon], &[&engine]);
    let salted = json!([["customer"], null, null, null]);
    assert_eq!(longest(&daemon, "a", json!({ "extra_keys": salted })), 8);
    assert_eq!(longest(&daemon, "a", json!({ "extra_keys": salted, "cache_salt": "customer" })), 8);
    assert_eq!(longest(&daemon, "a", json!({ "cache_salt": "customer" })), 8);
    assert_eq!(longest(&daemon, "a", json!({ "extra_keys": salted, "token_ids": plain })), 0, "not salted");
    assert_eq!(longest(&daemon, "a", json!({})), 0);
}

#[test]
fn tenants_of_a_pools_events() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let mut pool = Pool::new("pool-0", 2);
        daemon.register(&pool.registration("a"));
        pool.joined();
        pool.store(&TOKENS, 0..2, "cpu", "blue");
        pool.store(&TOKENS, 0..3, "cpu", "");
        settle(&[&daemon], &[&pool]);
        assert_eq!(longest(&daemon, "a", json!({})), 6);
        assert_eq!(longest(&daemon, "a", json!({ "tenant_id": "blue" })), 4);
        assert_eq!(longest(&daemon, "a", json!({ "tenant_id": "blue", "instance_id": "a" })), 4);
        // the pool has one name for both copies, and holds both until it removed both
        pool.remove(&TOKENS, 0..2, "cpu", "blue");
        pool.remove(&TOKENS, 0..2, "cpu", "");
        settle(&[&daemon], &[&pool]);
        assert_eq!(longest(&daemon, "a", json!({})), 0);
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS, "tenant_id": "blue" });
        assert_eq!(daemon.ask(&question), json!({}), "it holds nothing there any more");
    }
}

/// A tenant whose only registration ends is still answered for by others that hold blocks under it.
#[test]
fn a_tenant_outlives_its_registrations() {
    let daemon = Daemon::start(1);
    let (mut pool, engine) = (Pool::new("pool-0", 2), Engine::new(1, 2, 0));
    let mut other = engine.registration("b");
    other["tenant_id"] = json!("blue");
    daemon.register(&other);
    engine.joined();
    settle(&[&daemon], &[&engine]);
    daemon.register(&pool.registration("a"));
    pool.joined();
    pool.store(&TOKENS, 0..2, "cpu", "blue");
    settle(&[&daemon], &[&pool]);
    assert_eq!(longest(&daemon, "a", json!({ "tenant_id": "blue" })), 4);
    let gone = daemon.post("/unregister", &json!({ "instance_id": "b", "tenant_id": "blue" }));
    assert_eq!(gone.status, 200);
    assert_eq!(longest(&daemon, "a", json!({ "tenant_id": "blue" })), 4);
}
