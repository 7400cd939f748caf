//! Set-up: ends of runs, good and bad.
//! Claim: a run passes "kept up" exactly when nothing was lost, the end came in time and lag did not grow, and the
//! words name every reason why not.

use std::time::Duration;

use kvatlas::bench::gate::{self, Settled};
use kvatlas::bench::lag::Lags;
use kvatlas::bench::log::{Progress, SendLog};
use kvatlas::limits::BENCH_IN_FLIGHT;
use proptest::prelude::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn good() -> Settled {
    Settled {
        after: Some(ms(7)),
        bound: ms(100),
        growth: ms(3),
        growth_bound: Some(ms(50)),
        lost: 0,
        unanswered: false,
    }
}

#[test]
fn each_fault_fails_alone_and_is_named() {
    assert!(gate::kept_up(&good()).passed);
    assert!(gate::kept_up(&Settled { growth: ms(900), growth_bound: None, ..good() }).passed);
    for (settled, words) in [
        (Settled { lost: 1200, ..good() }, "1,200 batches, events or blocks were lost"),
        (Settled { after: None, ..good() }, "not everything was applied"),
        (Settled { after: None, unanswered: true, ..good() }, "the daemon did not answer any more"),
        (Settled { after: Some(ms(101)), ..good() }, "after 101 ms"),
        (Settled { growth: ms(51), ..good() }, "grew by 51 ms"),
    ] {
        let gate = gate::kept_up(&settled);
        assert!(!gate.passed && gate.words.contains(words), "{}", gate.words);
    }
    let all = Settled { lost: 1, after: None, growth: ms(60), ..good() };
    assert_eq!(gate::kept_up(&all).words.matches("; ").count(), 2);
}

#[test]
fn answers_must_be_checked_to_be_right() {
    assert!(gate::answers(5, 0).passed);
    assert!(!gate::answers(5, 1).passed);
    assert!(!gate::answers(0, 0).passed, "nothing was measured");
    assert!(gate::answered(10, 10).passed && !gate::answered(10, 9).passed);
}

#[test]
fn growth_is_that_of_the_median_between_the_quarters() {
    let mut lags = Lags::new(ms(4000));
    for due in (0..4000).step_by(10) {
        // one outlier in the last quarter is no growth
        let lag = if due == 3990 { 5000 } else { 20 };
        lags.note(ms(due), ms(due + lag));
    }
    assert!(lags.growth() < ms(1));
    let mut lags = Lags::new(ms(4000));
    for due in (0..4000).step_by(10) {
        lags.note(ms(due), ms(2 * due + 5));
    }
    let growth = lags.growth().as_millis();
    assert!((2970..3040).contains(&growth), "{growth}");
    assert_eq!(lags.all().count(), 400);
}

proptest! {
    #[test]
    fn a_batch_is_credited_once_when_it_is_applied(blocks in prop::collection::vec(0..4_u64, 1..40), looks in prop::collection::vec((0..40_u64, any::<bool>()), 0..40)) {
        let mut log = SendLog::default();
        for (number, blocks) in (0..).zip(&blocks) {
            prop_assert!(log.send(number, ms(number), *blocks));
        }
        let through = |number: u64| blocks.iter().take(number as usize + 1).sum::<u64>();
        let mut done = 0;
        for (last, whole) in looks {
            let last = last.min(blocks.len() as u64 - 1);
            let seen = if whole { through(last) } else { through(last).saturating_sub(1) };
            let mut credited = Vec::new();
            log.applied(Progress { last: Some(last), blocks: seen }, |due| credited.push(due));
            // all before the last one; the last one once all blocks were counted
            let until = if seen >= through(last) { last + 1 } else { last };
            let naive: Vec<Duration> = (done..until.max(done)).map(ms).collect();
            done = done.max(until);
            prop_assert_eq!(credited, naive);
            prop_assert_eq!(log.under_way(), blocks.len() - done as usize);
        }
    }
}

#[test]
fn what_is_under_way_is_bounded() {
    let mut log = SendLog::default();
    assert!((0..BENCH_IN_FLIGHT as u64).all(|number| log.send(number, ms(0), 1)));
    assert!(!log.send(BENCH_IN_FLIGHT as u64, ms(0), 1));
    assert_eq!(log.blocks(), BENCH_IN_FLIGHT as u64, "what was not entered does not count");
    log.applied(Progress { last: None, blocks: 9 }, |_| panic!("nothing was seen"));
}
