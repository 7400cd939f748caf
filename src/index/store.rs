//! What a store event asks for: checked as a whole before its first block is placed.

use super::apply::{Reading, Work};
use super::chain::{ByHash, Chain, Locals, NameSource, Placeholder};
use super::context::{ContextKey, Lora};
use super::dialect::WARMED;
use super::envelope::{apply_envelope, check_local, name_salt, observe_envelope, rank};
use super::keyed::keyed_object;
use super::name::Known;
use super::orphan::Orphan;
use super::publisher::{Class, Publisher};
use super::run::Place;
use super::shard::{Shard, base_key};
use super::table::mix;
use crate::event::extra::{self, Context as ExtraContext};
use crate::event::{Batch, Envelope, SGLANG_ROOT, Skip, Slice, Span, Store};
use hashbrown::HashTable;

/// Runs passed to find out whether a block stands above itself.
const ANCESTOR_STEPS: usize = 4096;
/// Blocks whose hashes are computed before their names are searched.
const HASHED_AHEAD: usize = WARMED;
/// Events of so few hashes are searched for repeats without a table.
const FEW: usize = 24;

impl Shard {
    pub(super) fn begin_store(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
    ) -> Result<Option<Work>, Skip> {
        let Reading { payload, batch } = reading;
        let envelope = reading.envelope(store.envelope);
        observe_envelope(publisher, reading, envelope);
        check_local(store.locality, payload)?;
        if !publisher.carries_prefix(store.group_idx, store.spec_kind.text(payload)) {
            return Err(Skip::Group);
        }
        let block_size = block_size(publisher, store, envelope)?;
        store.fault.map_or(Ok(()), Err)?;
        let tokens = store.tokens.filter(|tokens| tokens.len > 0);
        if tokens.is_none()
            && let Some(envelope) = envelope
            && let Some(object) = keyed_object(reading, store.hashes, envelope)?
        {
            return self.begin_keyed(publisher, reading, store, envelope, object).map(Some);
        }
        if store.hashes.len == 0 {
            return Err(Skip::Length);
        }
        if tokens.is_some_and(|tokens| {
            u64::from(tokens.len) != u64::from(store.hashes.len) * u64::from(block_size)
        }) {
            return Err(Skip::Length);
        }
        let names = store.hashes.of(&batch.hashes);
        if repeats(names, &mut self.apply.seen) {
            return Err(Skip::Cycle);
        }
        let lane = self.lane(publisher, reading, store.medium, envelope, None)?;
        match tokens {
            Some(tokens) => self.begin_chain(publisher, reading, store, tokens, block_size, lane),
            None => self.begin_without_tokens(publisher, reading, store, block_size, lane).map(Some),
        }
    }

