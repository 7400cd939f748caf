//! Applies a decoded batch to the shard, in bounded steps.
//!
//! An event is checked as a whole before its first block is placed; a bad one is skipped and counted. A long
//! event, or a clear of a full cache, goes on where the turn's budget ended: the caller keeps payload, batch
//! and [`Cursor`] and calls again.

use super::context::{ContextKey, Lora};
use super::orphan::Orphan;
use super::place::{ByHash, Chain, Locals, NameSource, Placeholder};
use super::publisher::{Class, Publisher, Scope};
use super::run::Place;
use super::shard::{Ledger, Shard, base_key};
use super::table::mix;
use crate::event::extra::{self, Context as ExtraContext};
use crate::event::{Batch, Clear, Envelope, Event, Remove, Skip, Slice, Span, Store, medium};
use hashbrown::HashTable;

/// SGLang's name for "no parent" (Python's hash of the empty tuple) before it sent nil.
const SGLANG_ROOT: u64 = 5_740_354_900_026_072_187;
/// Links followed to find out whether a block stands above itself.
const ANCESTOR_STEPS: usize = 4096;
/// Events of so few hashes are searched for repeats without a table.
const FEW: usize = 24;

/// Reused between events.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) unpins: Vec<Place>,
    pub(super) places: Vec<Place>,
    pub(super) found: Vec<(u64, u8)>,
    seen: HashTable<u64>,
}

/// Where the application of a batch stands.
#[derive(Default)]
pub struct Cursor {
    event: usize,
    work: Option<Work>,
    /// Names announced, whose orphans may be adopted.
    pub(super) announced: Vec<u64>,
}

/// What an event asks for, once checked.
pub(super) enum Work {
    /// Place blocks one behind the other, from tokens.
    Chain(Chain),
    /// Place blocks by their standard hashes alone.
    ByHash(ByHash),
    /// Blocks that have a name already now also live on another lane.
    Placeholder(Placeholder),
    /// One copy less each.
    Remove { names: Slice, remaining: Option<Slice>, lanes: Lanes, at: usize },
    /// No copies any more.
    Clear { lanes: Lanes, tenant: Option<String>, segment: usize },
}

/// The lanes that a removal or a clear touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    rank: Option<u32>,
    backend: Option<u32>,
    medium: Option<u8>,
    /// Where the medium has no copy, any medium will do.
    or_any_medium: bool,
}

impl Lanes {
    fn any_medium(self) -> Self {
        Self { medium: None, ..self }
    }

    fn take(self, publisher: &Publisher, lane: u8) -> bool {
        let lane = &publisher.lanes[usize::from(lane)];
        self.rank.is_none_or(|rank| rank == lane.rank)
            && self.backend.is_none_or(|backend| backend == lane.backend)
            && self.medium.is_none_or(|medium| medium == lane.medium)
    }
}

/// What one event is read with.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) payload: &'a [u8],
    pub(super) batch: &'a Batch,
}

