//! Pool objects that name a block by an engine's hash, or are one rank's part of a block.

use super::apply::{Reading, Work};
use super::chain::{ByHash, Holding, NameSource, Naming};
use super::context::ContextKey;
use super::envelope::name_salt;
use super::ledger::Ledger;
use super::name::Stored;
use super::names::Places;
use super::object_key::{self, KeyHash};
use super::publisher::{Class, Publisher};
use super::resolve::{Family, Found, Waiter, Want};
use super::run::Place;
use super::shard::Shard;
use super::store::{block_size, repeats};
use crate::event::{Envelope, Skip, Slice, Store};
use std::sync::Arc;

/// What an event without tokens says of its object.
pub(super) struct Object {
    /// The hashes it names.
    pub(super) hashes: Vec<u64>,
    /// Whether they are an engine's.
    engine: bool,
    /// Rank whose part it is.
    pub(super) tp_rank: Option<u32>,
}

/// Objects whose blocks are located through engines' announcements.
pub(super) struct Keyed {
    hashes: Vec<u64>,
    lane: u8,
    family: Arc<Family>,
    salt: u64,
}

/// Reads the object of an RFC event; `None` when its `seq_hashes` are standard hashes and its key says no more.
pub(super) fn keyed_object(
    reading: Reading<'_>,
    hashes: Slice,
    envelope: &Envelope,
) -> Result<Option<Object>, Skip> {
    let key = reading.text(envelope.object_key).and_then(object_key::parse);
    let tp_rank = envelope.tp_rank.or(key.and_then(|key| key.tp_rank));
    let connector = envelope.connector_hash.is_some();
    if hashes.len > 0 {
        let engine = connector || matches!(key, Some(key) if matches!(key.hash, KeyHash::Engine(_)));
        let hashes = hashes.of(&reading.batch.hashes).to_vec();
        return Ok((engine || tp_rank.is_some()).then_some(Object { hashes, engine, tp_rank }));
    }
    match (key.map(|key| key.hash), envelope.object_key.is_some()) {
        (Some(KeyHash::Standard(hash)), _) => Ok(Some(Object { hashes: vec![hash], engine: false, tp_rank })),
        (Some(KeyHash::Engine(hash)), _) => Ok(Some(Object { hashes: vec![hash], engine: true, tp_rank })),
        (None, true) => Err(Skip::UnparsedKey),
        (None, false) => Ok(None),
    }
}

impl Shard {
    pub(super) fn begin_keyed(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
        envelope: &Envelope,
        object: Object,
    ) -> Result<Work, Skip> {
        if repeats(&object.hashes, &mut self.apply.seen) {
            return Err(Skip::Cycle);
        }
        let lane = self.lane(publisher, reading, store.medium, Some(envelope), object.tp_rank)?;
        let size = block_size(publisher, store, Some(envelope))?;
        let context = self.child_context(publisher, reading, store, Some(envelope), None, size)?;
        let key = self.contexts.get(context).key.clone();
        let salt = name_salt(publisher, reading, Some(envelope));
        if object.engine {
            let family =
                Family { tenant: key.tenant.clone(), model: key.model.clone(), block_size: key.block_size };
            self.contexts.drop_if_idle(context);
            let family = Arc::new(family);
            return Ok(Work::Keyed(Keyed { hashes: object.hashes, lane, family, salt }));
        }
        let names = NameSource::Owned(object.hashes);
        Ok(Work::ByHash(ByHash { names, lane, key, salt, parent: store.parent, at: 0, previous: None }))
    }

    /// Places what can be resolved here, and lets the rest wait; returns the blocks done.
    pub(super) fn work_keyed(&mut self, publisher: &mut Publisher, work: &Keyed) -> usize {
        for hash in &work.hashes {
            if let Some(place) = self.announced_place(&work.family, *hash) {
                self.credit_object(publisher, work.lane, *hash ^ work.salt, place);
                continue;
            }
            let waiter = Waiter {
                family: work.family.clone(),
                publisher: publisher.number,
                lane: work.lane,
                salt: work.salt,
            };
            publisher.stats.keys_waited.add(1);
            for dropped in self.resolver.wait(*hash, waiter) {
                if let Some(other) = self.publisher(dropped.publisher) {
                    other.stats.keys_dropped.add(1);
                } else {
                    publisher.stats.keys_dropped.add(1);
                }
            }
        }
        work.hashes.len()
    }

    /// Where an engine of the family says that its block stands.
    fn announced_place(&self, family: &Family, hash: u64) -> Option<Place> {
        let engines = self.publishers.iter().flatten().filter(|publisher| {
            let registration = &publisher.registration;
            registration.class == Class::Engine
                && registration.block_size == family.block_size
                && registration.model == family.model
        });
        engines
            .filter_map(|engine| self.place_of(engine, hash))
            .find(|place| family.has(&self.contexts.get(self.runs.get(place.run).context).key))
    }

    fn credit_object(&mut self, publisher: &mut Publisher, lane: u8, name: u64, place: Place) {
        let context = self.runs.get(place.run).context;
        let mut holding = self.hold(publisher, lane, context);
        let credited = self.credit(publisher, &mut holding, name, place, Naming::COPY);
        self.settle_holding(publisher, &holding);
        match credited {
            Ok(()) => publisher.stats.keys_resolved.add(1),
            Err(reason) => publisher.stats.skipped[reason as usize].add(1),
        }
    }

