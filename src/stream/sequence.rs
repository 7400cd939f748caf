//! The decisions about one numbered stream: what to apply, what to wait for, what to ask again, what to
//! forget. No sockets and no clock: numbers, content hashes and the time go in, actions come out.
//!
//! Live messages queue up in `held` and leave it in order. While the next number is not there, they wait for
//! one answer of the replay endpoint; what it does not have never comes. A request begins at the last number
//! applied, not behind it: the first reply then proves that the answer speaks of the same life.

mod answer;
mod mend;
mod probe;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use self::answer::Ask;
use self::mend::Mending;
use super::past::Past;
use super::trust::{Action, Counts, Numbered, Place, Reason, Trust};
use crate::limits::{HOLD_BYTES, HOLD_MESSAGES};

/// One stream: the numbered messages of one topic of one endpoint.
#[derive(Debug)]
pub struct Tracker<M> {
    replay: Option<Duration>,
    life: u64,
    /// Last number applied in this life.
    last: Option<u64>,
    /// Last number that came live in this life.
    heard: Option<u64>,
    past: Past,
    held: VecDeque<Numbered<M>>,
    held_bytes: usize,
    ask: Option<Ask>,
    /// Requests of the present chain, and contradictions in a row.
    chain: u32,
    contradictions: u32,
    /// The request before failed.
    failing: bool,
    reconnected: bool,
    /// The connection is there again, and nothing was compared since.
    uncompared: bool,
    /// After a reconnect the publisher's memory had nothing to compare, or it only repeated itself and has no memory
    /// to ask: it may be another life. The next message decides.
    unsure: bool,
    /// The publisher said that it has published nothing.
    empty: bool,
    /// The number of the message before, when it was dropped as a repeat.
    repeated: Option<u64>,
    /// Why something is missing, and the highest number of it.
    partial: Option<(Reason, u64)>,
    /// A number that exists, or may, and has not come.
    behind: Option<u64>,
    /// It only may: an answer broke off behind what came live.
    guessed: bool,
    mending: Mending<M>,
    said: Trust,
    counts: Counts,
}

impl<M> Tracker<M> {
    /// A stream of which nothing is known. With a replay endpoint, `replay` is how long it may stay silent.
    pub fn new(replay: Option<Duration>) -> Self {
        Self {
            replay,
            life: 0,
            last: None,
            heard: None,
            past: Past::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            ask: None,
            chain: 0,
            contradictions: 0,
            failing: false,
            reconnected: false,
            uncompared: false,
            unsure: false,
            empty: false,
            repeated: None,
            partial: None,
            behind: None,
            guessed: false,
            mending: Mending::default(),
            said: Trust::Connecting,
            counts: Counts::default(),
        }
    }

    /// Begins with a replay of everything, where there is one and nothing came yet, and after a reconnect with a
    /// comparison of the past: call it once the subscription is made, and whenever it is connected.
    pub fn begin(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        if self.replay.is_some() && self.last.is_none() && self.ask.is_none() {
            self.ask(false, now, out);
        } else {
            self.uncompared = self.reconnected;
            self.compare_link(now, out);
        }
        self.tell(out);
    }

    /// Takes a message that simply follows: `true` means apply it, and nothing else is to be done. The fast
    /// way for almost all messages; the others go to [`Self::live`].
    pub fn advance(&mut self, sequence: u64, content: u64) -> bool {
        let quiet = self.held.is_empty() && !self.verifying() && self.behind.is_none();
        let known = self.last.is_some() && self.heard.is_some() && !self.reconnected && !self.unsure;
        if !quiet || !known || !self.follows(sequence) {
            return false;
        }
        self.heard = Some(sequence);
        self.repeated = None;
        self.advanced(sequence, content);
        true
    }