    pub(super) fn begin_chain(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
        tokens: Slice,
        block_size: u32,
        lane: u8,
    ) -> Result<Option<Work>, Skip> {
        let Reading { payload, batch } = reading;
        let envelope = reading.envelope(store.envelope);
        let parent = match (store.parent, envelope) {
            (None, Some(envelope)) if envelope.base_block_idx != Some(0) => return Err(Skip::NoPosition),
            (parent, _) => parent.filter(|parent| *parent != SGLANG_ROOT),
        };
        let mixed = name_salt(publisher, reading, envelope);
        let parent = parent.map(|parent| parent ^ mixed);
        let source = match mixed {
            0 => NameSource::Batch(store.hashes),
            mixed => {
                NameSource::Owned(store.hashes.of(&batch.hashes).iter().map(|name| name ^ mixed).collect())
            }
        };
        let names = source.of(batch);
        if parent.is_some_and(|parent| names.contains(&parent)) {
            return Err(Skip::Cycle);
        }
        if let Some(dialect) = publisher.speech.dialect() {
            self.dialects.warm(dialect, &names[..names.len().min(WARMED)]);
        }
        let mut digests = Vec::new();
        let mut salt = reading.text(store.cache_salt);
        if store.extra_keys.is_some() || store.mm_infos.is_some() {
            let above = parent.and_then(|parent| self.place_of(publisher, parent));
            let above = above.map(|place| self.contexts.get(self.runs.get(place.run).context).key.clone());
            let inherited = match above.as_ref().map(|key| &key.lora) {
                Some(Lora::Name(name)) => name,
                _ => &publisher.registration.lora_name,
            };
            let lora = reading.text(store.lora_name).or(Some(inherited));
            let context = ExtraContext { blocks: names.len(), lora, root: parent.is_none(), seed: self.seed };
            let found =
                extra::digests_of_msgpack(payload, store.extra_keys, store.mm_infos, context, &mut digests)?;
            salt = salt.or(found.filter(|salt| !salt.is_empty()));
        }
        let locals = Locals::Tokens { tokens, block_size, digests };
        let Some(parent) = parent else {
            let context = self.event_context(publisher, reading, store, envelope, salt, block_size)?;
            let chain = Chain::new(source, locals, lane, context, None, None);
            return Ok(Some(Work::Chain(self.hashed(chain, batch))));
        };
        let Some(place) = self.parent_place(publisher, reading, store, parent, salt) else {
            let orphan = Orphan {
                parent,
                names: names.to_vec(),
                locals: (0..names.len()).map(|at| locals.local(batch, at, self.seed)).collect(),
                lane,
                salt: mixed,
                removed: Vec::new(),
            };
            let dropped = publisher.orphans.wait(orphan);
            publisher.stats.orphans_dropped.add(dropped as u64);
            return Ok(None);
        };
        let below = self.below(publisher, names, place);
        let context = self.runs.get(place.run).context;
        let seq = self.runs.hash(place);
        let mut chain = self.hashed(Chain::new(source, locals, lane, context, Some(place), Some(seq)), batch);
        let names = chain.names.of(batch);
        let below = below.max(self.own_hashes(publisher, names, &chain.seqs, context));
        chain.fresh = self.check_descent(publisher, names, place, below)?;
        Ok(Some(Work::Chain(chain)))
    }

    /// A chain whose first hashes are computed, while what was asked for before is on its way from memory.
    fn hashed(&mut self, mut chain: Chain, batch: &Batch) -> Chain {
        chain.seqs = std::mem::take(&mut self.apply.seqs);
        chain.seqs.clear();
        let blocks = chain.names.of(batch).len();
        chain.hash(batch, blocks.min(HASHED_AHEAD), self.seed);
        chain
    }

    /// How many of these blocks are called by their hashes in a dialect that says nothing else: such a name stands
    /// nowhere above its own block.
    fn own_hashes(&self, publisher: &Publisher, names: &[u64], seqs: &[u64], context: u32) -> usize {
        let dialect = publisher.speech.dialect().filter(|_| publisher.names.is_empty());
        if dialect.is_none_or(|dialect| !self.dialects.has_hashes_only(dialect, context)) {
            return 0;
        }
        names.iter().zip(seqs).take_while(|(name, seq)| name == seq).count()
    }

    /// How many of these names stand right behind their parent, as those of a known prefix do.
    fn below(&self, publisher: &Publisher, names: &[u64], parent: Place) -> usize {
        let Some(dialect) = publisher.speech.dialect() else { return 0 };
        self.runs.get(parent.run).labels(dialect).equal(names, usize::from(parent.at) + 1)
    }

    pub(super) fn begin_without_tokens(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
        block_size: u32,
        lane: u8,
    ) -> Result<Work, Skip> {
        let envelope = reading.envelope(store.envelope);
        let names = store.hashes;
        let standard = envelope.is_some() || publisher.registration.standard_hashes;
        let all_known =
            || names.of(&reading.batch.hashes).iter().all(|name| self.place_of(publisher, *name).is_some());
        if !standard || envelope.is_none() && all_known() {
            return Ok(Work::Placeholder(Placeholder { names, lane, at: 0, unknown: false }));
        }
        let salt = reading.text(store.cache_salt);
        let context = self.child_context(publisher, reading, store, envelope, salt, block_size)?;
        let key = self.contexts.get(context).key.clone();
        let names = NameSource::Batch(names);
        let salt = name_salt(publisher, reading, envelope);
        Ok(Work::ByHash(ByHash { names, lane, key, salt, parent: store.parent, at: 0, previous: None }))
    }

