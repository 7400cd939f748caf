//! Asking the replay endpoint, and what its answer shows.
//!
//! An answer is given after everything that was held when it was asked for, so an answer of the same life has
//! those messages too; and it begins with the last batch applied. What contradicts that is of another life.

use std::mem;
use std::time::Instant;

use super::Tracker;
use super::probe::Probe;
use crate::limits::{REPLAY_CHAIN, REPLAY_CONTRADICTIONS, STREAM_COMPARED, STREAM_MEMORY};
use crate::stream::trust::{Action, Numbered, Reason};

/// A request to the replay endpoint that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) from: u64,
    /// Last number applied when it was sent: an answer of the same life gets there.
    pub(super) last: Option<u64>,
    /// Highest number held when it was sent: gaps below are what it is about.
    upto: Option<u64>,
    /// This life has nothing but what this chain of requests brings.
    pub(super) fresh: bool,
    /// Nothing goes on before the answer has shown that the life is the same.
    pub(super) verify: bool,
    /// It compares the past because the connection came back, before any message.
    pub(super) probe: Option<Probe>,
    /// It reads the publisher's memory beside what was applied.
    pub(super) scan: bool,
    /// The answer began with what was applied last, or there was nothing.
    pub(super) proven: bool,
    /// What was held when it was sent is rather of an older life: it goes, unless the answer has it as well.
    doubt: bool,
    /// Something has gone so: what was held since may have to go as well, which only a further answer shows.
    outlived: bool,
    /// It brought something new.
    pub(super) progress: bool,
    /// It had something that was held as well.
    confirmed: bool,
    pub(super) latest: Option<u64>,
    deadline: Instant,
}

impl Ask {
    /// Whether it was sent without a message, and has shown nothing yet.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some() && self.verify
    }
}

/// What comes from the replay endpoint.
impl<M> Tracker<M> {
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
        if ask.latest.is_none() && ask.fresh {
            // what came live since it was sent may be of another life
            ask.proven = self.last.is_none();
        }
        ask.latest = Some(reply.sequence);
        ask.deadline = now + idle;
        if ask.scan {
            return self.scanned(reply, now, out);
        }
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
        if ask.is_probing() {
            return self.probed(ask, now, out);
        }
        if ask.scan {
            self.read_to_end(now, out);
            return self.tell(out);
        }
        if self.incomplete() && self.again(now, out) {
            return self.tell(out);
        }
        while ask.doubt && self.awaited() {
            self.outlive(out);
        }
        let outlived = self.ask.is_some_and(|ask| ask.outlived);
        if outlived && !self.held.is_empty() {
            self.ask(false, now, out);
            self.doubt();
            return self.tell(out);
        }
        if self.awaited() {
            self.mark(Reason::NotReplayed, ask.upto.unwrap_or(0));
        }
        if outlived && !ask.proven {
            // What was held is of a life that is over, and so may be what was applied.
            self.mark(Reason::Unverified, self.last.unwrap_or(0));
        }
        self.ask = None;
        self.chain = 0;
        self.contradictions = 0;
        self.failing = false;
        self.empty = ask.fresh && self.last.is_none() && self.held.is_empty();
        if self.guessed && ask.latest.is_some() && ask.latest == self.last {
            self.behind = None;
        }
        if ask.latest.is_some() && ask.latest < ask.last {
            // what began alike has not come as far
            self.mark(Reason::Unverified, self.last.unwrap_or(0));
        }
        self.unproven(ask);
        self.settle(ask.upto, Reason::NotReplayed, now, out);
        self.compare_link(now, out);
        self.tell(out);
    }

    /// The answer will not be complete: silence, or an error of the socket.
    pub fn replay_failed(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(ask) = self.ask else { return };
        self.counts.failed += 1;
        if ask.scan {
            self.read_on(now, out);
            return self.tell(out);
        }
        if ask.is_probing() {
            // Nothing is known beyond what was; the next message decides.
            self.ask = None;
            self.compare_link(now, out);
            return self.tell(out);
        }
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
            self.guessed = self.behind.is_none_or(|_| self.guessed);
            self.behind = self.behind.max(Some(last.saturating_add(1)));
        }
        // Gaps that opened since the request get one of their own, but a dead endpoint is not waited for twice.
        let upto = if mem::replace(&mut self.failing, true) { self.heard } else { ask.upto };
        self.settle(upto, Reason::ReplayFailed, now, out);
        self.compare_link(now, out);
        self.tell(out);
    }

    /// The request was sent only now: its silence counts from here.
    pub fn asked(&mut self, now: Instant) {
        if let Some((ask, idle)) = self.ask.as_mut().zip(self.replay) {
            ask.deadline = now + idle;
        }
    }

    /// Time has passed: a replay silent for too long has failed, and what stayed wrong may be put right.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        if self.ask.is_some_and(|ask| now >= ask.deadline) {
            self.replay_failed(now, out);
        } else if self.is_due(now) {
            self.mend(now, out);
        }
    }
}

