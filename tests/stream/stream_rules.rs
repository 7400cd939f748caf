//! Set-up: one tracker and plain numbers, no sockets. Claim: each rule of a numbered stream holds where it is
//! easiest to see: how a stream begins, what a gap, a repeat, a restart and a reconnect do, what ends
//! `partial`, what happens at the bounds and with replays that make no sense.

use std::time::{Duration, Instant};

use kvatlas::limits::{HOLD_BYTES, HOLD_MESSAGES, STREAM_COMPARED, STREAM_MEMORY};
use kvatlas::stream::sequence::Tracker;
use kvatlas::stream::trust::{Action, Numbered, Place, Reason, Trust};

const IDLE: Duration = Duration::from_secs(2);

/// A tracker and what its caller has: contents, which are 100 times the life plus the number.
struct Stream {
    tracker: Tracker<u64>,
    now: Instant,
    applied: Vec<u64>,
    asked: Vec<u64>,
    places: Vec<Place>,
}

impl Stream {
    fn new(replay: bool) -> Self {
        let tracker = Tracker::new(replay.then_some(IDLE));
        let (now, applied, asked) = (Instant::now(), Vec::new(), Vec::new());
        let mut stream = Self { tracker, now, applied, asked, places: Vec::new() };
        stream.with(Tracker::begin);
        stream
    }

    /// With a replay endpoint that had nothing when it was first asked.
    fn asked_in_vain() -> Self {
        let mut stream = Self::new(true);
        stream.end();
        stream
    }

    fn with<T>(&mut self, what: impl FnOnce(&mut Tracker<u64>, Instant, &mut Vec<Action<u64>>) -> T) -> T {
        let mut out = Vec::new();
        let result = what(&mut self.tracker, self.now, &mut out);
        for action in out {
            match action {
                Action::Apply(place, content) => {
                    self.applied.push(content);
                    self.places.push(place);
                }
                Action::Restart => self.applied.clear(),
                Action::AskReplay { from, .. } => self.asked.push(from),
                Action::Drop(_) | Action::Trust(_) => {}
            }
        }
        result
    }

    fn live(&mut self, contents: impl IntoIterator<Item = u64>) -> &mut Self {
        for content in contents {
            let message = numbered(content);
            if self.tracker.advance(message.sequence, content) {
                self.applied.push(content);
                self.places.push(self.tracker.place(message.sequence));
            } else {
                self.with(|tracker, now, out| tracker.live(message, now, out));
            }
        }
        self
    }

    fn replies(&mut self, contents: impl IntoIterator<Item = u64>) -> &mut Self {
        for content in contents {
            if !self.with(|tracker, now, out| tracker.replayed(numbered(content), now, out)) {
                break;
            }
        }
        self
    }

    fn end(&mut self) -> &mut Self {
        self.with(Tracker::replay_end);
        self
    }

    fn wait(&mut self) -> &mut Self {
        self.now += IDLE;
        self.with(Tracker::tick);
        self
    }

    #[track_caller]
    fn is(&self, trust: Trust, applied: impl IntoIterator<Item = u64>) {
        assert_eq!(self.applied, applied.into_iter().collect::<Vec<_>>());
        assert_eq!(self.tracker.trust(), trust);
    }
}

fn numbered(content: u64) -> Numbered<u64> {
    Numbered { sequence: content % 100, content, bytes: 8, message: content }
}

fn at(sequence: u64) -> Numbered<u64> {
    Numbered { sequence, content: sequence, bytes: 8, message: sequence }
}

const LIVE: Trust = Trust::Live;

