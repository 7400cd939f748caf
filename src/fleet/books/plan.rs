//! An eviction sweep: salts in the order of their first key, keys from oldest to newest, in steps of bounded
//! size. Events may come between steps: the ledger's cursor goes on to the next key when its own leaves its place.

use super::Books;
use super::entry::{EntryId, NIL, State};
use super::ledger::Class;
use super::millis;
use crate::limits::{FLEET_BACK_OFF_MILLIS, FLEET_BATCH_KEYS, FLEET_STUCK_KEYS, FLEET_UNREPORTED_ANSWERS};
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// How sweeps evict.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Part of a limit at which eviction begins, above 0 and up to 1.
    pub watermark: f64,
    /// Part of a salt's keys that one sweep evicts, 0 to 1; all of them when the limit is 0.
    pub ratio: f64,
    /// Take along the other ranks of a victim's chunk.
    pub whole_chunks: bool,
    /// Plan and report only: nothing becomes in flight.
    pub dry_run: bool,
    /// Time between two sweeps: the first pause of a key that backs off.
    pub interval: Duration,
}

/// Keys of one DELETE.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(super) ids: Vec<EntryId>,
}

impl Batch {
    /// Keys.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is nothing to delete.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Takes the keys from the `at`th on out, as a batch of their own.
    #[must_use = "its keys are in flight"]
    pub fn split_off(&mut self, at: usize) -> Self {
        Self { ids: self.ids.split_off(at.min(self.ids.len())) }
    }

    /// What it names, oldest first within a salt.
    pub fn ids(&self) -> &[EntryId] {
        &self.ids
    }
}

/// What a sweep takes from one salt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The salt.
    pub salt: Box<str>,
    /// Bytes stored when the sweep came to it.
    pub usage: u128,
    /// Its limit, bytes.
    pub limit: u64,
    /// Victims.
    pub keys: usize,
    /// Their bytes.
    pub bytes: u128,
}

/// The victims of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In batches of at most [`FLEET_BATCH_KEYS`].
    pub batches: Vec<Batch>,
    /// Salts that lose keys, in the order of the sweep.
    pub salts: Vec<Evicted>,
}

impl Plan {
    /// Victims in all.
    pub fn keys(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    fn push(&mut self, id: EntryId) {
        if self.batches.last().is_none_or(|batch| batch.len() >= FLEET_BATCH_KEYS) {
            self.batches.push(Batch::default());
        }
        let last = self.batches.len() - 1;
        self.batches[last].ids.push(id);
    }
}

/// One sweep. Victims are in flight as soon as they are chosen: a sweep that is dropped half-way must hand over
/// its batches by [`Planner::into_plan`], to be sent or told as failed.
pub struct Planner {
    rules: Rules,
    now: u64,
    number: u64,
    /// The salt before this one is done, by birth.
    done: u64,
    walk: Option<Walk>,
    chunk: Option<Chunk>,
    /// Victims of a dry run, which no flag tells.
    dry: HashSet<EntryId>,
    plan: Plan,
}

/// Where the sweep is within a salt.
struct Walk {
    /// Plain victims that may still be taken.
    left: usize,
    /// Keys to look at before everything was seen that stood there in the beginning.
    visits: u32,
    /// Keys that back off and were not met yet, when only they are wanted.
    stuck: u32,
    evicted: Evicted,
}

/// Ranks of a victim's chunk that are still to be looked up.
struct Chunk {
    victim: EntryId,
    world: u64,
    ranks: Range<u64>,
}

impl Planner {
    /// Begins a sweep; one that is not finished yet chooses no further victims.
    pub fn new(books: &mut Books, now: Duration, rules: Rules) -> Self {
        books.sweep += 1;
        books.ledger.cursor = NIL;
        Self {
            rules,
            now: millis(now),
            number: books.sweep,
            done: 0,
            walk: None,
            chunk: None,
            dry: HashSet::new(),
            plan: Plan::default(),
        }
    }

    /// Looks at up to `most` keys and salts; true when the sweep is over.
    pub fn step(&mut self, books: &mut Books, most: usize) -> bool {
        for _ in 0..most.max(1) {
            if self.number != books.sweep {
                return true;
            }
            if self.chunk.is_some() {
                self.next_rank(books);
            } else if self.walk.is_some() {
                self.next_key(books);
            } else if !self.next_salt(books) {
                return true;
            }
        }
        false
    }

    /// The victims so far.
    pub fn into_plan(mut self) -> Plan {
        self.end_salt();
        self.plan
    }

    fn next_salt(&mut self, books: &mut Books) -> bool {
        let Some((&born, &number)) = books.ledger.order.range(self.done + 1..).next() else { return false };
        self.done = born;
        let tenant = &books.ledger.scopes.tenants[number];
        let Some(limit) = books.quotas.limit(&tenant.salt) else { return true };
        let stuck = books.ledger.stuck_of(tenant);
        let used = tenant.stored.bytes - tenant.flying.bytes;
        // many that back off: what they hold counts as gone, and only they are tried
        let unreported = stuck.keys > FLEET_STUCK_KEYS;
        let counted = if unreported { used - stuck.bytes } else { used };
        let target = self.rules.target(tenant.stored.keys, limit);
        if !self.rules.fires(used, limit) || target == 0 {
            return true;
        }
        let retry_only = !self.rules.fires(counted, limit);
        self.walk = Some(Walk {
            left: if retry_only { 0 } else { target.saturating_sub(tenant.flying.keys as usize) },
            visits: tenant.stored.keys,
            stuck: if retry_only { stuck.keys } else { 0 },
            evicted: Evicted {
                salt: tenant.salt.clone(),
                usage: tenant.stored.bytes,
                limit,
                keys: 0,
                bytes: 0,
            },
        });
        books.ledger.cursor = tenant.oldest;
        true
    }

