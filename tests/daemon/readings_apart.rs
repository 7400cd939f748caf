//! Set-up: an instance of which both readings of a lone `cache_salt` hold a part of the prompt, on several media and
//! ranks.
//! Claim: the long answer is the one of the reading that answers, as if the other were not there.

use crate::fleet::{Ask, Daemon, Engine, MODEL, Source, settle, with};
use kvatlas::wire::engine::{EngineEvent, Stored};
use serde_json::{Value, json};

const TOKENS: [u32; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
/// (medium, first block, end)
type Copies = &'static [(&'static str, usize, usize)];

/// One reading's engine: of the deployment's salt (rank 0), or of the request's (rank 1).
struct Reading {
    engine: Engine,
    of_request: bool,
    copies: Copies,
}

impl Reading {
    fn new(of_request: bool, copies: Copies) -> Self {
        let engine = Engine::of_family("sglang-0.5.23", u64::from(of_request), 4, u32::from(of_request));
        Self { engine, of_request, copies }
    }

    fn join(&self, daemon: &Daemon, instance: &str) {
        let salt = if self.of_request { json!({}) } else { json!({ "additionalsalt": "x" }) };
        daemon.register(&with(self.engine.registration(instance), salt));
        self.engine.joined();
        let hashes = self.engine.hashes(&TOKENS);
        let cache_salt = self.of_request.then_some("x");
        for (medium, start, end) in self.copies {
            let stored = self.engine.stored(&hashes, &TOKENS, *start..*end, medium);
            self.engine.events(&[EngineEvent::Stored(Stored { cache_salt, ..stored })]);
        }
        settle(&[daemon], &[&self.engine]);
    }
}

fn ask(daemon: &Daemon, more: Value) -> Value {
    let question = json!({
        "model": MODEL, "block_size": 4, "token_ids": TOKENS, "cache_salt": "x", "detail": true
    });
    let mut entry = daemon.ask(&with(question, more))["default"]["two"].take();
    entry.as_object_mut().unwrap().remove("streams");
    entry
}

/// What is said of `two` when only these readings are there, but for the ranks that hold nothing.
fn said(readings: &[&Reading], more: &Value) -> Value {
    let daemon = Daemon::start(1);
    for reading in readings {
        reading.join(&daemon, "two");
    }
    let mut entry = ask(&daemon, more.clone());
    entry["DP"].as_object_mut().unwrap().retain(|_, tokens| *tokens != 0);
    entry
}

#[test]
fn the_prefix_is_of_the_reading_that_answers() {
    const CASES: [(Copies, Copies); 4] = [
        (&[("CPU", 0, 3), ("GPU", 1, 2)], &[("GPU", 0, 2)]),
        (&[("GPU", 0, 1)], &[("CPU", 0, 2), ("DISK", 0, 4), ("GPU", 2, 3)]),
        (&[("GPU", 0, 4)], &[("CPU", 0, 3), ("NPU", 0, 1)]),
        (&[], &[("GPU", 0, 1), ("CPU", 1, 2)]),
    ];
    for (deployment, request) in CASES {
        for more in [json!({}), json!({ "medium": ["GPU", "CPU"] })] {
            let readings = || [Reading::new(false, deployment), Reading::new(true, request)];
            let alone = readings().map(|reading| said(&[&reading], &more));
            let [one, other] = readings();
            let both = said(&[&one, &other], &more);
            assert_ne!(alone[0]["longest_matched"], alone[1]["longest_matched"], "one is longer");
            let longer = alone.iter().max_by_key(|entry| entry["longest_matched"].as_u64()).unwrap();
            assert_eq!(both, *longer, "{deployment:?} {request:?} {more}");
        }
    }
}

#[test]
fn a_medium_of_the_other_reading_is_no_prefix() {
    let daemon = Daemon::start(1);
    let copies: [Copies; 2] = [&[("CPU", 0, 3), ("GPU", 1, 2)], &[("GPU", 0, 2)]];
    for (of_request, copies) in [false, true].into_iter().zip(copies) {
        Reading::new(of_request, copies).join(&daemon, "two");
    }
    let expected = json!({
        "longest_matched": 12, "GPU": 4, "DP": { "0": 12, "1": 0 }, "CPU": 12, "DISK": 0,
        "prefix": { "GPU": 0, "CPU": 12, "ranks": { "0": { "CPU": 12 } } },
    });
    assert_eq!(ask(&daemon, json!({})), expected);
}
