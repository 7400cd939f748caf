//! Set-up: a daemon, and publishers whose endpoints are registered more than once: a pool under two instances,
//! one engine's stream for two ranks, a registration again with other settings or at another endpoint.
//! Claim: every batch goes to exactly those whom it concerns, and what ends for one goes on for the others.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Pool, Source, join, settle};
use kvatlas::wire::engine::EngineEvent;
use serde_json::{Value, json};

const TOKENS: [u32; 4] = [1, 2, 3, 4];

fn ask(daemon: &Daemon, tokens: &[u32]) -> Value {
    daemon.ask(&json!({ "model": MODEL, "block_size": 2, "token_ids": tokens }))["default"].take()
}

fn unregister(daemon: &Daemon, body: &Value) -> Value {
    let answer = daemon.post("/unregister", body);
    assert_eq!(answer.status, 200, "{body}");
    answer.json()["removed_instances"].take()
}

fn store(engine: &Engine, rank: Option<u32>, tokens: &[u32]) {
    let hashes = engine.hashes(tokens);
    let stored = engine.stored(&hashes, tokens, 0..tokens.len() / 2, "GPU");
    engine.events_of(rank, &[EngineEvent::Stored(stored)]);
}

#[test]
fn a_pool_of_two_instances_feeds_both() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let mut pool = Pool::new("pool-0", 2);
        for instance in ["a", "b"] {
            daemon.register(&pool.registration(instance));
        }
        join(&[&daemon], &[&pool]);
        pool.store(&TOKENS, 0..2, "cpu", "");
        pool.store(&TOKENS, 0..1, "disk", "");
        settle(&[&daemon], &[&pool]);
        let held = json!({ "longest_matched": 4, "GPU": 0, "DP": {}, "CPU": 4, "DISK": 2 });
        assert_eq!(ask(&daemon, &TOKENS), json!({ "a": held.clone(), "b": held.clone() }));

        assert_eq!(unregister(&daemon, &json!({ "instance_id": "a" })), json!(["a|default|0"]));
        assert_eq!(ask(&daemon, &TOKENS), json!({ "b": held.clone() }));
        pool.remove(&TOKENS, 1..2, "cpu", "");
        settle(&[&daemon], &[&pool]);
        let held = json!({ "longest_matched": 2, "GPU": 0, "DP": {}, "CPU": 2, "DISK": 2 });
        assert_eq!(ask(&daemon, &TOKENS), json!({ "b": held }));
    }
}

#[test]
fn a_batch_goes_to_the_rank_it_names() {
    let daemon = Daemon::start(1);
    let relay = Engine::new(1, 2, 0);
    for (instance, rank) in [("a", 0), ("b", 1)] {
        let mut body = relay.registration(instance);
        body["dp_rank"] = json!(rank);
        daemon.register(&body);
    }
    relay.joined();
    store(&relay, Some(0), &[10, 10]);
    store(&relay, Some(1), &[11, 11]);
    store(&relay, Some(7), &[17, 17]);
    store(&relay, None, &[19, 19]);
    settle(&[&daemon], &[&relay]);
    let of = |tokens: &[u32]| {
        let answer = ask(&daemon, tokens);
        (answer["a"]["DP"].clone(), answer["b"]["DP"].clone())
    };
    assert_eq!(of(&[10, 10]), (json!({ "0": 2 }), json!({ "1": 0 })));
    assert_eq!(of(&[11, 11]), (json!({ "0": 0 }), json!({ "1": 2 })));
    // nobody is registered for rank 7, so all are meant, and the batch says the rank
    assert_eq!(of(&[17, 17]), (json!({ "0": 0, "7": 2 }), json!({ "1": 0, "7": 2 })));
    assert_eq!(of(&[19, 19]), (json!({ "0": 2 }), json!({ "1": 2 })), "no rank is the registered one");
}

#[test]
fn a_rank_counts_on_whatever_reactor_it_is_registered() {
    for reactors in [1, 2, 3] {
        let daemon = Daemon::start(reactors);
        let relay = Engine::new(1, 2, 0);
        let instances = ["a", "b", "c", "d"];
        for (rank, instance) in instances.iter().enumerate() {
            let mut body = relay.registration(instance);
            body["dp_rank"] = json!(rank);
            daemon.register(&body);
        }
        join(&[&daemon], &[&relay]);
        for rank in 0..4 {
            store(&relay, Some(rank), &[rank, rank]);
        }
        settle(&[&daemon], &[&relay]);
        let holders = |tokens: &[u32]| {
            let answer = ask(&daemon, tokens);
            instances.into_iter().filter(|instance| answer[instance]["GPU"] == 2).collect::<Vec<_>>()
        };
        for (rank, instance) in (0..4).zip(instances) {
            assert_eq!(holders(&[rank, rank]), [instance], "rank {rank}, {reactors} reactors");
        }
        // who leaves, or is registered elsewhere, no longer counts: then all are meant
        unregister(&daemon, &json!({ "instance_id": "b" }));
        store(&relay, Some(1), &[9, 9]);
        settle(&[&daemon], &[&relay]);
        assert_eq!(holders(&[9, 9]), ["a", "c", "d"]);
    }
}