impl<'a> Reading<'a> {
    fn text(&self, span: Span) -> Option<&'a str> {
        span.non_empty(self.payload)
    }

    fn envelope(&self, at: Option<u32>) -> Option<&'a Envelope> {
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

    fn begin_store(
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
        let tokens = store.tokens.filter(|tokens| tokens.len > 0);
        if store.hashes.len == 0 {
            let keyed = envelope.is_some_and(|envelope| envelope.object_key.is_some());
            return Err(if keyed { Skip::UnparsedKey } else { Skip::Length });
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
        let lane = self.lane(publisher, reading, store.medium, envelope)?;
        match tokens {
            Some(tokens) => self.begin_chain(publisher, reading, store, tokens, block_size, lane),
            None => self.begin_without_tokens(publisher, reading, store, block_size, lane).map(Some),
        }
    }

    fn begin_chain(
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
        let names = store.hashes.of(&batch.hashes);
        if parent.is_some_and(|parent| names.contains(&parent)) {
            return Err(Skip::Cycle);
        }
        let mut digests = Vec::new();
        let mut salt = reading.text(store.cache_salt);
        if store.extra_keys.is_some() || store.mm_infos.is_some() {
            let lora = reading.text(store.lora_name).or(Some(&publisher.registration.lora_name));
            let context = ExtraContext { blocks: names.len(), lora, root: parent.is_none(), seed: self.seed };
            let found =
                extra::digests_of_msgpack(payload, store.extra_keys, store.mm_infos, context, &mut digests)?;
            salt = salt.or(found.filter(|salt| !salt.is_empty()));
        }
        let source = Locals::Tokens { tokens, block_size, digests };
        let Some(parent) = parent else {
            let context = self.event_context(publisher, reading, store, envelope, salt, block_size)?;
            let names = NameSource::Batch(store.hashes);
            return Ok(Some(Work::Chain(Chain::new(names, source, lane, context, None, None))));
        };
        let Some(place) = self.parent_place(publisher, reading, store, parent, salt) else {
            self.orphan(publisher, reading, store, parent, &source, lane);
            return Ok(None);
        };
        self.check_descent(publisher, names, place)?;
        let context = self.runs.get(place.run).context;
        let seq = self.runs.hash(place);
        let names = NameSource::Batch(store.hashes);
        Ok(Some(Work::Chain(Chain::new(names, source, lane, context, Some(place), Some(seq)))))
    }

    fn begin_without_tokens(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
        block_size: u32,
        lane: u8,
    ) -> Result<Work, Skip> {
        let envelope = reading.envelope(store.envelope);
        let names = store.hashes;
        let standard = match envelope {
            Some(envelope) if envelope.connector_hash.is_some() => return Err(Skip::UnparsedKey),
            Some(_) => true,
            None => publisher.registration.standard_hashes,
        };
        let all_known =
            || names.of(&reading.batch.hashes).iter().all(|name| publisher.names.place(*name).is_some());
        if !standard || envelope.is_none() && all_known() {
            return Ok(Work::Placeholder(Placeholder { names, lane, at: 0, unknown: false }));
        }
        let salt = reading.text(store.cache_salt);
        let context = self.event_context(publisher, reading, store, envelope, salt, block_size)?;
        let key = self.contexts.get(context).key.clone();
        Ok(Work::ByHash(ByHash { names, lane, key, parent: store.parent, at: 0, previous: None }))
    }

    /// The place that `parent` denotes; where it denotes several, the one in the context that the event names.
    fn parent_place(
        &mut self,
        publisher: &Publisher,
        reading: Reading<'_>,
        store: &Store,
        parent: u64,
        salt: Option<&str>,
    ) -> Option<Place> {
        let latest = publisher.names.place(parent)?;
        if !publisher.names.is_ambiguous(parent) {
            return Some(latest);
        }
        let mut places = std::mem::take(&mut self.apply.places);
        publisher.names.places(parent, &mut places);
        let lora = reading.text(store.lora_name);
        let fits = |place: &&Place| {
            let key = &self.contexts.get(self.runs.get(place.run).context).key;
            salt.is_none_or(|salt| key.cache_salt == salt)
                && lora.is_none_or(|lora| key.lora == Lora::Name(lora.to_owned()))
        };
        let chosen =
            if fits(&&latest) { latest } else { places.iter().find(fits).copied().unwrap_or(latest) };
        self.apply.places = places;
        Some(chosen)
    }

    /// A block that stands on the way from the root to its own parent cannot be stored there.
    fn check_descent(&self, publisher: &Publisher, names: &[u64], parent: Place) -> Result<(), Skip> {
        for name in names {
            if let Some(place) = publisher.names.place(*name)
                && self.runs.is_ancestor(place, parent, ANCESTOR_STEPS)
            {
                return Err(Skip::Cycle);
            }
        }
        Ok(())
    }

    fn orphan(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        store: &Store,
        parent: u64,
        source: &Locals,
        lane: u8,
    ) {
        let names = store.hashes.of(&reading.batch.hashes).to_vec();
        let locals = (0..names.len()).map(|at| source.local(reading.batch, at, self.seed)).collect();
        let dropped = publisher.orphans.wait(Orphan { parent, names, locals, lane, removed: Vec::new() });
        publisher.stats.orphans_dropped.add(dropped as u64);
    }

    fn adopt(&mut self, publisher: &mut Publisher, orphan: Orphan) -> Option<Work> {
        let blocks = orphan.names.len() as u64;
        let place = publisher.names.place(orphan.parent)?;
        if let Err(reason) = self.check_descent(publisher, &orphan.names, place) {
            publisher.stats.skipped[reason as usize].add(1);
            return None;
        }
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
        Some(Work::Chain(chain))
    }

    /// The context of an event that has no parent.
    fn event_context(
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
        let mut key = base_key(registration);
        key.block_size = block_size;
        match (lora, lora_id) {
            (Some(name), _) => key.lora = Lora::Name(name.to_owned()),
            (None, Some(id)) => key.lora = Lora::Id(id),
            (None, None) => {}
        }
        if let Some(salt) = salt {
            salt.clone_into(&mut key.cache_salt);
        }
        if let Some(envelope) = envelope {
            apply_envelope(&mut key, reading, envelope);
        }
        let number = self.contexts.number_or_new(key)?;
        self.contexts.led(number, registration);
        Ok(number)
    }

    /// The lane of a store, made when it is new.
    fn lane(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        medium: Span,
        envelope: Option<&Envelope>,
    ) -> Result<u8, Skip> {
        let pool = publisher.registration.class == Class::Pool;
        let medium = medium::canonical(medium.text(reading.payload), pool);
        let medium = self.medium(&medium)?;
        let backend = envelope.and_then(|envelope| reading.text(envelope.backend_id)).unwrap_or("");
        let backend = publisher.backend(backend)?;
        publisher.lane(rank(publisher, reading.batch, envelope), backend, medium)
    }

    fn begin_remove(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        remove: &Remove,
    ) -> Result<Option<Work>, Skip> {
        let payload = reading.payload;
        let envelope = reading.envelope(remove.envelope);
        observe_envelope(publisher, reading, envelope);
        check_local(remove.locality, payload)?;
        if !publisher.carries_prefix(remove.group_idx, remove.spec_kind.text(payload)) {
            return Err(Skip::Group);
        }
        if remove.hashes.len == 0 && envelope.is_some_and(|envelope| envelope.object_key.is_some()) {
            return Err(Skip::UnparsedKey);
        }
        let pool = publisher.registration.class == Class::Pool;
        let medium = self.medium(&medium::canonical(remove.medium.text(payload), pool))?;
        let mut lanes = Lanes {
            rank: Some(rank(publisher, reading.batch, envelope)),
            backend: Some(0),
            medium: Some(medium),
            or_any_medium: pool,
        };
        let backend = envelope.and_then(|envelope| reading.text(envelope.backend_id)).unwrap_or("");
        match publisher.known_backend(backend) {
            Some(backend) => lanes.backend = Some(backend),
            None => lanes.backend = Some(u32::MAX),
        }
        if envelope.is_some_and(|envelope| whole_object(publisher, envelope)) {
            lanes = lanes.any_medium();
        }
        self.check_depth(publisher, reading, remove, envelope);
        Ok(Some(Work::Remove { names: remove.hashes, remaining: remove.remaining, lanes, at: 0 }))
    }

    fn check_depth(
        &self,
        publisher: &Publisher,
        reading: Reading<'_>,
        remove: &Remove,
        envelope: Option<&Envelope>,
    ) {
        let Some(stated) = envelope.and_then(|envelope| envelope.base_block_idx) else { return };
        let first = remove.hashes.of(&reading.batch.hashes).first();
        let known =
            first.and_then(|name| publisher.names.place(*name)).and_then(|place| self.runs.depth(place));
        if known.is_some_and(|known| known != stated) {
            publisher.stats.depth_disagreements.add(1);
        }
    }

    fn begin_clear(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        clear: &Clear,
    ) -> Result<Option<Work>, Skip> {
        let envelope = reading.envelope(clear.envelope);
        observe_envelope(publisher, reading, envelope);
        let pool = publisher.registration.class == Class::Pool;
        let medium = match reading.text(clear.medium) {
            Some(name) => Some(self.medium(&medium::canonical(Some(name), pool))?),
            None => None,
        };
        let backend = match envelope.and_then(|envelope| reading.text(envelope.backend_id)) {
            Some(name) if pool => Some(publisher.known_backend(name).unwrap_or(u32::MAX)),
            _ => None,
        };
        let rank = (!pool).then(|| rank(publisher, reading.batch, envelope));
        let tenant = envelope.filter(|_| pool).and_then(|envelope| tenant(publisher, reading, envelope));
        let lanes = Lanes { rank, backend, medium, or_any_medium: false };
        let touched: Vec<bool> =
            (0..publisher.lanes.len()).map(|lane| lanes.take(publisher, lane as u8)).collect();
        publisher.orphans.clear(|lane| touched[usize::from(lane)]);
        let holds = publisher.lanes.iter().zip(&touched).any(|(lane, touched)| *touched && lane.held > 0);
        Ok(holds.then_some(Work::Clear { lanes, tenant, segment: 0 }))
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
            Work::Placeholder(placeholder) => self.work_placeholder(publisher, reading, placeholder, budget),
            Work::Remove { names, remaining, lanes, at } => {
                let all = names.of(&reading.batch.hashes);
                let until = all.len().min(at + budget);
                for (offset, name) in all[at..until].iter().enumerate() {
                    let left = remaining
                        .and_then(|counts| counts.of(&reading.batch.counts).get(at + offset).copied());
                    self.remove(publisher, *name, lanes, left);
                }
                let more = until < all.len();
                (more.then_some(Work::Remove { names, remaining, lanes, at: until }), until - at)
            }
            Work::Clear { lanes, tenant, segment } => {
                let done = self.clear_segment(publisher, lanes, tenant.as_deref(), segment);
                let more = segment + 1 < publisher.names.segments();
                (more.then_some(Work::Clear { lanes, tenant, segment: segment + 1 }), done + 1)
            }
        }
    }

    fn remove(&mut self, publisher: &mut Publisher, name: u64, lanes: Lanes, left: Option<u32>) {
        let mut removed = self.remove_on(publisher, name, lanes, left);
        if !removed && lanes.or_any_medium {
            removed = self.remove_on(publisher, name, lanes.any_medium(), left);
        }
        if !removed {
            publisher.stats.unknown_removals.add(1);
        }
    }

    fn remove_on(&mut self, publisher: &mut Publisher, name: u64, lanes: Lanes, left: Option<u32>) -> bool {
        let mut removed = false;
        for lane in 0..publisher.lanes.len() as u8 {
            if !lanes.take(publisher, lane) {
                continue;
            }
            let Publisher { names, lanes, stats, orphans, .. } = &mut *publisher;
            let mut ledger = Ledger { runs: &mut self.runs, contexts: &mut self.contexts, lanes, stats };
            removed |= names.remove(name, lane, left, &mut ledger)
                || !orphans.is_empty() && orphans.remove(name, lane, left);
        }
        removed
    }

    fn clear_segment(
        &mut self,
        publisher: &mut Publisher,
        lanes: Lanes,
        tenant: Option<&str>,
        segment: usize,
    ) -> usize {
        let mut found = std::mem::take(&mut self.apply.found);
        found.clear();
        let on = |lane: u8, place: Place| {
            lanes.take(publisher, lane)
                && tenant.is_none_or(|tenant| {
                    self.contexts.get(self.runs.get(place.run).context).key.tenant == tenant
                })
        };
        publisher.names.on_lanes(segment, on, &mut found);
        for (name, lane) in &found {
            let Publisher { names, lanes, stats, .. } = &mut *publisher;
            let mut ledger = Ledger { runs: &mut self.runs, contexts: &mut self.contexts, lanes, stats };
            names.remove(*name, *lane, Some(0), &mut ledger);
        }
        let done = found.len();
        self.apply.found = found;
        done
    }
}

