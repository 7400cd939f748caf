//! One registration: who publishes, on which lanes it holds blocks, and what it calls them.

use super::context::Owner;
use super::dialect::Speech;
use super::names::{LANES, Names};
use super::orphan::Orphans;
use super::recent::Recent;
use super::run::Place;
use crate::event::Skip;
use crate::metrics::PublisherStats;
use std::collections::HashMap;
use std::sync::Arc;

/// Backends (cache daemons) of one publisher.
pub const BACKENDS: usize = 1024;
/// KV-cache groups of one publisher.
pub const GROUPS: usize = 256;

/// What kind of cache publishes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Class {
    /// An inference engine: its blocks belong to a rank.
    Engine,
    /// A storage pool (`Mooncake`): no rank, usable by all.
    Pool,
}

/// What a pool's removal takes away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// The block on the named medium.
    Medium,
    /// The block on every medium of the backend.
    Object,
}

/// What `POST /register` says of a publisher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Tenant, never empty.
    pub tenant: String,
    /// Router-facing instance.
    pub instance: String,
    /// Registered data-parallel rank.
    pub rank: u32,
    /// Engine or pool.
    pub class: Class,
    /// Model.
    pub model: String,
    /// LoRA adapter, empty for the base model.
    pub lora_name: String,
    /// Tokens a block.
    pub block_size: u32,
    /// Deployment salt, empty when there is none.
    pub additional_salt: String,
    /// Whether the engine's `block_hashes` are standard hashes.
    pub standard_hashes: bool,
    /// Objects (tensor-parallel ranks) that make one block of a pool.
    pub tp_size: Option<u32>,
    /// What a removal takes away, when the publisher's generation is not to decide.
    pub removal_scope: Option<Scope>,
}

/// (effective rank, backend, medium) of one publisher.
#[derive(Debug)]
pub struct Lane {
    /// Effective rank; 0 for a pool.
    pub rank: u32,
    /// Backend, numbered within the publisher.
    pub backend: u32,
    /// Medium, numbered within the shard.
    pub medium: u8,
    /// The lane that holds a block once all its parts are there: this one only counts a part.
    pub base: Option<u8>,
    /// The lane's owner in each context where it holds something, sorted by context.
    owners: Vec<LaneOwner>,
    /// Blocks held, over all contexts.
    pub held: u64,
}

#[derive(Debug)]
struct LaneOwner {
    context: u32,
    owner: u32,
    held: u64,
}

impl Lane {
    /// The owner's number in a context.
    pub fn owner(&self, context: u32) -> Option<u32> {
        if let [only] = self.owners.as_slice() {
            return (only.context == context).then_some(only.owner);
        }
        let at = self.owners.binary_search_by_key(&context, |owner| owner.context).ok()?;
        Some(self.owners[at].owner)
    }

    /// Its owners as (context, owner).
    pub fn owners(&self) -> impl Iterator<Item = (u32, u32)> {
        self.owners.iter().map(|owner| (owner.context, owner.owner))
    }

    /// The lane starts to hold blocks in a context.
    pub fn enter(&mut self, context: u32, owner: u32) {
        if let Err(at) = self.owners.binary_search_by_key(&context, |owner| owner.context) {
            self.owners.insert(at, LaneOwner { context, owner, held: 0 });
        }
    }

    /// The lane holds `blocks` more in a context.
    pub fn gain(&mut self, context: u32, blocks: u64) {
        if let Ok(at) = self.owners.binary_search_by_key(&context, |owner| owner.context) {
            self.owners[at].held += blocks;
            self.held += blocks;
        }
    }

    /// Ends what [`Lane::enter`] began when nothing came of it; returns the owner.
    pub fn leave_if_empty(&mut self, context: u32) -> Option<u32> {
        let at = self.owners.binary_search_by_key(&context, |owner| owner.context).ok()?;
        (self.owners[at].held == 0).then(|| self.owners.remove(at).owner)
    }

    /// The lane holds `blocks` less in a context; returns the owner when those were the last ones there.
    pub fn lose(&mut self, context: u32, blocks: u64) -> Option<u32> {
        let at = self.owners.binary_search_by_key(&context, |owner| owner.context).ok()?;
        self.owners[at].held -= blocks;
        self.held -= blocks;
        (self.owners[at].held == 0).then(|| self.owners.remove(at).owner)
    }
}

/// Rank of the lane that holds a pool's block once all ranks' objects are there.
const WHOLE: u32 = u32::MAX;

/// The objects that make up blocks of a pool registered with `tp_size`.
#[derive(Debug, Default)]
pub struct Parts {
    /// Ranks whose objects make a block; 0 when one object is a block.
    pub needed: u32,
    /// (place, lane of the rank) → names that hold it.
    pub present: HashMap<(Place, u8), u32>,
}

/// What a change of names touches beside the index.
pub(super) struct Books<'a> {
    pub(super) lanes: &'a mut [Lane],
    pub(super) parts: &'a mut Parts,
    pub(super) recent: &'a mut Recent,
    pub(super) stats: &'a PublisherStats,
}

impl Parts {
    /// Whether enough ranks hold the place for lane `base` to hold it.
    pub(super) fn complete(&self, lanes: &[Lane], place: Place, base: u8) -> bool {
        let of_base = |lane: &usize| lanes[*lane].base == Some(base);
        let present = |lane: &usize| self.present.contains_key(&(place, *lane as u8));
        (0..lanes.len()).filter(of_base).filter(present).count() >= self.needed as usize
    }
}