fn partial(reason: Reason) -> Trust {
    Trust::Partial(reason)
}

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
fn after_a_reconnect_the_past_must_be_the_same() {
    let mut same = Stream::asked_in_vain();
    same.live(0..4).tracker.reconnected();
    same.live([4]).is(Trust::Replaying, 0..4);
    same.replies([3, 4]).end().is(LIVE, 0..5);
    let mut other = Stream::asked_in_vain();
    other.live(0..4).tracker.reconnected();
    other.live([107]).replies([103]).is(Trust::Replaying, []);
    other.replies(100..108).end().is(LIVE, 100..108);
    assert_eq!(other.asked, [0, 0, 0]);
    // The word of it may come only behind the first messages of the other life.
    let mut mixed = Stream::asked_in_vain();
    mixed.live(0..4).live([104]).is(LIVE, [0, 1, 2, 3, 104]);
    mixed.tracker.reconnected();
    mixed.live([105]).replies([100]).replies(100..106).end().is(LIVE, 100..106);
    let mut long = Stream::asked_in_vain();
    for sequence in 0..=1000 {
        if sequence == 1000 {
            long.tracker.reconnected();
        }
        long.with(|tracker, now, out| tracker.live(at(sequence), now, out));
    }
    assert_eq!(long.asked, [0, 999 - STREAM_COMPARED as u64]);
    let mut unknown = Stream::asked_in_vain();
    unknown.live(0..4).tracker.reconnected();
    unknown.live([4]).replies([4]).end().is(partial(Reason::Unverified), 0..5);
}

#[test]
fn a_repeat_after_a_reconnect_is_compared() {
    // The same life: the answer begins with what is remembered, and has the rest.
    let mut same = Stream::asked_in_vain();
    same.live(0..4).tracker.reconnected();
    same.live([3]).is(Trust::Replaying, 0..4);
    same.replies([0, 1, 2, 3, 4]).end().is(LIVE, 0..5);
    assert_eq!((same.asked.clone(), same.tracker.counts().repeats), (vec![0, 0], 1));
    // Another one that began alike.
    let mut other = Stream::asked_in_vain();
    other.live(0..4).tracker.reconnected();
    other.live([0]).is(Trust::Replaying, 0..4);
    other.replies([0, 101]).is(Trust::Replaying, []);
    other.replies([0, 101]).end().is(LIVE, [0, 101]);
    // Without a replay endpoint nothing can be asked: the first message that is new decides.
    let mut blind = Stream::new(false);
    blind.live(0..4).tracker.reconnected();
    blind.live([2, 3]).is(partial(Reason::Unverified), 0..4);
    blind.live([4]).is(LIVE, 0..5);
    blind.tracker.reconnected();
    blind.live([0, 101]).is(partial(Reason::TakenForRepeats), [101]);
}

/// Tells a stream that is at rest that its connection came back.
fn back(stream: &mut Stream) -> &mut Stream {
    stream.tracker.reconnected();
    stream.with(Tracker::begin);
    stream
}

#[test]
fn a_connection_that_came_back_is_compared_before_any_message() {
    // The same life, which lost some in between; one request, and the next message just follows.
    let mut same = Stream::asked_in_vain();
    back(same.live(0..4)).is(Trust::Replaying, 0..4);
    same.replies(0..6).end().is(LIVE, 0..6);
    assert!(same.tracker.advance(6, 6));
    assert_eq!(same.asked, [0, 0]);
    // Another one.
    let mut other = Stream::asked_in_vain();
    back(other.live(0..4)).replies([100]).is(Trust::Replaying, []);
    other.replies(100..103).end().is(LIVE, 100..103);
    assert_eq!(other.tracker.counts().restarts, 1);
}

#[test]
fn an_answer_from_before_the_last_connection_proves_nothing_of_it() {
    for answered_whole in [true, false] {
        let mut stream = Stream::asked_in_vain();
        back(stream.live([0, 1]));
        assert_eq!(stream.asked, [0, 0]);
        // the connection is lost and comes back before the answer has been read
        back(&mut stream).replies([0, 1]);
        if answered_whole {
            stream.end();
        } else {
            stream.wait();
        }
        assert_eq!(stream.asked, [0, 0, 0], "the new connection is compared as well");
        stream.is(Trust::Replaying, [0, 1]);
        stream.replies([100, 101]).replies([100, 101]).end();
        stream.is(LIVE, [100, 101]);
    }
}

