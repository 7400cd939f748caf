//! The entries of a publisher's own names.

use super::run::Place;
use super::table::Keyed;

/// Lane number of a removed name.
pub(super) const TOMBSTONE: u8 = u8::MAX;

/// One name on one lane at one place.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub(super) hash: u64,
    pub(super) run: u32,
    pub(super) at: u16,
    pub(super) lane: u8,
    pub(super) count: u8,
}

const _: () = assert!(size_of::<Name>() == 16);

impl Name {
    /// Where the block stands.
    pub fn place(&self) -> Place {
        Place { run: self.run, at: self.at }
    }

    /// The lane, `None` for a tombstone.
    pub fn lane(&self) -> Option<u8> {
        (self.lane != TOMBSTONE).then_some(self.lane)
    }
}

impl Keyed for Name {
    fn key(&self) -> u64 {
        self.hash
    }
}

/// What a store changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// The lane now holds the place by this name; it did not before.
    Fresh,
    /// One copy more of what this name already held there.
    Again,
    /// The name already denotes `NAME_PLACES` places; nothing changed.
    Full,
}

/// Names kept here that hold a place on a lane.
#[derive(Clone, Copy)]
pub(super) struct Odd {
    pub(super) key: u64,
    pub(super) names: u32,
}

impl Odd {
    pub(super) fn key_of(place: Place, lane: u8) -> u64 {
        u64::from(place.run) << 24 | u64::from(place.at) << 8 | u64::from(lane)
    }
}

impl Keyed for Odd {
    fn key(&self) -> u64 {
        self.key
    }
}

/// Copies of a name on a lane beyond those counted elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Copies {
    pub(super) hash: u64,
    pub(super) more: u32,
    pub(super) lane: u8,
}

impl Keyed for Copies {
    fn key(&self) -> u64 {
        self.hash
    }
}

/// What is known of a name beside what the dialect says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// Nothing.
    Not,
    /// It was removed.
    Removed,
    /// It is kept here, with copies.
    Kept,
}
