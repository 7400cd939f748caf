//! The contexts of a shard, by number and by key, and which instances are present in them.

use super::context::{Context, ContextKey, Owner};
use super::publisher::Registration;
use crate::event::Skip;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Contexts of one shard.
pub const CONTEXTS: usize = 1 << 20;

/// Contexts by number and by key.
pub(super) struct Contexts {
    slots: Vec<Option<Context>>,
    numbers: HashMap<Arc<ContextKey>, u32>,
    /// Context → registrations that start there; those stay although empty.
    pub(super) bases: HashMap<u32, u32>,
    free: Vec<u32>,
    salt: u64,
    /// Tenant → instances with owners there, and how many.
    pub(super) present: HashMap<String, BTreeMap<u32, u32>>,
    /// Contexts that events led to, away from their registrations, since somebody asked.
    pub(super) fresh: Vec<Arc<ContextKey>>,
}

impl Contexts {
    pub(super) fn new(salt: u64) -> Self {
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

    pub(super) fn try_get(&self, number: u32) -> Option<&Context> {
        self.slots.get(number as usize)?.as_ref()
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
    pub(super) fn retire(&mut self, context: u32, owner: u32) {
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

    /// The instance behind an owner.
    pub(super) fn instance(&self, context: u32, owner: u32) -> u32 {
        self.get(context).owners[owner as usize].as_ref().map_or(0, |owner| owner.instance)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Context> {
        self.slots.iter().flatten()
    }

    pub(super) fn bytes(&self) -> usize {
        self.all().map(Context::bytes).sum::<usize>() + self.slots.capacity() * size_of::<Option<Context>>()
    }
}
