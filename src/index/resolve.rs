//! Pool objects whose keys name an engine's hash: what they wait for, and what other shards want to know.
//!
//! A pool block is located through what engine publishers of the same family (tenant, model, block size) have
//! announced, whichever reactor they live on. Until one of them announces the hash the object waits, bounded.
//! The shard only keeps the books here; its reactor carries [`Want`]s and [`Found`]s to and fro.

use super::context::ContextKey;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Objects that may wait in one shard; the oldest go first.
pub const WAITING: usize = 1 << 16;
/// Hashes that other shards may want to know; the oldest go first.
pub const WANTED: usize = 1 << 18;

/// Who can announce a hash: publishers of one tenant, model and block size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Family {
    /// Tenant.
    pub tenant: String,
    /// Model.
    pub model: String,
    /// Tokens a block.
    pub block_size: u32,
}

impl Family {
    /// Whether a context belongs to the family.
    pub fn has(&self, key: &ContextKey) -> bool {
        key.block_size == self.block_size && key.model == self.model && key.tenant == self.tenant
    }
}

/// A hash that a shard cannot resolve alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Want {
    /// Who can announce it.
    pub family: Arc<Family>,
    /// The engine hash.
    pub hash: u64,
}

/// Where a wanted hash stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The engine hash.
    pub hash: u64,
    /// Context of the block.
    pub key: Arc<ContextKey>,
    /// Rolling hash of the block.
    pub seq: u64,
}

/// A pool object that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Waiter {
    pub(super) family: Arc<Family>,
    pub(super) publisher: u32,
    pub(super) lane: u8,
    /// What its name is mixed with.
    pub(super) salt: u64,
}

/// The books of one shard.
#[derive(Default)]
pub(super) struct Resolver {
    waiting: HashMap<u64, Vec<Waiter>>,
    waiting_order: VecDeque<u64>,
    /// Waiters in `waiting`.
    waiters: usize,
    wanted: HashMap<u64, Vec<(Arc<Family>, usize)>>,
    wanted_order: VecDeque<u64>,
    wants: Vec<Want>,
    founds: Vec<(usize, Found)>,
}

impl Resolver {
    /// Whether anybody waits for any announcement.
    pub(super) fn is_awaited(&self) -> bool {
        !(self.waiting.is_empty() && self.wanted.is_empty())
    }

    /// Whether an announcement of this name means something to somebody.
    pub(super) fn cares(&self, name: u64) -> bool {
        self.is_awaited() && (self.waiting.contains_key(&name) || self.wanted.contains_key(&name))
    }

    /// Lets an object wait; returns the waiters dropped for it.
    pub(super) fn wait(&mut self, hash: u64, waiter: Waiter) -> Vec<Waiter> {
        let known = self.waiting.get(&hash);
        if known.is_none_or(|waiters| waiters.iter().all(|other| other.family != waiter.family)) {
            self.wants.push(Want { family: waiter.family.clone(), hash });
        }
        self.waiting.entry(hash).or_default().push(waiter);
        self.waiting_order.push_back(hash);
        self.waiters += 1;
        let mut dropped = Vec::new();
        // an entry of the order may be stale: its object was resolved or removed
        while (self.waiters > WAITING || self.waiting_order.len() > 2 * WAITING)
            && let Some(oldest) = self.waiting_order.pop_front()
        {
            dropped.extend(self.take(oldest, |_| true, 1));
        }
        dropped
    }

    /// One object less; returns whether there was one.
    pub(super) fn cancel(&mut self, hash: u64, salt: u64, publisher: u32, lane: u8) -> bool {
        let is =
            |waiter: &Waiter| waiter.publisher == publisher && waiter.lane == lane && waiter.salt == salt;
        !self.take(hash, is, 1).is_empty()
    }

    /// Takes out the waiters that can use an announcement in `key`'s context.
    pub(super) fn take_waiters(&mut self, hash: u64, key: &ContextKey) -> Vec<Waiter> {
        self.take(hash, |waiter| waiter.family.has(key), usize::MAX)
    }

    fn take(&mut self, hash: u64, is: impl Fn(&Waiter) -> bool, most: usize) -> Vec<Waiter> {
        let Some(waiters) = self.waiting.get_mut(&hash) else { return Vec::new() };
        let mut taken = Vec::new();
        waiters.retain(|waiter| {
            let take = taken.len() < most && is(waiter);
            if take {
                taken.push(waiter.clone());
            }
            !take
        });
        if waiters.is_empty() {
            self.waiting.remove(&hash);
        }
        self.waiters -= taken.len();
        taken
    }

    /// Nothing of a publisher waits any more whose lane and salt `on` accepts.
    pub(super) fn forget(&mut self, publisher: u32, on: impl Fn(u8, u64) -> bool) -> usize {
        let mut gone = 0;
        self.waiting.retain(|_, waiters| {
            let before = waiters.len();
            waiters.retain(|waiter| waiter.publisher != publisher || !on(waiter.lane, waiter.salt));
            gone += before - waiters.len();
            !waiters.is_empty()
        });
        self.waiters -= gone;
        if self.waiting.is_empty() {
            self.waiting = HashMap::new();
            self.waiting_order = VecDeque::new();
        }
        gone
    }

    /// Another shard wants to know a hash that nobody here announced yet.
    pub(super) fn want(&mut self, want: Want, reactor: usize) {
        let known = self.wanted.entry(want.hash).or_default();
        if !known.iter().any(|(family, other)| *other == reactor && *family == want.family) {
            known.push((want.family, reactor));
            self.wanted_order.push_back(want.hash);
        }
        while self.wanted_order.len() > WANTED
            && let Some(oldest) = self.wanted_order.pop_front()
        {
            self.wanted.remove(&oldest);
        }
    }

    /// A name was announced in `key`'s context: tells the shards that want to know.
    pub(super) fn announced(&mut self, hash: u64, key: &Arc<ContextKey>, seq: u64) {
        let Some(wanted) = self.wanted.get_mut(&hash) else { return };
        let founds = &mut self.founds;
        wanted.retain(|(family, reactor)| {
            let found = family.has(key);
            if found {
                founds.push((*reactor, Found { hash, key: key.clone(), seq }));
            }
            !found
        });
        if wanted.is_empty() {
            self.wanted.remove(&hash);
        }
    }

    /// Notes an answer that can be given at once.
    pub(super) fn tell(&mut self, reactor: usize, found: Found) {
        self.founds.push((reactor, found));
    }

    /// What is to be carried to the other reactors: wants to all of them, founds to one each.
    pub(super) fn take_mail(&mut self) -> (Vec<Want>, Vec<(usize, Found)>) {
        (std::mem::take(&mut self.wants), std::mem::take(&mut self.founds))
    }

    /// Whether nothing is to be carried.
    pub(super) fn has_mail(&self) -> bool {
        !self.wants.is_empty() || !self.founds.is_empty()
    }
}
