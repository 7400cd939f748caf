//! Set-up: schedules of many rates, and generators of many tardinesses.
//! Claim: item k is due at k / rate whatever happened before, exactly the items due before the end count, and the
//! gate counts what was late and what was not sent at all.

use std::time::Duration;

use kvatlas::bench::gate;
use kvatlas::bench::schedule::{Punctuality, Schedule};
use proptest::prelude::*;

proptest! {
    #[test]
    fn exactly_what_is_due_before_the_end_counts(rate in 0.01..5000.0_f64, millis in 0..3000_u64) {
        let (schedule, end) = (Schedule::new(rate), Duration::from_millis(millis));
        let naive = (0..20_000).take_while(|&number| schedule.due(number) < end).count() as u64;
        prop_assert_eq!(schedule.count(end), naive);
    }

    #[test]
    fn deadlines_are_absolute(rate in 0.01..1e6_f64, number in 0..100_000_u64) {
        let due = Schedule::new(rate).due(number).as_secs_f64();
        prop_assert!((due - number as f64 / rate).abs() < 1e-8);
    }

    #[test]
    fn the_gate_counts_late_and_unsent(late in prop::collection::vec(0..20_u64, 0..50), unsent in 0..20_u64, share in 0.0..1.0_f64) {
        let mut punctuality = Punctuality::new(Duration::from_millis(5));
        for millis in &late {
            punctuality.note(Duration::from_millis(*millis));
        }
        let bad = late.iter().filter(|millis| **millis > 5).count() as u64 + unsent;
        let due = late.len() as u64 + unsent;
        let gate = gate::generator(&punctuality, due, share, "batches");
        prop_assert_eq!(gate.passed, bad as f64 / due.max(1) as f64 <= share);
        prop_assert_eq!(gate.words.contains("not at all"), unsent > 0);
    }
}

#[test]
fn generators_are_summed_up() {
    let mut all = Punctuality::new(Duration::from_millis(1));
    for millis in [0, 3, 1] {
        let mut one = Punctuality::new(Duration::from_millis(1));
        one.note(Duration::from_millis(millis));
        all.add(&one);
    }
    assert_eq!((all.sent(), all.late()), (3, 1));
    assert!(all.times().max() >= Duration::from_millis(3));
}
