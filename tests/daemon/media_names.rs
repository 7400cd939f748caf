//! Set-up: a daemon and an engine whose media are called like the members of an instance's answer.
//! Claim: no member of an answer stands twice, not even for a client that takes no heed of case; the medium is there
//! under a name of its own, and a question may restrict itself to it by either name.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Source, settle, with};
use serde_json::{Value, json};

/// Members of an instance's long answer that are no media.
const MEMBERS: [&str; 6] = ["longest_matched", "DP", "prefix", "streams", "why", "ranks"];

/// Fails where two members of one object differ by case alone; that none stands twice was seen when it was read.
fn distinct(value: &Value) {
    let Value::Object(object) = value else { return };
    let mut names: Vec<String> = object.keys().map(|name| name.to_lowercase()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{value}");
    object.values().for_each(distinct);
}

fn question(more: Value) -> Value {
    let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4], "instance_id": "a" });
    with(question, more)
}

#[test]
fn a_medium_called_like_a_member_has_a_name_of_its_own() {
    for member in MEMBERS {
        let (plain, written) = (member.to_uppercase(), format!("MEDIUM_{}", member.to_uppercase()));
        for spelling in [member.to_owned(), member.to_lowercase(), plain.clone(), written.clone()] {
            let daemon = Daemon::start(1);
            let engine = Engine::new(1, 2, 0);
            daemon.register(&engine.registration("a"));
            engine.joined();
            engine.store(&[1, 2, 3, 4], 0..2, &spelling);
            engine.store(&[1, 2, 3, 4], 0..1, "GPU");
            settle(&[&daemon], &[&engine]);
            for more in [json!({}), json!({ "detail": true })] {
                let answer = daemon.ask(&question(more));
                distinct(&answer);
                let entry = &answer["default"]["a"];
                assert_eq!(entry[&written], 4, "{spelling}: {entry}");
                assert_eq!((&entry["longest_matched"], &entry["GPU"]), (&json!(4), &json!(2)));
                assert_eq!(entry["DP"], json!({ "0": 4 }));
            }
            let prefix = daemon.ask(&question(json!({ "detail": true })))["default"]["a"]["prefix"].take();
            let ranks = json!({ "0": { "GPU": 2, &written: 4 } });
            assert_eq!(prefix, json!({ "GPU": 2, &written: 4, "ranks": ranks }));
            for asked in [&spelling, &plain, &written, &written.to_lowercase()] {
                let answer = daemon.ask(&question(json!({ "medium": [asked] })));
                let entry = &answer["default"]["a"];
                assert_eq!((&entry["longest_matched"], &entry["GPU"]), (&json!(4), &json!(0)), "{asked}");
            }
        }
    }
}

#[test]
fn a_medium_called_otherwise_keeps_its_name() {
    let daemon = Daemon::start(1);
    let engine = Engine::new(1, 2, 0);
    daemon.register(&engine.registration("a"));
    engine.joined();
    let media = ["DPU", "D P", "prefixes", "MEDIUM_X", "rank", "\"dp\"", "ram\\disk\n"];
    for medium in media {
        engine.store(&[1, 2], 0..1, medium);
    }
    settle(&[&daemon], &[&engine]);
    let answer = daemon.ask(&question(json!({ "detail": true })));
    distinct(&answer);
    for medium in media {
        assert_eq!(answer["default"]["a"][medium.to_uppercase()], 2, "{medium}: {answer}");
    }
}
