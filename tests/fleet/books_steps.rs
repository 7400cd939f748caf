//! Set-up: sweeps that look at a few keys a step, with events, pins and other sweeps between the steps.
//! Claim: in steps of any size a sweep chooses the same as in one; whatever comes between, no key is chosen twice,
//! nor one that is pinned by then, and the sweep ends; a long row of pinned keys costs steps, not a stall.

use crate::books::{RULES, answer, at, key, keys_of, numbers, ranked};
use kvatlas::fleet::books::{Batch, Books, Outcome, Planner, Rules};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn books(salts: &[&str], keys: u64, quota: u64) -> Books {
    let mut books = Books::default();
    for number in 0..keys {
        for salt in salts {
            books.store(&ranked(salt, number / 2, 2, i128::from(number % 2)), 100);
        }
    }
    books.set_default(Some(quota));
    books
}

#[test]
fn steps_of_any_size_choose_the_same() {
    for whole_chunks in [false, true] {
        let rules = Rules { whole_chunks, ratio: 0.35, ..RULES };
        let mut once = books(&["a", "b"], 25, 1000);
        let plan = once.plan(at(0), rules);
        let expected = numbers(&once, &plan);
        for most in [0, 1, 2, 7, 1000] {
            let mut books = books(&["a", "b"], 25, 1000);
            let mut planner = Planner::new(&mut books, at(0), rules);
            while !planner.step(&mut books, most) {}
            let plan = planner.into_plan();
            assert_eq!(numbers(&books, &plan), expected);
            assert_eq!(plan.salts.len(), 2);
        }
    }
}

#[test]
fn pinned_keys_at_the_old_end_cost_steps_alone() {
    let mut books = Books::default();
    for number in 0..50_000 {
        books.store(&key("a", number), 100);
        if number < 49_990 {
            books.pin(&key("a", number));
        }
    }
    books.set_default(Some(1));
    let mut planner = Planner::new(&mut books, at(0), Rules { ratio: 0.0001, ..RULES });
    let mut steps = 1;
    while !planner.step(&mut books, 100) {
        steps += 1;
    }
    let plan = planner.into_plan();
    assert_eq!(numbers(&books, &plan), [49_990, 49_991, 49_992, 49_993, 49_994]);
    assert!((500..=501).contains(&steps), "{steps}");
}

#[test]
fn the_target_ends_a_walk() {
    let mut books = books(&["a"], 50_000, 1);
    let mut planner = Planner::new(&mut books, at(0), Rules { ratio: 0.001, ..RULES });
    assert!(planner.step(&mut books, 60), "50 keys, a salt, and what ends them");
    assert_eq!(planner.into_plan().keys(), 50);
}

#[test]
fn a_later_sweep_ends_an_earlier_one() {
    let mut books = books(&["a"], 10, 0);
    let mut early = Planner::new(&mut books, at(0), RULES);
    assert!(!early.step(&mut books, 4));
    let late = books.plan(at(0), RULES);
    assert!(early.step(&mut books, 100));
    let early = early.into_plan();
    assert_eq!((early.keys(), late.keys()), (3, 7));
    answer(&mut books, &early, Outcome::Failed, 0);
    answer(&mut books, &late, Outcome::Failed, 0);
    assert_eq!(books.counters().in_flight, 0);
}

#[test]
fn the_key_at_which_a_sweep_waits_may_go() {
    let waiting = || {
        let mut books = Books::default();
        for number in 0..6 {
            books.store(&key("a", number), 100);
        }
        books.set_default(Some(0));
        let mut planner = Planner::new(&mut books, at(0), RULES);
        assert!(!planner.step(&mut books, 3)); // the salt, then keys 0 and 1
        (books, planner)
    };
    let finish = |mut books: Books, mut planner: Planner| {
        while !planner.step(&mut books, 1) {}
        let plan = planner.into_plan();
        let keys = plan.batches.iter().flat_map(|batch| keys_of(&books, batch));
        keys.map(|key| u64::from_be_bytes(key.hash.bytes()[..8].try_into().unwrap())).collect::<Vec<_>>()
    };
    let (mut books, planner) = waiting();
    books.delete(&key("a", 2));
    assert_eq!(finish(books, planner), [0, 1, 3, 4, 5]);
    let (mut books, planner) = waiting();
    books.lookup(&key("a", 2));
    assert_eq!(finish(books, planner), [0, 1, 3, 4, 5, 2]);
    let (mut books, planner) = waiting();
    books.pin(&key("a", 2));
    assert_eq!(finish(books, planner), [0, 1, 3, 4, 5]);
    let (mut books, planner) = waiting();
    (0..6).for_each(|number| books.delete(&key("a", number)));
    books.store(&key("b", 9), 1);
    assert_eq!(finish(books, planner), [9]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_comes_between(
        changes in prop::collection::vec((0..6_u8, 0..12_u64, any::<bool>()), 0..60),
        most in 1..4_usize,
        dry_run in any::<bool>(),
        whole_chunks in any::<bool>(),
    ) {
        let mut books = books(&["a", "b"], 12, 500);
        let rules = Rules { ratio: 0.8, dry_run, whole_chunks, ..RULES };
        let mut planner = Planner::new(&mut books, at(0), rules);
        let mut pinned = BTreeSet::new();
        let mut changes = changes.into_iter();
        let mut steps = 0;
        while !planner.step(&mut books, most) {
            steps += 1;
            prop_assert!(steps < 200);
            let Some((kind, number, salt)) = changes.next() else { continue };
            let salt = if salt { "a" } else { "b" };
            let key = ranked(salt, number / 2, 2, i128::from(number % 2));
            match kind {
                0 => { books.store(&key, 100); }
                1 | 2 => books.lookup(&key),
                3 => books.delete(&key),
                4 => {
                    books.pin(&key);
                    pinned.insert((salt, number));
                }
                _ => { books.listed(&key, 50); }
            }
        }
        let plan = planner.into_plan();
        let ids: Vec<_> = plan.batches.iter().flat_map(Batch::ids).copied().collect();
        prop_assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
        let mut bodies = Vec::new();
        for mut batch in plan.batches {
            books.write_batch(&mut batch, &mut bodies);
            for key in keys_of(&books, &batch) {
                prop_assert_eq!(books.pinned(&key), 0);
            }
            books.answered(&batch, Outcome::Ok, at(1));
        }
        prop_assert_eq!(books.counters().in_flight, 0);
    }
}
