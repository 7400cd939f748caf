//! One reactor's share of the index: all publishers of its instances, and everything they hold.

use super::context::{Context, ContextKey, Lora, Owner};
use super::names::{Name, Places};
use super::publisher::{Books, Publisher, Registration};
use super::resolve::Resolver;
use super::run::{Left, Place, Runs};
use crate::event::Skip;
use crate::event::medium::Medium;
use crate::limits::DUMP_NAMES_PER_MAPPING;
use crate::metrics::PublisherStats;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Media of one shard; a set of them is one word.
pub const MEDIA: usize = 64;
/// Contexts of one shard.
pub const CONTEXTS: usize = 1 << 20;

/// Contexts by number and by key.
pub(super) struct Contexts {
    slots: Vec<Option<Context>>,
    numbers: HashMap<Arc<ContextKey>, u32>,
    /// Context → registrations that start there; those stay although empty.
    bases: HashMap<u32, u32>,
    free: Vec<u32>,
    salt: u64,
    /// Tenant → instances with owners there, and how many.
    present: HashMap<String, BTreeMap<u32, u32>>,
    /// Contexts that events led to, away from their registrations, since somebody asked.
    fresh: Vec<Arc<ContextKey>>,
}

impl Contexts {
    fn new(salt: u64) -> Self {
        Self {
            slots: Vec::new(),
            numbers: HashMap::new(),
            bases: HashMap::new(),
            free: Vec::new(),
            salt,
            present: HashMap::new(),
            fresh: Vec::new(),
        }
    }