/// One registration and everything it contributed.
pub struct Publisher {
    /// What was registered.
    pub registration: Arc<Registration>,
    /// Number within the shard.
    pub number: u32,
    /// Instance, numbered within the shard.
    pub instance: u32,
    /// Context of an event that says nothing else.
    pub base: u32,
    /// Lanes, at most [`LANES`].
    pub lanes: Vec<Lane>,
    /// How it names its blocks.
    pub speech: Speech,
    /// Names that its dialect does not have, with those of them that were removed.
    pub names: Names,
    /// Blocks just removed by its dialect's names.
    pub recent: Recent,
    /// Where the last name that it removed stood: the next one is often a neighbour.
    pub(super) removed: Place,
    /// The last name that it stored, and where: the next block often stands behind it.
    pub(super) stored: (u64, Place),
    /// Whether names from before it spoke its dialect may be given over.
    pub(super) early: bool,
    /// Stores that wait for their parent.
    pub orphans: Orphans,
    /// Objects that make up blocks.
    pub parts: Parts,
    /// Backends by number.
    backends: Vec<String>,
    /// Groups, nearly always one, and whether each carries prefixes, as stores said.
    groups: Vec<(u32, bool)>,
    /// Last `event_id` seen.
    pub last_event_id: Option<u64>,
    /// What became of its events.
    pub stats: Arc<PublisherStats>,
}

impl Publisher {
    /// A publisher that holds nothing.
    pub fn new(
        registration: Arc<Registration>,
        number: u32,
        instance: u32,
        base: u32,
        salt: u64,
        stats: Arc<PublisherStats>,
    ) -> Self {
        let needed = match (registration.class, registration.tp_size) {
            (Class::Pool, Some(size)) if size > 1 => size,
            _ => 0,
        };
        Self {
            registration,
            number,
            instance,
            base,
            lanes: Vec::new(),
            // one rank's part of a block is no holding of it
            speech: if needed > 0 { Speech::Alone } else { Speech::NEW },
            names: Names::new(salt),
            recent: Recent::default(),
            removed: Place { run: 0, at: 0 },
            stored: (0, Place { run: 0, at: 0 }),
            early: false,
            orphans: Orphans::default(),
            parts: Parts { needed, present: HashMap::new() },
            backends: Vec::new(),
            groups: Vec::new(),
            last_event_id: None,
            stats,
        }
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.names.bytes()
            + self.recent.bytes()
            + self.orphans.bytes()
            + self.lanes.capacity() * size_of::<Lane>()
            + self.parts.present.capacity() * size_of::<((Place, u8), u32)>()
    }

    /// Number of a backend; `""` is an engine's own cache.
    pub fn backend(&mut self, name: &str) -> Result<u32, Skip> {
        if let Some(at) = self.backends.iter().position(|backend| backend == name) {
            return Ok(at as u32);
        }
        if self.backends.len() >= BACKENDS {
            return Err(Skip::Bound);
        }
        self.backends.push(name.to_owned());
        Ok(self.backends.len() as u32 - 1)
    }

    /// Number of a known backend.
    pub fn known_backend(&self, name: &str) -> Option<u32> {
        self.backends.iter().position(|backend| backend == name).map(|at| at as u32)
    }

    /// Number of a lane that may be new.
    pub fn lane(&mut self, rank: u32, backend: u32, medium: u8) -> Result<u8, Skip> {
        if let Some(lane) = self.known_lane(rank, backend, medium) {
            return Ok(lane);
        }
        if self.lanes.len() >= LANES {
            return Err(Skip::Bound);
        }
        self.lanes.push(Lane { rank, backend, medium, base: None, owners: Vec::new(), held: 0 });
        Ok(self.lanes.len() as u8 - 1)
    }

    /// The tensor-parallel rank whose object it is; none is the first.
    pub fn part_rank(stated: Option<u32>) -> Result<u32, Skip> {
        stated.map_or(Ok(0), |rank| if rank == WHOLE { Err(Skip::BadField) } else { Ok(rank) })
    }

    /// Number of the lane for the objects of one tensor-parallel rank.
    pub fn part_lane(&mut self, tp_rank: u32, backend: u32, medium: u8) -> Result<u8, Skip> {
        let base = self.lane(WHOLE, backend, medium)?;
        let lane = self.lane(tp_rank, backend, medium)?;
        self.lanes[usize::from(lane)].base = Some(base);
        Ok(lane)
    }

    /// Its own names apart from what their changes touch.
    pub(super) fn split(&mut self) -> (&mut Names, Books<'_>) {
        let Self { names, lanes, parts, recent, stats, .. } = self;
        (names, Books { lanes, parts, recent, stats })
    }

    /// Number of a known lane.
    pub fn known_lane(&self, rank: u32, backend: u32, medium: u8) -> Option<u8> {
        self.lanes
            .iter()
            .position(|lane| lane.medium == medium && lane.rank == rank && lane.backend == backend)
            .map(|at| at as u8)
    }

    /// What the index calls the owner behind a lane.
    pub fn owner(&self, lane: u8) -> Owner {
        let lane = &self.lanes[usize::from(lane)];
        Owner {
            publisher: self.number,
            instance: self.instance,
            rank: (self.registration.class == Class::Engine).then_some(lane.rank),
            medium: lane.medium,
            retired: false,
            runs: Vec::new(),
        }
    }

    /// Whether a group carries prefixes: `kind` as the event says it, remembered for removals, which say none.
    pub fn carries_prefix(&mut self, group: Option<u32>, kind: Option<&str>) -> bool {
        let number = group.unwrap_or(0);
        let known = self.groups.iter().position(|(group, _)| *group == number);
        let Some(kind) = kind else { return known.map_or(number == 0, |at| self.groups[at].1) };
        let dense = matches!(kind, "full_attention" | "mla_attention" | "sink_full_attention");
        match known {
            Some(at) => self.groups[at].1 = dense,
            None if self.groups.len() < GROUPS => self.groups.push((number, dense)),
            None => {}
        }
        dense
    }
}
