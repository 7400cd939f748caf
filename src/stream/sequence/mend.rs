//! Asking once more, after a pause, when something is missing for good or nothing could be learned.
//!
//! What is missing in the middle cannot be applied behind what followed it: removals that came since would be undone.
//! So the publisher's memory is read first, and kept beside what was applied. Where it reaches from the first batch of
//! this life to the latest one, everything goes and it takes the place of that, at once; where it begins later, nothing
//! can be put right any more.

use std::mem;
use std::time::{Duration, Instant};

use super::Tracker;
use crate::limits::{HOLD_BYTES, HOLD_MESSAGES, MEND_MAX_SECONDS, MEND_SECONDS, REPLAY_CHAIN};
use crate::stream::trust::{Action, Numbered, Trust};

/// Batches that may have come meanwhile however few were read.
const FEW: u64 = 64;

/// When a stream is to be mended.
#[derive(Debug)]
pub(super) struct Mending<M> {
    /// When, and the number that the stream had come to when that was set.
    due: Option<(Instant, Option<u64>)>,
    /// How long something has to be wrong before; doubles with every attempt until all is well.
    pause: Duration,
    /// The publisher's memory no longer has the first batches of this life, or is more than may be held.
    pub(super) hopeless: bool,
    /// What was read of it, in order and without holes.
    read: Vec<Numbered<M>>,
    read_bytes: usize,
}

impl<M> Default for Mending<M> {
    fn default() -> Self {
        let pause = Duration::from_secs(MEND_SECONDS);
        Self { due: None, pause, hopeless: false, read: Vec::new(), read_bytes: 0 }
    }
}

impl<M> Mending<M> {
    /// Lets go of what was read.
    pub(super) fn drop_read(&mut self) {
        (self.read, self.read_bytes) = (Vec::new(), 0);
    }
}

/// What may put things right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cure {
    /// The rest of an answer, from where this life has come to.
    Rest,
    /// Everything again.
    Whole,
}