    /// A message came from the subscription.
    pub fn live(&mut self, message: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        let sequence = message.sequence;
        let reconnected = mem::take(&mut self.reconnected);
        let unsure = mem::take(&mut self.unsure);
        let highest = self.held.back().map(|held| held.sequence).or(self.last);
        if highest.is_some_and(|highest| sequence <= highest) {
            if self.known(sequence) == Some(message.content) {
                self.counts.repeats += 1;
                self.repeated = Some(sequence);
                self.heard = self.heard.max(Some(sequence));
                self.unsure = self.replay.is_none() && (reconnected || unsure);
                out.push(Action::Drop(message.message));
                if reconnected && self.replay.is_some() && self.last.is_some() {
                    // a repeat after a reconnect may as well be the beginning of a life that began alike
                    self.ask(true, now, out);
                }
                return self.tell(out);
            }
            self.restart(out);
            if let (Some(repeated), None) = (self.repeated, self.replay)
                && repeated.checked_add(1) == Some(sequence)
            {
                self.mark(Reason::TakenForRepeats, repeated);
            }
        } else if reconnected && self.replay.is_some() {
            // Another life may have begun, even where the number follows.
            self.ask = None;
        }
        self.repeated = None;
        self.counts.gaps += u64::from(highest.is_some_and(|highest| sequence > highest.saturating_add(1)));
        self.heard = Some(sequence);
        self.held_bytes += message.bytes;
        self.held.push_back(message);
        if reconnected && self.replay.is_some() && self.last.is_some() {
            self.ask(true, now, out);
        }
        self.settle(None, Reason::Gap, now, out);
        if reconnected && self.held.len() > 1 && !self.verifying() {
            self.doubt();
        }
        if self.held.len() > HOLD_MESSAGES || self.held_bytes > HOLD_BYTES {
            self.overflow(now, out);
        }
        self.tell(out);
    }

    /// The connection was lost and came back: the next message may be of another life.
    pub fn reconnected(&mut self) {
        self.reconnected = true;
    }

    /// The batch at `place` cleared all that the stream had brought: what was missing below no longer is.
    pub fn cleared(&mut self, place: Place, out: &mut Vec<Action<M>>) {
        if place.life == self.life && self.partial.is_some_and(|(_, until)| until < place.sequence) {
            self.partial = None;
        }
        self.tell(out);
    }

    /// The publisher is known to have begun anew, before the next message; what is held goes as well.
    pub fn restarted(&mut self, out: &mut Vec<Action<M>>) {
        self.restart(out);
        self.repeated = None;
        self.tell(out);
    }

    /// Something of the batch at `place` is missing, or may be, though the batch came.
    pub fn spoiled(&mut self, place: Place, why: Reason, out: &mut Vec<Action<M>>) {
        if place.life == self.life {
            self.mark(why, place.sequence);
        }
        self.tell(out);
    }

    /// What was applied was lost with what another stream brought: it comes again from a replay, or is missing.
    pub fn swept(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        match self.last {
            None => {}
            Some(last) if self.replay.is_none() => self.mark(Reason::Swept, last),
            Some(_) => {
                self.forget(out);
                self.begin(now, out);
            }
        }
        self.tell(out);
    }

    /// What was applied is no longer kept: everything is new again, though the publisher may be the same.
    pub fn forgotten(&mut self, out: &mut Vec<Action<M>>) {
        self.forget(out);
        self.repeated = None;
        self.tell(out);
    }

    /// Stops waiting: what is held is applied, with gaps.
    pub fn overflow(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        self.counts.overflows += 1;
        self.yield_to_live(Reason::HoldFull, now, out);
        self.tell(out);
    }

    /// How far the stream can be trusted.
    pub fn trust(&self) -> Trust {
        let initial = self.ask.is_some_and(|ask| ask.fresh && self.heard.is_none());
        match self.partial {
            Some((reason, _)) => Trust::Partial(reason),
            None if initial || !self.held.is_empty() || self.verifying() => Trust::Replaying,
            None if self.behind.is_some() => Trust::Partial(Reason::Behind),
            None if self.unsure => Trust::Partial(Reason::Unverified),
            None if self.last.is_none() && !self.empty => Trust::Connecting,
            None => Trust::Live,
        }
    }

    /// The place of a number in the present life.
    pub fn place(&self, sequence: u64) -> Place {
        Place { life: self.life, sequence }
    }

