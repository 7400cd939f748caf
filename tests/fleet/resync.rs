//! Set-up: the decisions of a resync with made-up times, instances and answers, and pages as servers send them.
//! Claim: each registered instance is asked at most once, until one lists everything or the maximum wait is over; page
//! tokens go back as they came; what an instance listed before it failed stays; bad entries are skipped and counted;
//! a listing that does not end is ended.

use std::time::Duration;

use fastrand::Rng;
use kvatlas::fleet::resync::{Ask, Entry, Outcome, Read, Resync, Rules, Step};
use kvatlas::limits::FLEET_PAGE_ENTRIES;
use serde_json::{Value, json};

const RULES: Rules = Rules {
    enabled: true,
    poll_interval: Duration::from_secs(1),
    max_wait: Duration::from_mins(1),
    page_size: 2,
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn entry(hash: &str, bytes: u64) -> Value {
    json!({"key": {"chunk_hash_hex": hash, "model_name": "m", "kv_rank": 16_777_472, "object_group_id": 0,
        "cache_salt": "s"}, "size_bytes": bytes})
}

fn page(entries: &[Value], next: &Value) -> Vec<u8> {
    let page = json!({"adapter": "s3", "entries": entries, "next_page_token": next});
    serde_json::to_vec(&page).unwrap()
}

/// A resync and what is registered.
struct Play {
    resync: Resync,
    registered: Vec<&'static str>,
    rng: Rng,
}

impl Play {
    fn new(rules: Rules, registered: &[&'static str]) -> Self {
        Self { resync: Resync::new(rules, at(0)), registered: registered.to_vec(), rng: Rng::with_seed(1) }
    }

    fn poll(&mut self, now: u64) -> Step {
        self.resync.poll(at(now), self.registered.iter().copied(), &mut self.rng)
    }

    /// The instance and the query that are asked for now.
    fn asked(&mut self, now: u64) -> (String, String) {
        let Step::Ask(Ask { instance, query }) = self.poll(now) else { panic!("nobody is asked") };
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (instance, query.join("&"))
    }

    fn query(&mut self) -> String {
        self.asked(0).1
    }

    /// Gives an answer, and reads it to its end.
    fn answer(&mut self, status: u16, body: Vec<u8>) -> Read {
        if let Err(reason) = self.resync.replied(Ok((status, body))) {
            return Read::Failed(reason);
        }
        loop {
            match self.resync.read(1) {
                Read::More => {}
                read => return read,
            }
        }
    }

    /// Sizes of the entries of a good page.
    fn sizes(&mut self, body: Vec<u8>) -> Vec<u64> {
        match self.answer(200, body) {
            Read::Page { entries, failed: None } => entries.iter().map(|entry| entry.bytes).collect(),
            read => panic!("{read:?}"),
        }
    }
}

#[test]
fn tokens_go_back_as_they_came() {
    let mut play = Play::new(RULES, &["a"]);
    assert_eq!(play.query(), "page_size=2");
    assert_eq!(play.sizes(page(&[entry("aa", 1), entry("bb", 2)], &json!("T1"))), [1, 2]);
    assert_eq!(play.query(), "page_size=2&page_token=T1");
    assert_eq!(play.sizes(page(&[entry("cc", 3)], &json!("a b&c=ü/%2F"))), [3]);
    assert_eq!(play.query(), "page_size=2&page_token=a b&c=ü/%2F");
    assert!(play.sizes(page(&[], &json!(""))).is_empty());
    assert_eq!(play.query(), "page_size=2&page_token=", "an empty token is one");
    assert!(!play.resync.over());
    assert_eq!(play.sizes(page(&[entry("dd", 4)], &Value::Null)), [4]);
    assert_eq!(play.poll(1), Step::Over);
    assert_eq!(play.resync.outcome(), Outcome::Done);
    let tally = play.resync.tally();
    assert_eq!((tally.pages, tally.entries, tally.skipped, tally.tried), (4, 4, 0, 1));
    assert_eq!(tally.instance, "a");
}

#[test]
fn a_page_without_a_token_is_the_last() {
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert!(play.sizes(b"{\"entries\": []}".to_vec()).is_empty());
    assert_eq!(play.resync.outcome(), Outcome::Done);
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert!(play.sizes(b"{}".to_vec()).is_empty());
    assert!(play.resync.over());
}

#[test]
fn entries_mean_what_they_say() {
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    let plain = json!({"key": {"chunk_hash_hex": "AA bb", "model_name": "m/é", "kv_rank": -1, "more": 1}, "size_bytes": 0});
    let Read::Page { entries, .. } = play.answer(200, page(&[entry("0a", 7), plain], &Value::Null)) else {
        panic!()
    };
    let Entry { key, bytes } = &entries[0];
    assert_eq!((key.hash.to_string().as_str(), &*key.model, &*key.salt), ("0a", "m", "s"));
    assert_eq!((key.kv_rank, key.group, *bytes), (16_777_472, 0, 7));
    let Entry { key, bytes } = &entries[1];
    assert_eq!((key.hash.to_string().as_str(), &*key.model, &*key.salt), ("aabb", "m/é", ""));
    assert_eq!((key.kv_rank, key.group, *bytes), (-1, 0, 0));
}

/// An entry with one thing changed.
fn changed(pointer: &str, value: Value) -> Value {
    let mut entry = entry("aa", 1);
    *entry.pointer_mut(pointer).unwrap() = value;
    entry
}

#[test]
fn bad_entries_are_skipped_and_counted() {
    let mut missing = entry("aa", 1);
    missing.as_object_mut().unwrap().remove("size_bytes");
    let mut keyless = entry("aa", 1);
    keyless["key"].as_object_mut().unwrap().remove("model_name");
    let bad = [
        missing,
        keyless,
        changed("/key/chunk_hash_hex", json!("xyz")),
        changed("/key/chunk_hash_hex", json!("abc")),
        changed("/key/chunk_hash_hex", json!(1)),
        changed("/key/model_name", json!("m@n")),
        changed("/key/cache_salt", json!("a/b")),
        changed("/key/cache_salt", json!(null)),
        changed("/key/kv_rank", json!("one")),
        changed("/key/kv_rank", json!(1.5)),
        changed("/key/kv_rank", json!(null)),
        changed("/key/object_group_id", json!(-1)),
        changed("/key/object_group_id", json!(null)),
        changed("/key", json!([])),
        changed("/size_bytes", json!("many")),
        changed("/size_bytes", json!(null)),
        changed("/size_bytes", json!(-1)),
        changed("/size_bytes", json!(1e30)),
        changed("/size_bytes", json!([1])),
        json!(null),
        json!("text"),
        json!([]),
    ];
    let mut all = bad.to_vec();
    all.insert(0, entry("aa", 10));
    all.push(entry("bb", 20));
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert_eq!(play.sizes(page(&all, &Value::Null)), [10, 20]);
    assert_eq!(play.resync.tally().skipped, bad.len() as u64);
    assert_eq!(play.resync.tally().entries, 2);
}

#[test]
fn sizes_are_read_as_whole_numbers() {
    let sizes = [json!(5), json!("5"), json!(" 1_0 "), json!(2.9), json!(true), json!(u64::MAX), json!(-0.5)];
    let entries: Vec<Value> = sizes.iter().map(|size| changed("/size_bytes", size.clone())).collect();
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert_eq!(play.sizes(page(&entries, &Value::Null)), [5, 5, 10, 2, 1, u64::MAX, 0]);
}

#[test]
fn what_the_json_of_python_writes_beside_json_costs_one_entry() {
    let good = entry("aa", 1).to_string();
    let body = format!(
        r#"{{"x": NaN, "y": [-Infinity, {{"}}": "\"]"}}], "entries": [{good}, {{"key": 1, "size_bytes": NaN}},
        {{"key": {{"chunk_hash_hex": "bb", "model_name": "\ud800", "kv_rank": 0}}, "size_bytes": 1}},
        {{"key": {{"chunk_hash_hex": "zz", "model_name": "m", "chunk_hash_hex": "cc", "kv_rank": 0}}, "size_bytes": 3}}]}}"#
    );
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert_eq!(play.sizes(body.into_bytes()), [1, 3]);
    assert_eq!(play.resync.tally().skipped, 2);
}

