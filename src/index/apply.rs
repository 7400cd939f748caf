//! Applies a decoded batch to the shard, in bounded steps.
//!
//! An event is checked as a whole before its first block is placed; a bad one is skipped and counted. A long
//! event, or a clear of a full cache, goes on where the turn's budget ended: the caller keeps payload, batch
//! and [`Cursor`] and calls again.

use super::chain::{ByHash, Chain, NameSource, Placeholder};
use super::keyed::Keyed;
use super::publisher::Publisher;
use super::remove::Lanes;
use super::run::Place;
use super::shard::Shard;
use crate::event::{Batch, Envelope, Event, Skip, Slice, Span};
use hashbrown::HashTable;

/// Names looked up ahead of the event that uses the first of them.
const WARM: usize = 64;

/// Reused between events.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) unpins: Vec<Place>,
    pub(super) places: Vec<Place>,
    pub(super) found: Vec<(u64, u8)>,
    /// Hashes of the blocks that are being placed.
    pub(super) seqs: Vec<u64>,
    pub(super) seen: HashTable<u64>,
    /// Names just announced that somebody waits for, and their places.
    pub(super) woken: Vec<(u64, Place)>,
}

/// Where the application of a batch stands.
#[derive(Default)]
pub struct Cursor {
    event: usize,
    /// Hashes of the batch whose names were looked up ahead.
    warmed: usize,
    work: Option<Work>,
    /// Names announced, whose orphans may be adopted.
    pub(super) announced: Vec<u64>,
}

impl Cursor {
    /// Looks up the publisher's own names of an event, and of those behind it, unless that was done.
    fn warm(&mut self, publisher: &Publisher, batch: &Batch, event: &Event) {
        let hashes = match event {
            Event::Store(store) => store.hashes,
            Event::Remove(remove) => remove.hashes,
            Event::Clear(_) => return,
        };
        let from = hashes.start as usize;
        if from >= self.warmed {
            self.warmed = batch.hashes.len().min(from + WARM);
            publisher.names.warm(&batch.hashes[from..self.warmed]);
        }
    }
}

/// What an event asks for, once checked.
pub(super) enum Work {
    /// Place blocks one behind the other, from tokens.
    Chain(Chain),
    /// Place blocks by their standard hashes alone.
    ByHash(ByHash),
    /// Blocks that have a name already now also live on another lane.
    Placeholder(Placeholder),
    /// Pool objects that name an engine's hash.
    Keyed(Keyed),
    /// One copy less each.
    Remove { names: NameSource, salt: u64, remaining: Option<Slice>, lanes: Lanes, at: usize },
    /// No copies any more.
    Clear { lanes: Lanes, tenant: Option<String>, segment: usize },
}

/// What one event is read with.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) payload: &'a [u8],
    pub(super) batch: &'a Batch,
}

impl<'a> Reading<'a> {
    pub(super) fn text(&self, span: Span) -> Option<&'a str> {
        span.non_empty(self.payload)
    }

    pub(super) fn envelope(&self, at: Option<u32>) -> Option<&'a Envelope> {
        at.map(|at| &self.batch.envelopes[at as usize])
    }
}

impl Shard {
    /// Applies events of `batch` (decoded from `payload`) for one publisher until about `budget` blocks are
    /// done; returns whether the batch is. A publisher that left makes it done at once.
    pub fn apply(
        &mut self,
        publisher: u32,
        payload: &[u8],
        batch: &Batch,
        cursor: &mut Cursor,
        budget: usize,
    ) -> bool {
        let Some(slot) = self.publishers.get_mut(publisher as usize) else { return true };
        let Some(mut owner) = slot.take() else { return true };
        let done = self.advance(&mut owner, Reading { payload, batch }, cursor, budget);
        owner.stats.orphans.set(owner.orphans.blocks() as u64);
        self.publishers[publisher as usize] = Some(owner);
        done
    }

