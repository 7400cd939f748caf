//! Set-up: publishers without a replay endpoint that lose nothing, but send what cannot be read, what cannot be
//! entered, or more than may wait; and one that feeds a publisher through two topics, of which one begins anew.
//! Claim: where a removal may be lost, or announced blocks are not found, the stream is `partial` and says why;
//! what is skipped by design changes nothing; what makes the rest irrelevant makes the stream live again.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Pool, Source, eventually, settle};
use kvatlas::index::orphan::ORPHAN_BLOCKS;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Stamp, Stored, encode_batch};
use serde_json::{Value, json};

struct Case {
    daemon: Daemon,
    engine: Engine,
}

impl Case {
    /// An engine that is live.
    fn each(check: impl Fn(&Case)) {
        for reactors in [1, 2] {
            let case = Case { daemon: Daemon::start(reactors), engine: Engine::new(1, 2, 0) };
            case.daemon.register(&case.engine.registration("a"));
            case.engine.joined();
            case.engine.store(&[1, 2, 3, 4], 0..2, "GPU");
            assert_eq!(case.state(), ("live".to_owned(), Value::Null));
            check(&case);
        }
    }

    fn stream(&self) -> Value {
        settle(&[&self.daemon], &[&self.engine]);
        self.daemon.services(self.engine.endpoint())[0]["stream"].clone()
    }

    fn state(&self) -> (String, Value) {
        let stream = self.stream();
        (stream["state"].as_str().unwrap().to_owned(), stream["reason"].clone())
    }

    fn is_partial(&self, reason: &str) {
        assert_eq!(self.state(), ("partial".to_owned(), json!(reason)));
        let error = self.stream()["last_error"]["message"].as_str().unwrap().to_owned();
        assert!(!error.is_empty());
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [7, 7], "detail": true });
        let entry = self.daemon.ask(&question)["default"]["a"].take();
        assert_eq!(
            (&entry["why"], &entry["streams"][0]["reason"]),
            (&json!("stream_not_live"), &json!(reason))
        );
        let page = String::from_utf8(self.daemon.get("/metrics").body).unwrap();
        assert!(page.contains(&format!("kvatlas_streams_missing{{reason=\"{reason}\"}} 1\n")), "{page}");
    }

    fn is_live_after_a_clear(&self) {
        self.engine.clear();
        assert_eq!(self.state(), ("live".to_owned(), Value::Null));
    }
}

/// A batch with one event of these fields.
fn batch(fields: &[&[u8]]) -> Vec<u8> {
    let event = [&[0x90 + fields.len() as u8][..], &fields.concat()].concat();
    [&[0x92, 0x01, 0x91][..], &event].concat()
}

#[test]
fn a_payload_that_cannot_be_read_may_have_been_a_removal() {
    Case::each(|case| {
        case.engine.send(vec![0xc1]);
        case.is_partial("unread");
        case.is_live_after_a_clear();
    });
}

#[test]
fn an_event_that_cannot_be_read_may_have_been_a_removal() {
    Case::each(|case| {
        case.engine.send(batch(&[b"\xacBlockRemoved", b"\xa3abc"]));
        case.is_partial("unread");
        case.is_live_after_a_clear();
    });
}

#[test]
fn an_envelope_that_clears_an_engine_clears_all_of_it() {
    Case::each(|case| {
        case.engine.send(vec![0xc1]);
        case.is_partial("unread");
        let one = json!({ "event_type": "cleared", "medium": "gpu", "backend_id": null });
        case.engine.send(rmp_serde::to_vec_named(&json!([1.5, [one]])).unwrap());
        case.is_partial("unread");
        let all = json!({ "event_type": "cleared", "medium": null, "backend_id": null });
        case.engine.send(rmp_serde::to_vec_named(&json!([1.5, [all]])).unwrap());
        assert_eq!(case.state(), ("live".to_owned(), Value::Null));
    });
}

#[test]
fn an_event_of_an_unknown_kind_is_for_somebody_else() {
    Case::each(|case| {
        case.engine.send(batch(&[b"\xa8Snapshot", b"\xa3abc"]));
        let stream = case.stream();
        assert_eq!((&stream["state"], &stream["skipped"]), (&json!("live"), &json!({ "unknown_tag": 1 })));
    });
}

