//! The fleet's books: what is stored and how recently it was used, what each salt may store, what is pinned, and
//! what is evicted next.
//!
//! Events keep the ledger; a sweep walks it in steps and chooses victims; their DELETEs are written, sent by
//! somebody else, and their answers told here. A key leaves the ledger by a `delete` event alone.
//!
//! | State of a stored key | How an eviction sweep sees it |
//! |---|---|
//! | plain | a victim, oldest first, until the target is met |
//! | pinned | passed over; it counts in the pool that the target is a part of |
//! | in flight (DELETE unanswered) | not sent again; counts toward the target; its bytes are not usage |
//! | backs off (eight good answers, no event) | passed over until its pause is over, then sent beyond the target |
//!
//! A key that backs off takes no victim's turn, so that it stops nobody. Its bytes are usage, and the quota is
//! kept without it; but when more than [`crate::limits::FLEET_STUCK_KEYS`] keys of a salt back off, deletions go
//! unreported rather than fail, and younger keys do not pay: those bytes no longer count against the limit.
//!
//! | File | What |
//! |---|---|
//! | `ledger`, `entry`, `pages` | keys, their identity, their order; one cache line each |
//! | `scopes`, `tenant` | all of a key but its hash, told once; a salt's list and sums |
//! | `quotas`, `pins`, `sequences`, `counters` | limits, pins, gaps between batches, what `/metrics` shows |
//! | [`plan`], `flight` | victims chosen; their DELETEs written and answered |
//! | `salts` | usage and quotas, listed in steps |
//! | `resync` | listed keys, older than any event |

mod counters;
mod entry;
mod flight;
mod ledger;
mod pages;
mod pins;
pub mod plan;
mod quotas;
mod resync;
mod salts;
mod scopes;
mod sequences;
mod tenant;

pub use counters::Counters;
pub use entry::EntryId;
pub use flight::{DELETION, DELETION_END, Outcome, write_key};
pub use ledger::Bounds;
pub use pins::PinListing;
pub use plan::{Batch, Evicted, Plan, Planner, Rules};
pub use resync::Listed;
pub use salts::{Salt, SaltListing};
pub use sequences::Sequence;

use super::key::Key;
use crate::limits::{FLEET_QUOTAS, KEY_TEXT_BYTES};
use entry::State;
use ledger::{End, Ledger};
use pins::Pins;
use quotas::Quotas;
use resync::Resync;
use sequences::Sequences;
use std::hash::BuildHasher;
use std::time::Duration;

/// Everything that the coordinator knows of stored keys.
pub struct Books {
    ledger: Ledger,
    quotas: Quotas,
    pins: Pins,
    resync: Resync,
    sequences: Sequences,
    counters: Counters,
    /// The sweep that owns the ledger's cursor.
    sweep: u64,
}

impl Default for Books {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Books {
    /// Empty books.
    pub fn new(bounds: Bounds) -> Self {
        let ledger = Ledger::new(bounds);
        Self {
            pins: Pins::new(ledger.hasher.hash_one(2)),
            ledger,
            quotas: Quotas::default(),
            resync: Resync::default(),
            sequences: Sequences::default(),
            counters: Counters::default(),
            sweep: 0,
        }
    }

    /// A key is stored, `bytes` large, and most recently used; false when the books are full.
    pub fn store(&mut self, key: &Key<'_>, bytes: u64) -> bool {
        self.counters.stores += 1;
        let Some(slot) = self.ledger.keep(key) else {
            self.counters.refused += 1;
            return false;
        };
        if self.ledger.entries[slot].state.has(State::KNOWN) {
            self.heard_of(slot, Some(bytes));
        } else {
            self.ledger.enter(slot, bytes, self.resync.mark(0), End::Newest);
        }
        true
    }

    /// A key was used; nothing when it is unknown.
    pub fn lookup(&mut self, key: &Key<'_>) {
        self.counters.lookups += 1;
        if let Some(slot) = self.ledger.find_known(key) {
            self.heard_of(slot, None);
        }
    }

