//! Set-up: one tracker and plain numbers, no sockets. Claim: when a connection has come back, or an answer tells of
//! another life, nothing is called live before the past has been compared, and nothing of a life that is over stays.

use kvatlas::limits::STREAM_COMPARED;
use kvatlas::stream::trust::{Reason, Trust};

use super::one_stream::{LIVE, Stream, at, back, partial};

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
fn an_answer_of_a_third_life_proves_nothing() {
    let mut stream = Stream::asked_in_vain();
    stream.live(0..7).tracker.reconnected();
    // Of the second life batch 8 was heard; its answer breaks off, and the third life has nothing.
    stream.live([108]).replies([106]).replies(100..105).wait().end();
    stream.is(partial(Reason::Unverified), 100..105);
}

#[test]
fn what_came_live_before_the_first_answer_is_compared_with_it() {
    let mut stream = Stream::new(true);
    stream.live([0, 1]).is(LIVE, [0, 1]);
    // The answer goes on where the live batches end, but begins behind them: it may be of a later life.
    stream.replies([102, 103]).end().is(partial(Reason::Unverified), [0, 1, 102, 103]);
    let mut same = Stream::new(true);
    same.live([0, 1]).replies([1, 2]).end().is(LIVE, [0, 1, 2]);
}

#[test]
fn a_life_that_began_alike_and_is_shorter_is_not_called_the_same() {
    let mut stream = Stream::asked_in_vain();
    stream.live(0..11).tracker.reconnected();
    // a repeat, and an answer that ends with it
    stream.live([3]).replies(0..4).end().is(partial(Reason::Unverified), 0..11);
    stream.live([104]).replies([0, 1, 2, 3, 104]).end().is(LIVE, [0, 1, 2, 3, 104]);
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