    /// Whether an answer is awaited.
    pub fn asking(&self) -> bool {
        self.ask.is_some()
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Messages that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Last number applied in the present life.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Batches that are known of and not applied yet: those that are held, and what is missing before them.
    pub fn lag(&self) -> u64 {
        let known = self.held.back().map(|held| held.sequence).max(self.heard).max(self.behind);
        let ahead = known.zip(self.last).map_or(0, |(known, last)| known.saturating_sub(last));
        ahead.max(self.held.len() as u64)
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl<M> Tracker<M> {
    /// Lets held messages go as far as numbers follow, and past gaps up to `upto`; asks for the next gap.
    fn settle(&mut self, upto: Option<u64>, why: Reason, now: Instant, out: &mut Vec<Action<M>>) {
        while let Some(front) = self.held.front() {
            let sequence = front.sequence;
            if self.verifying() || self.unconfirmed() {
                return;
            }
            if !self.follows(sequence) {
                if self.ask.is_some_and(|ask| !ask.scan) {
                    return;
                }
                if self.replay.is_some() && upto < Some(sequence) {
                    return self.ask(false, now, out);
                }
                self.lose(sequence, why);
            }
            self.apply_front(out);
        }
    }

    fn restart(&mut self, out: &mut Vec<Action<M>>) {
        self.counts.restarts += 1;
        out.push(Action::Restart);
        self.forget(out);
    }

    fn forget(&mut self, out: &mut Vec<Action<M>>) {
        self.life += 1;
        self.last = None;
        self.heard = None;
        self.past.clear();
        out.extend(self.held.drain(..).map(|held| Action::Drop(held.message)));
        self.held_bytes = 0;
        self.ask = None;
        self.chain = 0;
        self.contradictions = 0;
        self.unsure = false;
        self.empty = false;
        self.partial = None;
        self.behind = None;
        self.mending.hopeless = false;
        self.mending.drop_read();
    }

    /// Goes past the numbers below `sequence` that did not come.
    fn lose(&mut self, sequence: u64, why: Reason) {
        match self.last {
            _ if self.follows(sequence) => {}
            // 0 and 1 are where publishers begin.
            None if sequence <= 1 => {}
            None => {
                let why = if self.replay.is_none() { Reason::JoinedLate } else { why };
                self.mark(why, sequence - 1);
            }
            Some(last) => {
                self.counts.missed = self.counts.missed.saturating_add(sequence - last - 1);
                self.mark(why, sequence - 1);
            }
        }
    }

    fn mark(&mut self, why: Reason, until: u64) {
        let (first, before) = self.partial.unwrap_or((why, until));
        self.partial = Some((first, before.max(until)));
    }

    fn apply_front(&mut self, out: &mut Vec<Action<M>>) {
        if let Some(front) = self.pop() {
            self.apply(front, out);
        }
    }

    fn pop(&mut self) -> Option<Numbered<M>> {
        let front = self.held.pop_front()?;
        self.held_bytes -= front.bytes;
        Some(front)
    }

    fn apply(&mut self, message: Numbered<M>, out: &mut Vec<Action<M>>) {
        self.advanced(message.sequence, message.content);
        out.push(Action::Apply(self.place(message.sequence), message.message));
    }

    fn advanced(&mut self, sequence: u64, content: u64) {
        self.counts.applied += 1;
        self.last = Some(sequence);
        self.past.note(sequence, content);
        self.behind = self.behind.filter(|&behind| behind > sequence);
    }

    fn tell(&mut self, out: &mut Vec<Action<M>>) {
        let trust = self.trust();
        if trust != self.said {
            self.said = trust;
            out.push(Action::Trust(trust));
        }
    }

    /// Whether a number is the next one. Nothing follows the last of all numbers.
    fn follows(&self, sequence: u64) -> bool {
        self.last.map_or(Some(0), |last| last.checked_add(1)) == Some(sequence)
    }

    /// The content of a number that was applied or is held.
    fn known(&self, sequence: u64) -> Option<u64> {
        let held = self.held.binary_search_by_key(&sequence, |held| held.sequence).ok();
        held.map(|at| self.held[at].content).or_else(|| self.past.content(sequence))
    }
}