    /// A key is gone; nothing when it is unknown.
    pub fn delete(&mut self, key: &Key<'_>) {
        self.counters.deletes += 1;
        self.note_deletion(key);
        if let Some(slot) = self.ledger.find_known(key) {
            self.counters.confirmed += u64::from(self.ledger.entries[slot].state.has(State::SENT));
            self.ledger.leave(slot);
        }
    }

    /// An event names a stored key: it no longer backs off, and it is the newest.
    fn heard_of(&mut self, slot: u32, bytes: Option<u64>) {
        let resync = &self.resync;
        self.ledger.change(slot, |entry| {
            entry.bytes = bytes.unwrap_or(entry.bytes);
            entry.state.set_answers(0, 0);
            let mark = resync.mark(entry.state.round());
            entry.state.set_round(mark);
        });
        self.ledger.renew(slot);
    }

    /// Whether a quota can be set: it is there, or there are not too many.
    pub fn has_room_for_quota(&self, salt: &str) -> bool {
        self.quotas.by_salt.contains_key(salt) || self.quotas.by_salt.len() < FLEET_QUOTAS
    }

    /// Sets a quota, bytes; false when there are too many.
    pub fn set_quota(&mut self, salt: &str, bytes: u64) -> bool {
        self.quotas.set(salt, bytes)
    }

    /// Removes a quota; whether there was one. The default applies from here on.
    pub fn remove_quota(&mut self, salt: &str) -> bool {
        self.quotas.remove(salt)
    }

    /// A salt's own quota, bytes.
    pub fn quota(&self, salt: &str) -> Option<u64> {
        self.quotas.by_salt.get(salt).copied()
    }

    /// All quotas, sorted by code point.
    pub fn quotas(&self) -> impl Iterator<Item = (&str, u64)> {
        self.quotas.by_salt.iter().map(|(salt, bytes)| (&**salt, *bytes))
    }

    /// Sets the limit of salts without a quota, bytes; none exempts them.
    pub fn set_default(&mut self, bytes: Option<u64>) {
        self.quotas.default = bytes;
    }

    /// The limit of salts without a quota, bytes.
    pub fn default_limit(&self) -> Option<u64> {
        self.quotas.default
    }

    /// Bytes stored under a salt.
    pub fn usage(&self, salt: &str) -> u128 {
        let tenant = self.ledger.scopes.tenant(salt);
        tenant.map_or(0, |tenant| self.ledger.scopes.tenants[tenant].stored.bytes)
    }

    /// Bytes stored in all.
    pub fn total(&self) -> u128 {
        self.ledger.total
    }

    /// An instance sent a batch of events with this sequence number, which only counts gaps and repeats.
    pub fn heard(&mut self, instance: &str, seq: u64) -> Sequence {
        // of a very long name the start says enough
        let start = &instance.as_bytes()[..instance.len().min(KEY_TEXT_BYTES)];
        let sequence = self.sequences.heard(self.ledger.hasher.hash_one((start, instance.len())), seq);
        match sequence {
            Sequence::Next => {}
            Sequence::Gap(missing) => self.counters.missing = self.counters.missing.saturating_add(missing),
            Sequence::Repeat => self.counters.repeats += 1,
        }
        sequence
    }

    /// An instance registered, again or for the first time: whatever backed off is tried again.
    pub fn registered(&mut self, now: Duration) {
        self.ledger.registered(millis(now));
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters {
            keys: self.ledger.known,
            pinned: self.pins.keys,
            in_flight: self.ledger.flying,
            backed_off: self.ledger.stuck,
            ..self.counters
        }
    }

    /// Heap bytes.
    pub fn bytes_used(&self) -> usize {
        self.ledger.bytes()
            + self.pins.bytes()
            + self.quotas.bytes()
            + self.resync.bytes()
            + self.sequences.bytes()
    }
}

/// Time since start as stamps have it, good for three centuries; the start itself is after the registration that
/// never was.
fn millis(now: Duration) -> u64 {
    now.as_millis().min(1 << 43) as u64 + 1
}
