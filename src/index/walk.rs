//! Walks a prefix: for each instance, how many blocks any of its owners holds in a row from the first, and how
//! many of those on which medium and rank.
//!
//! The cost is per run on the path, not per block: equal rolling hashes at one position mean equal stretches
//! before it. Hashes of the prompt are computed as far as runs go, so a prompt whose first block misses costs
//! one hash.

use super::answer::Answer;
use super::context::{Context, Owner};
use super::cover::Cover;
use super::hash::Path;
use super::run::{Place, Run, Runs};
use super::shard::Shard;

/// Blocks hashed before the first comparison with a run; each further step takes four times as many.
const FIRST_STEP: usize = 16;

/// Which owners count.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Only this instance.
    pub instance: Option<u32>,
    /// Only these media, as a set of numbers.
    pub media: u64,
    /// Only engines of this rank.
    pub rank: Option<u32>,
}

impl Filter {
    /// Everybody counts.
    pub const ALL: Filter = Filter { instance: None, media: u64::MAX, rank: None };

    fn is_all(&self) -> bool {
        self.instance.is_none() && self.media == u64::MAX && self.rank.is_none()
    }

    fn takes(&self, owner: &Owner) -> bool {
        !owner.retired
            && self.media >> owner.medium & 1 == 1
            && self.instance.is_none_or(|instance| instance == owner.instance)
            && self.rank.is_none_or(|rank| owner.rank == Some(rank))
    }
}

/// Whose covers count in a walk.
#[derive(Clone, Copy)]
struct Counting<'a> {
    owners: &'a [Option<Owner>],
    filter: Filter,
    /// Nobody is filtered out.
    everybody: bool,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    walk: u32,
    hit: u32,
}

/// Memory of walks, reused.
#[derive(Default)]
pub(super) struct Scratch {
    answer: Answer,
    other: Answer,
    /// Per instance: its hit in the walk that it was last seen in.
    seen: Vec<Seen>,
    walk: u32,
    group: Vec<(u8, Option<u32>, u32)>,
    spans: Vec<(u16, u16)>,
}

impl Shard {
    /// Walks `path` in the contexts with these numbers; [`Shard::answer`] then has, per instance, the longer walk.
    pub fn query(&mut self, contexts: &[u32], path: &mut Path<'_>, filter: Filter) {
        let Self { walk: scratch, contexts: known, runs, instances, .. } = self;
        scratch.answer.clear();
        scratch.seen.resize(instances.len(), Seen::default());
        for (at, context) in contexts.iter().enumerate() {
            if at == 0 {
                scratch.walk(known.get(*context), runs, path, filter);
            } else {
                std::mem::swap(&mut scratch.answer, &mut scratch.other);
                scratch.answer.clear();
                scratch.walk(known.get(*context), runs, path, filter);
                let Scratch { answer, other, .. } = scratch;
                answer.take_longer(other);
            }
        }
    }

    /// The answer of the last query.
    pub fn answer(&self) -> &Answer {
        &self.walk.answer
    }

    /// Puts an answer back that a further query replaced.
    pub fn restore_answer(&mut self, answer: Answer) {
        self.walk.answer = answer;
    }

    /// Number of the context with this key, when anything is known of it.
    pub fn find_context(&self, key: &super::context::ContextKey) -> Option<u32> {
        self.contexts.number(key)
    }
}

/// Blocks that the run from `place` on and the path from `base` on have in common; at least 1.
fn common_length(run: &Run, place: Place, path: &mut Path<'_>, base: usize) -> usize {
    let stretch = &run.hashes[usize::from(place.at)..];
    let most = stretch.len().min(path.blocks() - base);
    let (mut equal, mut step) = (1, FIRST_STEP);
    while equal < most {
        let until = most.min(equal + step);
        let asked = &path.first(base + until)[base..];
        if stretch[until - 1] == asked[until - 1] {
            equal = until;
            step *= 4;
            continue;
        }
        let between = equal..until - 1;
        let differing = partition_point(between, |at| stretch[at] == asked[at]);
        return differing;
    }
    equal
}

