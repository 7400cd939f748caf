//! Set-up: one tracker and plain numbers, no sockets; time passes. Claim: what is missing is asked for once more after
//! a pause, which doubles; everything begins again only when the publisher has shown that it remembers everything; and
//! nothing is asked where nothing can be put right.

use std::time::{Duration, Instant};

use kvatlas::limits::{HOLD_BYTES, MEND_MAX_SECONDS, MEND_SECONDS, STREAM_MEMORY};
use kvatlas::stream::topics::Topics;
use kvatlas::stream::trust::{Action, Numbered, Place, Reason, Trust};

use super::one_stream::{IDLE, LIVE, Stream, at, numbered, partial};

/// Lets so many seconds pass, seen every second.
fn rest(stream: &mut Stream, seconds: u64) -> &mut Stream {
    for _ in 0..=seconds {
        stream.with(kvatlas::stream::sequence::Tracker::tick);
        stream.now += Duration::from_secs(1);
    }
    stream
}

/// A stream that lost batch 2 because the replay was silent.
fn holed() -> Stream {
    let mut stream = Stream::asked_in_vain();
    stream.live([0, 1, 3]).wait().is(partial(Reason::ReplayFailed), [0, 1, 3]);
    stream.asked.clear();
    stream
}

/// The same as the only topic of an endpoint.
fn holed_topic(now: Instant) -> Topics<u64> {
    let (mut topics, mut out) = (Topics::new(Some(IDLE)), Vec::new());
    topics.begin(now, &mut out);
    topics.replay_end(1, now, &mut out);
    for content in [0, 1, 3] {
        topics.live(b"one", numbered(content), now, &mut out);
    }
    topics.replay_failed(2, now, &mut out);
    topics
}

#[test]
fn a_hole_is_mended_when_the_publisher_remembers_everything() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS - 1);
    assert!(stream.asked.is_empty(), "not before the pause is over");
    rest(&mut stream, 1).is(partial(Reason::ReplayFailed), [0, 1, 3]);
    // The memory is read while live batches go on, and takes the place of what was there at its end.
    stream.replies([0, 1]).live([4]).replies([2, 3, 4]).is(partial(Reason::ReplayFailed), [0, 1, 3, 4]);
    stream.end().live([5]).is(LIVE, 0..6);
    assert_eq!(stream.asked, [0]);
    let counts = stream.tracker.counts();
    assert_eq!((counts.rereads, counts.restarts), (1, 0));
}

#[test]
fn what_came_while_the_memory_was_read_is_asked_for() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS).replies(0..4).live([4, 5]).end();
    stream.is(partial(Reason::Behind), 0..4);
    assert_eq!(stream.asked, [0, 3]);
    stream.live([6]).is(Trust::Replaying, 0..4);
    stream.replies(3..7).end().is(LIVE, 0..7);
    // An answer that does not have it, or none, leaves nothing that says live.
    for whole in [true, false] {
        let mut lost = holed();
        rest(&mut lost, MEND_SECONDS).replies(0..4).live([4, 5]).end();
        if whole {
            lost.replies([3]).end();
        } else {
            lost.wait();
        }
        lost.is(partial(Reason::Behind), 0..4);
        rest(&mut lost, 2 * MEND_SECONDS).replies(3..6).end().is(LIVE, 0..6);
    }
}

#[test]
fn an_answer_that_was_cut_is_read_on() {
    for broken in [true, false] {
        let mut stream = holed();
        rest(&mut stream, MEND_SECONDS).replies([0, 1]);
        if broken {
            stream.wait();
        } else {
            stream.replies([3]);
        }
        assert_eq!(stream.asked, [0, 1]);
        stream.replies([1, 2, 3]).end().is(LIVE, 0..4);
    }
    // One that never gets further is left.
    let mut stuck = holed();
    rest(&mut stuck, MEND_SECONDS)
        .replies([0, 1, 3])
        .replies([1, 3])
        .is(partial(Reason::ReplayFailed), [0, 1, 3]);
    assert!(!stuck.tracker.asking());
    // What goes on is of another life than what was read.
    let mut other = holed();
    rest(&mut other, MEND_SECONDS).replies([0, 1]).wait();
    other.replies([101]).is(Trust::Replaying, []);
}