    /// The place that `parent` denotes; where it denotes several, the one whose context agrees most with what the event
    /// says, and of equals the latest. A child need not say its prompt's salt.
    pub(super) fn parent_place(
        &mut self,
        publisher: &Publisher,
        reading: Reading<'_>,
        store: &Store,
        parent: u64,
        salt: Option<&str>,
    ) -> Option<Place> {
        let latest = self.last_stored(publisher, parent).or_else(|| self.place_of(publisher, parent))?;
        if !publisher.names.is_ambiguous(parent) {
            return Some(latest);
        }
        let mut places = std::mem::take(&mut self.apply.places);
        publisher.names.places(parent, &mut places);
        let own = event_key(publisher, reading, store, reading.envelope(store.envelope), salt);
        let said = own.lora != base_key(&publisher.registration).lora;
        // what the event says counts more than what holds where it says nothing
        let agreement = |place: &&Place| {
            let key = &self.contexts.get(self.runs.get(place.run).context).key;
            let (salted, lora) = (salt.is_some() && key.cache_salt == own.cache_salt, key.lora == own.lora);
            let tenant = key.tenant == own.tenant && key.model == own.model;
            let others = [lora, tenant, key.additional_salt == own.additional_salt];
            (u8::from(salted) + u8::from(said && lora), others.into_iter().map(u8::from).sum::<u8>())
        };
        let chosen = places.iter().chain([&latest]).max_by_key(agreement).copied();
        self.apply.places = places;
        chosen
    }

    /// A block that stands on the way from the root to its own parent cannot be stored there; so many of the names
    /// stand `below` it. Returns from which name on the publisher's dialect knows none.
    pub(super) fn check_descent(
        &self,
        publisher: &Publisher,
        names: &[u64],
        parent: Place,
        below: usize,
    ) -> Result<usize, Skip> {
        let mut fresh = publisher.speech.dialect().map_or(usize::MAX, |_| below);
        let plain = if publisher.names.is_empty() { below } else { 0 };
        for (at, name) in names.iter().enumerate().skip(plain) {
            let place = match publisher.names.place(*name) {
                None if at < below => continue,
                None => self.dialect_place(publisher, *name),
                own => own,
            };
            let Some(place) = place else { continue };
            fresh = usize::MAX;
            let above = self.runs.is_ancestor(place, parent, ANCESTOR_STEPS) == Some(true);
            if above && (publisher.names.known(*name) != Known::Not || self.knows_plainly(publisher, place)) {
                return Err(Skip::Cycle);
            }
        }
        Ok(fresh)
    }

    pub(super) fn adopt(&mut self, publisher: &mut Publisher, orphan: Orphan) -> Option<Work> {
        let blocks = orphan.names.len() as u64;
        let place = self.place_of(publisher, orphan.parent)?;
        let below = self.below(publisher, &orphan.names, place);
        let fresh = match self.check_descent(publisher, &orphan.names, place, below) {
            Ok(fresh) => fresh,
            Err(reason) => {
                publisher.stats.skipped[reason as usize].add(1);
                return None;
            }
        };
        publisher.stats.orphans_adopted.add(blocks);
        let context = self.runs.get(place.run).context;
        let seq = self.runs.hash(place);
        let mut chain = Chain::new(
            NameSource::Owned(orphan.names),
            Locals::Owned(orphan.locals),
            orphan.lane,
            context,
            Some(place),
            Some(seq),
        );
        chain.removed = orphan.removed;
        chain.fresh = fresh;
        Some(Work::Chain(chain))
    }

    /// The context of an event that names its blocks alone: that of its parent, as far as the event says nothing else.
    pub(super) fn child_context(
        &mut self,
        publisher: &Publisher,
        reading: Reading<'_>,
        store: &Store,
        envelope: Option<&Envelope>,
        salt: Option<&str>,
        block_size: u32,
    ) -> Result<u32, Skip> {
        let parent = store.parent.map(|parent| parent ^ name_salt(publisher, reading, envelope));
        let parent = parent.and_then(|parent| self.parent_place(publisher, reading, store, parent, salt));
        if let Some(parent) = parent {
            let context = self.runs.get(parent.run).context;
            let key = &self.contexts.get(context).key;
            let own = event_key(publisher, reading, store, envelope, salt);
            let registered = base_key(&publisher.registration);
            let lora = own.lora == registered.lora || own.lora == key.lora;
            let salts = [
                (&own.cache_salt, &registered.cache_salt, &key.cache_salt),
                (&own.additional_salt, &registered.additional_salt, &key.additional_salt),
            ];
            let salts = salts.iter().all(|(own, registered, key)| own == registered || own == key);
            let rest = own.tenant == key.tenant && own.model == key.model && block_size == key.block_size;
            if lora && salts && rest {
                return Ok(context);
            }
        }
        self.event_context(publisher, reading, store, envelope, salt, block_size)
    }

