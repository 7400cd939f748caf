//! Set-up: salts over and under their limits, swept once.
//! Claim: a sweep begins at the watermark, takes the oldest keys up to a part of all keys of the salt, passes over
//! pinned ones, and writes them as MP servers read them, 10,000 a body.

use crate::books::{RULES, answer, at, key, numbers};
use kvatlas::fleet::books::{Books, Outcome, Rules};
use kvatlas::fleet::key::{ChunkHash, Key};

/// One salt with keys of these sizes and a quota.
fn salt(sizes: &[u64], quota: u64) -> Books {
    let mut books = Books::default();
    for (number, bytes) in sizes.iter().enumerate() {
        books.store(&key("a", number as u64), *bytes);
    }
    books.set_quota("a", quota);
    books
}

fn sweep(books: &mut Books, rules: Rules) -> Vec<u64> {
    let plan = books.plan(at(0), rules);
    numbers(books, &plan)
}

#[test]
fn nothing_stored_nothing_planned() {
    let mut books = Books::default();
    books.set_default(Some(0));
    let plan = books.plan(at(0), RULES);
    assert!(plan.batches.is_empty() && plan.salts.is_empty());
}

#[test]
fn the_watermark_is_a_part_of_the_limit() {
    let rules = Rules { watermark: 0.8, ..RULES };
    assert!(sweep(&mut salt(&[700], 1000), rules).is_empty());
    assert_eq!(sweep(&mut salt(&[900], 1000), rules), [0]);
    assert_eq!(sweep(&mut salt(&[800], 1000), rules), [0]);
    assert!(sweep(&mut salt(&[799], 1000), rules).is_empty());
}

#[test]
fn beyond_what_a_float_tells_apart_the_comparison_is_exact() {
    let limit = (1 << 60) + 256;
    assert!(sweep(&mut salt(&[limit - 1], limit), RULES).is_empty());
    assert_eq!(sweep(&mut salt(&[limit], limit), RULES), [0]);
}

#[test]
fn the_target_is_a_part_of_all_keys() {
    for (ratio, expected) in
        [(0.5, vec![0, 1, 2]), (1.0, vec![0, 1, 2, 3, 4, 5, 6]), (0.3, vec![0, 1]), (0.01, vec![0])]
    {
        assert_eq!(sweep(&mut salt(&[100; 7], 500), Rules { ratio, ..RULES }), expected);
    }
    assert!(sweep(&mut salt(&[100; 7], 500), Rules { ratio: 0.0, ..RULES }).is_empty());
}

#[test]
fn a_limit_of_zero_takes_all_whatever_the_ratio() {
    for ratio in [0.0, 0.2] {
        assert_eq!(sweep(&mut salt(&[100; 3], 0), Rules { ratio, ..RULES }), [0, 1, 2]);
    }
}

#[test]
fn under_the_quota_nothing_goes() {
    assert!(sweep(&mut salt(&[100; 7], 701), RULES).is_empty());
}

#[test]
fn salts_are_independent_and_come_by_their_first_key() {
    let mut books = Books::default();
    for (salt, number) in [("z", 1), ("a", 2), ("m", 3), ("z", 4), ("a", 5)] {
        books.store(&key(salt, number), 100);
    }
    books.set_quota("z", 0);
    books.set_quota("a", 1);
    let plan = books.plan(at(0), Rules { ratio: 0.5, ..RULES });
    assert_eq!(numbers(&books, &plan), [1, 4, 2]);
    let salts: Vec<_> =
        plan.salts.iter().map(|one| (&*one.salt, one.usage, one.limit, one.keys, one.bytes)).collect();
    assert_eq!(salts, [("z", 200, 0, 2, 200), ("a", 200, 1, 1, 100)]);
}

#[test]
fn a_salt_whose_last_key_went_comes_last_again() {
    let mut books = Books::default();
    books.set_default(Some(0));
    books.store(&key("z", 1), 1);
    books.store(&key("a", 2), 1);
    books.delete(&key("z", 1));
    books.store(&key("z", 3), 1);
    assert_eq!(sweep(&mut books, RULES), [2, 3]);
}

#[test]
fn one_list_for_all_models_of_a_salt() {
    let mut books = Books::default();
    books.set_quota("a", 0);
    books.store(&key("a", 1), 1);
    books.store(&Key { model: "other".into(), ..key("a", 2) }, 1);
    books.store(&key("a", 3), 1);
    books.lookup(&key("a", 1));
    assert_eq!(sweep(&mut books, RULES), [2, 3, 1]);
}

#[test]
fn pinned_keys_stay_and_count_in_the_pool() {
    let mut books = salt(&[100; 10], 500);
    books.pin(&key("a", 0));
    books.pin(&key("a", 2));
    assert_eq!(sweep(&mut books, RULES), [1, 3]);
}

#[test]
fn two_pins_need_two_unpins() {
    let mut books = salt(&[100; 2], 0);
    books.pin(&key("a", 0));
    books.pin(&key("a", 0));
    let dry = Rules { dry_run: true, ..RULES };
    books.unpin(&key("a", 0));
    assert_eq!(sweep(&mut books, dry), [1]);
    books.unpin(&key("a", 0));
    assert_eq!(sweep(&mut books, dry), [0, 1]);
    books.pin(&key("a", 1));
    books.pin(&key("a", 1));
    assert_eq!(books.drop_pins(&key("a", 1)), 2);
    assert_eq!(sweep(&mut books, dry), [0, 1]);
}