#[test]
fn what_would_never_be_caught_up_with_takes_nothing_away() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS).replies(0..4);
    for sequence in 4..200 {
        stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
    }
    stream.end().is(partial(Reason::ReplayFailed), [0, 1].into_iter().chain(3..200));
}

#[test]
fn a_memory_that_is_more_than_may_be_held_is_left() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS);
    let large = |sequence| Numbered { bytes: HOLD_BYTES / 3, ..at(sequence) };
    for sequence in 0..3 {
        stream.with(|tracker, now, out| tracker.replayed(large(sequence), now, out));
    }
    assert!(!stream.tracker.asking() && stream.tracker.is_beyond_repair());
    rest(&mut stream, 3 * MEND_SECONDS).is(partial(Reason::ReplayFailed), [0, 1, 3]);
    assert_eq!(stream.asked, [0]);
}

#[test]
fn what_the_publisher_no_longer_remembers_is_not_asked_for_again() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS).replies([2, 3]).is(partial(Reason::ReplayFailed), [0, 1, 3]);
    rest(&mut stream, 3 * MEND_MAX_SECONDS);
    assert_eq!(stream.asked, [0]);
    assert!(stream.tracker.is_beyond_repair());
    // Nothing is missing once everything was cleared.
    stream.live([4]);
    stream.with(|tracker, _, out| tracker.cleared(Place { life: 0, sequence: 4 }, out));
    assert_eq!((stream.tracker.trust(), stream.tracker.is_beyond_repair()), (LIVE, false));
    // Another life is another matter.
    stream.live([101, 103]).end().wait().is(partial(Reason::NotReplayed), [101, 103]);
    let asked = stream.asked.len();
    rest(&mut stream, 2 * MEND_SECONDS);
    assert_eq!(stream.asked.len(), asked + 1);
}

#[test]
fn a_memory_with_holes_or_without_the_latest_takes_nothing_away() {
    for answer in [vec![0, 1, 3], vec![0, 1, 2], vec![]] {
        let mut stream = holed();
        rest(&mut stream, MEND_SECONDS).replies(answer).end();
        // once more from there, in vain
        if stream.tracker.asking() {
            stream.end();
        }
        stream.is(partial(Reason::ReplayFailed), [0, 1, 3]);
        assert_eq!(stream.tracker.counts().rereads, 0);
    }
    let mut broken = holed();
    rest(&mut broken, MEND_SECONDS).replies([0, 1, 2, 3]).wait().wait();
    broken.is(partial(Reason::ReplayFailed), [0, 1, 3]);
}

#[test]
fn a_memory_of_another_life_is_a_restart() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS).replies([0, 101]).is(Trust::Replaying, []);
    stream.replies([0, 101]).end().is(LIVE, [0, 101]);
    assert_eq!((stream.tracker.counts().restarts, stream.tracker.counts().rereads), (1, 0));
}

#[test]
fn the_pause_doubles_until_all_is_well() {
    let mut stream = holed();
    let mut pause = MEND_SECONDS;
    for attempt in 1..10 {
        rest(&mut stream, pause - 1);
        assert_eq!(stream.asked.len(), attempt - 1, "too early");
        rest(&mut stream, 1);
        assert_eq!(stream.asked.len(), attempt, "too late");
        stream.wait();
        pause = (2 * pause).min(MEND_MAX_SECONDS);
    }
    assert_eq!(pause, MEND_MAX_SECONDS);
    rest(&mut stream, pause).replies(0..4).end().is(LIVE, 0..4);
    rest(&mut stream, 1).live([5]).wait().is(partial(Reason::ReplayFailed), [0, 1, 2, 3, 5]);
    stream.asked.clear();
    rest(&mut stream, MEND_SECONDS);
    assert_eq!(stream.asked, [0]);
}

#[test]
fn a_gap_comes_before_mending() {
    let mut stream = holed();
    rest(&mut stream, MEND_SECONDS).replies([0]).live([5]);
    assert_eq!(stream.asked, [0, 3]);
    stream.replies([3, 4, 5]).end().is(partial(Reason::ReplayFailed), [0, 1, 3, 4, 5]);
}

#[test]
fn a_first_replay_that_failed_is_asked_for_again() {
    let mut stream = Stream::new(true);
    stream.wait().is(Trust::Connecting, []);
    rest(&mut stream, MEND_SECONDS).replies(0..3).end().is(LIVE, 0..3);
    assert_eq!(stream.asked, [0, 0]);
}

