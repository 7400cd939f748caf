//! One reactor's share of the index: all publishers of its instances, and everything they hold.

use super::context::{ContextKey, Lora};
use super::contexts::Contexts;
use super::dialect::Dialects;
use super::leave::Leaving;
use super::media::Media;
use super::publisher::{Lane, Publisher, Registration};
use super::resolve::Resolver;
use super::run::Runs;
use crate::event::Skip;
use crate::event::medium::Medium;
use crate::metrics::PublisherStats;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// An instance with publishers here.
#[derive(Debug)]
pub struct Instance {
    /// Router-facing name.
    pub name: String,
    /// Publishers, those being purged included.
    pub(super) publishers: u32,
}

/// One reactor's share of the index.
pub struct Shard {
    pub(super) seed: u64,
    salt: u64,
    pub(super) runs: Runs,
    pub(super) contexts: Contexts,
    pub(super) dialects: Dialects,
    pub(super) publishers: Vec<Option<Box<Publisher>>>,
    pub(super) instances: Vec<Option<Instance>>,
    pub(super) instance_numbers: HashMap<String, u32>,
    pub(super) media: Media,
    pub(super) leaving: VecDeque<Leaving>,
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
            dialects: Dialects::new(salt),
            publishers: Vec::new(),
            instances: Vec::new(),
            instance_numbers: HashMap::new(),
            media: Media::default(),
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

    /// The medium behind a number.
    pub fn medium_name(&self, number: u8) -> &str {
        self.media.name(number)
    }

    /// The media that `accept` accepts, as a set of numbers.
    pub fn media_set(&self, accept: impl Fn(&Medium) -> bool) -> u64 {
        self.media.set(accept)
    }

    /// Keys of all contexts, with the blocks held there (counted once an owner).
    pub fn context_keys(&self) -> impl Iterator<Item = (&ContextKey, u64)> {
        self.contexts.all().map(|context| (context.key.as_ref(), context.held))
    }

    /// Keys of the contexts in which an instance holds blocks, each once a lane.
    pub fn contexts_of(&self, instance: u32) -> impl Iterator<Item = &ContextKey> {
        let publishers =
            self.publishers.iter().flatten().filter(move |publisher| publisher.instance == instance);
        let lanes = publishers.flat_map(|publisher| &publisher.lanes);
        lanes.flat_map(Lane::owners).map(|(context, _)| self.contexts.get(context).key.as_ref())
    }

    /// Heap bytes of the index: runs, covers, tables, names, orphans.
    pub fn owned_bytes(&self) -> usize {
        self.runs.bytes()
            + self.contexts.bytes()
            + self.dialects.bytes()
            + self.publishers.iter().flatten().map(|publisher| publisher.bytes()).sum::<usize>()
            + self.leaving.iter().map(Leaving::bytes).sum::<usize>()
    }

    /// Live runs and all contexts: for metrics.
    pub fn sizes(&self) -> (usize, usize) {
        (self.runs.len(), self.contexts.len())
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
