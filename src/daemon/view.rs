//! One reactor's copy of the directory, arranged for queries.

use super::directory::{Directory, Family};
use crate::http::response::json_string;
use crate::index::publisher::Class;
use crate::index::shard::Shard;
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, Hasher};

/// An instance under one tenant.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// `"name":`, escaped.
    pub key: Vec<u8>,
    /// Its reactor.
    pub home: usize,
    /// Number in its shard, on its own reactor, once it is there.
    pub number: Option<u32>,
    /// Ranks registered under the tenant, ascending.
    pub ranks: Vec<u32>,
}

/// A [`Family`], borrowed.
#[derive(PartialEq, Eq)]
pub struct FamilyOf<'a>(pub &'a str, pub &'a str, pub u32);

impl Hash for FamilyOf<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0, self.1, self.2).hash(state);
    }
}

impl Equivalent<Family> for FamilyOf<'_> {
    fn equivalent(&self, family: &Family) -> bool {
        self.0 == family.0 && self.1 == family.1 && self.2 == family.2
    }
}

/// What a query needs to know of who is where.
#[derive(Default)]
pub struct View {
    version: u64,
    tenants: HashMap<String, Vec<Entry>>,
    homes: HashMap<String, usize>,
    families: HashMap<Family, u64>,
    /// Tenants that events brought along → reactors that hold blocks for them.
    foreign: HashMap<String, u64>,
    /// Reactors that hold blocks of families that are not listed.
    unlisted: u64,
}

impl View {
    /// Whether the directory changed since this view was made.
    pub fn is_stale(&self, directory: &Directory) -> bool {
        self.version != directory.version()
    }

    /// A view for the reactor with this shard.
    pub fn of(directory: &Directory, shard: &Shard) -> Self {
        let version = directory.version();
        let books = directory.books();
        let mut view = Self { version, unlisted: books.unlisted, ..Self::default() };
        for listing in books.publishers.values() {
            let key = &listing.key;
            let entries = view.tenants.entry(key.tenant.clone()).or_default();
            // the books are in the order of instances
            if entries.last().is_none_or(|last| last.name != key.instance) {
                let mut escaped = Vec::with_capacity(key.instance.len() + 3);
                json_string(&mut escaped, &key.instance);
                escaped.push(b':');
                entries.push(Entry {
                    name: key.instance.clone(),
                    key: escaped,
                    home: listing.home,
                    number: shard.find_instance(&key.instance),
                    ranks: Vec::new(),
                });
            }
            if key.class == Class::Engine
                && let Some(entry) = entries.last_mut()
                && !entry.ranks.contains(&key.rank)
            {
                entry.ranks.push(key.rank);
                entry.ranks.sort_unstable();
            }
            let registration = &listing.registration;
            let family = (key.tenant.clone(), registration.model.clone(), registration.block_size);
            *view.families.entry(family).or_insert(0) |= 1 << listing.home;
        }
        for (family, reactors) in &books.learned {
            *view.families.entry(family.clone()).or_insert(0) |= reactors;
            *view.foreign.entry(family.0.clone()).or_insert(0) |= reactors;
        }
        view.homes.extend(books.homes.iter().map(|(instance, (home, _))| (instance.clone(), *home)));
        view
    }

    /// Instances registered under a tenant, by name.
    pub fn entries(&self, tenant: &str) -> &[Entry] {
        self.tenants.get(tenant).map_or(&[], Vec::as_slice)
    }

    /// The reactor of an instance.
    pub fn home(&self, instance: &str) -> Option<usize> {
        self.homes.get(instance).copied()
    }

    /// Reactors, as a set, that may hold blocks of this family, or of the tenant unannounced.
    pub fn reactors(&self, tenant: &str, model: &str, block_size: u32) -> u64 {
        let family = self.families.get(&FamilyOf(tenant, model, block_size)).copied().unwrap_or(0);
        family | self.foreign.get(tenant).copied().unwrap_or(0) | self.unlisted
    }
}
