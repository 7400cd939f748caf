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