/// The batch's rank, else the registered one; the envelope's before both. A pool has none.
fn rank(publisher: &Publisher, batch: &Batch, envelope: Option<&Envelope>) -> u32 {
    match publisher.registration.class {
        Class::Pool => 0,
        Class::Engine => envelope
            .and_then(|envelope| envelope.dp_rank)
            .or(batch.dp_rank)
            .unwrap_or(publisher.registration.rank),
    }
}

/// Tokens a block of a store. An engine's must be the registered one; an RFC event's chooses the context.
fn block_size(publisher: &Publisher, store: &Store, envelope: Option<&Envelope>) -> Result<u32, Skip> {
    let registered = publisher.registration.block_size;
    let stated = store.block_size.filter(|size| *size > 0);
    match envelope {
        Some(envelope) => Ok(stated.or(envelope.block_size.filter(|size| *size > 0)).unwrap_or(registered)),
        None if stated.is_some_and(|size| size != registered) => Err(Skip::BlockSizeMismatch),
        None => Ok(registered),
    }
}

fn check_local(locality: Span, payload: &[u8]) -> Result<(), Skip> {
    match locality.non_empty(payload) {
        Some(locality) if !locality.eq_ignore_ascii_case("local") => Err(Skip::Locality),
        _ => Ok(()),
    }
}