#[test]
fn a_pool_beside_engines_hears_every_rank() {
    let daemon = Daemon::start(1);
    let relay = Engine::new(1, 2, 0);
    let mut pool = relay.registration("pool");
    pool["type"] = json!("mooncake");
    daemon.register(&pool);
    daemon.register(&relay.registration("a"));
    relay.joined();
    store(&relay, Some(0), &TOKENS);
    settle(&[&daemon], &[&relay]);
    let answer = ask(&daemon, &TOKENS);
    assert_eq!(answer["a"], json!({ "longest_matched": 4, "GPU": 4, "DP": { "0": 4 }, "CPU": 0, "DISK": 0 }));
    assert_eq!(answer["pool"], json!({ "longest_matched": 4, "GPU": 4, "DP": {}, "CPU": 0, "DISK": 0 }));
}

#[test]
fn one_rank_leaves_and_the_other_stays() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let relay = Engine::new(1, 2, 0);
        for rank in [0, 1] {
            let mut body = relay.registration("a");
            body["dp_rank"] = json!(rank);
            daemon.register(&body);
        }
        relay.joined();
        store(&relay, Some(0), &TOKENS);
        store(&relay, Some(1), &TOKENS[..2]);
        settle(&[&daemon], &[&relay]);
        assert_eq!(ask(&daemon, &TOKENS)["a"]["DP"], json!({ "0": 4, "1": 2 }));
        let removed = unregister(&daemon, &json!({ "instance_id": "a", "dp_rank": 0 }));
        assert_eq!(removed, json!(["a|default|0"]));
        let left = json!({ "longest_matched": 2, "GPU": 2, "DP": { "1": 2 }, "CPU": 0, "DISK": 0 });
        assert_eq!(ask(&daemon, &TOKENS)["a"], left);
        // with nobody for rank 0, its batches concern whoever is left
        store(&relay, Some(0), &[8, 8]);
        settle(&[&daemon], &[&relay]);
        assert_eq!(ask(&daemon, &[8, 8])["a"]["DP"], json!({ "0": 2, "1": 0 }));
        assert_eq!(unregister(&daemon, &json!({ "instance_id": "a" })), json!(["a|default|1"]));
        assert_eq!(ask(&daemon, &TOKENS), Value::Null);
    }
}

#[test]
fn unregistering_by_type_and_by_all_ranks() {
    let daemon = Daemon::start(2);
    let (engines, pool) = ([Engine::new(1, 2, 0), Engine::new(2, 2, 1)], Pool::new("p", 2));
    for engine in &engines {
        daemon.register(&engine.registration("a"));
    }
    daemon.register(&pool.registration("a"));
    let count = || daemon.get("/services").json()["count"].as_u64().unwrap();
    assert_eq!(count(), 3);
    assert_eq!(
        unregister(&daemon, &json!({ "instance_id": "a", "type": "MOONCAKE" })),
        json!(["a|default|0"])
    );
    assert_eq!(count(), 2);
    daemon.register(&pool.registration("a"));
    // an engine and a pool of one rank are named once
    let all = unregister(&daemon, &json!({ "instance_id": "a", "type": "" }));
    assert_eq!(all, json!(["a|default|0", "a|default|1"]));
    assert_eq!(count(), 0);
    for body in [json!({ "instance_id": "a" }), json!({ "instance_id": "a", "type": "vLLM", "dp_rank": 1 })] {
        assert_eq!(daemon.post("/unregister", &body).status, 404);
    }
}

