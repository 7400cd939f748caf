//! One key in the books: a cache line.

use crate::limits::FLEET_UNREPORTED_ANSWERS;

/// No entry.
pub(super) const NIL: u32 = u32::MAX;
/// Entries a page.
pub(super) const PAGE: usize = 1024;

/// Names one stay of a key in the ledger: once it was deleted, the id names nothing, whatever comes in its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntryId {
    pub(super) slot: u32,
    pub(super) life: u32,
}

/// A key that is stored, pinned, or both. The hash and the scope identify it.
#[derive(Default)]
pub(super) struct Entry {
    /// The hash, or for one of unusual length its number in the first bytes.
    pub(super) hash: [u8; 32],
    pub(super) bytes: u64,
    pub(super) state: State,
    pub(super) scope: u32,
    /// Towards the oldest key of the salt.
    pub(super) older: u32,
    /// Towards the newest.
    pub(super) newer: u32,
    pub(super) life: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// What is known of a key, packed: twelve bits of flags and resync round, the count of unreported answers, and
/// the stamp of the last of them (milliseconds, 44 bits).
#[derive(Clone, Copy, Default)]
pub(super) struct State(u64);

const ROUND_AT: u32 = 5;
/// Rounds of resync that are told apart.
pub(super) const ROUNDS: u64 = 127;
const ANSWERS_AT: u32 = 12;
const STAMP_AT: u32 = 20;

impl State {
    /// It is in the ledger and its salt's list.
    pub(super) const KNOWN: Self = Self(1);
    /// It has pins.
    pub(super) const PINNED: Self = Self(1 << 1);
    /// Its DELETE is unanswered.
    pub(super) const FLYING: Self = Self(1 << 2);
    /// Its hash is not of the usual length.
    pub(super) const LONG: Self = Self(1 << 3);
    /// Its DELETE was sent at some time.
    pub(super) const SENT: Self = Self(1 << 4);

    pub(super) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: Self, on: bool) {
        if on {
            self.0 |= flag.0;
        } else {
            self.0 &= !flag.0;
        }
    }

    /// The round of resync in which an event last named the key, 0 for none.
    pub(super) fn round(self) -> u64 {
        self.0 >> ROUND_AT & ROUNDS
    }

    pub(super) fn set_round(&mut self, round: u64) {
        self.0 = self.0 & !(ROUNDS << ROUND_AT) | round << ROUND_AT;
    }

    pub(super) fn answers(self) -> u8 {
        (self.0 >> ANSWERS_AT) as u8
    }

    pub(super) fn stamp(self) -> u64 {
        self.0 >> STAMP_AT
    }

    pub(super) fn set_answers(&mut self, answers: u8, stamp: u64) {
        let low = self.0 & ((1 << ANSWERS_AT) - 1);
        self.0 = low | u64::from(answers) << ANSWERS_AT | stamp << STAMP_AT;
    }

    /// Whether it was deleted in vain often enough since `registered`, the stamp of the last registration.
    pub(super) fn stuck(self, registered: u64) -> bool {
        self.answers() >= FLEET_UNREPORTED_ANSWERS && self.stamp() > registered
    }
}
