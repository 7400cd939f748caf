//! Contexts: the namespaces in which block hashes may match, and where each block of one stands.

use super::heads::Heads;
use super::run::{Cut, Doomed, Place, Run, Runs};
use super::table::{Keyed, Table};
use std::sync::Arc;

/// Identity of a LoRA adapter. An adapter's blocks never match a base query, nor the reverse.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Lora {
    /// The base model.
    #[default]
    Base,
    /// An adapter by name.
    Name(String),
    /// An adapter by number only (deprecated on the wire): a kind of key of its own.
    Id(i64),
}

/// What must agree before two blocks can be one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ContextKey {
    /// Tenant, never empty.
    pub tenant: String,
    /// Model.
    pub model: String,
    /// Adapter.
    pub lora: Lora,
    /// Tokens a block.
    pub block_size: u32,
    /// Deployment salt, empty when there is none.
    pub additional_salt: String,
    /// Request salt, empty when there is none.
    pub cache_salt: String,
}

/// Where a hash stands.
#[derive(Clone, Copy, Debug)]
pub struct Stand {
    hash: u64,
    run: u32,
    at: u16,
}

impl Keyed for Stand {
    fn key(&self) -> u64 {
        self.hash
    }
}

/// Whether a context can find a block by its hash alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByHash {
    /// Only heads of runs can be found; nobody needed more yet.
    Off,
    /// `places` is being filled; heads' segments below this are in.
    Building(usize),
    /// Every block can be found.
    On,
}

/// (publisher, effective rank, backend, medium) within one context.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Publisher, numbered within the shard.
    pub publisher: u32,
    /// Instance, numbered within the shard.
    pub instance: u32,
    /// Rank, for engines.
    pub rank: Option<u32>,
    /// Medium, numbered within the shard.
    pub medium: u8,
    /// Its publisher left: it counts for nobody, and what it holds is being taken away.
    pub retired: bool,
    /// Runs of which it holds something, in no order.
    pub runs: Vec<u32>,
}

/// One namespace of a shard.
pub struct Context {
    /// Number within the shard.
    pub number: u32,
    /// Its identity.
    pub key: Arc<ContextKey>,
    /// Who holds blocks here; `None` is a free number.
    pub owners: Vec<Option<Owner>>,
    /// First hash of a run → the run.
    heads: Heads,
    /// Every hash → its place, when somebody stores by hash alone.
    places: Table<Stand>,
    by_hash: ByHash,
    /// Runs that wait to be entered into `places`.
    to_enter: Vec<u32>,
    /// Blocks held, counted once an owner.
    pub held: u64,
    /// Owners whose publisher left.
    pub retired: u32,
    /// Whether somebody was told that events lead here.
    pub announced: bool,
}

impl Context {
    /// An empty context.
    pub fn new(number: u32, key: Arc<ContextKey>, salt: u64) -> Self {
        Self {
            number,
            key,
            owners: Vec::new(),
            heads: Heads::new(salt),
            places: Table::new(salt),
            by_hash: ByHash::Off,
            to_enter: Vec::new(),
            held: 0,
            retired: 0,
            announced: false,
        }
    }

    /// Heap bytes of the tables and owners.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.owners.iter().flatten().map(|owner| owner.runs.capacity()).sum();
        self.heads.bytes()
            + self.places.bytes()
            + self.owners.capacity() * size_of::<Option<Owner>>()
            + lists * size_of::<u32>()
    }

    /// Whether no block stands here.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Where a block stands that may follow nothing known: any block when the context is
    /// [`ByHash::On`], a head otherwise.
    #[inline]
    pub fn find(&self, hash: u64, runs: &Runs) -> Option<Place> {
        if self.by_hash == ByHash::On {
            return self.places.find(hash, |_| true).map(|stand| Place { run: stand.run, at: stand.at });
        }
        let begins = |run: u32| runs.get(run).hashes.first() == Some(&hash);
        self.heads.find(hash, begins).map(|run| Place { run, at: 0 })
    }

    /// Whether every block can be found by its hash.
    pub fn finds_all(&self) -> bool {
        self.by_hash == ByHash::On
    }

    /// Whether nobody ever stored by hash alone here: then every run names its parent, too.
    pub fn finds_heads_only(&self) -> bool {
        self.by_hash == ByHash::Off
    }

    /// A new run of these blocks starts at `first`.
    pub fn head(&mut self, hashes: &[u64], first: Place) {
        self.heads.insert(hashes[0], first.run);
        self.appended(hashes, first);
    }

    /// Blocks were appended to a run.
    pub fn appended(&mut self, hashes: &[u64], first: Place) {
        if self.by_hash == ByHash::Off {
            return;
        }
        for (hash, at) in hashes.iter().zip(first.at..) {
            let place = Place { at, ..first };
            match self.by_hash {
                ByHash::On => self.places.insert(Stand { hash: *hash, run: place.run, at }),
                _ => self.place_once(*hash, place),
            }
        }
    }

    /// These blocks lose their place.
    pub fn cut(&mut self, cut: &Cut<'_>) {
        let Doomed { run, gone, .. } = cut.doomed;
        if gone && let Some(head) = cut.hashes().first() {
            self.heads.remove(*head, run);
        }
        if self.by_hash != ByHash::Off {
            for hash in cut.hashes() {
                self.places.remove(*hash, |stand| stand.run == run);
            }
        }
        if self.heads.is_empty() && self.by_hash != ByHash::Off {
            self.places.clear();
            self.to_enter = Vec::new();
            self.by_hash = ByHash::On;
        }
    }

    /// Makes every block findable, about `budget` blocks at a time. `run` looks up a run if it is still there.
    /// Returns whether all are in.
    pub fn build_places<'a>(&mut self, budget: usize, run: impl Fn(u32) -> Option<&'a Run>) -> bool {
        let mut entered = 0;
        while entered < budget {
            if let Some(number) = self.to_enter.pop() {
                // a number that another context's run took over meanwhile is none of ours
                let Some(run) = run(number).filter(|run| run.context == self.number) else { continue };
                for (at, hash) in run.hashes.iter().enumerate() {
                    self.place_once(*hash, Place { run: number, at: at as u16 });
                }
                entered += run.hashes.len();
                continue;
            }
            let segment = match self.by_hash {
                ByHash::On => return true,
                ByHash::Off => 0,
                ByHash::Building(segment) => segment,
            };
            if segment >= self.heads.segments() {
                self.by_hash = ByHash::On;
                self.to_enter = Vec::new();
                return true;
            }
            self.by_hash = ByHash::Building(segment + 1);
            self.to_enter.extend(self.heads.segment(segment));
        }
        false
    }

    fn place_once(&mut self, hash: u64, place: Place) {
        if self.places.find(hash, |_| true).is_none() {
            self.places.insert(Stand { hash, run: place.run, at: place.at });
        }
    }

    /// A number for a new owner.
    pub fn add_owner(&mut self, owner: Owner) -> u32 {
        if let Some(at) = self.owners.iter().position(Option::is_none) {
            self.owners[at] = Some(owner);
            return at as u32;
        }
        self.owners.push(Some(owner));
        self.owners.len() as u32 - 1
    }

    /// Frees an owner's number; it holds nothing any more.
    pub fn remove_owner(&mut self, owner: u32) {
        if let Some(owner) = self.owners[owner as usize].take()
            && owner.retired
        {
            self.retired -= 1;
        }
        while self.owners.last().is_some_and(Option::is_none) {
            self.owners.pop();
        }
        if self.owners.is_empty() {
            self.owners = Vec::new();
        }
    }
}
