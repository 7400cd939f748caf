//! Set-up: one tracker and plain numbers, no sockets. Claim: each rule of a numbered stream holds where it is
//! easiest to see: how a stream begins, what a gap, a repeat, a restart and a reconnect do, what ends
//! `partial`, what happens at the bounds and with replays that make no sense.

use kvatlas::limits::{HOLD_BYTES, HOLD_MESSAGES, STREAM_MEMORY};
use kvatlas::stream::sequence::Tracker;
use kvatlas::stream::trust::{Numbered, Reason, Trust};

use super::one_stream::{IDLE, LIVE, Stream, at, back, partial};

#[test]
fn the_first_number_is_a_baseline() {
    let mut stream = Stream::new(false);
    stream.is(Trust::Connecting, []);
    stream.live(0..3).is(LIVE, 0..3);
    Stream::new(false).live(1..3).is(LIVE, 1..3);
    let mut late = Stream::new(false);
    late.live(7..9).is(partial(Reason::JoinedLate), 7..9);
    assert_eq!(late.tracker.counts().missed, 0);
}

#[test]
fn the_first_replay_comes_before_what_is_held() {
    let mut stream = Stream::new(true);
    stream.is(Trust::Replaying, []);
    stream.live([5, 6]).is(Trust::Replaying, []);
    stream.replies(0..7).is(LIVE, 0..7);
    stream.end().live([7]).is(LIVE, 0..8);
    assert_eq!(stream.asked, [0]);
    let counts = stream.tracker.counts();
    assert_eq!((counts.replayed, counts.gaps, counts.missed), (5, 0, 0));
}

#[test]
fn a_publisher_that_has_published_nothing_is_live() {
    let mut stream = Stream::asked_in_vain();
    stream.is(LIVE, []);
    stream.live([0]).is(LIVE, [0]);
    // What came between the request and the subscription is asked for.
    let mut stream = Stream::asked_in_vain();
    stream.live([4]).replies(0..5).end().is(LIVE, 0..5);
    assert_eq!(stream.asked, [0, 0]);
}

#[test]
fn a_replay_that_starts_late_is_partial() {
    let mut stream = Stream::new(true);
    stream.replies(8..12).end().is(partial(Reason::NotReplayed), 8..12);
    let mut one = Stream::new(true);
    one.replies(1..4).end().is(LIVE, 1..4);
}

#[test]
fn a_gap_is_asked_for_once_and_filled_in_order() {
    let mut stream = Stream::asked_in_vain();
    stream.live([0, 1, 4, 5]).is(Trust::Replaying, 0..2);
    assert_eq!(stream.asked, [0, 1]);
    stream.replies([1, 2, 3]).is(Trust::Replaying, 0..4);
    stream.replies([4]).is(LIVE, 0..6);
    stream.replies([5]).end().live([6]).is(LIVE, 0..7);
    assert_eq!(stream.asked, [0, 1]);
}

#[test]
fn what_is_known_of_and_not_applied_is_the_lag() {
    let mut stream = Stream::new(true);
    assert_eq!(stream.live([5, 6]).tracker.lag(), 2);
    assert_eq!(stream.replies(0..3).tracker.lag(), 4);
    assert_eq!(stream.replies(3..7).end().tracker.lag(), 0);
    assert_eq!(stream.live([7]).tracker.lag(), 0);
    assert_eq!(stream.live([10]).tracker.lag(), 3);
    // what never comes is missing, and no longer awaited
    assert_eq!(stream.replies([7, 10]).end().tracker.lag(), 0);
    // a number that a replay told of
    assert_eq!(stream.live([12]).replies([10, 11, 12, 15]).end().tracker.lag(), 3);
}

#[test]
fn numbers_that_never_come_are_partial_and_live_goes_on() {
    let mut stream = Stream::asked_in_vain();
    stream.live([0, 3]).replies([0, 3]).is(partial(Reason::NotReplayed), [0, 3]);
    stream.end().live([4]).is(partial(Reason::NotReplayed), [0, 3, 4]);
    assert_eq!((stream.asked.len(), stream.tracker.counts().missed), (2, 2));
    let mut stream = Stream::new(false);
    stream.live([0, 3, 4]).is(partial(Reason::Gap), [0, 3, 4]);
    assert_eq!((stream.tracker.counts().gaps, stream.tracker.counts().missed), (1, 2));
}

