//! Walks a prefix: for each instance, how many blocks any of its owners holds in a row from the first, and how
//! many of those on which medium and rank.
//!
//! The cost is per run on the path, not per block: equal rolling hashes at one position mean equal stretches
//! before it. Hashes of the prompt are computed as far as runs go, so a prompt whose first block misses costs
//! one hash.

use super::answer::{Answer, Found, Whole};
use super::context::{Context, Owner};
use super::cover::Stretch;
use super::covers::{Covers, Holders};
use super::hash::Path;
use super::run::{Place, Run, Runs};
use super::shard::Shard;
use std::ops::Range;

/// Blocks hashed before the first comparison with a run; each further step takes four times as many.
const FIRST_STEP: usize = 16;
/// Owners that are compared at once.
const AT_ONCE: usize = 8;

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
pub(super) struct Counting<'a> {
    pub(super) owners: &'a [Option<Owner>],
    filter: Filter,
    /// Nobody is filtered out.
    everybody: bool,
}

impl<'a> Counting<'a> {
    pub(super) fn owner(&self, number: u32) -> Option<&'a Owner> {
        self.owners[number as usize].as_ref()
    }

    pub(super) fn takes(&self, number: u32) -> bool {
        self.everybody || self.owner(number).is_some_and(|owner| self.filter.takes(owner))
    }

    /// The covers of a run that may count at all.
    fn range(&self, instances: &[u32]) -> Range<usize> {
        match self.filter.instance {
            None => 0..instances.len(),
            Some(instance) => {
                let from = instances.partition_point(|other| *other < instance);
                from..instances.partition_point(|other| *other <= instance)
            }
        }
    }
}

/// Where the covers of the instance at an index end.
fn group_end(instances: &[u32], at: usize) -> usize {
    let Some(first) = instances.get(at) else { return at };
    at + instances[at..].iter().take_while(|instance| *instance == first).count()
}

/// How many owners two lists have in common from their starts on.
fn equal_owners(one: &[u32], other: &[u32]) -> usize {
    let (many, _) = one.as_chunks::<AT_ONCE>();
    let (others, _) = other.as_chunks::<AT_ONCE>();
    let equal = |one: &[u32; AT_ONCE], other: &[u32; AT_ONCE]| {
        one.iter().zip(other).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
    };
    let done = many.iter().zip(others).take_while(|(one, other)| equal(one, other)).count() * AT_ONCE;
    done + one[done..].iter().zip(&other[done..]).take_while(|(one, other)| one == other).count()
}

/// Memory of walks, reused.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) answer: Answer,
    other: Answer,
    longer: Answer,
    /// Who holds all blocks walked so far, as behind the hits of the answer, and the hits that is; kept from the second
    /// stretch on.
    alive: Vec<u32>,
    hits: Vec<u32>,
    /// Where they begin: who stood before has died.
    first_alive: usize,
    pub(super) group: Vec<u32>,
    pub(super) spans: Vec<(u16, u16)>,
}

impl Shard {
    /// Walks `path` in the contexts with these numbers; [`Shard::answer`] then has, per instance, the longer walk.
    #[inline]
    pub fn query(&mut self, contexts: &[u32], path: &mut Path<'_>, filter: Filter) {
        let Self { walk: scratch, contexts: known, runs, .. } = self;
        let [number] = contexts else { return self.query_many(contexts, path, filter) };
        scratch.walk_in(known.get(*number), runs, path, filter);
    }

    #[inline(never)]
    fn query_many(&mut self, contexts: &[u32], path: &mut Path<'_>, filter: Filter) {
        let Self { walk: scratch, contexts: known, runs, .. } = self;
        scratch.answer.clear();
        for (at, number) in contexts.iter().enumerate() {
            let context = known.get(*number);
            if at > 0 {
                std::mem::swap(&mut scratch.answer, &mut scratch.other);
            }
            scratch.walk_in(context, runs, path, filter);
            if let Some(whole) = scratch.answer.whole {
                scratch.answer.unfold(runs.get(whole.run).covers.holders());
            }
            scratch.answer.tally_all(&context.owners);
            if at > 0 {
                let Scratch { answer, other, longer, .. } = scratch;
                longer.longer(other, answer);
                std::mem::swap(answer, longer);
            }
        }
    }

