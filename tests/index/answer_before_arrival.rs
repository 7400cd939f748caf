//! Set-up: a directory in which an instance was registered a moment ago, and the shard of its reactor, where the
//! registration has not arrived yet.
//! Claim: a question meanwhile is answered with the instance's zero-filled entry, well-formed behind whatever stands
//! in the response already.

use kvatlas::api::body::{RegisterBody, parse_query};
use kvatlas::api::query::question;
use kvatlas::api::register::{register_static, wish};
use kvatlas::daemon::answer::{Detail, fragment};
use kvatlas::daemon::directory::Directory;
use kvatlas::daemon::question::Question;
use kvatlas::daemon::view::View;
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::shard::Shard;
use serde_json::{Value, json};

struct Silent;

impl Detail for Silent {
    fn streams(&self, _: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"[]");
    }

    fn why(&self, _: &Shard, _: &Question, _: &str) -> &'static str {
        "no_events_yet"
    }
}

#[test]
fn an_instance_on_its_way_is_answered_for() {
    let directory = Directory::new(1);
    let body = json!({
        "endpoint": "tcp://127.0.0.1:9", "type": "vLLM", "modelname": "m", "instance_id": "a",
        "block_size": 2, "dp_rank": 4,
    });
    let wish = wish(RegisterBody::parse(body.to_string().as_bytes()).unwrap()).unwrap();
    assert!(register_static(&directory, wish).is_some());
    let mut shard = Shard::new(DEFAULT_SEED);
    let view = View::of(&directory, &shard);
    for instance in [Value::Null, json!("a")] {
        let body = json!({ "model": "m", "block_size": 2, "token_ids": [1, 2], "instance_id": instance });
        let (mut tokens, mut hashes) = (Vec::new(), Vec::new());
        let body = parse_query(body.to_string().as_bytes(), false, &mut tokens, &mut hashes).unwrap();
        let question = question(body, 1).unwrap();
        let mut out = b"{\"default\":{".to_vec();
        let mut path = Path::of_tokens(&tokens, &[], 2, DEFAULT_SEED, &mut hashes);
        fragment(&mut shard, &view, 0, &question, &mut path, &Silent, &mut out);
        out.extend_from_slice(b"}}");
        let answer: Value = serde_json::from_slice(&out).expect("well-formed");
        let entry = json!({ "longest_matched": 0, "GPU": 0, "DP": { "4": 0 }, "CPU": 0, "DISK": 0 });
        assert_eq!(answer, json!({ "default": { "a": entry } }));
    }
}