/// Whether a removal means the object on every medium: the registration says so, or the master's main
/// generation, which announces only the end of a whole object.
fn whole_object(publisher: &Publisher, envelope: &Envelope) -> bool {
    match publisher.registration.removal_scope {
        Some(scope) => scope == Scope::Object,
        None => envelope.has_object_key && envelope.dp_rank.is_none(),
    }
}

/// The tenant that an envelope names; `default` under a registration with another tenant names none.
fn tenant(publisher: &Publisher, reading: Reading<'_>, envelope: &Envelope) -> Option<String> {
    let stated = reading.text(envelope.tenant_id)?;
    let registered = &publisher.registration.tenant;
    Some(if stated == "default" { registered.clone() } else { stated.to_owned() })
}

fn apply_envelope(key: &mut ContextKey, reading: Reading<'_>, envelope: &Envelope) {
    if let Some(model) = reading.text(envelope.model_name) {
        model.clone_into(&mut key.model);
    }
    if let Some(salt) = reading.text(envelope.additional_salt) {
        salt.clone_into(&mut key.additional_salt);
    }
    if let Some(lora) = reading.text(envelope.lora_name) {
        key.lora = Lora::Name(lora.to_owned());
    }
    if let Some(tenant) = reading.text(envelope.tenant_id).filter(|tenant| *tenant != "default") {
        tenant.clone_into(&mut key.tenant);
    }
}

