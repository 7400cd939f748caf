//! The comparison when the connection has come back, before any message has: an engine that began anew may stay
//! idle for long.
//!
//! The publisher's memory begins with its oldest batch and ends with its latest, so in the same life it has what
//! was applied last. Another content under a known number, or numbers below and none from there on, are of another
//! life. An answer without any batch shows neither: what was applied stays, and is not called live before
//! the next message has decided.

use std::time::Instant;

use super::Tracker;
use super::answer::Ask;
use crate::stream::trust::{Action, Numbered};

/// How far back such a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    /// As far as any comparison.
    Recent,
    /// To the beginning: there was nothing recent.
    Whole,
}

impl<M> Tracker<M> {
    /// Asks for the past, once a connection, as soon as nothing else is asked: an answer that is under way may be
    /// of either life.
    pub(super) fn compare_link(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let due = self.uncompared && self.reconnected && self.last.is_some();
        if due && self.ask.is_none() && self.replay.is_some() {
            self.uncompared = false;
            self.ask(true, now, out);
            self.probes(Probe::Recent);
        }
    }

    fn probes(&mut self, how: Probe) {
        if let Some(ask) = &mut self.ask {
            ask.probe = Some(how);
        }
    }

    /// A reply at or below the last number.
    pub(super) fn weigh(&mut self, reply: &Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        let known = self.past.content(reply.sequence);
        let Some(ask) = &mut self.ask else { return };
        if ask.probe == Some(Probe::Whole) || known.is_some_and(|content| content != reply.content) {
            return self.other_past(now, out);
        }
        if self.last == Some(reply.sequence) && known.is_some() {
            (ask.verify, ask.proven) = (false, true);
            // a connection that came since has a comparison of its own
            self.reconnected = self.uncompared;
        }
    }

    /// The answer is complete and has shown nothing.
    pub(super) fn probed(&mut self, ask: Ask, now: Instant, out: &mut Vec<Action<M>>) {
        if ask.probe == Some(Probe::Recent) && ask.latest.is_none() && ask.from > 0 {
            self.ask_from(0, true, now, out);
            self.probes(Probe::Whole);
        } else {
            self.ask = None;
            self.unsure = true;
            self.compare_link(now, out);
        }
        self.tell(out);
    }
}