/// Steps.
impl<M> Tracker<M> {
    /// A reply at or below the last number: it shows whether the past is the same.
    fn compare(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        if self.ask.is_some_and(|ask| ask.is_probing()) {
            self.weigh(&reply, now, out);
            return self.surplus(reply, out);
        }
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
                if let Some(ask) = &mut self.ask {
                    ask.confirmed = true;
                }
                return self.surplus(reply, out);
            }
        }
        if self.follows(reply.sequence) {
            if self.ahead(reply.sequence) {
                return self.surplus(reply, out);
            }
        } else if self.held.is_empty() && self.heard.is_some() {
            // What lies between may still be on its way.
            self.know_of(reply.sequence);
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
            self.know_of(sequence);
        }
        far
    }

    /// A number exists that has not come.
    fn know_of(&mut self, sequence: u64) {
        self.behind = self.behind.filter(|_| !self.guessed).max(Some(sequence));
        self.guessed = false;
    }

    pub(super) fn ask(&mut self, verify: bool, now: Instant, out: &mut Vec<Action<M>>) {
        // The word of a reconnect may come behind the first messages of another life.
        let compared = if verify { self.past.before(STREAM_COMPARED) } else { None };
        let from = compared.or(self.last).unwrap_or(0);
        self.ask_from(from, verify, now, out);
    }

    pub(super) fn ask_from(&mut self, from: u64, verify: bool, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(idle) = self.replay else { return };
        self.mending.drop_read();
        self.counts.asks += 1;
        self.ask = Some(Ask {
            from,
            last: self.last,
            upto: self.held.back().map(|held| held.sequence),
            fresh: self.last.is_none(),
            verify,
            probe: None,
            scan: false,
            proven: self.last.is_none(),
            doubt: false,
            outlived: false,
            progress: false,
            confirmed: false,
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
        let Some(ask) = self.ask.filter(|_| self.chain < REPLAY_CHAIN) else { return false };
        // What is doubted goes when the answer does not have it, so that must be sure.
        if !(ask.progress || ask.doubt && ask.confirmed) {
            return false;
        }
        self.chain += 1;
        self.ask(false, now, out);
        if let Some(next) = &mut self.ask {
            (next.fresh, next.doubt, next.outlived) = (ask.fresh, ask.doubt, ask.outlived);
        }
        true
    }

    /// The answer tells of another life than the one applied. What is held may be of either.
    pub(super) fn other_past(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
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
    pub(super) fn yield_to_live(&mut self, why: Reason, now: Instant, out: &mut Vec<Action<M>>) {
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

    pub(super) fn doubt(&mut self) {
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
    pub(super) fn unconfirmed(&self) -> bool {
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

    pub(super) fn verifying(&self) -> bool {
        self.ask.is_some_and(|ask| ask.verify)
    }

    pub(super) fn surplus(&mut self, reply: Numbered<M>, out: &mut Vec<Action<M>>) {
        self.counts.surplus += 1;
        out.push(Action::Drop(reply.message));
    }
}