#[test]
fn of_a_name_that_stands_twice_the_last_counts() {
    let (one, two) = (entry("aa", 1), entry("bb", 2));
    let body = format!(
        "\u{feff}{{\"entries\": [{one}, 5], \"next_page_token\": \"A\", \"\\u0065ntries\":[{two}], \"next_page_token\": null}}"
    );
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert_eq!(play.sizes(body.into_bytes()), [2]);
    assert_eq!((play.resync.outcome(), play.resync.tally().skipped), (Outcome::Done, 0));
}

#[test]
fn an_instance_that_fails_is_done_with_and_another_is_asked() {
    let failures: [(u16, &[u8]); 9] = [
        (503, b"{\"detail\": \"no adapter\"}"),
        (404, b""),
        (307, b""),
        (422, b"{}"),
        (200, b""),
        (200, b"[]"),
        (200, b"{\"entries\": null}"),
        (200, b"{\"entries\": [], \"next_page_token\": 5}"),
        (200, b"{\"entries\": [{\"key\""),
    ];
    for (status, body) in failures {
        let mut play = Play::new(RULES, &["a", "b"]);
        let (first, _) = play.asked(0);
        assert_eq!(play.poll(0), Step::Busy);
        assert!(matches!(play.answer(status, body.to_vec()), Read::Failed(_)), "{status}");
        let (second, query) = play.asked(0);
        assert_ne!(first, second);
        assert_eq!(query, "page_size=2", "from the start");
        assert!(play.resync.replied(Err("connection refused".to_owned())).is_err());
        assert_eq!(play.poll(0), Step::Wait(at(1)), "both were asked");
        play.registered.push("c");
        assert_eq!(play.asked(1).0, "c");
        assert!(play.sizes(page(&[], &Value::Null)).is_empty());
        assert_eq!(play.resync.outcome(), Outcome::Done);
        assert_eq!(play.resync.tally().tried, 3);
    }
}