#[test]
fn other_settings_begin_anew() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let engine = Engine::new(1, 2, 0);
        daemon.register(&engine.registration("a"));
        engine.joined();
        store(&engine, Some(0), &TOKENS);
        settle(&[&daemon], &[&engine]);
        assert_eq!(ask(&daemon, &TOKENS)["a"]["longest_matched"], 4);
        let mut salted = engine.registration("a");
        salted["additionalsalt"] = json!("w8a8");
        daemon.register(&salted);
        let services = daemon.services(engine.endpoint());
        assert_eq!((services.len(), &services[0]["AdditionalSalt"]), (1, &json!("w8a8")));
        assert_eq!(ask(&daemon, &TOKENS)["a"]["longest_matched"], 0, "the old blocks are gone");
        join(&[&daemon], &[&engine]);
        store(&engine, Some(0), &TOKENS[..2]);
        settle(&[&daemon], &[&engine]);
        let question =
            json!({ "model": MODEL, "block_size": 2, "token_ids": TOKENS, "additional_salt": "w8a8" });
        assert_eq!(daemon.ask(&question)["default"]["a"]["longest_matched"], 2);
        assert_eq!(ask(&daemon, &TOKENS)["a"]["longest_matched"], 0);
    }
}

#[test]
fn another_endpoint_takes_the_place_of_the_first() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let (old, new) = (Engine::new(1, 2, 0), Engine::new(2, 2, 0));
        daemon.register(&old.registration("a"));
        old.joined();
        store(&old, Some(0), &TOKENS);
        settle(&[&daemon], &[&old]);
        assert_eq!(ask(&daemon, &TOKENS)["a"]["longest_matched"], 4);
        daemon.register(&new.registration("a"));
        join(&[&daemon], &[&new]);
        assert!(daemon.services(old.endpoint()).is_empty());
        store(&old, Some(0), &[5, 5]);
        store(&new, Some(0), &[6, 6]);
        settle(&[&daemon], &[&new]);
        assert_eq!(ask(&daemon, &TOKENS)["a"]["longest_matched"], 0, "the old blocks are gone");
        assert_eq!(ask(&daemon, &[6, 6])["a"]["longest_matched"], 2);
        assert_eq!(ask(&daemon, &[5, 5])["a"]["longest_matched"], 0, "nobody listens there any more");
    }
}

/// An engine with enough blocks that taking them away needs many steps, each block a prompt's first.
fn full(engine: &Engine) {
    for first in 0..20 {
        let tokens: Vec<u32> = (0..5000).map(|at| first * 10_000 + at).collect();
        engine.store(&tokens, 0..5000, "GPU");
    }
}

/// What a publisher that left still holds while it is purged is no answer for anybody, nor is it for those of its
/// instance that stay or come.
#[test]
fn what_left_counts_no_more_at_once() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let (engine, stays, rank) = (Engine::new(1, 1, 0), Engine::new(2, 1, 0), Engine::new(3, 1, 1));
        daemon.register(&engine.registration("a"));
        daemon.register(&stays.registration("b"));
        daemon.register(&rank.registration("a"));
        engine.joined();
        stays.joined();
        rank.joined();
        full(&engine);
        stays.store(&[0, 1], 0..2, "GPU");
        rank.store(&[0], 0..1, "GPU");
        settle(&[&daemon], &[&engine, &stays, &rank]);
        let question = json!({ "model": MODEL, "block_size": 1, "token_ids": [0, 1, 2] });
        let entry = |tokens, ranks| json!({ "longest_matched": tokens, "GPU": tokens, "DP": ranks, "CPU": 0, "DISK": 0 });
        let both = json!({ "a": entry(3, json!({ "0": 3, "1": 1 })), "b": entry(2, json!({ "0": 2 })) });
        assert_eq!(daemon.ask(&question)["default"], both);

        // again with other settings: nothing of before counts for the new registration
        let mut again = engine.registration("a");
        again["hashing"] = json!("standard");
        daemon.register(&again);
        let left = json!({ "a": entry(1, json!({ "0": 0, "1": 1 })), "b": entry(2, json!({ "0": 2 })) });
        for _ in 0..10 {
            assert_eq!(daemon.ask(&question)["default"], left);
        }
        join(&[&daemon], &[&engine]);
        full(&engine);
        settle(&[&daemon], &[&engine]);
        assert_eq!(daemon.ask(&question)["default"], both);

        unregister(&daemon, &json!({ "instance_id": "a", "dp_rank": 0 }));
        let left = json!({ "a": entry(1, json!({ "1": 1 })), "b": entry(2, json!({ "0": 2 })) });
        for _ in 0..10 {
            assert_eq!(daemon.ask(&question)["default"], left);
        }
        daemon.register(&again);
        unregister(&daemon, &json!({ "instance_id": "a" }));
        let left = json!({ "b": entry(2, json!({ "0": 2 })) });
        for _ in 0..10 {
            assert_eq!(daemon.ask(&question)["default"], left);
        }
    }
}