    /// Serves those who wait for the names that were just announced.
    pub(super) fn wake_all(&mut self) {
        while let Some((name, place)) = self.apply.woken.pop() {
            let context = self.contexts.get(self.runs.get(place.run).context);
            let key = context.key.clone();
            self.resolver.announced(name, &key, self.runs.hash(place));
            self.serve_waiters(name, &key, place);
        }
    }

    fn serve_waiters(&mut self, name: u64, key: &ContextKey, place: Place) {
        for waiter in self.resolver.take_waiters(name, key) {
            let slot = self.publishers.get_mut(waiter.publisher as usize);
            let Some(mut pool) = slot.and_then(Option::take) else { continue };
            self.credit_object(&mut pool, waiter.lane, name ^ waiter.salt, place);
            self.publishers[waiter.publisher as usize] = Some(pool);
        }
    }

    /// Another reactor wants to know where a hash stands: it is told at once, or when an engine announces it.
    pub fn want(&mut self, want: Want, reactor: usize) {
        let Some(place) = self.announced_place(&want.family, want.hash) else {
            return self.resolver.want(want, reactor);
        };
        let key = self.contexts.get(self.runs.get(place.run).context).key.clone();
        let seq = self.runs.hash(place);
        self.resolver.tell(reactor, Found { hash: want.hash, key, seq });
    }

    /// Another reactor found where a hash stands. Returns whether it is dealt with; otherwise call again: the
    /// context is being made findable by hash, about `budget` blocks a call.
    pub fn found(&mut self, found: &Found, budget: usize) -> bool {
        if !self.resolver.cares(found.hash) {
            return true;
        }
        let Ok(context) = self.contexts.again(&found.key) else { return true };
        let runs = &self.runs;
        if !self.contexts.get_mut(context).build_places(budget, |run| runs.try_get(run)) {
            return false;
        }
        for waiter in self.resolver.take_waiters(found.hash, &found.key) {
            let slot = self.publishers.get_mut(waiter.publisher as usize);
            let Some(mut pool) = slot.and_then(Option::take) else { continue };
            let (place, _) = self.find_or_make(context, &[found.seq], None, false, 0);
            self.credit_object(&mut pool, waiter.lane, found.hash ^ waiter.salt, place);
            self.publishers[waiter.publisher as usize] = Some(pool);
        }
        self.contexts.drop_if_idle(context);
        true
    }

    /// What is to be carried to the other reactors: wants to all of them, founds to one each.
    pub fn take_mail(&mut self) -> (Vec<Want>, Vec<(usize, Found)>) {
        self.resolver.take_mail()
    }

    /// Whether [`Shard::take_mail`] has something.
    pub fn has_mail(&self) -> bool {
        self.resolver.has_mail()
    }

    /// One rank's object of a block: the block itself is held once all ranks are there.
    pub(super) fn credit_part(
        &mut self,
        publisher: &mut Publisher,
        holding: &Holding,
        base: u8,
        name: u64,
        place: Place,
    ) -> Result<(), Skip> {
        let unpins = &mut self.apply.unpins;
        let lane = holding.lane;
        match publisher.names.store(name, place, lane, true, |place| unpins.push(place)) {
            Stored::Again => return Ok(()),
            Stored::Full => {
                self.runs.pin(place);
                self.apply.unpins.push(place);
                return Err(Skip::Bound);
            }
            Stored::Fresh => {}
        }
        let names = publisher.parts.present.entry((place, lane)).or_insert(0);
        *names += 1;
        if *names > 1 {
            return Ok(());
        }
        self.runs.pin(place);
        let context = self.runs.get(place.run).context;
        let whole = publisher.parts.complete(&publisher.lanes, place, base);
        let held = publisher.lanes[usize::from(base)]
            .owner(context)
            .is_some_and(|owner| self.runs.get(place.run).held(publisher.instance, owner, place.at));
        if whole && !held {
            let mut block = self.hold(publisher, base, context);
            block.take_whole(place);
            self.settle_whole(publisher, &block);
        }
        Ok(())
    }
}

impl Ledger<'_> {
    /// One name less of a rank's object.
    pub(super) fn release_part(&mut self, place: Place, lane: u8, base: u8) {
        let Some(names) = self.books.parts.present.get_mut(&(place, lane)) else { return };
        *names -= 1;
        if *names > 0 {
            return;
        }
        self.books.parts.present.remove(&(place, lane));
        let number = self.runs.get(place.run).context;
        let owner = self.books.lanes[usize::from(base)].owner(number);
        let instance = owner.and_then(|owner| {
            self.contexts.get(number).owners[owner as usize].as_ref().map(|owner| owner.instance)
        });
        let held = match (owner, instance) {
            (Some(owner), Some(instance)) => self.runs.get(place.run).held(instance, owner, place.at),
            _ => false,
        };
        if held && !self.books.parts.complete(self.books.lanes, place, base) {
            self.release(place, base);
        }
        self.unpin(place);
    }
}