/// Counts what an envelope says that the registration or the stream's order does not.
fn observe_envelope(publisher: &mut Publisher, reading: Reading<'_>, envelope: Option<&Envelope>) {
    let Some(envelope) = envelope else { return };
    let registration = &publisher.registration;
    let differs =
        |span: Span, registered: &str| reading.text(span).is_some_and(|stated| stated != registered);
    let disagrees = differs(envelope.model_name, &registration.model)
        || differs(envelope.additional_salt, &registration.additional_salt)
        || differs(envelope.lora_name, &registration.lora_name)
        || envelope.block_size.is_some_and(|size| size != registration.block_size)
        || reading
            .text(envelope.tenant_id)
            .is_some_and(|tenant| tenant != "default" && tenant != registration.tenant);
    if disagrees {
        publisher.stats.envelope_disagreements.add(1);
    }
    if let Some(id) = envelope.event_id {
        match publisher.last_event_id {
            Some(last) if id <= last => publisher.stats.event_id_regressions.add(1),
            Some(last) if id > last + 1 => publisher.stats.event_id_jumps.add(1),
            _ => {}
        }
        publisher.last_event_id = Some(id);
    }
}

/// Whether a name stands twice in one event.
fn repeats(names: &[u64], seen: &mut HashTable<u64>) -> bool {
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