#[test]
fn a_life_that_is_shorter_than_what_is_remembered_is_found_out_from_below() {
    let mut stream = Stream::asked_in_vain();
    let last = STREAM_COMPARED as u64 + 50;
    for sequence in 0..=last {
        stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
    }
    back(&mut stream).end();
    assert_eq!(stream.asked, [0, 50, 0]);
    // The very beginning may be alike: numbers below and none above are another life.
    stream.replies([0]).is(Trust::Replaying, []);
    stream.replies([0, 101]).end().is(LIVE, [0, 101]);
}

#[test]
fn a_comparison_with_nothing_leaves_it_to_the_next_message() {
    let unverified = partial(Reason::Unverified);
    // Without any batch the answer speaks of no life: what is there stays, and is not called live.
    let mut empty = Stream::asked_in_vain();
    back(empty.live(0..4)).end().is(unverified, 0..4);
    empty.live([4]).is(Trust::Replaying, 0..4);
    empty.replies(3..5).end().is(LIVE, 0..5);
    let mut empty = Stream::asked_in_vain();
    back(empty.live(0..4)).end().live([100]).replies([100]).end().is(LIVE, [100]);
    // An answer that breaks off before it comes to what was applied last.
    let mut short = Stream::asked_in_vain();
    back(short.live(0..4)).replies(0..2).end().is(unverified, 0..4);
    // Silence says nothing at all.
    let mut silent = Stream::asked_in_vain();
    back(silent.live(0..4)).wait().is(LIVE, 0..4);
    silent.live([4]).replies([3, 4]).end().is(LIVE, 0..5);
    assert_eq!(silent.asked, [0, 0, 0]);
}

#[test]
fn a_message_takes_the_place_of_a_comparison() {
    let mut stream = Stream::asked_in_vain();
    back(stream.live(0..4)).live([4]).is(Trust::Replaying, 0..4);
    stream.replies(3..5).end().is(LIVE, 0..5);
    assert_eq!(stream.asked, [0, 0, 0]);
    // What was asked before may be answered by either life, so the comparison comes behind it.
    let mut asking = Stream::new(true);
    back(asking.live(0..2));
    assert_eq!(asking.asked, [0]);
    asking.wait().is(Trust::Replaying, 0..2);
    assert_eq!(asking.asked, [0, 0]);
    asking.replies([100]).replies([100]).end().is(LIVE, [100]);
    // Where there is nobody to ask, the connection asks for nothing.
    let mut blind = Stream::new(false);
    back(blind.live(0..4)).is(LIVE, 0..4);
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
fn an_answer_of_a_third_life_proves_nothing() {
    let mut stream = Stream::asked_in_vain();
    stream.live(0..7).tracker.reconnected();
    // Of the second life batch 8 was heard; its answer breaks off, and the third life has nothing.
    stream.live([108]).replies([106]).replies(100..105).wait().end();
    stream.is(partial(Reason::Unverified), 100..105);
}

#[test]
fn an_answer_that_breaks_off_leaves_what_follows_the_life_before_in_doubt() {
    let mut stream = Stream::asked_in_vain();
    // Batch 1 of the second life is awaited; the answer has that of the third, and ends there.
    stream.live([1, 101]).replies([201]).wait().is(Trust::Replaying, [201]);
    // The second life still comes over the subscription, and its number follows.
    stream.live([102]).is(Trust::Replaying, [201]);
    stream.replies([201]).end().replies([201]).end().is(LIVE, [201]);
}

#[test]
fn what_is_doubted_goes_only_when_a_second_answer_does_not_have_it() {
    let mut stream = Stream::asked_in_vain();
    stream.live([1, 2]).tracker.reconnected();
    stream.live([3, 4]).replies([1, 2]).end().is(Trust::Replaying, [1, 2]);
    stream.replies([2, 3, 4]).end().is(LIVE, [1, 2, 3, 4]);
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
