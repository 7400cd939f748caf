//! The ledger: every key by its identity, and per salt its keys from oldest to newest with their sums.

use super::entry::{Entry, EntryId, NIL, PAGE, State};
use super::pages::Pages;
use super::scopes::{Link, Scopes, links, short_hash};
use super::tenant::{Sum, Tenant};
use crate::fleet::key::{ChunkHash, HASH_BYTES, Key};
use crate::index::table::Table;
use crate::limits::{FLEET_KEYS, FLEET_TEXT_BYTES};
use hashbrown::DefaultHashBuilder;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the books hold at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Keys, stored or pinned.
    pub keys: usize,
    /// Bytes of models, salts and hashes of unusual length.
    pub text: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { keys: FLEET_KEYS, text: FLEET_TEXT_BYTES }
    }
}

/// How a known key counts toward the sums of its salt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Plain,
    Flying,
    Stuck,
}

/// Where a key enters its salt's list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Most recently used.
    Newest,
    /// Behind whatever was listed before, but older than anything that an event named.
    Listed,
}

/// All keys.
pub(super) struct Ledger {
    pub(super) hasher: DefaultHashBuilder,
    bounds: Bounds,
    pub(super) entries: Pages<Entry, PAGE>,
    table: Table<Link>,
    pub(super) scopes: Scopes,
    /// Hashes of unusual length.
    hashes: Pages<Box<[u8]>, 64>,
    hash_text: usize,
    /// Tenants with stored keys, in the order of their first one.
    pub(super) order: BTreeMap<u64, u32>,
    born: u64,
    life: u32,
    pub(super) known: usize,
    pub(super) total: u128,
    pub(super) flying: usize,
    pub(super) stuck: usize,
    /// The entry that a sweep looks at next; it moves on when that entry leaves its place.
    pub(super) cursor: u32,
    /// The newest stamp that was given, milliseconds. Stamps follow the clock, but those after a registration
    /// are greater than it, and those before it are not.
    clock: u64,
    registered: u64,
    registrations: u64,
}

impl Ledger {
    pub(super) fn new(bounds: Bounds) -> Self {
        let hasher = DefaultHashBuilder::default();
        Self {
            bounds: Bounds { keys: bounds.keys.min(NIL as usize), ..bounds },
            entries: Pages::new(),
            table: links(&hasher),
            scopes: Scopes::new(hasher.clone()),
            hasher,
            hashes: Pages::new(),
            hash_text: 0,
            order: BTreeMap::new(),
            born: 0,
            life: 0,
            known: 0,
            total: 0,
            flying: 0,
            stuck: 0,
            cursor: NIL,
            clock: 0,
            registered: 0,
            registrations: 0,
        }
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes()
            + self.table.bytes()
            + self.scopes.bytes()
            + self.hashes.bytes()
            + self.hash_text
            + self.order.len() * 2 * size_of::<(u64, u32)>()
    }