#[test]
fn what_was_listed_before_a_failure_stays() {
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    assert_eq!(play.sizes(page(&[entry("aa", 1)], &json!("T"))), [1]);
    play.query();
    assert!(matches!(play.answer(503, vec![]), Read::Failed(_)));
    assert_eq!(play.resync.tally().entries, 1);
    assert_eq!(play.poll(61), Step::Over);
    assert_eq!(play.resync.outcome(), Outcome::GaveUp);
}

#[test]
fn nobody_within_the_maximum_wait_ends_it() {
    let mut play = Play::new(RULES, &[]);
    assert_eq!(play.poll(0), Step::Wait(at(1)));
    assert_eq!(play.poll(59), Step::Wait(at(60)), "not beyond the end");
    assert!(!play.resync.over());
    assert_eq!(play.poll(60), Step::Over);
    assert_eq!(play.resync.outcome(), Outcome::GaveUp);
    play.registered.push("late");
    assert_eq!(play.poll(61), Step::Over, "for good");
    assert_eq!(play.resync.tally().tried, 0);
}

#[test]
fn no_wait_asks_only_who_is_there() {
    let rules = Rules { max_wait: at(0), ..RULES };
    assert_eq!(Play::new(rules, &[]).poll(0), Step::Over);
    assert_eq!(Play::new(rules, &["a"]).asked(0).0, "a");
}

#[test]
fn the_wait_may_be_endless() {
    let mut play = Play::new(Rules { max_wait: Duration::MAX, ..RULES }, &[]);
    assert_eq!(play.poll(1_000_000_000), Step::Wait(at(1_000_000_001)));
}

#[test]
fn further_instances_are_begun_with_until_the_wait_is_over() {
    let mut play = Play::new(RULES, &["a", "b"]);
    play.asked(60);
    assert!(play.resync.replied(Err("timed out".to_owned())).is_err());
    assert_eq!(play.poll(61), Step::Over);
    assert_eq!(play.resync.outcome(), Outcome::GaveUp);
}

#[test]
fn a_listing_that_makes_progress_is_not_cut_short() {
    let mut play = Play::new(RULES, &["a"]);
    play.query();
    play.sizes(page(&[], &json!("T")));
    assert_eq!(play.asked(1000).1, "page_size=2&page_token=T");
    assert_eq!(play.sizes(page(&[entry("aa", 1)], &Value::Null)), [1]);
    assert_eq!(play.resync.outcome(), Outcome::Done);
}

#[test]
fn one_that_is_not_wanted_is_over_at_once() {
    let mut play = Play::new(Rules { enabled: false, ..RULES }, &["a"]);
    assert!(play.resync.over());
    assert_eq!(play.poll(0), Step::Over);
    assert_eq!(play.resync.outcome(), Outcome::Disabled);
    assert_eq!(play.resync.outcome().name(), "disabled");
}

#[test]
fn pages_above_the_servers_ceiling_are_asked_for_again_in_its_size() {
    let mut play = Play::new(Rules { page_size: 8000, ..RULES }, &["a", "b"]);
    let (first, query) = play.asked(0);
    assert_eq!(query, "page_size=8000");
    assert_eq!(play.answer(422, b"{}".to_vec()), Read::Nothing);
    assert_eq!(play.asked(0), (first, format!("page_size={FLEET_PAGE_ENTRIES}")), "the same one");
    assert!(matches!(play.answer(422, b"{}".to_vec()), Read::Failed(_)), "once");
    assert_eq!(play.query(), format!("page_size={FLEET_PAGE_ENTRIES}"));
}

#[test]
fn a_listing_that_runs_in_a_circle_is_ended() {
    for length in 1..20u32 {
        for entry in [0, 3] {
            let mut play = Play::new(RULES, &["a"]);
            let mut pages = 0u32;
            let failed = loop {
                play.query();
                // some pages lead to a circle of so many
                let token = if pages < entry { format!("way {pages}") } else { (pages % length).to_string() };
                pages += 1;
                assert!(pages < 100, "it does not end");
                if let Read::Page { failed: Some(reason), .. } = play.answer(200, page(&[], &json!(token))) {
                    break reason;
                }
            };
            assert_eq!(failed, "its pages run in a circle");
            assert_eq!(play.poll(0), Step::Wait(at(1)));
        }
    }
}

#[test]
fn instances_are_drawn_by_chance() {
    let firsts: std::collections::HashSet<String> = (0..50)
        .map(|seed| {
            let mut play = Play::new(RULES, &["a", "b", "c"]);
            play.rng = Rng::with_seed(seed);
            play.asked(0).0
        })
        .collect();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut play = Play::new(RULES, &["a"]);
    assert_eq!(play.answer(200, page(&[entry("aa", 1)], &Value::Null)), Read::Nothing);
    assert_eq!(play.query(), "page_size=2");
    assert_eq!(play.resync.read(5), Read::Nothing);
    assert_eq!(play.sizes(page(&[entry("aa", 1)], &Value::Null)), [1]);
    assert_eq!(play.answer(503, vec![]), Read::Nothing);
    assert_eq!(play.resync.outcome(), Outcome::Done);
}