impl<M> Tracker<M> {
    /// Whether it is time to ask once more. To be looked at now and then: the pause counts from the first look.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let Some(cure) = self.cure() else {
            self.mending.due = None;
            if self.trust() == Trust::Live {
                self.mending.pause = Duration::from_secs(MEND_SECONDS);
            }
            return false;
        };
        let later = (now + self.mending.pause, self.last);
        let (due, last) = *self.mending.due.get_or_insert(later);
        if cure == Cure::Rest && last != self.last {
            // it still goes on by itself
            self.mending.due = Some(later);
        }
        due <= now && (cure == Cure::Whole || last == self.last)
    }

    /// Whether everything would be read again: that takes memory, and what other streams brought to the same publishers
    /// would go with it.
    pub fn would_start_over(&self) -> bool {
        self.cure() == Some(Cure::Whole)
    }

    /// Whether everything is being read again.
    pub fn is_mending(&self) -> bool {
        self.ask.is_some_and(|ask| ask.scan)
    }

    /// Whether something is missing that nothing can put right in this life.
    pub fn is_beyond_repair(&self) -> bool {
        self.mending.hopeless && self.partial.is_some()
    }

    fn cure(&self) -> Option<Cure> {
        if self.replay.is_none() || self.ask.is_some() {
            return None;
        }
        match (self.last, self.trust()) {
            (None, trust) => (trust != Trust::Live).then_some(Cure::Rest),
            (Some(_), Trust::Partial(_)) if self.partial.is_none() && self.behind.is_some() => {
                Some(Cure::Rest)
            }
            (Some(_), Trust::Partial(why)) => {
                (why.is_mended_by_replay() && !self.mending.hopeless).then_some(Cure::Whole)
            }
            _ => None,
        }
    }

    pub(super) fn mend(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let Some(cure) = self.cure() else { return };
        self.mending.due = None;
        self.mending.pause = (self.mending.pause * 2).min(Duration::from_secs(MEND_MAX_SECONDS));
        match cure {
            Cure::Rest => {
                // what was on its way has had its time
                self.heard = None;
                self.ask(false, now, out);
            }
            Cure::Whole => self.read_from(0, now, out),
        }
        self.tell(out);
    }

    /// Asks for the memory from a number on, to go on behind what was read.
    fn read_from(&mut self, from: u64, now: Instant, out: &mut Vec<Action<M>>) {
        let (read, bytes) = (mem::take(&mut self.mending.read), self.mending.read_bytes);
        self.ask_from(from, false, now, out);
        (self.mending.read, self.mending.read_bytes) = (read, bytes);
        if let Some(ask) = &mut self.ask {
            ask.scan = true;
        }
    }

    /// A batch of the memory that is being read; returns whether more of this answer is wanted.
    pub(super) fn scanned(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) -> bool {
        let asks = self.counts.asks;
        let latest = self.mending.read.last().map(|latest| (latest.sequence, latest.content));
        let known = self.past.content(reply.sequence);
        if known.is_some_and(|content| content != reply.content) {
            self.mending.drop_read();
            self.other_past(now, out);
            self.surplus(reply, out);
        } else if latest == Some((reply.sequence, reply.content)) {
            self.surplus(reply, out);
        } else if latest
            .map_or(reply.sequence <= 1, |(latest, _)| latest.checked_add(1) == Some(reply.sequence))
        {
            self.keep(reply, now, out);
        } else {
            self.mending.hopeless = latest.is_none();
            self.surplus(reply, out);
            self.read_on(now, out);
        }
        self.tell(out);
        self.ask.is_some() && self.counts.asks == asks
    }

    fn keep(&mut self, reply: Numbered<M>, now: Instant, out: &mut Vec<Action<M>>) {
        self.mending.read_bytes += reply.bytes + size_of::<Numbered<M>>();
        self.mending.read.push(reply);
        if self.mending.read_bytes > HOLD_BYTES {
            self.mending.hopeless = true;
            self.stop_reading(now, out);
        } else if let Some(ask) = &mut self.ask {
            ask.progress = true;
        }
    }

    /// The answer left something out or broke off: publishers drop what their socket cannot queue.
    pub(super) fn read_on(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let latest = self.mending.read.last().map(|latest| latest.sequence);
        let progress = self.ask.is_some_and(|ask| ask.progress) && self.chain < REPLAY_CHAIN;
        match latest.filter(|_| progress) {
            Some(latest) => {
                self.chain += 1;
                self.read_from(latest, now, out);
            }
            None => self.stop_reading(now, out),
        }
    }

    fn stop_reading(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        (self.ask, self.chain) = (None, 0);
        self.mending.drop_read();
        self.compare_link(now, out);
    }

    /// The memory has been read to its end: it takes the place of what was applied, unless it is not all there.
    pub(super) fn read_to_end(&mut self, now: Instant, out: &mut Vec<Action<M>>) {
        let (read, last) = (&self.mending.read, self.last);
        let latest = read.last().map(|latest| latest.sequence);
        let missing = last.zip(latest).map_or(0, |(last, latest)| last.saturating_sub(latest));
        // what came meanwhile has to be asked for: where that is more than was read, it would never end
        let few = missing <= (read.len() as u64).clamp(FEW, HOLD_MESSAGES as u64 / 4);
        if latest.is_none() || latest < self.ask.and_then(|ask| ask.last) {
            return self.read_on(now, out);
        }
        if !few {
            return self.stop_reading(now, out);
        }
        self.counts.rereads += 1;
        let read = mem::take(&mut self.mending.read);
        out.push(Action::StartOver);
        self.forget(out);
        for batch in read {
            self.apply(batch, out);
        }
        self.heard = last.max(latest);
        if missing > 0 {
            (self.behind, self.guessed) = (last, false);
            self.ask(false, now, out);
        }
        self.compare_link(now, out);
    }
}