    fn hash_of<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        if entry.state.has(State::LONG) { &self.hashes[number_in(&entry.hash)] } else { &entry.hash }
    }

    fn place(&self, scope: u32, hash: &[u8]) -> u32 {
        short_hash(&self.hasher, (scope, hash))
    }

    /// The entry of a scope and a hash.
    pub(super) fn find_in(&self, scope: u32, hash: &[u8]) -> Option<u32> {
        let link = self.table.find(u64::from(self.place(scope, hash)), |link| {
            let entry = &self.entries[link.at];
            entry.scope == scope && self.hash_of(entry) == hash
        })?;
        Some(link.at)
    }

    /// The entry of a key.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<u32> {
        self.find_in(self.scopes.find(key)?, key.hash.bytes())
    }

    /// The entry of a key in the ledger.
    pub(super) fn find_known(&self, key: &Key<'_>) -> Option<u32> {
        self.find(key).filter(|slot| self.entries[*slot].state.has(State::KNOWN))
    }

    /// The entry with the same hash whose scope differs in the rank alone.
    pub(super) fn sibling(&self, slot: u32, rank: i128) -> Option<u32> {
        let entry = &self.entries[slot];
        self.find_in(self.scopes.sibling(entry.scope, rank)?, self.hash_of(entry))
    }

    /// The entry of a key, made when there is none; nothing when the books are full.
    pub(super) fn keep(&mut self, key: &Key<'_>) -> Option<u32> {
        if let Some(slot) = self.find(key) {
            return Some(slot);
        }
        let hash = key.hash.bytes();
        let long = hash.len() != HASH_BYTES;
        let text = key.model.len() + key.salt.len() + if long { hash.len() } else { 0 };
        let used = self.scopes.text() + self.hash_text;
        let scope_known = !long && self.scopes.find(key).is_some();
        if self.table.len() >= self.bounds.keys || !scope_known && used + text > self.bounds.text {
            return None;
        }
        let scope = self.scopes.keep(key);
        let mut entry = Entry { scope, older: NIL, newer: NIL, ..Entry::default() };
        match &key.hash {
            ChunkHash::Full(full) => entry.hash = *full,
            ChunkHash::Other(other) => {
                self.hash_text += other.len();
                entry.hash[..4].copy_from_slice(&self.hashes.put(other.clone()).to_le_bytes());
                entry.state.set(State::LONG, true);
            }
        }
        let at = self.entries.put(entry);
        self.table.insert(Link { hash: self.place(scope, hash), at });
        Some(at)
    }

    /// Lets an entry go that is neither stored nor pinned.
    pub(super) fn drop_if_idle(&mut self, slot: u32) {
        let entry = &self.entries[slot];
        if entry.state.has(State::KNOWN) || entry.state.has(State::PINNED) {
            return;
        }
        let place = self.place(entry.scope, self.hash_of(entry));
        self.table.remove(u64::from(place), |link| link.at == slot);
        let entry = self.entries.take(slot);
        if entry.state.has(State::LONG) {
            self.hash_text -= self.hashes.take(number_in(&entry.hash)).len();
        }
        self.scopes.release(entry.scope);
    }

    fn tenant_of(&self, slot: u32) -> u32 {
        self.scopes.get(self.entries[slot].scope).tenant
    }

    /// The key of an entry.
    pub(super) fn key(&self, slot: u32) -> Key<'_> {
        let entry = &self.entries[slot];
        let scope = self.scopes.get(entry.scope);
        Key {
            hash: ChunkHash::of_bytes(self.hash_of(entry)),
            model: Cow::Borrowed(self.scopes.model(entry.scope)),
            kv_rank: scope.rank,
            group: scope.group,
            salt: Cow::Borrowed(self.scopes.salt(entry.scope)),
        }
    }

    pub(super) fn id(&self, slot: u32) -> EntryId {
        EntryId { slot, life: self.entries[slot].life }
    }

    /// The entry that an id names, while its key is stored.
    pub(super) fn slot(&self, id: EntryId) -> Option<u32> {
        let entry = self.entries.look(id.slot)?;
        (entry.life == id.life && entry.state.has(State::KNOWN)).then_some(id.slot)
    }

    pub(super) fn class(&self, slot: u32) -> Class {
        match self.entries[slot].state {
            state if state.has(State::FLYING) => Class::Flying,
            state if state.stuck(self.registered) => Class::Stuck,
            _ => Class::Plain,
        }
    }

    /// What of a tenant's keys backs off.
    pub(super) fn stuck_of(&self, tenant: &Tenant) -> Sum {
        tenant.stuck(self.registrations)
    }

    /// Changes size or state of a stored key, and the sums with it.
    pub(super) fn change(&mut self, slot: u32, change: impl FnOnce(&mut Entry)) {
        self.count(slot, false);
        change(&mut self.entries[slot]);
        self.count(slot, true);
    }

    /// Adds a stored key to the sums, or takes it off.
    fn count(&mut self, slot: u32, add: bool) {
        let (bytes, class) = (self.entries[slot].bytes, self.class(slot));
        let tenant = self.tenant_of(slot);
        let tenant = &mut self.scopes.tenants[tenant];
        let put = if add { Sum::add } else { Sum::take };
        put(&mut tenant.stored, bytes);
        let counted = match class {
            Class::Plain => None,
            Class::Flying => {
                put(&mut tenant.flying, bytes);
                Some(&mut self.flying)
            }
            Class::Stuck => {
                put(tenant.stuck_mut(self.registrations), bytes);
                Some(&mut self.stuck)
            }
        };
        if add {
            self.total += u128::from(bytes);
            self.known += 1;
        } else {
            self.total -= u128::from(bytes);
            self.known -= 1;
        }
        if let Some(counted) = counted {
            if add { *counted += 1 } else { *counted -= 1 }
        }
    }

    /// Enters an entry into the ledger.
    pub(super) fn enter(&mut self, slot: u32, bytes: u64, round: u64, end: End) {
        self.life = self.life.wrapping_add(1).max(1);
        let entry = &mut self.entries[slot];
        entry.life = self.life;
        entry.bytes = bytes;
        entry.state.set(State::KNOWN, true);
        entry.state.set_round(round);
        self.count(slot, true);
        let number = self.tenant_of(slot);
        let tenant = &mut self.scopes.tenants[number];
        if tenant.born == 0 {
            self.born += 1;
            tenant.born = self.born;
            self.order.insert(self.born, number);
        }
        self.link(slot, end);
    }

    /// Takes an entry out of the ledger; it lives on while it is pinned.
    pub(super) fn leave(&mut self, slot: u32) {
        self.unlink(slot);
        self.count(slot, false);
        let number = self.tenant_of(slot);
        let tenant = &mut self.scopes.tenants[number];
        if tenant.stored.keys == 0 {
            self.order.remove(&tenant.born);
            tenant.born = 0;
        }
        let entry = &mut self.entries[slot];
        entry.life = 0;
        entry.bytes = 0;
        for flag in [State::KNOWN, State::FLYING, State::SENT] {
            entry.state.set(flag, false);
        }
        entry.state.set_answers(0, 0);
        self.drop_if_idle(slot);
    }

    /// Makes a stored key the most recently used of its salt.
    pub(super) fn renew(&mut self, slot: u32) {
        if self.entries[slot].newer != NIL || self.listed_last(slot) {
            self.unlink(slot);
            self.link(slot, End::Newest);
        }
    }

    fn listed_last(&self, slot: u32) -> bool {
        self.scopes.tenants[self.tenant_of(slot)].listed == slot
    }

    fn link(&mut self, slot: u32, end: End) {
        let number = self.tenant_of(slot);
        let tenant = &mut self.scopes.tenants[number];
        let (older, newer) = match end {
            End::Newest => (tenant.newest, NIL),
            End::Listed if tenant.listed == NIL => (NIL, tenant.oldest),
            End::Listed => (tenant.listed, self.entries[tenant.listed].newer),
        };
        if end == End::Listed {
            tenant.listed = slot;
        }
        if older == NIL {
            tenant.oldest = slot;
        } else {
            self.entries[older].newer = slot;
        }
        if newer == NIL {
            tenant.newest = slot;
        } else {
            self.entries[newer].older = slot;
        }
        let entry = &mut self.entries[slot];
        (entry.older, entry.newer) = (older, newer);
    }

    fn unlink(&mut self, slot: u32) {
        let number = self.tenant_of(slot);
        let Entry { older, newer, .. } = self.entries[slot];
        let tenant = &mut self.scopes.tenants[number];
        if tenant.listed == slot {
            tenant.listed = older;
        }
        if older == NIL {
            tenant.oldest = newer;
        } else {
            self.entries[older].newer = newer;
        }
        if newer == NIL {
            tenant.newest = older;
        } else {
            self.entries[newer].older = older;
        }
        if self.cursor == slot {
            self.cursor = newer;
        }
    }

    /// An instance registered: no key backs off any more, and answers count anew.
    pub(super) fn registered(&mut self, now: u64) {
        self.registrations += 1;
        self.clock = self.clock.max(now);
        self.registered = self.clock;
        self.stuck = 0;
    }

    /// A DELETE of the key is answered; `well` when it should have gone.
    pub(super) fn landed(&mut self, slot: u32, well: bool, now: u64) {
        let stamp = now.max(self.registered + 1);
        let registered = self.registered;
        self.clock = self.clock.max(stamp);
        self.change(slot, |entry| {
            entry.state.set(State::FLYING, false);
            if well {
                let fresh = entry.state.stamp() <= registered;
                let before = if fresh { 0 } else { entry.state.answers() };
                entry.state.set_answers(before.saturating_add(1), stamp);
            }
        });
    }
}

fn number_in(hash: &[u8; HASH_BYTES]) -> u32 {
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}
