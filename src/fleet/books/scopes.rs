//! Scopes: everything of a key but its hash, each told once and counted, with the salts and models they name.
//!
//! A fleet has few of them, so that a key needs four bytes for what would be a hundred.

use super::pages::Pages;
use super::tenant::Tenant;
use crate::fleet::key::Key;
use crate::index::table::{Keyed, Table};
use hashbrown::DefaultHashBuilder;
use std::hash::{BuildHasher, Hash};

/// An entry of a hash table: 32 bits of the hash, and where the thing stands.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) hash: u32,
    pub(super) at: u32,
}

impl Keyed for Link {
    fn key(&self) -> u64 {
        u64::from(self.hash)
    }
}

/// A table of links, seeded.
pub(super) fn links(hasher: &DefaultHashBuilder) -> Table<Link> {
    Table::new(hasher.hash_one(0))
}

/// 32 bits of a thing's hash.
pub(super) fn short_hash(hasher: &DefaultHashBuilder, thing: impl Hash) -> u32 {
    (hasher.hash_one(thing) >> 16) as u32
}

#[derive(Default)]
struct Model {
    text: Box<str>,
    refs: u32,
}

/// Model, salt, rank and group of some keys.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) tenant: u32,
    pub(super) model: u32,
    pub(super) rank: i128,
    pub(super) group: u64,
    /// Keys that name it.
    refs: u32,
}

/// All scopes, models and tenants.
pub(super) struct Scopes {
    hasher: DefaultHashBuilder,
    all: Pages<Scope, 256>,
    by_parts: Table<Link>,
    models: Pages<Model, 64>,
    by_model: Table<Link>,
    pub(super) tenants: Pages<Tenant, 64>,
    by_salt: Table<Link>,
    /// Bytes of all models and salts.
    text: usize,
}

impl Scopes {
    pub(super) fn new(hasher: DefaultHashBuilder) -> Self {
        Self {
            all: Pages::new(),
            by_parts: links(&hasher),
            models: Pages::new(),
            by_model: links(&hasher),
            tenants: Pages::new(),
            by_salt: links(&hasher),
            text: 0,
            hasher,
        }
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.by_parts.bytes() + self.by_model.bytes() + self.by_salt.bytes();
        self.all.bytes() + self.models.bytes() + self.tenants.bytes() + tables + self.text
    }

    /// Bytes of all models and salts.
    pub(super) fn text(&self) -> usize {
        self.text
    }

    pub(super) fn get(&self, scope: u32) -> &Scope {
        &self.all[scope]
    }

    pub(super) fn model(&self, scope: u32) -> &str {
        &self.models[self.all[scope].model].text
    }

    pub(super) fn salt(&self, scope: u32) -> &str {
        &self.tenants[self.all[scope].tenant].salt
    }

    /// The tenant of a salt.
    pub(super) fn tenant(&self, salt: &str) -> Option<u32> {
        let hash = short_hash(&self.hasher, salt);
        let link = self.by_salt.find(u64::from(hash), |link| &*self.tenants[link.at].salt == salt)?;
        Some(link.at)
    }

    /// The number of a model.
    pub(super) fn model_number(&self, model: &str) -> Option<u32> {
        let hash = short_hash(&self.hasher, model);
        let link = self.by_model.find(u64::from(hash), |link| &*self.models[link.at].text == model)?;
        Some(link.at)
    }

    fn hash(&self, model: &str, salt: &str, rank: i128, group: u64) -> u32 {
        short_hash(&self.hasher, (model, salt, rank, group))
    }

    /// The scope of a key.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<u32> {
        let hash = self.hash(&key.model, &key.salt, key.kv_rank, key.group);
        let link = self.by_parts.find(u64::from(hash), |link| {
            let scope = &self.all[link.at];
            scope.rank == key.kv_rank
                && scope.group == key.group
                && *self.models[scope.model].text == *key.model
                && *self.tenants[scope.tenant].salt == *key.salt
        })?;
        Some(link.at)
    }

    /// The scope that differs in its rank alone.
    pub(super) fn sibling(&self, scope: u32, rank: i128) -> Option<u32> {
        let Scope { tenant, model, group, .. } = self.all[scope];
        let hash = self.hash(&self.models[model].text, &self.tenants[tenant].salt, rank, group);
        let link = self.by_parts.find(u64::from(hash), |link| {
            let other = &self.all[link.at];
            (other.tenant, other.model, other.rank, other.group) == (tenant, model, rank, group)
        })?;
        Some(link.at)
    }

    /// The scope of one more key; it is made when there is none.
    pub(super) fn keep(&mut self, key: &Key<'_>) -> u32 {
        let at = self.find(key).unwrap_or_else(|| self.make(key));
        self.all[at].refs += 1;
        at
    }

    fn make(&mut self, key: &Key<'_>) -> u32 {
        let model = self.model_number(&key.model).unwrap_or_else(|| {
            self.text += key.model.len();
            let at = self.models.put(Model { text: (*key.model).into(), refs: 0 });
            self.by_model.insert(Link { hash: short_hash(&self.hasher, &*key.model), at });
            at
        });
        let tenant = self.tenant(&key.salt).unwrap_or_else(|| {
            self.text += key.salt.len();
            let at = self.tenants.put(Tenant::of(&key.salt));
            self.by_salt.insert(Link { hash: short_hash(&self.hasher, &*key.salt), at });
            at
        });
        self.models[model].refs += 1;
        self.tenants[tenant].refs += 1;
        let at = self.all.put(Scope { tenant, model, rank: key.kv_rank, group: key.group, refs: 0 });
        let hash = self.hash(&key.model, &key.salt, key.kv_rank, key.group);
        self.by_parts.insert(Link { hash, at });
        at
    }

    /// One key of the scope is gone. With the last one goes the scope, with the last scope a model or tenant.
    pub(super) fn release(&mut self, at: u32) {
        self.all[at].refs -= 1;
        if self.all[at].refs > 0 {
            return;
        }
        let scope = &self.all[at];
        let hash = self.hash(self.model(at), self.salt(at), scope.rank, scope.group);
        self.by_parts.remove(u64::from(hash), |link| link.at == at);
        let Scope { tenant, model, .. } = self.all.take(at);
        self.models[model].refs -= 1;
        if self.models[model].refs == 0 {
            let text = self.models.take(model).text;
            self.text -= text.len();
            let hash = short_hash(&self.hasher, &*text);
            self.by_model.remove(u64::from(hash), |link| link.at == model);
        }
        self.tenants[tenant].refs -= 1;
        if self.tenants[tenant].refs == 0 {
            let salt = self.tenants.take(tenant).salt;
            self.text -= salt.len();
            let hash = short_hash(&self.hasher, &*salt);
            self.by_salt.remove(u64::from(hash), |link| link.at == tenant);
        }
    }
}