fn partition_point(range: std::ops::Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl Scratch {
    fn walk(&mut self, context: &Context, runs: &Runs, path: &mut Path<'_>, filter: Filter) {
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 {
            self.seen.fill(Seen::default());
            self.walk = 1;
        }
        let everybody = filter.is_all() && context.retired == 0;
        let counting = Counting { owners: &context.owners, filter, everybody };
        let mut base = 0;
        while base < path.blocks() {
            let Some(place) = context.find(path.first(base + 1)[base]) else { break };
            let run = runs.get(place.run);
            let length = common_length(run, place, path, base);
            let alive = match base {
                0 => self.tally_first(run, place.at, length as u16, path.blocks() == length, counting),
                _ => self.tally(run, place.at, length as u16, base as u32, counting),
            };
            if !alive {
                break;
            }
            base += length;
        }
    }

    /// The same for the first stretch, where an instance is met once; `last` when no other can follow.
    fn tally_first(&mut self, run: &Run, from: u16, length: u16, last: bool, counting: Counting<'_>) -> bool {
        let covers = run.covers.as_slice();
        if !counting.everybody || covers.windows(2).any(|pair| pair[0].instance == pair[1].instance) {
            return self.tally(run, from, length, 0, counting);
        }
        self.answer.reserve(covers.len());
        let mut alive = false;
        for cover in covers {
            let held = cover.extent(from).min(from + length) - from;
            if held > 0 {
                let hit = self.answer.start_with(cover.instance, u32::from(held), cover.medium, cover.rank());
                if !last {
                    self.seen[cover.instance as usize] = Seen { walk: self.walk, hit };
                }
                alive |= held == length;
            }
        }
        alive
    }

    /// Credits the stretch `from..from + length` of a run that lies at depth `base`; returns whether any
    /// instance holds all of it.
    fn tally(&mut self, run: &Run, from: u16, length: u16, base: u32, counting: Counting<'_>) -> bool {
        let to = from + length;
        let mut alive = false;
        let (covers, mut at) = (run.covers.as_slice(), 0);
        while let Some(first) = covers.get(at) {
            let (instance, start) = (first.instance, at);
            at += 1;
            while covers.get(at).is_some_and(|cover| cover.instance == instance) {
                at += 1;
            }
            if base > 0 && !self.is_alive(instance, base) {
                continue;
            }
            if counting.everybody && at == start + 1 {
                alive |= self.credit_one(first, from, to, base) == length;
                continue;
            }
            let held = self.credit_group(&covers[start..at], from, to, counting, base);
            if held > 0 {
                let hit = self.hit(instance);
                self.answer.hit_mut(hit).longest = base + u32::from(held);
                alive |= held == length;
            }
        }
        alive
    }

    fn is_alive(&mut self, instance: u32, base: u32) -> bool {
        let seen = self.seen[instance as usize];
        seen.walk == self.walk && self.answer.hit_mut(seen.hit).longest == base
    }

    fn hit(&mut self, instance: u32) -> u32 {
        let seen = &mut self.seen[instance as usize];
        if seen.walk != self.walk {
            *seen = Seen { walk: self.walk, hit: self.answer.start(instance) };
        }
        seen.hit
    }

    /// The only owner of an instance here; the way of nearly every walk.
    fn credit_one(&mut self, cover: &Cover, from: u16, to: u16, base: u32) -> u16 {
        let held = cover.extent(from).min(to) - from;
        if held == 0 {
            return 0;
        }
        let blocks = u32::from(held);
        let hit = self.hit(cover.instance);
        self.answer.hit_mut(hit).longest = base + blocks;
        self.answer.add_medium(hit, cover.medium, blocks);
        if let Some(rank) = cover.rank() {
            self.answer.add_rank(hit, rank, blocks);
        }
        held
    }

    /// Several owners of one instance: they take turns, and a medium or rank counts their union.
    fn credit_group(
        &mut self,
        group: &[Cover],
        from: u16,
        to: u16,
        counting: Counting<'_>,
        base: u32,
    ) -> u16 {
        let Counting { owners, filter, .. } = counting;
        let takes =
            |cover: &&Cover| owners[cover.owner as usize].as_ref().is_some_and(|owner| filter.takes(owner));
        let mut end = from;
        loop {
            let further = group.iter().filter(takes).map(|cover| cover.extent(end)).max().unwrap_or(end);
            if further == end || end >= to {
                break;
            }
            end = further;
        }
        let end = end.min(to);
        if end == from {
            return 0;
        }
        let hit = self.hit(group[0].instance);
        self.answer.hit_mut(hit).longest = base;
        let mut members = std::mem::take(&mut self.group);
        members.clear();
        for (at, cover) in group.iter().enumerate().filter(|(_, cover)| takes(cover)) {
            if let Some(owner) = &owners[cover.owner as usize] {
                members.push((owner.medium, owner.rank, at as u32));
            }
        }
        for (at, (medium, rank, _)) in members.iter().enumerate() {
            if !members[..at].iter().any(|(other, ..)| other == medium) {
                let of = members.iter().filter(|(other, ..)| other == medium);
                let blocks = self.union(of.map(|(.., cover)| &group[*cover as usize]), from, end);
                self.answer.add_medium(hit, *medium, blocks);
            }
            if let Some(rank) = rank
                && !members[..at].iter().any(|(_, other, _)| *other == Some(*rank))
            {
                let of = members.iter().filter(|(_, other, _)| *other == Some(*rank));
                let blocks = self.union(of.map(|(.., cover)| &group[*cover as usize]), from, end);
                self.answer.add_rank(hit, *rank, blocks);
            }
        }
        self.group = members;
        end - from
    }

    /// Positions in `from..to` that any of the covers holds.
    fn union<'a>(&mut self, mut covers: impl Iterator<Item = &'a Cover>, from: u16, to: u16) -> u32 {
        let Some(first) = covers.next() else { return 0 };
        let Some(second) = covers.next() else { return first.count(from, to) };
        self.spans.clear();
        for cover in [first, second].into_iter().chain(covers) {
            let clipped = cover.spans().map(|span| (span.start.max(from), span.end.min(to)));
            self.spans.extend(clipped.filter(|(start, end)| start < end));
        }
        self.spans.sort_unstable();
        let (mut blocks, mut done) = (0, from);
        for (start, end) in &self.spans {
            if *end > done {
                blocks += u32::from(*end - done.max(*start));
                done = *end;
            }
        }
        blocks
    }
}
