//! Set-up: a daemon of one or two reactors, an engine, and questions that match nothing, each for another reason.
//! Claim: the long answer names the reason; an answer that matches, or is short, names none.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Source, settle, with};
use kvatlas::wire::engine::{EngineEvent, Stored};
use serde_json::{Value, json};

struct Case {
    daemon: Daemon,
    engine: Engine,
}

impl Case {
    /// An engine that is registered and connected, on each number of reactors.
    fn each(check: impl Fn(&Case)) {
        for reactors in [1, 2] {
            let case = Case { daemon: Daemon::start(reactors), engine: Engine::new(1, 2, 0) };
            case.daemon.register(&case.engine.registration("a"));
            case.engine.joined();
            check(&case);
        }
    }

    /// With two blocks stored.
    fn each_with_blocks(check: impl Fn(&Case)) {
        Self::each(|case| {
            case.engine.store(&[1, 2, 3, 4], 0..2, "GPU");
            case.settle();
            check(case);
        });
    }

    fn settle(&self) {
        settle(&[&self.daemon], &[&self.engine]);
    }

    fn entry(&self, more: Value) -> Value {
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4], "detail": true });
        let question = with(question, more);
        self.daemon.ask(&question)["default"]["a"].take()
    }

    fn why(&self, more: Value) -> String {
        let entry = self.entry(more);
        assert_eq!(entry["longest_matched"], 0);
        entry["why"].as_str().unwrap().to_owned()
    }
}

#[test]
fn no_events_yet() {
    Case::each(|case| assert_eq!(case.why(json!({})), "no_events_yet"));
}

#[test]
fn unknown_model() {
    Case::each_with_blocks(|case| assert_eq!(case.why(json!({ "model": "qwen" })), "unknown_model"));
}

#[test]
fn block_size_mismatch() {
    Case::each_with_blocks(|case| assert_eq!(case.why(json!({ "block_size": 4 })), "block_size_mismatch"));
}

#[test]
fn prompt_shorter_than_block() {
    Case::each_with_blocks(|case| {
        assert_eq!(case.why(json!({ "token_ids": [1] })), "prompt_shorter_than_block");
        assert_eq!(case.why(json!({ "token_ids": [] })), "prompt_shorter_than_block");
    });
}

#[test]
fn unknown_lora() {
    Case::each_with_blocks(|case| {
        assert_eq!(case.why(json!({ "lora_name": "sql" })), "unknown_lora");
        assert_eq!(case.why(json!({ "lora_id": 3 })), "unknown_lora");
    });
}

#[test]
fn unknown_salt() {
    Case::each_with_blocks(|case| {
        assert_eq!(case.why(json!({ "cache_salt": "s" })), "unknown_salt");
        assert_eq!(case.why(json!({ "additional_salt": "s" })), "unknown_salt");
    });
}

#[test]
fn stream_not_live() {
    Case::each_with_blocks(|case| {
        case.engine.publisher.hole(3).unwrap();
        case.settle();
        assert_eq!(case.why(json!({ "token_ids": [7, 7] })), "stream_not_live");
        assert_eq!(case.entry(json!({ "token_ids": [7, 7] }))["streams"][0]["state"], "partial");
    });
}

#[test]
fn no_match() {
    Case::each_with_blocks(|case| {
        assert_eq!(case.why(json!({ "token_ids": [7, 7] })), "no_match");
        assert_eq!(case.why(json!({ "token_ids": [7, 7], "instance_id": "a" })), "no_match");
        assert_eq!(case.why(json!({ "medium": "CPU" })), "no_match");
    });
}

#[test]
fn a_salt_that_only_another_prompt_has_is_known() {
    Case::each(|case| {
        let hashes = case.engine.hashes(&[9, 9]);
        let stored = case.engine.stored(&hashes, &[9, 9], 0..1, "GPU");
        let adapter = Stored { lora_name: Some("sql"), ..stored };
        case.engine.events(&[EngineEvent::Stored(adapter)]);
        case.settle();
        assert_eq!(case.why(json!({ "lora_name": "sql" })), "no_match");
    });
}

/// The same prompt is held, but only in another context: of an adapter, of a salt, in blocks of another size.
#[test]
fn a_prompt_that_only_another_context_holds() {
    Case::each(|case| {
        let hashes = case.engine.hashes(&[1, 2]);
        let stored = case.engine.stored(&hashes, &[1, 2], 0..1, "GPU");
        case.engine.events(&[EngineEvent::Stored(Stored { lora_name: Some("sql"), ..stored })]);
        case.settle();
        assert_eq!(case.why(json!({})), "unknown_lora");
        assert_eq!(case.why(json!({ "lora_name": "sql", "cache_salt": "s" })), "unknown_salt");
    });
    for reactors in [1, 2] {
        let case = Case { daemon: Daemon::start(reactors), engine: Engine::new(1, 2, 0) };
        case.daemon.register(&with(case.engine.registration("a"), json!({ "additionalsalt": "w8a8" })));
        case.engine.joined();
        case.engine.store(&[1, 2, 3, 4], 0..2, "GPU");
        case.settle();
        assert_eq!(case.why(json!({})), "unknown_salt");
        assert_eq!(case.why(json!({ "additional_salt": "w4a4" })), "unknown_salt");
        assert_eq!(case.why(json!({ "additional_salt": "w8a8", "token_ids": [7, 7] })), "no_match");
        assert_eq!(case.why(json!({ "additional_salt": "w8a8", "block_size": 4 })), "block_size_mismatch");
        // what is held no more is no reason
        case.engine.clear();
        case.settle();
        assert_eq!(case.why(json!({})), "no_match");
    }
}

