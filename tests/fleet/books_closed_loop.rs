//! Set-up: a fleet that deletes what it is told to, reports it before the next sweep, and may have keys that it
//! never deletes though it answers well.
//! Claim: sweeps bring usage below the quota in a bounded number of rounds, from the oldest key on; a key that
//! cannot be deleted stops nobody; when nobody reports deletions, younger keys are left alone after a while.

use crate::books::{RULES, answer, at, key, order, victims};
use kvatlas::fleet::books::{Books, Outcome, Rules};
use kvatlas::fleet::key::Key;
use kvatlas::limits::FLEET_STUCK_KEYS;
use std::collections::BTreeMap;

/// A fleet and its books.
struct Fleet {
    books: Books,
    rules: Rules,
    deletes: fn(&Key<'_>) -> bool,
    now: u64,
    /// How often each key was sent.
    sent: BTreeMap<u64, usize>,
}

impl Fleet {
    fn new(sizes: impl IntoIterator<Item = u64>, quota: u64, deletes: fn(&Key<'_>) -> bool) -> Self {
        let mut books = Books::default();
        for (number, bytes) in sizes.into_iter().enumerate() {
            books.store(&key("a", number as u64), bytes);
        }
        books.set_quota("a", quota);
        Self { books, rules: RULES, deletes, now: 0, sent: BTreeMap::new() }
    }

    /// One sweep, its answers and its events.
    fn round(&mut self) {
        self.now += self.rules.interval.as_millis() as u64;
        let plan = self.books.plan(at(self.now), self.rules);
        let victims = victims(&self.books, &plan);
        answer(&mut self.books, &plan, Outcome::Ok, self.now + 20);
        for victim in victims {
            let number = u64::from_be_bytes(victim.hash.bytes()[..8].try_into().unwrap());
            *self.sent.entry(number).or_default() += 1;
            if (self.deletes)(&victim) {
                self.books.delete(&victim);
            }
        }
    }

    fn usage(&self) -> u128 {
        self.books.usage("a")
    }
}

#[test]
fn ten_keys_settle_at_the_four_newest() {
    let mut fleet = Fleet::new([100; 10], 500, |_| true);
    for _ in 0..10 {
        fleet.round();
    }
    assert_eq!(fleet.usage(), 400);
    assert_eq!(order(&mut fleet.books), [6, 7, 8, 9]);
    assert!(fleet.sent.values().all(|times| *times == 1));
}

#[test]
fn mixed_sizes_converge_in_bounded_sweeps() {
    let sizes = |number: u64| match number % 7 {
        0 => 0,
        1..=4 => 1 + number,
        5 => 10_000,
        _ => 1_000_000,
    };
    for quota in [1, 1000, 50_000, 20_000_000] {
        let mut fleet = Fleet::new((0..1000).map(sizes), quota, |_| true);
        let mut rounds = 0;
        while fleet.usage() >= u128::from(quota) {
            fleet.round();
            rounds += 1;
            // a fifth of 1,000 keys goes in each round, until fewer than five go one by one
            assert!(rounds <= 40, "{quota}: {}", fleet.usage());
        }
        let kept = fleet.usage();
        fleet.round();
        assert_eq!(fleet.usage(), kept);
    }
}

#[test]
fn one_key_that_cannot_be_deleted_stops_nobody() {
    let stays = |victim: &Key<'_>| *victim != key("a", 0);
    // the pause is longer than the interval, as long, and shorter
    for interval in [1000, 60_000, 600_000] {
        let mut fleet = Fleet::new([100; 10], 500, stays);
        fleet.rules.interval = at(interval);
        for _ in 0..60 {
            fleet.round();
        }
        assert!(fleet.usage() < 500, "{interval}: {}", fleet.usage());
        assert_eq!(fleet.usage(), 400, "and nobody pays more than that");
        fleet.books.registered(at(fleet.now));
        assert_eq!(order(&mut fleet.books), [0, 7, 8, 9]);
    }
}

#[test]
fn without_a_report_it_is_tried_less_and_less() {
    let mut fleet = Fleet::new([100], 1, |_| false);
    let mut sweeps = Vec::new();
    for sweep in 0..400 {
        let before = fleet.sent.get(&0).copied().unwrap_or(0);
        fleet.round();
        if fleet.sent[&0] > before {
            sweeps.push(sweep);
        }
    }
    // eight times at once, then after pauses of 1, 2, 4, ... 60 seconds that begin 20 ms after a sweep
    let pauses: Vec<_> = sweeps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..15], [1, 1, 1, 1, 1, 1, 1, 2, 3, 5, 9, 17, 33, 61, 61]);
}

#[test]
fn when_nobody_reports_deletions_the_younger_keys_stay() {
    let keys = u64::from(FLEET_STUCK_KEYS) * 20;
    let quota = keys / 2 * 100;
    let mut fleet = Fleet::new((0..keys).map(|_| 100), quota, |_| false);
    for _ in 0..2000 {
        fleet.round();
    }
    // three times a fifth is what it takes; the rest was never sent
    assert_eq!(fleet.sent.len() as u64, keys / 5 * 3);
    assert_eq!(fleet.sent.keys().copied().collect::<Vec<_>>(), (0..keys / 5 * 3).collect::<Vec<_>>());
    let before = fleet.sent[&0];
    for _ in 0..100 {
        fleet.round();
    }
    assert!(fleet.sent[&0] > before, "those that back off are still tried");
    fleet.deletes = |_| true;
    for _ in 0..200 {
        fleet.round();
    }
    assert!(fleet.usage() < u128::from(quota));
    let oldest = order(&mut fleet.books)[0];
    assert!(oldest <= keys / 5 * 3, "{oldest}");
}

#[test]
fn what_is_in_flight_is_not_paid_twice() {
    let mut fleet = Fleet::new([100; 10], 500, |_| true);
    let first = fleet.books.plan(at(0), RULES);
    assert_eq!(crate::books::numbers(&fleet.books, &first), [0, 1]);
    // 800 bytes are left to judge, the target is 2 of 10, and 2 are under way
    assert!(fleet.books.plan(at(1000), RULES).batches.is_empty());
    let half = Rules { ratio: 0.5, ..RULES };
    let second = fleet.books.plan(at(2000), half);
    assert_eq!(crate::books::numbers(&fleet.books, &second), [2, 3, 4]);
    // 500 bytes are left, which is the quota; then 400, which is not
    assert!(fleet.books.plan(at(3000), half).batches.is_empty());
    let third = fleet.books.plan(at(3000), Rules { ratio: 0.6, ..RULES });
    assert_eq!(crate::books::numbers(&fleet.books, &third), [5]);
    assert!(fleet.books.plan(at(4000), Rules { ratio: 1.0, ..RULES }).batches.is_empty());
    assert_eq!(fleet.books.counters().in_flight, 6);
    answer(&mut fleet.books, &first, Outcome::Failed, 5000);
    assert_eq!(fleet.books.counters().failed, 2);
    let again = fleet.books.plan(at(5000), Rules { ratio: 0.6, ..RULES });
    assert_eq!(
        crate::books::numbers(&fleet.books, &again),
        [0, 1],
        "600 bytes are too much, four of six under way"
    );
}
