//! Blocks whose parent the publisher never announced: they match nothing until the parent comes.
//!
//! An orphan keeps names and local hashes of its blocks, not tokens. A removal that meets an orphan is kept
//! with it and played back right after its adoption, so that store and removal leave what they would have left.

use std::collections::{BTreeMap, HashMap};

/// Blocks that may wait at one publisher.
pub const ORPHAN_BLOCKS: usize = 1 << 16;

/// A store event that waits for its parent.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Name of the parent.
    pub parent: u64,
    /// Names of its blocks.
    pub names: Vec<u64>,
    /// Local hashes of its blocks.
    pub locals: Vec<u64>,
    /// Lane that holds them.
    pub lane: u8,
    /// What its names are mixed with.
    pub salt: u64,
    /// Names removed while they waited, in order.
    pub removed: Vec<u64>,
}

impl Orphan {
    fn bytes(&self) -> usize {
        size_of::<Self>() + (self.names.capacity() + self.locals.capacity()) * size_of::<u64>()
    }
}

/// The orphans of one publisher, oldest dropped first.
#[derive(Default, Debug)]
pub struct Orphans {
    waiting: BTreeMap<u64, Orphan>,
    by_parent: HashMap<u64, Vec<u64>>,
    by_name: HashMap<u64, Vec<u64>>,
    next: u64,
    blocks: usize,
    heap: usize,
}

impl Orphans {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Blocks that wait.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Heap bytes taken, about.
    pub fn bytes(&self) -> usize {
        self.heap
            + self.blocks * 2 * size_of::<u64>()
            + (self.by_parent.capacity() + self.by_name.capacity()) * size_of::<(u64, Vec<u64>)>()
    }

    /// Lets an event wait; returns how many blocks were dropped for it.
    pub fn wait(&mut self, orphan: Orphan) -> usize {
        let mut dropped = 0;
        if orphan.names.len() > ORPHAN_BLOCKS {
            return orphan.names.len();
        }
        while self.blocks + orphan.names.len() > ORPHAN_BLOCKS
            && let Some((oldest, _)) = self.waiting.first_key_value()
        {
            let oldest = *oldest;
            dropped += self.take(oldest).map_or(0, |orphan| orphan.names.len());
        }
        let number = self.next;
        self.next += 1;
        self.blocks += orphan.names.len();
        self.heap += orphan.bytes();
        self.by_parent.entry(orphan.parent).or_default().push(number);
        for name in &orphan.names {
            self.by_name.entry(*name).or_default().push(number);
        }
        self.waiting.insert(number, orphan);
        dropped
    }

    /// Whether somebody waits for this name.
    pub fn await_parent(&self, name: u64) -> bool {
        self.by_parent.contains_key(&name)
    }

    /// The oldest orphan that waits for this name.
    pub fn adopt(&mut self, name: u64) -> Option<Orphan> {
        let oldest = self.by_parent.get(&name)?.first().copied()?;
        self.take(oldest)
    }

    /// Notes a removal of a block that waits on the lane; returns whether there is one.
    pub fn remove(&mut self, name: u64, lane: u8, remaining: Option<u32>) -> bool {
        let Some(numbers) = self.by_name.get(&name) else { return false };
        if remaining.is_some_and(|left| left > 0) {
            return true;
        }
        for number in numbers {
            let Some(orphan) = self.waiting.get_mut(number) else { continue };
            // an orphan holds one copy of each of its names
            if orphan.lane == lane && !orphan.removed.contains(&name) {
                orphan.removed.push(name);
                self.heap += size_of::<u64>();
                return true;
            }
        }
        false
    }

    /// Drops the orphans whose lane and salt `on` accepts.
    pub fn clear(&mut self, on: impl Fn(u8, u64) -> bool) {
        let gone: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, orphan)| on(orphan.lane, orphan.salt))
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.take(number);
        }
    }

    fn take(&mut self, number: u64) -> Option<Orphan> {
        let orphan = self.waiting.remove(&number)?;
        self.blocks -= orphan.names.len();
        self.heap -= orphan.bytes() + orphan.removed.len() * size_of::<u64>();
        forget(&mut self.by_parent, orphan.parent, number);
        for name in &orphan.names {
            forget(&mut self.by_name, *name, number);
        }
        if self.waiting.is_empty() {
            *self = Self { next: self.next, ..Self::default() };
        }
        Some(orphan)
    }
}

fn forget(map: &mut HashMap<u64, Vec<u64>>, key: u64, number: u64) {
    if let Some(numbers) = map.get_mut(&key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            map.remove(&key);
        }
    }
}
