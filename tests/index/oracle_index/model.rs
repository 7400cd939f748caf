//! The naive model of the index: maps and sets, one rule of the semantics a function, no cleverness.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A block: context number and rolling hash.
pub(crate) type Block = (usize, u64);
/// (rank, backend, medium) of one publisher.
pub(crate) type Lane = (u32, String, String);

#[derive(Clone, Default)]
struct Name {
    /// Lane → copies, and the blocks that the name denotes there.
    lanes: BTreeMap<Lane, (u32, BTreeSet<Block>)>,
    /// Blocks of a removed name.
    dead: BTreeSet<Block>,
    latest: Option<Block>,
}

#[derive(Clone)]
struct Orphan {
    parent: u64,
    names: Vec<u64>,
    locals: Vec<u64>,
    lane: Lane,
    removed: Vec<u64>,
}

/// What the model knows of a publisher.
#[derive(Clone, Default)]
pub(crate) struct Publisher {
    pub(crate) instance: String,
    pub(crate) rank: u32,
    pub(crate) pool: bool,
    names: HashMap<u64, Name>,
    orphans: Vec<Orphan>,
}

/// One instance's answer, in blocks.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) longest: u32,
    pub(crate) media: BTreeMap<String, u32>,
    pub(crate) ranks: BTreeMap<u32, u32>,
}

/// The whole fleet.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) publishers: Vec<Option<Publisher>>,
    parents: HashMap<Block, u64>,
    seed: u64,
}

/// Which owners count in a query.
#[derive(Clone, Default, Debug)]
pub(crate) struct Filter {
    pub(crate) instance: Option<String>,
    pub(crate) media: Option<BTreeSet<String>>,
    pub(crate) rank: Option<u32>,
}

impl Publisher {
    pub(crate) fn new(instance: &str, rank: u32, pool: bool) -> Self {
        Self { instance: instance.to_owned(), rank, pool, ..Self::default() }
    }
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    fn publisher(&mut self, at: usize) -> &mut Publisher {
        self.publishers[at].as_mut().expect("registered")
    }

    fn known(&self, at: usize, name: u64) -> Option<Block> {
        self.publishers[at].as_ref()?.names.get(&name)?.latest
    }

    /// Every block that a name denotes.
    pub(crate) fn denotes(&self, at: usize, name: u64) -> BTreeSet<Block> {
        let Some(name) = self.publishers[at].as_ref().and_then(|publisher| publisher.names.get(&name)) else {
            return BTreeSet::new();
        };
        name.lanes
            .values()
            .flat_map(|(_, blocks)| blocks.iter().copied())
            .chain(name.dead.iter().copied())
            .collect()
    }