    fn advance(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        cursor: &mut Cursor,
        budget: usize,
    ) -> bool {
        let mut spent = 0;
        loop {
            if let Some(work) = cursor.work.take() {
                // what was begun is worked at in the same turn: only held blocks keep its context alive
                let rest = budget.saturating_sub(spent).max(1);
                let (more, blocks) = self.work(publisher, reading, work, &mut cursor.announced, rest);
                cursor.work = more;
                spent += blocks;
                if spent >= budget && cursor.work.is_some() {
                    return false;
                }
            } else if spent >= budget {
                return false;
            } else if let Some(name) = cursor.announced.pop() {
                if let Some(orphan) = publisher.orphans.adopt(name) {
                    cursor.announced.push(name);
                    cursor.work = self.adopt(publisher, orphan);
                }
                spent += 1;
            } else {
                let Some(event) = reading.batch.events.get(cursor.event) else { return true };
                cursor.event += 1;
                spent += 1;
                cursor.warm(publisher, reading.batch, event);
                if publisher.early {
                    self.give_early(publisher);
                }
                match self.begin(publisher, reading, event) {
                    Ok(work) => cursor.work = work,
                    Err(reason) => publisher.stats.skipped[reason as usize].add(1),
                }
            }
        }
    }

    fn begin(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        event: &Event,
    ) -> Result<Option<Work>, Skip> {
        match event {
            Event::Store(store) => {
                let work = self.begin_store(publisher, reading, store)?;
                publisher.stats.stores.add(1);
                publisher.stats.blocks_stored.add(u64::from(store.hashes.len));
                Ok(work)
            }
            Event::Remove(remove) => {
                let work = self.begin_remove(publisher, reading, remove)?;
                publisher.stats.removes.add(1);
                publisher.stats.blocks_removed.add(u64::from(remove.hashes.len));
                Ok(work)
            }
            Event::Clear(clear) => {
                let work = self.begin_clear(publisher, reading, clear)?;
                publisher.stats.clears.add(1);
                Ok(work)
            }
        }
    }

    /// Goes on with an event for about `budget` blocks; returns what is left of it, and the blocks done.
    fn work(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        work: Work,
        announced: &mut Vec<u64>,
        budget: usize,
    ) -> (Option<Work>, usize) {
        match work {
            Work::Chain(chain) => self.work_chain(publisher, reading, chain, announced, budget),
            Work::ByHash(by_hash) => self.work_by_hash(publisher, reading, by_hash, announced, budget),
            Work::Keyed(keyed) => (None, self.work_keyed(publisher, &keyed)),
            Work::Placeholder(placeholder) => self.work_placeholder(publisher, reading, placeholder, budget),
            Work::Remove { names, salt, remaining, lanes, at } => {
                let all = names.of(reading.batch);
                let until = all.len().min(at + budget);
                let plain = Self::only_lane(publisher, lanes).filter(|_| remaining.is_none());
                let mut next = at;
                while next < until {
                    let names = &all[next..until];
                    let done = plain.map_or(0, |lane| self.remove_plainly(publisher, names, salt, lane));
                    if done == 0 {
                        let left =
                            remaining.and_then(|counts| counts.of(&reading.batch.counts).get(next).copied());
                        self.remove(publisher, names[0], salt, lanes, left);
                    }
                    next += done.max(1);
                }
                let more = until < all.len();
                (more.then_some(Work::Remove { names, salt, remaining, lanes, at: until }), until - at)
            }
            Work::Clear { lanes, tenant, segment } => {
                if segment < publisher.names.segments() {
                    let done = self.clear_segment(publisher, lanes, tenant.as_deref(), segment);
                    return (Some(Work::Clear { lanes, tenant, segment: segment + 1 }), done + 1);
                }
                let done = self.clear_plain(publisher, lanes, tenant.as_deref(), budget);
                let more = done >= budget;
                (more.then_some(Work::Clear { lanes, tenant, segment: usize::MAX }), done + 1)
            }
        }
    }
}
