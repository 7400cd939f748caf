//! Listed keys, and why events win over them.
//!
//! A listing is not a snapshot: events arrive while its pages do, and they are the younger news. A key that an
//! event has named since the resync began stays as the event left it, deleted included. Listed keys are older
//! than all that events have named; among themselves the order of the listing counts.

use super::Books;
use super::entry::{ROUNDS, State};
use super::ledger::End;
use crate::fleet::key::Key;
use crate::index::table::{Keyed, Table};
use crate::limits::FLEET_RESYNC_DELETIONS;
use std::hash::BuildHasher;

/// A deleted key, by its hash: a collision costs a listed key, which the next event brings back.
#[derive(Clone, Copy)]
struct Gone(u64);

impl Keyed for Gone {
    fn key(&self) -> u64 {
        self.0
    }
}

/// What became of a listed key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listed {
    /// It is in the ledger now.
    Added,
    /// It was, and its size is the listed one.
    Known,
    /// An event has told more recent news.
    Overruled,
    /// So many keys were deleted meanwhile that it may be one of them.
    Doubtful,
    /// The books are full.
    Refused,
}

/// The running resync, if any.
#[derive(Default)]
pub(super) struct Resync {
    /// How many there were.
    rounds: u64,
    deleted: Option<Table<Gone>>,
    forgetful: bool,
}

impl Resync {
    /// The mark of the running round for a key that an event names; without one, the mark it has.
    pub(super) fn mark(&self, before: u64) -> u64 {
        if self.deleted.is_some() { self.round() } else { before }
    }

    /// From 1 to [`ROUNDS`]: marks need no clearing between rounds.
    fn round(&self) -> u64 {
        self.rounds % ROUNDS + 1
    }

    pub(super) fn bytes(&self) -> usize {
        self.deleted.as_ref().map_or(0, Table::bytes)
    }
}

impl Books {
    /// A resync begins: from here on events win over [`Books::listed`].
    pub fn begin_resync(&mut self) {
        let salt = self.ledger.hasher.hash_one(1);
        self.resync.rounds += 1;
        self.resync.deleted = Some(Table::new(salt));
        self.resync.forgetful = false;
    }

    /// It is over, with or without success.
    pub fn end_resync(&mut self) {
        self.resync.deleted = None;
        self.resync.forgetful = false;
    }

    /// Whether a resync runs.
    pub fn resyncing(&self) -> bool {
        self.resync.deleted.is_some()
    }

    /// Remembers that a key was deleted while a resync runs.
    pub(super) fn note_deletion(&mut self, key: &Key<'_>) {
        let gone = self.ledger.hasher.hash_one(key);
        let Some(deleted) = &mut self.resync.deleted else { return };
        if deleted.find(gone, |_| true).is_some() {
            return;
        }
        if deleted.len() < FLEET_RESYNC_DELETIONS {
            deleted.insert(Gone(gone));
        } else {
            self.resync.forgetful = true;
        }
    }

    /// A page lists a key, `bytes` large. A known one keeps its place.
    pub fn listed(&mut self, key: &Key<'_>, bytes: u64) -> Listed {
        let outcome = self.list(key, bytes);
        match outcome {
            Listed::Added | Listed::Known => self.counters.listed += 1,
            Listed::Overruled => self.counters.overruled += 1,
            Listed::Doubtful => self.counters.doubtful += 1,
            Listed::Refused => self.counters.refused += 1,
        }
        outcome
    }

    fn list(&mut self, key: &Key<'_>, bytes: u64) -> Listed {
        let running = self.resync.deleted.as_ref();
        if let Some(slot) = self.ledger.find_known(key) {
            if running.is_some() && self.ledger.entries[slot].state.round() == self.resync.round() {
                return Listed::Overruled;
            }
            self.ledger.change(slot, |entry| entry.bytes = bytes);
            return Listed::Known;
        }
        let gone = self.ledger.hasher.hash_one(key);
        if running.is_some_and(|deleted| deleted.find(gone, |_| true).is_some()) {
            return Listed::Overruled;
        }
        if self.resync.forgetful {
            return Listed::Doubtful;
        }
        let Some(slot) = self.ledger.keep(key) else { return Listed::Refused };
        debug_assert!(!self.ledger.entries[slot].state.has(State::KNOWN));
        self.ledger.enter(slot, bytes, 0, End::Listed);
        Listed::Added
    }
}