    /// The context of an event that has no parent.
    pub(super) fn event_context(
        &mut self,
        publisher: &Publisher,
        reading: Reading<'_>,
        store: &Store,
        envelope: Option<&Envelope>,
        salt: Option<&str>,
        block_size: u32,
    ) -> Result<u32, Skip> {
        let registration = &publisher.registration;
        let lora = reading.text(store.lora_name).filter(|lora| *lora != registration.lora_name);
        let lora_id = store.lora_id.filter(|_| registration.lora_name.is_empty() && lora.is_none());
        if envelope.is_none() && lora.is_none() && lora_id.is_none() && salt.is_none() {
            return Ok(publisher.base);
        }
        let mut key = event_key(publisher, reading, store, envelope, salt);
        key.block_size = block_size;
        let number = self.contexts.number_or_new(key)?;
        self.contexts.led(number, registration);
        Ok(number)
    }

    /// The lane of a store, made when it is new.
    pub(super) fn lane(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        medium: Span,
        envelope: Option<&Envelope>,
        tp_rank: Option<u32>,
    ) -> Result<u8, Skip> {
        let pool = publisher.registration.class == Class::Pool;
        let medium = self.media.number(medium.bytes(reading.payload), pool)?;
        let backend = envelope.and_then(|envelope| reading.text(envelope.backend_id)).unwrap_or("");
        let backend = publisher.backend(backend)?;
        if publisher.parts.needed > 0 {
            return publisher.part_lane(Publisher::part_rank(tp_rank)?, backend, medium);
        }
        publisher.lane(rank(publisher, reading.batch, envelope), backend, medium)
    }
}

/// The context that an event without a parent names, but for its block size.
fn event_key(
    publisher: &Publisher,
    reading: Reading<'_>,
    store: &Store,
    envelope: Option<&Envelope>,
    salt: Option<&str>,
) -> ContextKey {
    let registration = &publisher.registration;
    let mut key = base_key(registration);
    match (reading.text(store.lora_name), store.lora_id) {
        (Some(name), _) => key.lora = Lora::Name(name.to_owned()),
        (None, Some(id)) if registration.lora_name.is_empty() => key.lora = Lora::Id(id),
        (None, _) => {}
    }
    if let Some(salt) = salt {
        salt.clone_into(&mut key.cache_salt);
    }
    if let Some(envelope) = envelope {
        apply_envelope(&mut key, reading, envelope);
    }
    key
}

/// Tokens a block of a store. An engine's must be the registered one; an RFC event's chooses the context.
pub(super) fn block_size(
    publisher: &Publisher,
    store: &Store,
    envelope: Option<&Envelope>,
) -> Result<u32, Skip> {
    let registered = publisher.registration.block_size;
    let stated = store.block_size.filter(|size| *size > 0);
    match envelope {
        Some(envelope) => Ok(stated.or(envelope.block_size.filter(|size| *size > 0)).unwrap_or(registered)),
        None if stated.is_some_and(|size| size != registered) => Err(Skip::BlockSizeMismatch),
        None => Ok(registered),
    }
}

/// Whether a name stands twice in one event.
pub(super) fn repeats(names: &[u64], seen: &mut HashTable<u64>) -> bool {
    if names.len() <= FEW {
        return names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
    }
    seen.clear();
    let repeated = names.iter().any(|name| {
        let hash = mix(*name, 0);
        let before = seen.len();
        seen.entry(hash, |other| other == name, |other| mix(*other, 0)).or_insert(*name);
        seen.len() == before
    });
    seen.clear();
    seen.shrink_to(1 << 12, |other| mix(*other, 0));
    repeated
}
