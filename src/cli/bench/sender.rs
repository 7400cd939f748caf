//! One publisher's way out: what it sent, and how late.

use std::time::{Duration, Instant};

use super::sampler::Watch;
use crate::bench::load::Made;
use crate::bench::report::Counts;
use crate::bench::schedule::Punctuality;
use crate::limits::BENCH_BURST;
use crate::wire::publisher::{PublishError, Publisher};

/// What a publisher did.
pub(super) struct Sent {
    pub(super) counts: Counts,
    pub(super) punctuality: Punctuality,
    /// When its last batch was sent.
    pub(super) last: Instant,
}

/// One publisher's way out.
pub(super) struct Sender<'a> {
    publisher: &'a Publisher,
    pub(super) watch: &'a Watch,
    pub(super) number: usize,
    next: u64,
    /// When batches were due that are handed over and not known to be sent.
    waiting: Vec<Duration>,
    pub(super) sent: Sent,
}

impl<'a> Sender<'a> {
    /// Nothing sent yet; later than `late` after it was due is late.
    pub(super) fn new(publisher: &'a Publisher, watch: &'a Watch, number: usize, late: Duration) -> Self {
        let sent = Sent { counts: Counts::default(), punctuality: Punctuality::new(late), last: watch.start };
        Self { publisher, watch, number, next: 0, waiting: Vec::with_capacity(BENCH_BURST), sent }
    }

    /// Hands a batch over; `false` when too many are under way.
    pub(super) fn send(&mut self, made: Made, due: Duration) -> Result<bool, PublishError> {
        if !self.watch.log(self.number).send(self.next, due, made.stored + made.removed) {
            return Ok(false);
        }
        self.next += 1;
        self.sent.counts.batches += 1;
        self.sent.counts.events += made.events;
        self.sent.counts.blocks_stored += made.stored;
        self.sent.counts.blocks_removed += made.removed;
        self.sent.counts.blocks_held = self.sent.counts.blocks_stored - self.sent.counts.blocks_removed;
        self.publisher.post(made.payload)?;
        self.waiting.push(due);
        if self.waiting.len() >= BENCH_BURST {
            self.flush()?;
        }
        Ok(true)
    }

    /// Waits until everything handed over is sent: it was not sent later than now.
    pub(super) fn flush(&mut self) -> Result<(), PublishError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.publisher.hole(0)?;
        self.sent.last = Instant::now();
        let at = self.sent.last.saturating_duration_since(self.watch.start);
        for due in self.waiting.drain(..) {
            self.sent.punctuality.note(at.saturating_sub(due));
        }
        Ok(())
    }
}