#[test]
fn a_silent_replay_is_waited_for_no_longer_than_twice() {
    let mut stream = Stream::new(true);
    stream.live([0, 3]).wait().is(Trust::Replaying, [0]);
    stream.wait().is(partial(Reason::ReplayFailed), [0, 3]);
    stream.live([4, 6, 8]).wait().is(partial(Reason::ReplayFailed), [0, 3, 4, 6, 8]);
    assert_eq!(stream.tracker.counts().failed, 3);
}

#[test]
fn replies_that_only_repeat_themselves_count_as_silence() {
    let mut stream = Stream::asked_in_vain();
    stream.live([0, 3]).replies([0, 1]);
    stream.now += IDLE / 2;
    stream.replies([1, 1, 0]);
    assert!(stream.tracker.asking());
    stream.now += IDLE / 2;
    stream.replies([1]);
    assert_eq!(stream.asked, [0, 0, 1], "it brought something, so the rest is asked for");
    stream.now += IDLE;
    stream.replies([1, 1]).is(Trust::Replaying, [0, 1]);
    stream.wait().is(partial(Reason::ReplayFailed), [0, 1, 3]);
}

#[test]
fn the_same_content_is_a_repeat_and_other_content_a_restart() {
    let mut stream = Stream::new(false);
    stream.live([0, 1, 2, 1, 2, 0, 3]).is(LIVE, 0..4);
    assert_eq!(stream.tracker.counts().repeats, 3);
    stream.live([100]).is(LIVE, [100]);
    stream.live([101, 105, 203]).is(partial(Reason::JoinedLate), [203]);
    assert_eq!(stream.tracker.counts().restarts, 2);
}

#[test]
fn a_repeat_that_opened_a_new_life_is_not_forgotten() {
    let mut stream = Stream::new(false);
    // The new life's batch 0 reads like the old one's.
    stream.live([0, 1, 2, 0, 101]).is(partial(Reason::TakenForRepeats), [101]);
}

#[test]
fn a_restart_is_replayed_up_to_the_message_that_showed_it() {
    let mut stream = Stream::asked_in_vain();
    stream.live(0..6).live([103]).is(Trust::Replaying, []);
    stream.replies(100..104).end().live([104]).is(LIVE, 100..105);
    stream.live([200]).is(LIVE, [200]);
    assert_eq!(stream.asked, [0, 0]);
}

#[test]
fn what_is_kept_no_longer_comes_anew() {
    let mut stream = Stream::asked_in_vain();
    stream.live(0..4);
    stream.with(|tracker, _, out| tracker.forgotten(out));
    stream.is(Trust::Connecting, 0..4);
    assert_eq!(stream.tracker.counts().restarts, 0);
    stream.applied.clear();
    back(&mut stream).replies(0..4).end().is(LIVE, 0..4);
    let mut blind = Stream::new(false);
    blind.live(0..4);
    blind.with(|tracker, _, out| tracker.forgotten(out));
    blind.applied.clear();
    back(&mut blind).live([4]).is(partial(Reason::JoinedLate), [4]);
}

#[test]
fn partial_ends_with_a_clear_behind_all_that_is_missing() {
    let mut stream = Stream::asked_in_vain();
    stream.live([0]);
    let early = stream.places[0];
    // Batches 3 and 7 clear everything; 5 and 6 are nowhere.
    stream.live([3, 7]).replies([0, 3, 7]).end().is(partial(Reason::NotReplayed), [0, 3, 7]);
    let (before, after) = (stream.places[1], stream.places[2]);
    stream.with(|tracker, _, out| tracker.cleared(early, out));
    stream.with(|tracker, _, out| tracker.cleared(before, out));
    stream.is(partial(Reason::NotReplayed), [0, 3, 7]);
    stream.with(|tracker, _, out| tracker.cleared(after, out));
    stream.is(LIVE, [0, 3, 7]);
    // A clear of an older life says nothing about this one.
    let mut stream = Stream::new(false);
    stream.live([7]);
    let old = stream.places[0];
    stream.live([105]);
    stream.with(|tracker, _, out| tracker.cleared(old, out));
    stream.is(partial(Reason::JoinedLate), [105]);
    stream.live([200]).is(LIVE, [200]);
}