#[test]
fn the_rest_of_an_answer_that_broke_off_is_asked_for() {
    let mut stream = Stream::new(true);
    stream.replies(0..3).wait().replies([2]).wait().is(partial(Reason::Behind), 0..3);
    stream.asked.clear();
    rest(&mut stream, MEND_SECONDS).replies([2]).end().is(LIVE, 0..3);
    assert_eq!(stream.asked, [2], "nothing that came is asked for again");
    // What a replay knows of and the subscription never brings.
    let far = STREAM_MEMORY as u64 + 10;
    let mut lost = Stream::asked_in_vain();
    lost.live([0, 2]);
    for sequence in 0..=far {
        lost.with(|tracker, now, out| tracker.replayed(at(sequence), now, out));
    }
    lost.end().is(partial(Reason::Behind), 0..far - 7);
    rest(&mut lost, MEND_SECONDS);
    for sequence in far - 8..=far {
        lost.with(|tracker, now, out| tracker.replayed(at(sequence), now, out));
    }
    lost.end().is(LIVE, 0..=far);
}

#[test]
fn a_stream_that_still_goes_on_is_not_asked_for_its_rest() {
    let mut stream = Stream::new(true);
    stream.live([0]);
    for sequence in 0..1100 {
        stream.with(|tracker, now, out| tracker.replayed(at(sequence), now, out));
    }
    stream.end();
    stream.asked.clear();
    assert_eq!(stream.tracker.trust(), partial(Reason::Behind));
    for sequence in 1025..1025 + 3 * MEND_SECONDS {
        stream.with(|tracker, now, out| tracker.live(at(sequence), now, out));
        rest(&mut stream, 0);
    }
    assert_eq!((stream.tracker.trust(), stream.asked.len()), (partial(Reason::Behind), 0));
}

#[test]
fn what_a_replay_cannot_put_right_is_left_alone() {
    for (why, asks) in [(Reason::Unread, 0), (Reason::NotEntered, 0), (Reason::HoldFull, 1)] {
        let mut stream = Stream::asked_in_vain();
        stream.live([0, 1]).asked.clear();
        stream.with(|tracker, _, out| tracker.spoiled(Place { life: 0, sequence: 1 }, why, out));
        rest(&mut stream, MEND_SECONDS);
        assert_eq!(stream.asked.len(), asks, "{why:?}");
    }
    let mut blind = Stream::new(false);
    rest(blind.live([0, 2]), MEND_MAX_SECONDS).is(partial(Reason::Gap), [0, 2]);
    assert!(blind.asked.is_empty());
}

#[test]
fn what_another_topic_brought_is_not_put_at_risk() {
    for both in [false, true] {
        let (mut now, mut out) = (Instant::now(), Vec::new());
        let mut topics = holed_topic(now);
        if both {
            topics.live(b"two", numbered(0), now, &mut out);
            topics.replay_end(3, now, &mut out);
        }
        assert_eq!(topics.trust(), partial(Reason::ReplayFailed));
        out.clear();
        for _ in 0..=MEND_SECONDS {
            topics.tick(true, now, &mut out);
            now += Duration::from_secs(1);
        }
        let asked = out.iter().filter(|action| matches!(action, Action::AskReplay { from: 0, .. })).count();
        assert_eq!(asked, usize::from(!both));
        if !both {
            // another one brings something while the memory is read
            for content in 0..4 {
                topics.replayed(3, None, numbered(content), now, &mut out);
            }
            topics.live(b"two", numbered(0), now, &mut out);
            out.clear();
            topics.replay_end(3, now, &mut out);
            assert!(!out.iter().any(|action| matches!(action, Action::StartOver)));
        }
    }
}

#[test]
fn no_more_is_read_again_than_there_is_memory_for() {
    let (mut now, mut out) = (Instant::now(), Vec::new());
    let mut topics = holed_topic(now);
    for free in [false, true] {
        let mut ticks = (0..2 * MEND_SECONDS).map(|second| now + Duration::from_secs(second));
        let began = ticks.any(|now| {
            topics.tick(free, now, &mut out);
            topics.is_mending()
        });
        assert_eq!(began, free);
        now += Duration::from_secs(2 * MEND_SECONDS);
    }
}