#[test]
fn where_something_matches_or_the_answer_is_short_there_is_no_reason() {
    Case::each_with_blocks(|case| {
        let entry = case.entry(json!({}));
        assert_eq!(entry["longest_matched"], 4);
        assert!(entry.get("why").is_none());
        for detail in [json!(false), json!(null)] {
            let entry = case.entry(json!({ "detail": detail, "token_ids": [7, 7] }));
            assert_eq!(entry.as_object().unwrap().len(), 5, "{entry}");
        }
    });
}

/// Of an instance that nobody registered there is nothing to tell, but it is told in the same shape.
#[test]
fn an_unknown_instance_has_the_long_shape_too() {
    Case::each_with_blocks(|case| {
        let question = json!({
            "model": MODEL, "block_size": 2, "token_ids": [1, 2], "detail": true, "instance_id": "z"
        });
        let entry = case.daemon.ask(&question)["default"]["z"].take();
        let expected = json!({
            "longest_matched": 0, "GPU": 0, "DP": {}, "CPU": 0, "DISK": 0,
            "prefix": {}, "streams": [], "why": "unknown_model",
        });
        assert_eq!(entry, expected);
    });
}

/// The reasons for `a` and `b` are the same apart and on one reactor: what the one has is nothing to the other.
#[test]
fn what_another_instance_has_is_no_reason() {
    for reactors in [1, 2, 4] {
        let daemon = Daemon::start(reactors);
        let engines = [Engine::new(1, 2, 0), Engine::new(2, 2, 0)];
        daemon.register(&engines[0].registration("a"));
        daemon.register(&with(
            engines[1].registration("b"),
            json!({ "modelname": "other", "additionalsalt": "w8a8" }),
        ));
        for engine in &engines {
            engine.joined();
        }
        engines[0].store(&[1, 2, 3, 4], 0..2, "GPU");
        let hashes = engines[1].hashes(&[1, 2, 3, 4]);
        let stored = engines[1].stored(&hashes, &[1, 2, 3, 4], 0..2, "GPU");
        engines[1].events(&[EngineEvent::Stored(Stored { lora_name: Some("sql"), ..stored })]);
        settle(&[&daemon], &[&engines[0], &engines[1]]);
        let salted =
            |more| with(json!({ "model": "other", "additional_salt": "w8a8", "lora_name": "sql" }), more);
        for (more, a, b) in [
            (json!({ "token_ids": [7, 7] }), "no_match", "unknown_model"),
            (json!({ "token_ids": [7, 7], "lora_name": "sql" }), "unknown_lora", "unknown_model"),
            (json!({ "token_ids": [7, 7], "additional_salt": "w8a8" }), "unknown_salt", "unknown_model"),
            (json!({ "token_ids": [7, 7], "block_size": 1 }), "block_size_mismatch", "unknown_model"),
            (json!({ "model": "other" }), "unknown_model", "unknown_lora"),
            (salted(json!({ "token_ids": [7, 7] })), "unknown_model", "no_match"),
            (salted(json!({ "lora_name": "chat" })), "unknown_model", "unknown_lora"),
            (salted(json!({ "additional_salt": "w4a4" })), "unknown_model", "unknown_salt"),
            (salted(json!({ "block_size": 1 })), "unknown_model", "block_size_mismatch"),
            (json!({ "model": "third" }), "unknown_model", "unknown_model"),
        ] {
            let question =
                json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4], "detail": true });
            let question = with(question, more);
            let answer = daemon.ask(&question);
            let why = |instance: &str| answer["default"][instance]["why"].clone();
            assert_eq!((why("a"), why("b")), (json!(a), json!(b)), "{reactors} reactors: {question}");
            for (instance, expected) in [("a", a), ("b", b)] {
                let answer = daemon.ask(&with(question.clone(), json!({ "instance_id": instance })));
                assert_eq!(answer["default"][instance]["why"], expected, "alone, {reactors}: {question}");
            }
        }
    }
}

/// An adapter and a salt that a registration names are known before anything is held there.
#[test]
fn what_a_registration_names_is_known() {
    for reactors in [1, 2] {
        let daemon = Daemon::start(reactors);
        let engines = [Engine::new(1, 2, 0), Engine::new(2, 2, 1)];
        daemon.register(&engines[0].registration("a"));
        let named = json!({ "lora_name": "sql", "additionalsalt": "w8a8" });
        daemon.register(&with(engines[1].registration("a"), named.clone()));
        for engine in &engines {
            engine.joined();
        }
        engines[0].store(&[1, 2, 3, 4], 0..2, "GPU");
        settle(&[&daemon], &[&engines[0], &engines[1]]);
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2], "detail": true });
        for (more, why) in [
            (named, "no_match"),
            (json!({ "lora_name": "sql", "additional_salt": "w4a4" }), "unknown_salt"),
            (json!({ "lora_name": "chat" }), "unknown_lora"),
        ] {
            let answer = daemon.ask(&with(question.clone(), more.clone()));
            assert_eq!(answer["default"]["a"]["why"], why, "{more}");
        }
    }
}