#[test]
fn a_store_of_another_block_size_is_not_entered() {
    Case::each(|case| {
        let wrong = Engine::new(1, 4, 0);
        let hashes = wrong.hashes(&[1, 2, 3, 4]);
        case.engine.events(&[EngineEvent::Stored(wrong.stored(&hashes, &[1, 2, 3, 4], 0..1, "GPU"))]);
        case.is_partial("not_entered");
        case.is_live_after_a_clear();
    });
}

#[test]
fn orphans_dropped_at_the_bound_are_missing() {
    Case::each(|case| {
        let tokens: Vec<u32> = (0..2 * 4097).collect();
        for salt in 0..=ORPHAN_BLOCKS as u32 / 4096 {
            // each text has a first block of its own, which is never announced
            let tokens: Vec<u32> = tokens.iter().map(|token| token + 10_000 * (salt + 1)).collect();
            assert_eq!(case.state().0, "live", "those that wait may still find their parent");
            case.engine.store(&tokens, 1..4097, "GPU");
        }
        case.is_partial("not_entered");
        assert_eq!(case.stream()["orphans_dropped"], 4096);
        case.is_live_after_a_clear();
    });
}

#[test]
fn a_pool_of_which_no_key_is_understood_is_not_live() {
    let daemon = Daemon::start(1);
    let mut pool = Pool::new("pool-0", 2);
    daemon.register(&pool.registration("a"));
    pool.joined();
    let payload = pool.master.encode(1, &[kvatlas::wire::pool::PoolEvent::stored("nobody-knows")]).unwrap();
    pool.send(payload);
    let stream = || daemon.services(pool.endpoint())[0]["stream"].clone();
    eventually("it says so", || {
        let stream = stream();
        (&stream["state"], &stream["reason"]) == (&json!("partial"), &json!("not_entered"))
    });
    assert_eq!(stream()["skipped"], json!({ "unparsed_key": 1 }));
    pool.store(&[1, 2], 0..1, "cpu", "default");
    eventually("it is live", || daemon.services(pool.endpoint())[0]["stream"]["state"] == "live");
}

/// Sends a store of these tokens under a topic and a number.
fn store(engine: &Engine, topic: &[u8], sequence: u64, tokens: &[u32]) {
    let hashes = engine.hashes(tokens);
    let stored = Stored { medium: Some("GPU"), ..Stored::plain(&hashes, None, tokens, engine.block) };
    send(engine, topic, sequence, &EngineEvent::Stored(stored));
}

fn send(engine: &Engine, topic: &[u8], sequence: u64, event: &EngineEvent<'_>) {
    let batch =
        EngineBatch { stamp: Stamp::Seconds(1.0), events: std::slice::from_ref(event), rank: Some(0) };
    let payload = encode_batch(engine.family, &batch);
    let frames = vec![topic.to_vec(), sequence.to_be_bytes().to_vec(), payload];
    engine.publisher.raw(frames).unwrap();
}

#[test]
fn a_topic_that_begins_anew_takes_what_the_other_brought_and_says_so() {
    for reactors in [1, 2] {
        let (daemon, engine) = (Daemon::start(reactors), Engine::new(1, 2, 0));
        daemon.register(&engine.registration("a"));
        engine.joined();
        let matched = |tokens: &[u32]| {
            let question = json!({ "model": MODEL, "block_size": 2, "token_ids": tokens });
            daemon.ask(&question)["default"]["a"]["longest_matched"].take()
        };
        let is = |state: &str, reason: Value| {
            eventually(state, || {
                let stream = daemon.services(engine.endpoint())[0]["stream"].clone();
                stream["state"] == state && stream["reason"] == reason
            });
        };
        store(&engine, b"one", 0, &[1, 2]);
        store(&engine, b"two", 0, &[3, 4]);
        eventually("both", || matched(&[1, 2]) == 2 && matched(&[3, 4]) == 2);
        is("live", json!(null));
        store(&engine, b"one", 0, &[5, 6]);
        eventually("the new life", || matched(&[5, 6]) == 2);
        assert_eq!((matched(&[1, 2]), matched(&[3, 4])), (json!(0), json!(0)));
        is("partial", json!("swept"));
        store(&engine, b"two", 1, &[7, 8]);
        eventually("more of it", || matched(&[7, 8]) == 2);
        is("partial", json!("swept"));
        send(&engine, b"two", 2, &EngineEvent::Cleared(None));
        is("live", json!(null));
    }
}
