//! Counters: one writer each (a reactor), any reader, no locked instruction.

use crate::event::Skip;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only its own reactor writes and anybody reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this: it is a plain load and store.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value (for gauges). Only the owning thread may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value as last written.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Skip reasons, in the order of [`crate::event::Skip`].
pub const SKIPS: usize = crate::event::Skip::Bound as usize + 1;
/// Refusal reasons, in the order of [`crate::event::Refusal`].
pub const REFUSALS: usize = crate::event::Refusal::NotABatch as usize + 1;

/// What became of one publisher's events. Written by its reactor, read by anybody.
#[derive(Debug, Default)]
pub struct PublisherStats {
    /// Batches decoded.
    pub batches: Counter,
    /// Store events applied.
    pub stores: Counter,
    /// Removal events applied.
    pub removes: Counter,
    /// Clear events applied.
    pub clears: Counter,
    /// Blocks that stores named.
    pub blocks_stored: Counter,
    /// Blocks that removals named.
    pub blocks_removed: Counter,
    /// Removals of blocks that were not held: no-ops.
    pub unknown_removals: Counter,
    /// Blocks held now, counted once an owner.
    pub blocks_held: Counter,
    /// Blocks that wait for their parent now.
    pub orphans: Counter,
    /// Orphans whose parent came.
    pub orphans_adopted: Counter,
    /// Orphans dropped because too many waited.
    pub orphans_dropped: Counter,
    /// Pool objects that had to wait for an engine to announce their hash.
    pub keys_waited: Counter,
    /// Pool objects located through an engine's announcement.
    pub keys_resolved: Counter,
    /// Pool objects dropped because too many waited.
    pub keys_dropped: Counter,
    /// Removals whose `base_block_idx` disagreed with the known depth.
    pub depth_disagreements: Counter,
    /// Envelope fields that disagreed with the registration (the envelope wins).
    pub envelope_disagreements: Counter,
    /// `event_id`s at or below the last one.
    pub event_id_regressions: Counter,
    /// `event_id`s that left some out.
    pub event_id_jumps: Counter,
    /// Fields of batches and events that are not known; they are passed over.
    pub unknown_fields: Counter,
    /// Events skipped, by reason.
    pub skipped: [Counter; SKIPS],
    /// Payloads refused, by reason.
    pub refused: [Counter; REFUSALS],
}

/// Events that could not be read: any of them may have been a removal.
const UNREAD: [Skip; 9] = [
    Skip::NotAnEvent,
    Skip::BadTag,
    Skip::MissingField,
    Skip::BadField,
    Skip::DuplicateKey,
    Skip::Conflict,
    Skip::TooLarge,
    Skip::NotUtf8,
    Skip::TooDeep,
];
/// Stores that were read and not entered.
const NOT_ENTERED: [Skip; 5] =
    [Skip::Length, Skip::BlockSizeMismatch, Skip::Cycle, Skip::NoPosition, Skip::Bound];

impl PublisherStats {
    /// Payloads and events that could not be read. Unknown kinds of events are none of them: they are for others.
    pub fn unread(&self) -> u64 {
        self.skips(&UNREAD) + self.refused.iter().map(Counter::get).sum::<u64>()
    }

    /// Events and blocks that were announced and not entered, or dropped at a bound.
    pub fn not_entered(&self) -> u64 {
        self.skips(&NOT_ENTERED) + self.orphans_dropped.get() + self.keys_dropped.get()
    }

    /// Grows with [`Self::unread`] and [`Self::not_entered`], and is quicker to have.
    pub fn troubles(&self) -> u64 {
        let all = |counters: &[Counter]| counters.iter().fold(0, |sum, counter| sum + counter.get());
        all(&self.skipped) + all(&self.refused) + self.orphans_dropped.get() + self.keys_dropped.get()
    }

    /// Whether blocks were announced, and nothing of them is understood.
    pub fn enters_nothing(&self) -> bool {
        self.stores.get() == 0 && self.skips(&[Skip::UnparsedKey, Skip::UnknownPlaceholder]) > 0
    }

    fn skips(&self, reasons: &[Skip]) -> u64 {
        reasons.iter().map(|reason| self.skipped[*reason as usize].get()).sum()
    }
}