    fn end_salt(&mut self) {
        if let Some(walk) = self.walk.take()
            && walk.evicted.keys > 0
        {
            self.plan.salts.push(walk.evicted);
        }
    }

    fn next_key(&mut self, books: &mut Books) {
        let Some(walk) = &mut self.walk else { return };
        let slot = books.ledger.cursor;
        let enough = walk.left == 0 && walk.stuck == 0;
        if slot == NIL || walk.visits == 0 || enough {
            books.ledger.cursor = NIL;
            self.end_salt();
            return;
        }
        walk.visits -= 1;
        let entry = &books.ledger.entries[slot];
        books.ledger.cursor = entry.newer;
        let class = books.ledger.class(slot);
        if class == Class::Stuck {
            walk.stuck = walk.stuck.saturating_sub(1);
        }
        if !self.wants(books, slot) {
            return;
        }
        if class == Class::Plain {
            match self.walk.as_mut() {
                Some(walk) if walk.left > 0 => walk.left -= 1,
                _ => return,
            }
        }
        let rank = books.ledger.scopes.get(books.ledger.entries[slot].scope).rank;
        self.take(books, slot);
        if self.rules.whole_chunks
            && let Some(world) = world_size(rank)
        {
            self.chunk = Some(Chunk { victim: books.ledger.id(slot), world, ranks: 0..world });
        }
    }

    /// Whether a key may be chosen at all: not pinned, not in flight, not before its pause is over.
    fn wants(&self, books: &Books, slot: u32) -> bool {
        let state = books.ledger.entries[slot].state;
        let free = match books.ledger.class(slot) {
            Class::Plain => true,
            Class::Flying => false,
            Class::Stuck => state.stamp() + self.rules.pause(state.answers()) <= self.now,
        };
        let taken = self.rules.dry_run && self.dry.contains(&books.ledger.id(slot));
        free && !taken && !state.has(State::PINNED)
    }

    fn next_rank(&mut self, books: &mut Books) {
        let Some(chunk) = &mut self.chunk else { return };
        let next = chunk.ranks.next().zip(books.ledger.slot(chunk.victim));
        let Some((rank, victim)) = next else {
            self.chunk = None;
            return;
        };
        let other = books.ledger.sibling(victim, kv_rank(chunk.world, rank));
        if let Some(other) = other
            && books.ledger.entries[other].state.has(State::KNOWN)
            && self.wants(books, other)
        {
            self.take(books, other);
        }
    }

    fn take(&mut self, books: &mut Books, slot: u32) {
        let id = books.ledger.id(slot);
        if self.rules.dry_run {
            self.dry.insert(id);
        } else {
            books.ledger.change(slot, |entry| {
                entry.state.set(State::FLYING, true);
                entry.state.set(State::SENT, true);
            });
            books.counters.planned += 1;
        }
        if let Some(walk) = &mut self.walk {
            walk.evicted.keys += 1;
            walk.evicted.bytes += u128::from(books.ledger.entries[slot].bytes);
        }
        self.plan.push(id);
    }
}

impl Rules {
    /// Whether so many bytes are too many. An integer is compared with the exact value of a product of floats.
    fn fires(&self, used: u128, limit: u64) -> bool {
        used > 0 && used >= (self.watermark * limit as f64).ceil() as u128
    }

    /// How many of `pool` keys one sweep evicts.
    fn target(&self, pool: u32, limit: u64) -> usize {
        let ratio = if limit == 0 { 1.0 } else { self.ratio };
        let target = (f64::from(pool) * ratio) as usize;
        if ratio > 0.0 { target.max(1) } else { 0 }
    }

    /// How long a key stays away from sweeps after so many good answers without an event, milliseconds.
    fn pause(&self, answers: u8) -> u64 {
        let doublings = u32::from(answers.saturating_sub(FLEET_UNREPORTED_ANSWERS)).min(16);
        let interval = self.interval.as_millis().min(u128::from(FLEET_BACK_OFF_MILLIS));
        let first = (interval as u64).max(1);
        (first << doublings).min(FLEET_BACK_OFF_MILLIS)
    }
}

impl Books {
    /// A whole sweep in one go.
    pub fn plan(&mut self, now: Duration, rules: Rules) -> Plan {
        let mut planner = Planner::new(self, now, rules);
        while !planner.step(self, usize::MAX) {}
        planner.into_plan()
    }
}

/// Largest world whose ranks are looked up: in the next one the parts of a packed rank overlap even for rank 0.
const WORLD: u64 = (1 << 16) - 1;

/// A rank as the fleet packs it.
fn kv_rank(world: u64, rank: u64) -> i128 {
    i128::from(world << 24 | rank << 16 | world << 8 | rank)
}

/// The world size that a packed rank names, when it has other ranks. Beyond 256 the parts overlap, and the size
/// is known only where it can be told.
fn world_size(packed: i128) -> Option<u64> {
    let world = u64::try_from(packed).ok()? >> 24;
    if !(2..=WORLD).contains(&world) {
        return None;
    }
    // the lowest byte is the rank's own, whatever the size
    let low = packed as u64 & 0xff;
    (low..world).step_by(256).any(|rank| kv_rank(world, rank) == packed).then_some(world)
}
