//! Asking once more, after a pause, when something is missing for good or nothing could be learned.
//!
//! What is missing in the middle cannot be applied behind what followed it: removals that came since would be undone.
//! So the publisher's memory is read through first. Where it still reaches from the first batch of this life to the
//! latest one, everything goes and comes again from there; where it begins later, nothing can be put right any more.

use std::time::{Duration, Instant};

use super::Tracker;
use crate::limits::{MEND_MAX_SECONDS, MEND_SECONDS};
use crate::stream::trust::{Action, Numbered, Trust};

/// When a stream is to be mended.
#[derive(Debug)]
pub(super) struct Mending {
    /// When, and the number that the stream had come to when that was set.
    due: Option<(Instant, Option<u64>)>,
    /// How long something has to be wrong before; doubles with every attempt until all is well.
    pause: Duration,
    /// The publisher's memory no longer has the first batches of this life.
    pub(super) hopeless: bool,
}

impl Default for Mending {
    fn default() -> Self {
        Self { due: None, pause: Duration::from_secs(MEND_SECONDS), hopeless: false }
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

    /// Whether that would take away, for a moment, what other streams brought to the same publishers.
    pub fn would_start_over(&self) -> bool {
        self.cure() == Some(Cure::Whole)
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
            Cure::Whole => {
                self.ask_from(0, false, now, out);
                if let Some(ask) = &mut self.ask {
                    ask.scan = true;
                }
            }
        }
        self.tell(out);
    }

    /// A batch of the memory that is read through; `before` is the number before it.
    pub(super) fn scanned(
        &mut self,
        reply: Numbered<M>,
        before: Option<u64>,
        now: Instant,
        out: &mut Vec<Action<M>>,
    ) -> bool {
        let sequence = reply.sequence;
        let known = self.past.content(sequence);
        if known.is_some_and(|content| content != reply.content) {
            self.other_past(now, out);
        } else if before.map_or(sequence > 1, |before| before.checked_add(1) != Some(sequence)) {
            self.mending.hopeless = before.is_none();
            self.ask = None;
            self.compare_link(now, out);
        }
        let wanted = self.ask.is_some_and(|ask| ask.scan);
        self.surplus(reply, out);
        self.tell(out);
        wanted
    }

    /// The memory has been read to its end, which is at `latest`.
    pub(super) fn scan_end(&mut self, latest: Option<u64>, now: Instant, out: &mut Vec<Action<M>>) {
        let whole = latest.is_some() && latest >= self.ask.and_then(|ask| ask.last);
        self.ask = None;
        if whole {
            self.counts.rereads += 1;
            out.push(Action::StartOver);
            self.forget(out);
            self.ask(false, now, out);
        }
        self.compare_link(now, out);
        self.tell(out);
    }
}
