//! The decisions about one numbered stream: what to apply, what to wait for, what to ask again, what to
//! forget. No sockets and no clock: numbers, content hashes and the time go in, actions come out.
//!
//! Live messages queue up in `held` and leave it in order. While the next number is not there, they wait for
//! one answer of the replay endpoint; what it does not have never comes. A request begins at the last number
//! applied, not behind it: the first reply then proves that the answer speaks of the same life.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::past::Past;
use super::trust::{Action, Counts, Numbered, Place, Reason, Trust};
use crate::limits::{HOLD_BYTES, HOLD_MESSAGES, REPLAY_CHAIN, REPLAY_CONTRADICTIONS, STREAM_MEMORY};

/// A request to the replay endpoint that is not over.
#[derive(Clone, Copy, Debug)]
struct Ask {
    from: u64,
    /// Highest number held when it was sent: gaps below are what it is about.
    upto: Option<u64>,
    /// This life has nothing but what this chain of requests brings.
    fresh: bool,
    /// Nothing goes on before the answer has shown that the life is the same.
    verify: bool,
    /// The answer began with what was applied last, or there was nothing.
    proven: bool,
    /// What was held when it was sent is rather of an older life: it goes, unless the answer has it as well.
    doubt: bool,
    /// Something has gone so: what was held since may have to go as well, which only a further answer shows.
    outlived: bool,
    /// It brought something new.
    progress: bool,
    latest: Option<u64>,
    deadline: Instant,
}

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
    /// The publisher said that it has published nothing.
    empty: bool,
    /// The number of the message before, when it was dropped as a repeat.
    repeated: Option<u64>,
    /// Why something is missing, and the highest number of it.
    partial: Option<(Reason, u64)>,
    /// A number that exists, or may, and has not come.
    behind: Option<u64>,
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
            empty: false,
            repeated: None,
            partial: None,
            behind: None,
            said: Trust::Connecting,
            counts: Counts::default(),
        }
    }

    /// Begins with a replay of everything, where there is one: call it once the subscription is made.
    pub fn begin(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        if self.replay.is_some() && self.last.is_none() && self.ask.is_none() {
            self.ask(false, now, out);
        }
        self.tell(out);
    }

    /// Takes a message that simply follows: `true` means apply it, and nothing else is to be done. The fast
    /// way for almost all messages; the others go to [`Self::live`].
    pub fn advance(&mut self, sequence: u64, content: u64) -> bool {
        let quiet = self.held.is_empty() && !self.verifying() && self.behind.is_none();
        let known = self.last.is_some() && self.heard.is_some() && !self.reconnected;
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
        let highest = self.held.back().map(|held| held.sequence).or(self.last);
        if highest.is_some_and(|highest| sequence <= highest) {
            if self.known(sequence) == Some(message.content) {
                self.counts.repeats += 1;
                self.repeated = Some(sequence);
                self.heard = self.heard.max(Some(sequence));
                out.push(Action::Drop(message.message));
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

    /// A reply came: a batch of the publisher's memory. `false` when no more of this answer is wanted.
    pub fn replayed(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) -> bool {
        let Some((ask, idle)) = self.ask.as_mut().zip(self.replay) else {
            self.surplus(reply, out);
            return false;
        };
        let asks = self.counts.asks;
        if reply.sequence < ask.from || ask.latest.is_some_and(|latest| reply.sequence <= latest) {
            // An answer that only repeats itself ends as a silent one does.
            if now >= ask.deadline {
                self.replay_failed(now, out);
            }
            self.surplus(reply, out);
            return self.ask.is_some() && self.counts.asks == asks;
        }
        ask.latest = Some(reply.sequence);
        ask.deadline = now + idle;
        if self.last.is_some_and(|last| reply.sequence <= last) {
            self.compare(reply, now, out);
        } else {
            self.take(reply, now, out);
        }
        self.settle(None, Reason::NotReplayed, now, out);
        self.tell(out);
        self.ask.is_some() && self.counts.asks == asks
    }

    /// The answer is complete.
    pub fn replay_end(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(ask) = self.ask else { return };
        if self.incomplete() && self.again(now, out) {
            return self.tell(out);
        }
        while ask.doubt && self.awaited() {
            self.outlive(out);
        }
        if self.awaited() {
            self.mark(Reason::NotReplayed, ask.upto.unwrap_or(0));
        }
        if self.ask.is_some_and(|ask| ask.outlived) && !self.held.is_empty() {
            self.ask(false, now, out);
            self.doubt();
            return self.tell(out);
        }
        self.ask = None;
        self.chain = 0;
        self.contradictions = 0;
        self.failing = false;
        self.empty = ask.fresh && self.last.is_none() && self.held.is_empty();
        self.unproven(ask);
        self.settle(ask.upto, Reason::NotReplayed, now, out);
        self.tell(out);
    }

    /// The answer will not be complete: silence, or an error of the socket.
    pub fn replay_failed(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(ask) = self.ask else { return };
        self.counts.failed += 1;
        if (self.incomplete() || self.last > self.heard) && self.again(now, out) {
            return self.tell(out);
        }
        let awaited = self.unconfirmed();
        self.ask = None;
        self.chain = 0;
        self.unproven(ask);
        if awaited {
            self.mark(Reason::ReplayFailed, self.heard.unwrap_or(0));
        }
        if let Some(last) = self.last.filter(|_| self.last > self.heard) {
            self.behind = Some(self.behind.unwrap_or(0).max(last.saturating_add(1)));
        }
        // Gaps that opened since the request get one of their own, but a dead endpoint is not waited for twice.
        let upto = if mem::replace(&mut self.failing, true) { self.heard } else { ask.upto };
        self.settle(upto, Reason::ReplayFailed, now, out);
        self.tell(out);
    }

    /// The request was sent only now: its silence counts from here.
    pub fn asked(&mut self, now: Instant) {
        if let Some((ask, idle)) = self.ask.as_mut().zip(self.replay) {
            ask.deadline = now + idle;
        }
    }

    /// Time has passed: a replay silent for too long has failed.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        if self.ask.is_some_and(|ask| now >= ask.deadline) {
            self.replay_failed(now, out);
        }
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

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Steps.
impl<M> Tracker<M> {
    /// A reply at or below the last number: it shows whether the past is the same.
    fn compare(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        match (self.past.content(reply.sequence), &mut self.ask) {
            (Some(content), _) if content != reply.content => self.other_past(now, out),
            (Some(_), Some(ask)) => (ask.verify, ask.proven) = (false, true),
            _ => {}
        }
        self.surplus(reply, out);
    }

    /// A reply above the last number.
    fn take(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        if let Some(ask) = &mut self.ask
            && !mem::replace(&mut ask.proven, true)
        {
            ask.verify = false;
            self.mark(Reason::Unverified, self.last.unwrap_or(0));
        }
        loop {
            let (sequence, content) = (reply.sequence, reply.content);
            let Some(front) = self.held.front() else { break };
            let (number, held) = (front.sequence, front.content);
            if number > sequence {
                break;
            }
            if number == sequence && held != content {
                if !self.ask.is_some_and(|ask| ask.fresh && Some(number) <= ask.upto) {
                    self.other_past(now, out);
                    return self.surplus(reply, out);
                }
                self.outlive(out);
                continue;
            }
            let passed = number < sequence;
            if (passed || !self.follows(number)) && self.again(now, out) {
                return self.surplus(reply, out);
            }
            if passed && self.ask.is_some_and(|ask| ask.doubt && Some(number) <= ask.upto) {
                self.outlive(out);
                continue;
            }
            self.lose(number, Reason::NotReplayed);
            if passed {
                // The answer passes over it, so nothing shows that both are of one life.
                self.mark(Reason::NotReplayed, number);
            }
            self.apply_front(out);
            if number == sequence {
                return self.surplus(reply, out);
            }
        }
        if self.follows(reply.sequence) {
            if self.ahead(reply.sequence) {
                return self.surplus(reply, out);
            }
        } else if self.held.is_empty() && self.heard.is_some() {
            // What lies between may still be on its way.
            self.behind = self.behind.max(Some(reply.sequence));
            return self.surplus(reply, out);
        } else if self.again(now, out) {
            return self.surplus(reply, out);
        }
        self.lose(reply.sequence, Reason::NotReplayed);
        self.counts.replayed += 1;
        self.apply(reply, out);
        if let Some(ask) = &mut self.ask {
            ask.progress = true;
        }
    }

    /// Whether a reply is so far ahead of the subscription that the latter's repeats would not be known.
    fn ahead(&mut self, sequence: u64) -> bool {
        let far = self.heard.is_some_and(|heard| sequence.saturating_sub(heard) > STREAM_MEMORY as u64);
        if far {
            self.behind = self.behind.max(Some(sequence));
        }
        far
    }

    /// Lets held messages go as far as numbers follow, and past gaps up to `upto`; asks for the next gap.
    fn settle(&mut self, upto: Option<u64>, why: Reason, now: Instant, out: &mut Vec<Action<M>>) {
        while let Some(front) = self.held.front() {
            let sequence = front.sequence;
            if self.verifying() || self.unconfirmed() {
                return;
            }
            if !self.follows(sequence) {
                if self.ask.is_some() {
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

    fn ask(&mut self, verify: bool, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(idle) = self.replay else { return };
        self.counts.asks += 1;
        let from = self.last.unwrap_or(0);
        self.ask = Some(Ask {
            from,
            upto: self.held.back().map(|held| held.sequence),
            fresh: self.last.is_none(),
            verify,
            proven: self.last.is_none(),
            doubt: false,
            outlived: false,
            progress: false,
            latest: None,
            deadline: now + idle,
        });
        out.push(Action::AskReplay { from, ticket: self.counts.asks });
    }

    /// Whether held messages still wait for something that the answer did not bring.
    fn incomplete(&self) -> bool {
        self.awaited() || self.held.front().is_some_and(|front| !self.follows(front.sequence))
    }

    /// Asks for the rest of an answer that brought something and then left something out: publishers drop
    /// what their socket cannot queue. A gap that an answer begins with is one for good.
    fn again(&mut self, now: Instant, out: &mut Vec<Action<M>>) -> bool {
        let Some(ask) = self.ask.filter(|ask| ask.progress && self.chain < REPLAY_CHAIN) else {
            return false;
        };
        self.chain += 1;
        self.ask(false, now, out);
        if let Some(next) = &mut self.ask {
            (next.fresh, next.doubt) = (ask.fresh, ask.doubt);
        }
        true
    }

    /// The answer tells of another life than the one applied. What is held may be of either.
    fn other_past(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        self.contradictions += 1;
        if self.contradictions > REPLAY_CONTRADICTIONS {
            return self.yield_to_live(Reason::Contradiction, now, out);
        }
        let (held, bytes) = (mem::take(&mut self.held), self.held_bytes);
        let (heard, contradictions) = (held.back().map(|held| held.sequence), self.contradictions);
        self.restart(out);
        (self.held, self.held_bytes) = (held, bytes);
        (self.heard, self.contradictions) = (heard, contradictions);
        self.ask(false, now, out);
        self.doubt();
    }

    /// Believes what is held, whatever is missing.
    fn yield_to_live(&mut self, why: Reason, now: Instant, out: &mut Vec<Action<M>>) {
        let awaited = self.unconfirmed();
        if let Some(ask) = self.ask.take() {
            self.unproven(ask);
        }
        if awaited {
            self.mark(why, self.heard.unwrap_or(0));
        }
        self.chain = 0;
        if why == Reason::Contradiction {
            self.contradictions = 0;
            self.mark(why, self.last.max(self.heard).unwrap_or(0));
        }
        self.settle(self.heard, why, now, out);
    }

    fn doubt(&mut self) {
        if let Some(ask) = &mut self.ask {
            ask.doubt = true;
        }
    }

    /// The first held message, while it waits for the answer to have it as well: it was there before the
    /// answer was given, so an answer of the same life has it.
    fn awaited(&self) -> bool {
        self.held.front().zip(self.ask).is_some_and(|(front, ask)| Some(front.sequence) <= ask.upto)
    }

    /// Whether something is held of which only an answer can show that it is of the present life.
    fn unconfirmed(&self) -> bool {
        self.awaited() || !self.held.is_empty() && self.ask.is_some_and(|ask| ask.outlived)
    }

    /// The first held message was there before the answer was given, and the answer does not have it: the
    /// life that it belongs to is over.
    fn outlive(&mut self, out: &mut Vec<Action<M>>) {
        self.counts.outlived += 1;
        if let Some(ask) = &mut self.ask {
            ask.outlived = true;
        }
        let front = self.pop();
        out.extend(front.map(|front| Action::Drop(front.message)));
        if self.held.is_empty() {
            self.heard = None;
        }
    }

    /// Notes that an answer did not show what it was asked to show.
    fn unproven(&mut self, ask: Ask) {
        if ask.verify {
            self.mark(Reason::Unverified, self.last.unwrap_or(0));
        }
    }

    fn restart(&mut self, out: &mut Vec<Action<M>>) {
        self.life += 1;
        self.counts.restarts += 1;
        self.last = None;
        self.heard = None;
        self.past.clear();
        out.push(Action::Restart);
        out.extend(self.held.drain(..).map(|held| Action::Drop(held.message)));
        self.held_bytes = 0;
        self.ask = None;
        self.chain = 0;
        self.contradictions = 0;
        self.empty = false;
        self.partial = None;
        self.behind = None;
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
                self.counts.missed += sequence - last - 1;
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

    fn surplus(&mut self, reply: Numbered<M>, out: &mut Vec<Action<M>>) {
        self.counts.surplus += 1;
        out.push(Action::Drop(reply.message));
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

    fn verifying(&self) -> bool {
        self.ask.is_some_and(|ask| ask.verify)
    }

    /// The content of a number that was applied or is held.
    fn known(&self, sequence: u64) -> Option<u64> {
        let held = self.held.binary_search_by_key(&sequence, |held| held.sequence).ok();
        held.map(|at| self.held[at].content).or_else(|| self.past.content(sequence))
    }
}