#[test]
fn what_a_replay_only_hints_at_is_partial_until_live_gets_there() {
    // An answer without end may be one without its rest.
    let mut stream = Stream::new(true);
    stream.replies(0..3).wait().replies([2]).wait().is(partial(Reason::Behind), 0..3);
    stream.live([2]).is(partial(Reason::Behind), 0..3);
    stream.live([3]).is(LIVE, 0..4);
    // A reply beyond the subscription, and nothing of what lies between.
    let mut stream = Stream::asked_in_vain();
    stream.live([0, 2]).replies([0, 1, 2, 5]).end().is(partial(Reason::Behind), 0..3);
    stream.live([3, 4]).is(partial(Reason::Behind), 0..5);
    stream.live([5, 6]).is(LIVE, 0..7);
}

#[test]
fn a_connection_that_comes_late_is_another_beginning() {
    let mut stream = Stream::new(true);
    stream.wait().is(Trust::Connecting, []);
    stream.with(Tracker::begin);
    stream.replies(0..3).end().is(LIVE, 0..3);
    stream.with(Tracker::begin);
    assert_eq!(stream.asked, [0, 0]);
}

#[test]
fn a_hold_that_overflows_lets_everything_go() {
    let mut stream = Stream::asked_in_vain();
    stream.live([0]);
    for sequence in 2..2 + HOLD_MESSAGES as u64 {
        stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
    }
    assert_eq!((stream.tracker.held(), stream.applied.len()), (HOLD_MESSAGES, 1));
    let last = 2 + HOLD_MESSAGES as u64;
    stream.with(|tracker, now, out| tracker.live(at(last), now, out));
    stream.is(partial(Reason::HoldFull), [0].into_iter().chain(2..=last));
    assert!(!stream.replies([1]).tracker.asking());
    let mut stream = Stream::asked_in_vain();
    let large = Numbered { bytes: HOLD_BYTES + 1, ..at(5) };
    stream.with(|tracker, now, out| tracker.live(large, now, out));
    stream.is(partial(Reason::HoldFull), [5]);
    assert_eq!(stream.tracker.held_bytes(), 0);
}

#[test]
fn numbers_reach_to_their_end() {
    for replay in [false, true] {
        let mut stream = Stream::new(replay);
        stream.with(Tracker::replay_end);
        for sequence in [0, u64::MAX - 1, u64::MAX, u64::MAX, 0, 1, u64::MAX, 2, u64::MAX - 1, 0] {
            stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
            stream.wait().wait();
        }
        // Nothing follows the last of all numbers: 1, 2 and the last 0 are of new lives.
        assert_eq!((stream.tracker.last(), stream.tracker.counts().restarts), (Some(0), 3));
        assert_eq!(stream.tracker.held(), 0);
    }
}

#[test]
fn a_replay_that_always_differs_is_not_believed_for_ever() {
    let mut stream = Stream::asked_in_vain();
    let mut restarts = 0;
    for round in 0..20u64 {
        stream.live([2 * round]);
        // Every answer claims another past.
        for life in 1..10 {
            if !stream.tracker.asking() {
                break;
            }
            stream.replies((0..=2 * round).map(|sequence| 100 * (life + round) + sequence)).end();
        }
        assert!(!stream.tracker.asking(), "round {round}");
        let now = stream.tracker.counts().restarts;
        assert!(now - restarts <= 3, "{} restarts for one message", now - restarts);
        restarts = now;
    }
}

#[test]
fn memory_is_bounded_and_what_it_forgot_is_a_restart() {
    let mut stream = Stream::new(false);
    let count = STREAM_MEMORY as u64 + 10;
    for sequence in 0..count {
        stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
    }
    stream.with(|tracker, now, out| tracker.live(at(10), now, out));
    assert_eq!(stream.tracker.counts().restarts, 0);
    stream.with(|tracker, now, out| tracker.live(at(9), now, out));
    assert_eq!(stream.tracker.counts().restarts, 1);
    stream.is(partial(Reason::JoinedLate), [9]);
}