    /// Stores blocks of tokens. `context` is that of a root event; `named` is the one that the event names.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn store(
        &mut self,
        at: usize,
        lane: &Lane,
        parent: Option<u64>,
        names: &[u64],
        locals: &[u64],
        context: usize,
        named: Option<usize>,
    ) {
        let distinct: BTreeSet<u64> = names.iter().copied().collect();
        if distinct.len() != names.len() || parent.is_some_and(|parent| distinct.contains(&parent)) {
            return;
        }
        let fits = |block: &Block| named.is_none_or(|named| named == block.0);
        let known = |latest: Block, parent: u64| {
            let other = || self.denotes(at, parent).into_iter().find(fits).unwrap_or(latest);
            if fits(&latest) { latest } else { other() }
        };
        let above = parent.map(|parent| self.known(at, parent).map(|latest| known(latest, parent)));
        let above = match (above, parent) {
            (Some(None), Some(parent)) => {
                let (names, locals) = (names.to_vec(), locals.to_vec());
                let orphan = Orphan { parent, names, locals, lane: lane.clone(), removed: Vec::new() };
                self.publisher(at).orphans.push(orphan);
                return;
            }
            (above, _) => above.flatten(),
        };
        if above.is_some_and(|block| self.stands_above(at, names, block)) {
            return;
        }
        let context = above.map_or(context, |(context, _)| context);
        let mut seq = above.map(|(_, seq)| seq);
        for (name, local) in names.iter().zip(locals) {
            let next = kvatlas::index::hash::next(seq, *local, self.seed);
            if let Some(seq) = seq {
                self.parents.insert((context, next), seq);
            }
            self.copy(at, lane, *name, (context, next));
            seq = Some(next);
        }
        for name in names {
            self.adopt(at, *name);
        }
    }

    fn stands_above(&self, at: usize, names: &[u64], block: Block) -> bool {
        names.iter().any(|name| self.known(at, *name).is_some_and(|other| self.is_ancestor(other, block)))
    }

    fn adopt(&mut self, at: usize, name: u64) {
        while let Some(index) = self.publisher(at).orphans.iter().position(|orphan| orphan.parent == name) {
            let orphan = self.publisher(at).orphans.remove(index);
            self.store(at, &orphan.lane, Some(name), &orphan.names, &orphan.locals, 0, None);
            for removed in &orphan.removed {
                self.remove(at, std::slice::from_ref(&orphan.lane), *removed, None);
            }
        }
    }

    fn is_ancestor(&self, block: Block, from: Block) -> bool {
        let mut at = from;
        while at != block {
            let Some(parent) = self.parents.get(&at) else { return false };
            at = (at.0, *parent);
        }
        true
    }

    fn copy(&mut self, at: usize, lane: &Lane, name: u64, block: Block) {
        let name = self.publisher(at).names.entry(name).or_default();
        name.dead.clear();
        let entry = name.lanes.entry(lane.clone()).or_default();
        entry.0 += 1;
        entry.1.insert(block);
        name.latest = Some(block);
    }

    /// Stores blocks by their standard hashes.
    pub(crate) fn store_by_hash(&mut self, at: usize, lane: &Lane, hashes: &[u64], context: usize) {
        for hash in hashes {
            self.copy(at, lane, *hash, (context, *hash));
        }
        for hash in hashes {
            self.adopt(at, *hash);
        }
    }

    /// Blocks that already have a name now also live on `lane`: one copy, wherever the name stands.
    pub(crate) fn placeholder(&mut self, at: usize, lane: &Lane, names: &[u64]) {
        for name in names {
            let blocks = self.denotes(at, *name);
            if blocks.is_empty() {
                continue;
            }
            let name = self.publisher(at).names.entry(*name).or_default();
            name.dead.clear();
            let entry = name.lanes.entry(lane.clone()).or_default();
            entry.0 += 1;
            entry.1.extend(blocks);
        }
    }

    /// One copy less on each of the lanes; returns whether any of them had the name.
    pub(crate) fn remove(&mut self, at: usize, lanes: &[Lane], name: u64, left: Option<u32>) -> bool {
        let mut any = false;
        for lane in lanes {
            any |= self.remove_one(at, lane, name, left);
        }
        any
    }

    fn remove_one(&mut self, at: usize, lane: &Lane, number: u64, left: Option<u32>) -> bool {
        let publisher = self.publisher(at);
        if let Some(name) = publisher.names.get_mut(&number)
            && let Some((count, blocks)) = name.lanes.get_mut(lane)
        {
            *count = left.unwrap_or(*count - 1);
            if *count == 0 {
                let blocks = blocks.clone();
                name.lanes.remove(lane);
                if name.lanes.is_empty() {
                    name.dead = blocks;
                }
            }
            return true;
        }
        let waiting = publisher.orphans.iter_mut().find(|orphan| {
            orphan.lane == *lane && orphan.names.contains(&number) && !orphan.removed.contains(&number)
        });
        match waiting {
            Some(orphan) => {
                if left.is_none_or(|left| left == 0) {
                    orphan.removed.push(number);
                }
                true
            }
            None => false,
        }
    }

    /// Lanes on which a publisher ever stored, known to the model.
    pub(crate) fn lanes(&self, at: usize) -> BTreeSet<Lane> {
        let publisher = self.publishers[at].as_ref().expect("registered");
        let named = publisher.names.values().flat_map(|name| name.lanes.keys().cloned());
        named.chain(publisher.orphans.iter().map(|orphan| orphan.lane.clone())).collect()
    }

    /// Nothing is held any more on lanes that `on` accepts.
    pub(crate) fn clear(&mut self, at: usize, on: impl Fn(&Lane) -> bool) {
        let publisher = self.publisher(at);
        publisher.orphans.retain(|orphan| !on(&orphan.lane));
        let names: Vec<u64> = publisher.names.keys().copied().collect();
        for name in names {
            let lanes: Vec<Lane> =
                self.publisher(at).names[&name].lanes.keys().filter(|lane| on(lane)).cloned().collect();
            for lane in lanes {
                self.remove_one(at, &lane, name, Some(0));
            }
        }
    }

    /// Blocks held, counted once an owner.
    pub(crate) fn held(&self, at: usize) -> usize {
        let Some(publisher) = &self.publishers[at] else { return 0 };
        let held: BTreeSet<(Lane, Block)> = publisher
            .names
            .values()
            .flat_map(|name| name.lanes.iter())
            .flat_map(|(lane, (_, blocks))| blocks.iter().map(|block| (lane.clone(), *block)))
            .collect();
        held.len()
    }

    /// (instance, rank unless a pool, medium) → the blocks held.
    fn owners(&self) -> HashMap<(String, Option<u32>, String), BTreeSet<Block>> {
        let mut owners: HashMap<_, BTreeSet<Block>> = HashMap::new();
        for publisher in self.publishers.iter().flatten() {
            for name in publisher.names.values() {
                for (lane, (_, blocks)) in &name.lanes {
                    let rank = (!publisher.pool).then_some(lane.0);
                    owners
                        .entry((publisher.instance.clone(), rank, lane.2.clone()))
                        .or_default()
                        .extend(blocks);
                }
            }
        }
        owners
    }

    /// Walks each path; the answers per path and instance.
    pub(crate) fn query(
        &self,
        context: usize,
        paths: &[Vec<u64>],
        filter: &Filter,
    ) -> Vec<BTreeMap<String, Hit>> {
        let owners = self.owners();
        let counts = |(instance, rank, medium): &(String, Option<u32>, String)| {
            filter.instance.as_ref().is_none_or(|only| only == instance)
                && filter.media.as_ref().is_none_or(|media| media.contains(medium))
                && filter.rank.is_none_or(|only| *rank == Some(only))
        };
        let owners: Vec<_> = owners.iter().filter(|(owner, _)| counts(owner)).collect();
        let instances: BTreeSet<&String> = owners.iter().map(|((instance, ..), _)| instance).collect();
        let answer = |path: &Vec<u64>| {
            let mut hits = BTreeMap::new();
            for instance in &instances {
                let own: Vec<_> = owners.iter().filter(|((of, ..), _)| of == *instance).collect();
                let mut hit = Hit::default();
                for hash in path {
                    let holders: Vec<_> =
                        own.iter().filter(|(_, blocks)| blocks.contains(&(context, *hash))).collect();
                    if holders.is_empty() {
                        break;
                    }
                    hit.longest += 1;
                    let media: BTreeSet<&String> = holders.iter().map(|((_, _, medium), _)| medium).collect();
                    let ranks: BTreeSet<u32> = holders.iter().filter_map(|((_, rank, _), _)| *rank).collect();
                    for medium in media {
                        *hit.media.entry(medium.clone()).or_default() += 1;
                    }
                    for rank in ranks {
                        *hit.ranks.entry(rank).or_default() += 1;
                    }
                }
                if hit.longest > 0 {
                    hits.insert((*instance).clone(), hit);
                }
            }
            hits
        };
        paths.iter().map(answer).collect()
    }
}