    pub(super) fn get(&self, number: u32) -> &Context {
        self.slots[number as usize].as_ref().expect("contexts outlive what they hold")
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Context {
        self.slots[number as usize].as_mut().expect("contexts outlive what they hold")
    }

    pub(super) fn number(&self, key: &ContextKey) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// The number of a context that was known, made anew when it went meanwhile.
    pub(super) fn again(&mut self, key: &Arc<ContextKey>) -> Result<u32, Skip> {
        match self.number(key) {
            Some(number) => Ok(number),
            None => self.number_or_new(key.as_ref().clone()),
        }
    }

    pub(super) fn number_or_new(&mut self, key: ContextKey) -> Result<u32, Skip> {
        if let Some(number) = self.number(&key) {
            return Ok(number);
        }
        if self.numbers.len() >= CONTEXTS {
            return Err(Skip::Bound);
        }
        let key = Arc::new(key);
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(Context::new(number, key.clone(), self.salt));
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// Notes that events of a registration lead to a context; one of another family is announced once.
    pub(super) fn led(&mut self, number: u32, registration: &Registration) {
        let context = self.get_mut(number);
        let key = &context.key;
        let away = key.tenant != registration.tenant
            || key.model != registration.model
            || key.block_size != registration.block_size;
        if away && !context.announced {
            context.announced = true;
            let key = key.clone();
            self.fresh.push(key);
        }
    }

    /// An owner begins to hold blocks in a context.
    pub(super) fn add_owner(&mut self, context: u32, owner: Owner) -> u32 {
        let tenant = &self.get(context).key.tenant;
        if !self.present.contains_key(tenant) {
            let tenant = tenant.clone();
            self.present.insert(tenant, BTreeMap::new());
        }
        let tenant = &self.slots[context as usize].as_ref().expect("just seen").key.tenant;
        if let Some(instances) = self.present.get_mut(tenant) {
            *instances.entry(owner.instance).or_insert(0) += 1;
        }
        self.get_mut(context).add_owner(owner)
    }

    /// An owner holds nothing in a context any more.
    pub(super) fn remove_owner(&mut self, context: u32, owner: u32) {
        self.absent(context, owner);
        self.get_mut(context).remove_owner(owner);
    }

    /// The publisher of an owner left: from now on it counts for nobody.
    fn retire(&mut self, context: u32, owner: u32) {
        self.absent(context, owner);
        let context = self.get_mut(context);
        if let Some(owner) = context.owners[owner as usize].as_mut() {
            owner.retired = true;
            context.retired += 1;
        }
    }

    /// An owner no longer makes its instance present under the context's tenant.
    fn absent(&mut self, context: u32, owner: u32) {
        let known = self.slots[context as usize].as_ref().expect("contexts outlive what they hold");
        let owner = known.owners[owner as usize].as_ref().filter(|owner| !owner.retired);
        let instance = owner.map(|owner| owner.instance);
        if let (Some(instance), Some(instances)) = (instance, self.present.get_mut(&known.key.tenant)) {
            if let Some(owners) = instances.get_mut(&instance) {
                *owners -= 1;
                if *owners == 0 {
                    instances.remove(&instance);
                }
            }
            if instances.is_empty() {
                self.present.remove(&known.key.tenant);
            }
        }
    }

    /// Forgets a context that holds nothing and that no registration starts in.
    pub(super) fn drop_if_idle(&mut self, number: u32) {
        let idle = self.slots[number as usize].as_ref().is_some_and(Context::is_empty);
        if !idle || self.bases.contains_key(&number) {
            return;
        }
        if let Some(context) = self.slots[number as usize].take() {
            self.numbers.remove(&context.key);
            self.free.push(number);
        }
        if self.numbers.is_empty() {
            *self = Self::new(self.salt);
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Context> {
        self.slots.iter().flatten()
    }

    fn bytes(&self) -> usize {
        self.all().map(Context::bytes).sum::<usize>() + self.slots.capacity() * size_of::<Option<Context>>()
    }
}

/// An instance with publishers here.
#[derive(Debug)]
pub struct Instance {
    /// Router-facing name.
    pub name: String,
    /// Publishers, those being purged included.
    publishers: u32,
}

/// What one instance's publishers call their blocks in one context.
pub struct Mappings {
    /// The context.
    pub context: Arc<ContextKey>,
    /// The instance.
    pub instance: String,
    /// (engine hash, rolling hash).
    pub mappings: Vec<(u64, u64)>,
}

/// A publisher that left, on the way out.
struct Leaving {
    publisher: Box<Publisher>,
    segment: usize,
    names: Vec<Name>,
}

/// One reactor's share of the index.
pub struct Shard {
    pub(super) seed: u64,
    salt: u64,
    pub(super) runs: Runs,
    pub(super) contexts: Contexts,
    pub(super) publishers: Vec<Option<Box<Publisher>>>,
    pub(super) instances: Vec<Option<Instance>>,
    instance_numbers: HashMap<String, u32>,
    media: Vec<Medium>,
    leaving: VecDeque<Leaving>,
    pub(super) resolver: Resolver,
    pub(super) walk: super::walk::Scratch,
    pub(super) apply: super::apply::Scratch,
}

impl Shard {
    /// An empty shard that hashes with `seed`.
    pub fn new(seed: u64) -> Self {
        let salt = RandomState::new().hash_one(seed);
        Self {
            seed,
            salt,
            runs: Runs::default(),
            contexts: Contexts::new(salt),
            publishers: Vec::new(),
            instances: Vec::new(),
            instance_numbers: HashMap::new(),
            media: vec![Medium::Gpu, Medium::Cpu, Medium::Disk, Medium::External],
            leaving: VecDeque::new(),
            resolver: Resolver::default(),
            walk: super::walk::Scratch::default(),
            apply: super::apply::Scratch::default(),
        }
    }

    /// Hash seed of the contract.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A publisher joins; returns its number. [`Skip::Bound`] when there are too many contexts.
    pub fn add_publisher(
        &mut self,
        registration: Arc<Registration>,
        stats: Arc<PublisherStats>,
    ) -> Result<u32, Skip> {
        let base = self.contexts.number_or_new(base_key(&registration))?;
        *self.contexts.bases.entry(base).or_insert(0) += 1;
        let instance = self.instance_number(&registration.instance);
        let number = free_slot(&mut self.publishers);
        let publisher = Publisher::new(registration, number, instance, base, self.salt, stats);
        self.publishers[number as usize] = Some(Box::new(publisher));
        Ok(number)
    }

    /// A publisher leaves: neither what it sends nor what it holds counts any more, and [`Shard::purge`] takes
    /// that away.
    pub fn remove_publisher(&mut self, number: u32) {
        if let Some(mut publisher) = self.publishers[number as usize].take() {
            publisher.orphans = super::orphan::Orphans::default();
            self.resolver.forget(number, |_| true);
            for (context, owner) in publisher.lanes.iter().flat_map(super::publisher::Lane::owners) {
                self.contexts.retire(context, owner);
            }
            self.leaving.push_back(Leaving { publisher, segment: 0, names: Vec::new() });
        }
    }

    /// Takes away about `budget` names of publishers that left; returns whether all are gone.
    pub fn purge(&mut self, budget: usize) -> bool {
        let mut done = 0;
        while let Some(mut leaving) = self.leaving.pop_front() {
            let (names, _, books) = leaving.publisher.split();
            let mut ledger = Ledger { runs: &mut self.runs, contexts: &mut self.contexts, books };
            while done < budget
                && let Some(name) = leaving.names.pop()
            {
                names.purge(name, &mut ledger);
                done += 1;
            }
            if done >= budget {
                self.leaving.push_front(leaving);
                return false;
            }
            if leaving.segment < names.segments() {
                names.drain_segment(leaving.segment, &mut leaving.names);
                leaving.segment += 1;
                self.leaving.push_front(leaving);
            } else {
                self.forget_publisher(&leaving.publisher);
            }
        }
        true
    }

    fn forget_publisher(&mut self, publisher: &Publisher) {
        if let Some(count) = self.contexts.bases.get_mut(&publisher.base) {
            *count -= 1;
            if *count == 0 {
                self.contexts.bases.remove(&publisher.base);
            }
        }
        self.contexts.drop_if_idle(publisher.base);
        let instance = publisher.instance as usize;
        if let Some(slot) = self.instances[instance].as_mut() {
            slot.publishers -= 1;
            if slot.publishers == 0 {
                self.instance_numbers.remove(&slot.name);
                self.instances[instance] = None;
            }
        }
        while self.publishers.last().is_some_and(Option::is_none) && self.leaving.is_empty() {
            self.publishers.pop();
        }
    }

    fn instance_number(&mut self, name: &str) -> u32 {
        let number = match self.instance_numbers.get(name) {
            Some(number) => *number,
            None => free_slot(&mut self.instances),
        };
        self.instance_numbers.insert(name.to_owned(), number);
        let slot = &mut self.instances[number as usize];
        slot.get_or_insert_with(|| Instance { name: name.to_owned(), publishers: 0 }).publishers += 1;
        number
    }

    /// Number of an instance that has publishers here.
    pub fn find_instance(&self, name: &str) -> Option<u32> {
        self.instance_numbers.get(name).copied()
    }

    /// Instances that hold blocks under a tenant.
    pub fn present(&self, tenant: &str) -> impl Iterator<Item = u32> {
        self.contexts.present.get(tenant).into_iter().flat_map(|instances| instances.keys().copied())
    }

    /// Contexts of another family (tenant, model, block size) than that of the registration whose events led there,
    /// since the last call.
    pub fn take_fresh(&mut self) -> Vec<Arc<ContextKey>> {
        std::mem::take(&mut self.contexts.fresh)
    }

    /// Name of an instance.
    pub fn instance_name(&self, number: u32) -> &str {
        self.instances[number as usize].as_ref().map_or("", |instance| &instance.name)
    }

    /// A publisher that did not leave.
    pub fn publisher(&self, number: u32) -> Option<&Publisher> {
        self.publishers.get(number as usize)?.as_deref()
    }

    /// Number of a medium; [`Skip::Bound`] when there are too many.
    pub(super) fn medium(&mut self, medium: &Medium) -> Result<u8, Skip> {
        if let Some(at) = self.media.iter().position(|known| known == medium) {
            return Ok(at as u8);
        }
        if self.media.len() >= MEDIA {
            return Err(Skip::Bound);
        }
        self.media.push(medium.clone());
        Ok(self.media.len() as u8 - 1)
    }

    /// The medium behind a number.
    pub fn medium_name(&self, number: u8) -> &str {
        self.media[usize::from(number)].name()
    }

    /// The media that `accept` accepts, as a set of numbers.
    pub fn media_set(&self, accept: impl Fn(&Medium) -> bool) -> u64 {
        self.media
            .iter()
            .enumerate()
            .filter(|(_, medium)| accept(medium))
            .fold(0, |set, (at, _)| set | 1 << at)
    }

    /// Keys of all contexts, with the blocks held there (counted once an owner).
    pub fn context_keys(&self) -> impl Iterator<Item = (&ContextKey, u64)> {
        self.contexts.all().map(|context| (context.key.as_ref(), context.held))
    }

    /// For every context and instance that holds blocks there, at most `limit` mappings from engine hash to
    /// rolling hash; contexts where nobody holds anything come with their registrations.
    pub fn mappings(&self, limit: usize) -> Vec<Mappings> {
        let mut found: BTreeMap<(u32, u32), Vec<(u64, u64)>> = BTreeMap::new();
        for publisher in self.publishers.iter().flatten() {
            found.entry((publisher.base, publisher.instance)).or_default();
            let mut looked_at = 0;
            for segment in 0..publisher.names.segments() {
                // a dump must not stop the reactor for the sake of a large index
                if looked_at > limit.saturating_mul(DUMP_NAMES_PER_MAPPING) {
                    break;
                }
                for (name, place) in publisher.names.held(segment) {
                    looked_at += 1;
                    let context = self.runs.get(place.run).context;
                    let mappings = found.entry((context, publisher.instance)).or_default();
                    if mappings.len() < limit {
                        mappings.push((name, self.runs.hash(place)));
                    }
                }
            }
        }
        let named = |((context, instance), mappings): ((u32, u32), Vec<(u64, u64)>)| Mappings {
            context: self.contexts.get(context).key.clone(),
            instance: self.instance_name(instance).to_owned(),
            mappings,
        };
        found.into_iter().map(named).collect()
    }

    /// Heap bytes of the index: runs, covers, tables, names, orphans.
    pub fn owned_bytes(&self) -> usize {
        let leaving = self.leaving.iter();
        self.runs.bytes()
            + self.contexts.bytes()
            + self.publishers.iter().flatten().map(|publisher| publisher.bytes()).sum::<usize>()
            + leaving.map(|l| l.publisher.bytes() + l.names.capacity() * size_of::<Name>()).sum::<usize>()
    }

    /// Live runs and all contexts: for metrics.
    pub fn sizes(&self) -> (usize, usize) {
        (self.runs.len(), self.contexts.numbers.len())
    }
}

fn free_slot<T>(slots: &mut Vec<Option<T>>) -> u32 {
    if let Some(at) = slots.iter().position(Option::is_none) {
        return at as u32;
    }
    slots.push(None);
    slots.len() as u32 - 1
}

/// Context of an event that says nothing but what its registration says.
pub fn base_key(registration: &Registration) -> ContextKey {
    let lora = match registration.lora_name.as_str() {
        "" => Lora::Base,
        name => Lora::Name(name.to_owned()),
    };
    ContextKey {
        tenant: registration.tenant.clone(),
        model: registration.model.clone(),
        lora,
        block_size: registration.block_size,
        additional_salt: registration.additional_salt.clone(),
        cache_salt: String::new(),
    }
}

/// What a publisher's names change in the shard.
pub(super) struct Ledger<'a> {
    pub(super) runs: &'a mut Runs,
    pub(super) contexts: &'a mut Contexts,
    pub(super) books: Books<'a>,
}

impl Ledger<'_> {
    pub(super) fn settle(&mut self, run: u32, left: Left) {
        if let Left::Cut { hashes, gone, context } = left {
            self.contexts.get_mut(context).cut(run, &hashes, gone);
            self.contexts.drop_if_idle(context);
        }
    }
}

impl Places for Ledger<'_> {
    fn release(&mut self, place: Place, lane: u8) {
        if let Some(base) = self.books.lanes[usize::from(lane)].base {
            return self.release_part(place, lane, base);
        }
        let number = self.runs.get(place.run).context;
        let lane = &mut self.books.lanes[usize::from(lane)];
        let Some(owner) = lane.owner(number) else { return };
        let context = self.contexts.get_mut(number);
        let instance = context.owners[owner as usize].as_ref().map_or(0, |owner| owner.instance);
        context.held -= 1;
        self.books.stats.blocks_held.set(self.books.stats.blocks_held.get() - 1);
        if let Some(last) = lane.lose(number) {
            self.contexts.remove_owner(number, last);
        }
        let left = self.runs.release(place, instance, owner);
        self.settle(place.run, left);
    }

    fn pin(&mut self, place: Place) {
        self.runs.pin(place);
    }

    fn unpin(&mut self, place: Place) {
        let left = self.runs.unpin(place);
        self.settle(place.run, left);
    }
}