#[test]
fn what_is_planned_stays_in_the_ledger() {
    let mut books = salt(&[100; 10], 500);
    let plan = books.plan(at(0), RULES);
    assert_eq!((books.usage("a"), books.counters().keys), (1000, 10));
    answer(&mut books, &plan, Outcome::Ok, 1);
    assert_eq!((books.usage("a"), books.counters().keys), (1000, 10));
    let again = books.plan(at(1000), RULES);
    assert_eq!(numbers(&books, &again), [0, 1], "answered but unreported keys are planned again");
    answer(&mut books, &again, Outcome::Failed, 1001);
    assert_eq!(sweep(&mut books, RULES), [0, 1], "so are failed ones");
}

#[test]
fn the_body_names_five_fields_in_order() {
    let mut books = Books::default();
    books.set_default(Some(0));
    let odd = Key {
        hash: ChunkHash::of_bytes(&[0xab, 0x0f]),
        model: "m \"q\" \u{e9}\n".into(),
        kv_rank: -3,
        group: u64::MAX,
        salt: "s".into(),
    };
    books.store(&odd, 1);
    books.store(&Key { hash: ChunkHash::of_bytes(&[0x1c; 32]), kv_rank: 16_777_472, group: 0, ..odd }, 1);
    let mut plan = books.plan(at(0), RULES);
    let mut body = Vec::new();
    assert_eq!(books.write_batch(&mut plan.batches[0], &mut body), 2);
    let first = concat!(
        r#"{"chunk_hash_hex":"ab0f","model_name":"m \"q\" é\n","kv_rank":-3,"#,
        r#""object_group_id":18446744073709551615,"cache_salt":"s"}"#
    );
    let second = format!(
        concat!(
            r#"{{"chunk_hash_hex":"{}","model_name":"m \"q\" é\n","kv_rank":16777472,"#,
            r#""object_group_id":0,"cache_salt":"s"}}"#
        ),
        "1c".repeat(32)
    );
    assert_eq!(String::from_utf8(body).unwrap(), format!("{{\"keys\":[{first},{second}]}}"));
}

#[test]
fn what_went_or_was_pinned_meanwhile_is_not_written() {
    let mut books = salt(&[100; 4], 0);
    let mut plan = books.plan(at(0), RULES);
    books.delete(&key("a", 0));
    books.store(&key("a", 0), 100);
    books.pin(&key("a", 1));
    books.delete(&key("a", 2));
    let mut body = Vec::new();
    assert_eq!(books.write_batch(&mut plan.batches[0], &mut body), 1);
    let text = String::from_utf8(body).unwrap();
    assert_eq!(text.matches("chunk_hash_hex").count(), 1);
    assert!(text.contains(&key("a", 3).hash.to_string()));
    assert_eq!(books.counters().in_flight, 1);
    books.unpin(&key("a", 1));
    assert_eq!(sweep(&mut books, RULES), [1, 0]);
}

#[test]
fn a_late_answer_says_nothing_of_what_came_in_a_keys_place() {
    let mut books = salt(&[100], 0);
    let plan = books.plan(at(0), RULES);
    books.delete(&key("a", 0));
    books.store(&key("a", 0), 100);
    let next = books.plan(at(1), RULES);
    assert_eq!(numbers(&books, &next), [0]);
    answer(&mut books, &plan, Outcome::Ok, 2);
    assert_eq!(books.counters().in_flight, 1);
    answer(&mut books, &next, Outcome::Ok, 3);
    assert_eq!(books.counters().in_flight, 0);
}

#[test]
fn many_victims_go_in_batches_of_ten_thousand() {
    let mut books = Books::default();
    books.set_quota("a", 0);
    for number in 0..25_001 {
        books.store(&key("a", number), 10);
    }
    let mut plan = books.plan(at(0), RULES);
    let mut written = Vec::new();
    for batch in &mut plan.batches {
        let mut body = Vec::new();
        books.write_batch(batch, &mut body);
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body.as_object().unwrap().len(), 1);
        written.push(body["keys"].as_array().unwrap().len());
    }
    assert_eq!(written, [10_000, 10_000, 5_001]);
    assert_eq!((books.counters().planned, books.counters().sent), (25_001, 25_001));
    assert_eq!(numbers(&books, &plan), (0..25_001).collect::<Vec<_>>());
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut books = salt(&[100; 10], 500);
    let before = books.counters();
    let dry = Rules { dry_run: true, ..RULES };
    assert_eq!(sweep(&mut books, dry), [0, 1]);
    assert_eq!(sweep(&mut books, dry), [0, 1]);
    assert_eq!(books.counters(), before);
}

#[test]
fn confirmed_are_those_that_were_sent() {
    let mut books = salt(&[100; 10], 500);
    books.plan(at(0), RULES);
    for number in 0..4 {
        books.delete(&key("a", number));
    }
    let counters = books.counters();
    assert_eq!((counters.confirmed, counters.deletes, counters.in_flight), (2, 4, 0));
}