    /// The answer of the last query; to be read before anything else is applied.
    pub fn answer(&self) -> Found<'_> {
        let answer = &self.walk.answer;
        let owners = answer.context.and_then(|number| self.contexts.try_get(number));
        let owners = owners.map_or(&[][..], |context| &context.owners);
        let run = answer.whole.map(|whole| self.runs.try_get(whole.run));
        let holders =
            run.map_or(answer.holders(), |run| run.map_or(Holders::default(), |run| run.covers.holders()));
        Found { answer, owners, holders }
    }

    /// A copy of the answer, to be put back after a further query.
    pub fn keep_answer(&self) -> Answer {
        self.walk.answer.clone()
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

/// Where the block of a path at depth `base` stands, when there is such a block.
#[inline]
fn find(context: &Context, runs: &Runs, path: &mut Path<'_>, base: u32) -> Option<Place> {
    let base = base as usize;
    if base >= path.blocks() {
        return None;
    }
    context.find(path.first(base + 1)[base], runs)
}

/// Whether the commonest is the case: all of a path stands in a run from a position on, and each owner, the only
/// one of an instance, holds all of it. Says no, too, where that would need a closer look.
#[inline]
fn is_whole(run: &Run, at: u16, path: &Path<'_>) -> bool {
    let blocks = path.blocks();
    let Some(last) = path.known(blocks).and_then(|asked| asked.get(blocks - 1)) else { return false };
    let end = usize::from(at) + blocks;
    // equal hashes there mean equal blocks before
    run.hashes.get(end - 1) == Some(last)
        && run.covers.is_plain()
        && run.covers.surely_hold(Stretch { start: at, end: end as u16 })
}

/// What the path from depth `base` on shares with a run from a position on; at least one block.
#[inline]
fn stretch_at(run: &Run, at: u16, path: &mut Path<'_>, base: u32) -> Stretch {
    let base = base as usize;
    let stretch = &run.hashes[usize::from(at)..];
    let most = stretch.len().min(path.blocks() - base);
    let length = match path.known(base + most) {
        // equal hashes there mean equal blocks before
        Some(asked) if stretch[most - 1] == asked[most - 1 + base] => most,
        _ => common_length(run, usize::from(at), most, path, base),
    };
    Stretch { start: at, end: at + length as u16 }
}

/// Blocks that the run from `from` on and the path from `base` on have in common, of at most `most`; at least 1.
fn common_length(run: &Run, from: usize, most: usize, path: &mut Path<'_>, base: usize) -> usize {
    let stretch = &run.hashes[from..];
    let mut step = if path.is_known() { most } else { FIRST_STEP };
    let mut equal = 1;
    while equal < most {
        let until = most.min(equal + step);
        let asked = &path.first(base + until)[base..];
        if stretch[until - 1] != asked[until - 1] {
            return differing(run, from, asked, equal..until - 1);
        }
        equal = until;
        step *= 4;
    }
    equal
}

/// The first of the positions `between` (or its end) at which a run from `from` on differs from what is asked.
///
/// Where something else goes on behind a block of the run, that block is pinned: the path left the run at a pin, if
/// it goes on at all.
fn differing(run: &Run, from: usize, asked: &[u64], between: Range<usize>) -> usize {
    let stretch = &run.hashes[from..];
    let Range { start: mut low, end: mut high } = between;
    if low == high || stretch[low] != asked[low] {
        return low;
    }
    let pins = run.pins.between(from + low, from + high);
    let equal = |position: usize| stretch[position] == asked[position];
    let passed = partition_point(0..pins.len(), |at| equal(usize::from(pins[at].0) - from));
    if let Some((pin, _)) = passed.checked_sub(1).and_then(|last| pins.get(last)) {
        low = usize::from(*pin) + 1 - from;
        if low < high && !equal(low) {
            return low;
        }
    }
    if let Some((pin, _)) = pins.get(passed) {
        high = usize::from(*pin) - from;
    }
    partition_point(low..high, equal)
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
    /// Walks a path in a context; a miss is told from a hit before anything else is done.
    #[inline]
    fn walk_in(&mut self, context: &Context, runs: &Runs, path: &mut Path<'_>, filter: Filter) {
        self.answer.clear();
        self.answer.context = Some(context.number);
        let Some(place) = find(context, runs, path, 0) else { return };
        let everybody = filter.is_all() && context.retired == 0;
        if everybody && is_whole(runs.get(place.run), place.at, path) {
            self.answer.whole = Some(Whole { run: place.run, blocks: path.blocks() as u32 });
        } else {
            self.walk(place, context, runs, path, filter);
        }
    }

    #[inline(never)]
    fn walk(&mut self, place: Place, context: &Context, runs: &Runs, path: &mut Path<'_>, filter: Filter) {
        let run = runs.get(place.run);
        let stretch = stretch_at(run, place.at, path, 0);
        let (covers, base) = (&run.covers, u32::from(stretch.end - stretch.start));
        let everybody = filter.is_all() && context.retired == 0;
        let counting = Counting { owners: &context.owners, filter, everybody };
        if everybody && covers.is_plain() && covers.all_hold(stretch) {
            self.answer.whole = Some(Whole { run: place.run, blocks: base });
            // nearly always that is all
            if base as usize == path.blocks() || covers.is_empty() {
                return;
            }
        } else if !self.begin(covers, stretch, counting) {
            return;
        }
        self.walk_on(covers, base, context, runs, path, counting);
    }

    /// Goes on behind the first `base` blocks, which stand in one run with these covers.
    #[inline(never)]
    fn walk_on(
        &mut self,
        first: &Covers,
        mut base: u32,
        context: &Context,
        runs: &Runs,
        path: &mut Path<'_>,
        counting: Counting<'_>,
    ) {
        let mut listed = false;
        while let Some(place) = find(context, runs, path, base) {
            let run = runs.get(place.run);
            let (covers, stretch) = (&run.covers, stretch_at(run, place.at, path, base));
            let end = base + u32::from(stretch.end - stretch.start);
            if let Some(whole) = &mut self.answer.whole {
                if covers.is_plain()
                    && covers.holders().owners == first.holders().owners
                    && covers.all_hold(stretch)
                {
                    (whole.blocks, base) = (end, end);
                    continue;
                }
                self.answer.unfold(first.holders());
            }
            if !listed {
                self.list_alive(base);
                listed = true;
            }
            self.follow(covers, stretch, base, counting);
            if self.alive.len() == self.first_alive {
                return;
            }
            base = end;
        }
        if listed {
            self.answer.stop(&self.hits[self.first_alive..], base);
        }
    }

    /// Credits the first stretch of a walk, which not everybody holds who counts, or not simply; returns whether any
    /// instance holds all of it.
    fn begin(&mut self, covers: &Covers, stretch: Stretch, counting: Counting<'_>) -> bool {
        let (holders, length) = (covers.holders(), stretch.end - stretch.start);
        if counting.everybody && covers.is_plain() {
            let held = covers.firsts(0..covers.len()).map(|span| u32::from(within(span, stretch)));
            self.answer.take_some(holders, held);
            return self.answer.longest.contains(&u32::from(length));
        }
        let Range { start: mut at, end } = counting.range(holders.instances);
        let mut alive = false;
        while at < end {
            let group = at..group_end(holders.instances, at);
            at = group.end;
            let held = self.credit(covers, group, stretch, None, 0, counting);
            if held > 0
                && let Some(longest) = self.answer.longest.last_mut()
            {
                *longest = u32::from(held);
                alive |= held == length;
            }
        }
        alive
    }

    /// Lists who holds all `base` blocks walked so far.
    fn list_alive(&mut self, base: u32) {
        let Answer { behind, longest, .. } = &self.answer;
        self.alive.resize(behind.len(), 0);
        self.hits.resize(behind.len(), 0);
        let (owners, hits) = (self.alive.as_mut_slice(), self.hits.as_mut_slice());
        let mut alive = 0;
        for (hit, (behind, longest)) in behind.iter().zip(longest).enumerate() {
            // who does not is written over by the next
            owners[alive] = *behind;
            hits[alive] = hit as u32;
            alive += usize::from(*longest == base);
        }
        self.alive.truncate(alive);
        self.hits.truncate(alive);
        self.first_alive = 0;
    }

    /// Credits a further stretch, at depth `base`, to those alive, and drops those who do not hold all of it.
    ///
    /// Both they and the covers are in the order of instances, and mostly the same owners: those are kept many at
    /// a time.
    fn follow(&mut self, covers: &Covers, stretch: Stretch, base: u32, counting: Counting<'_>) {
        let (Holders { instances, owners }, length) = (covers.holders(), stretch.end - stretch.start);
        let plain = counting.everybody && covers.is_plain();
        let (mut read, mut write) = (self.first_alive, self.first_alive);
        let Range { start: mut at, end } = counting.range(instances);
        while read < self.alive.len() && at < end {
            if write == self.first_alive {
                // nobody stays before these, who may stay where they are
                (self.first_alive, write) = (read, read);
            }
            if plain && self.alive[read] == owners[at] {
                let same = equal_owners(&self.alive[read..], &owners[at..]);
                write = self.keep(read, write, covers, at..at + same, stretch, base);
                (read, at) = (read + same, at + same);
                continue;
            }
            let hit = self.hits[read];
            let (own, other) = (self.answer.instances[hit as usize], instances[at]);
            if own > other {
                at += instances[at..end].partition_point(|instance| *instance < own);
                continue;
            }
            let mut held = 0;
            if own == other {
                let group = at..group_end(instances, at);
                at = group.end;
                held = self.credit(covers, group, stretch, Some(hit), base, counting);
            }
            if held == length {
                self.alive[write] = self.answer.behind[hit as usize];
                self.hits[write] = hit;
                write += 1;
            } else {
                self.answer.longest[hit as usize] = base + u32::from(held);
            }
            read += 1;
        }
        self.answer.stop(&self.hits[read..], base);
        self.alive.truncate(write);
        self.hits.truncate(write);
    }

    /// [`Scratch::follow`] for those alive from `read` on whose only owners' covers these are; moves those who stay
    /// to `write`, and returns the end of what is written.
    fn keep(
        &mut self,
        read: usize,
        mut write: usize,
        covers: &Covers,
        which: Range<usize>,
        stretch: Stretch,
        base: u32,
    ) -> usize {
        let many = which.len();
        let all = many == covers.len() && covers.all_hold(stretch);
        if all || covers.hold(which.clone(), stretch) {
            if read != write {
                self.alive.copy_within(read..read + many, write);
                self.hits.copy_within(read..read + many, write);
            }
            return write + many;
        }
        let length = stretch.end - stretch.start;
        let (alive, hits) = (self.alive.as_mut_slice(), self.hits.as_mut_slice());
        let longest = self.answer.longest.as_mut_slice();
        for (at, span) in (read..).zip(covers.firsts(which)) {
            let (held, hit) = (within(span, stretch), hits[at]);
            longest[hit as usize] = base + u32::from(held);
            alive[write] = alive[at];
            hits[write] = hit;
            write += usize::from(held == length);
        }
        write
    }
}

/// How many blocks of a stretch a span holds from the stretch's start on.
fn within(span: Stretch, stretch: Stretch) -> u16 {
    let held = span.end.min(stretch.end).saturating_sub(stretch.start);
    if span.start <= stretch.start { held } else { 0 }
}
