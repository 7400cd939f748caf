//! What a walk found: per instance the blocks walked, and within them the blocks per medium and per rank.
//!
//! Nearly always one owner of an instance held all of its walk: then medium and rank are the owner's, and are looked
//! up when somebody asks. Only where several owners took turns, or one held what another did, they are tallied.

use super::context::Owner;
use super::covers::Holders;

/// Media that every answer names: GPU, CPU, DISK, EXTERNAL by their numbers.
const COMMON: usize = 4;
/// Set in what stands for an owner where a tally stands instead.
const TALLIED: u32 = 1 << 31;

/// One instance's part of an answer, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Instance, numbered within the shard.
    pub instance: u32,
    /// Blocks walked.
    pub longest: u32,
}

/// Blocks on each medium and rank.
#[derive(Clone, Copy, Debug)]
struct Tally {
    media: [u32; COMMON],
    first_rank: Option<(u32, u32)>,
    /// Whether more of it stands beside the tallies.
    more: bool,
}

/// All owners of one run, each the only one of its instance, held so many blocks: they stand in the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) run: u32,
    pub(super) blocks: u32,
}

/// What a walk found; [`Found`] reads it.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The context of the owners, once somebody walked there.
    pub(super) context: Option<u32>,
    /// Then there is nothing else.
    pub(super) whole: Option<Whole>,
    /// Instances, ascending.
    pub(super) instances: Vec<u32>,
    /// Of each its only owner, or the number of a tally.
    pub(super) behind: Vec<u32>,
    /// Blocks walked, of each.
    pub(super) longest: Vec<u32>,
    tallies: Vec<Tally>,
    /// (tally, medium, blocks) beyond the common media.
    media: Vec<(u32, u8, u32)>,
    /// (tally, rank, blocks) beyond the first rank.
    ranks: Vec<(u32, u32, u32)>,
}

impl Answer {
    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.context = None;
        self.whole = None;
        // what is empty already is not written to
        if self.instances.is_empty() {
            return;
        }
        self.instances.clear();
        self.behind.clear();
        self.longest.clear();
        self.tallies.clear();
        self.media.clear();
        self.ranks.clear();
    }

    /// These owners, each the only one of an instance, held so many blocks.
    pub(super) fn take_all(&mut self, holders: Holders<'_>, blocks: u32) {
        self.instances.extend_from_slice(holders.instances);
        self.behind.extend_from_slice(holders.owners);
        self.longest.resize(self.instances.len(), blocks);
    }

    /// Puts what is whole into the answer, so that it can be told apart.
    pub(super) fn unfold(&mut self, holders: Holders<'_>) {
        if let Some(whole) = self.whole.take() {
            self.take_all(holders, whole.blocks);
        }
    }

    /// The same for owners that held different numbers of blocks, or none.
    pub(super) fn take_some(&mut self, holders: Holders<'_>, blocks: impl Iterator<Item = u32>) {
        let first = self.instances.len();
        self.instances.extend_from_slice(holders.instances);
        self.behind.extend_from_slice(holders.owners);
        self.longest.extend(blocks);
        let longest = &self.longest[first..];
        // all are looked at, several at a time
        if longest.iter().map(|blocks| usize::from(*blocks == 0)).sum::<usize>() > 0 {
            self.drop_who_held_nothing(first);
        }
    }

    /// These hits were walked so far and no further.
    pub(super) fn stop(&mut self, hits: &[u32], blocks: u32) {
        let longest = self.longest.as_mut_slice();
        for hit in hits {
            longest[*hit as usize] = blocks;
        }
    }

    fn drop_who_held_nothing(&mut self, first: usize) {
        let (instances, behind) = (&mut self.instances[first..], &mut self.behind[first..]);
        let longest = &mut self.longest[first..];
        let mut kept = 0;
        for at in 0..longest.len() {
            // who held nothing is written over by the next
            (instances[kept], behind[kept], longest[kept]) = (instances[at], behind[at], longest[at]);
            kept += usize::from(longest[at] > 0);
        }
        self.instances.truncate(first + kept);
        self.behind.truncate(first + kept);
        self.longest.truncate(first + kept);
    }

    /// An instance with a tally; returns its hit.
    pub(super) fn start(&mut self, instance: u32) -> u32 {
        let tally = self.new_tally();
        self.instances.push(instance);
        self.behind.push(tally | TALLIED);
        self.longest.push(0);
        self.instances.len() as u32 - 1
    }

    fn new_tally(&mut self) -> u32 {
        self.tallies.push(Tally { media: [0; COMMON], first_rank: None, more: false });
        self.tallies.len() as u32 - 1
    }

    /// The tally of a hit, which a single owner held for `blocks` blocks if it had none yet.
    pub(super) fn tally(&mut self, hit: u32, blocks: u32, owners: &[Option<Owner>]) -> u32 {
        let owner = self.behind[hit as usize];
        if owner & TALLIED != 0 {
            return owner & !TALLIED;
        }
        let tally = self.new_tally();
        self.behind[hit as usize] = tally | TALLIED;
        if let Some(Some(owner)) = owners.get(owner as usize) {
            self.add_owner(tally, owner, blocks);
        }
        tally
    }

    /// Tallies all hits, so that they no longer need their context.
    pub(super) fn tally_all(&mut self, owners: &[Option<Owner>]) {
        for hit in 0..self.instances.len() {
            self.tally(hit as u32, self.longest[hit], owners);
        }
    }

    /// So many blocks more that this owner alone held.
    pub(super) fn add_owner(&mut self, tally: u32, owner: &Owner, blocks: u32) {
        self.add_medium(tally, owner.medium, blocks);
        if let Some(rank) = owner.rank {
            self.add_rank(tally, rank, blocks);
        }
    }

    pub(super) fn add_medium(&mut self, tally: u32, medium: u8, blocks: u32) {
        let at = &mut self.tallies[tally as usize];
        if let Some(common) = at.media.get_mut(usize::from(medium)) {
            *common += blocks;
            return;
        }
        at.more = true;
        match self.media.iter_mut().find(|(of, other, _)| *of == tally && *other == medium) {
            Some((_, _, known)) => *known += blocks,
            None => self.media.push((tally, medium, blocks)),
        }
    }

    pub(super) fn add_rank(&mut self, tally: u32, rank: u32, blocks: u32) {
        let at = &mut self.tallies[tally as usize];
        match &mut at.first_rank {
            None => at.first_rank = Some((rank, blocks)),
            Some((first, known)) if *first == rank => *known += blocks,
            Some(_) => {
                at.more = true;
                match self.ranks.iter_mut().find(|(of, other, _)| *of == tally && *other == rank) {
                    Some((_, _, known)) => *known += blocks,
                    None => self.ranks.push((tally, rank, blocks)),
                }
            }
        }
    }

    /// Of two answers, all hits of which are tallied, the longer hit of each instance; of two that are equally long
    /// that of `one`.
    pub(super) fn longer(&mut self, one: &Answer, other: &Answer) {
        self.clear();
        let (mut at, mut at_other) = (0, 0);
        loop {
            let next = one.instances.get(at);
            let next_other = other.instances.get(at_other);
            let both = next == next_other;
            match (next, next_other) {
                (None, None) => return,
                (Some(_), Some(_)) if both && one.longest[at] < other.longest[at_other] => {
                    self.copy(other, at_other);
                }
                (Some(own), Some(theirs)) if theirs < own => self.copy(other, at_other),
                (None, Some(_)) => self.copy(other, at_other),
                (Some(_), _) => self.copy(one, at),
            }
            let own_first = next.is_some_and(|own| next_other.is_none_or(|theirs| own <= theirs));
            at += usize::from(own_first);
            at_other += usize::from(both || !own_first);
        }
    }

    /// The hits, where the answer is not whole.
    pub(super) fn holders(&self) -> Holders<'_> {
        Holders { instances: &self.instances, owners: &self.behind }
    }

    fn copy(&mut self, from: &Answer, hit: usize) {
        let to = self.start(from.instances[hit]);
        self.longest[to as usize] = from.longest[hit];
        let found = Found { answer: from, owners: &[], holders: from.holders() };
        let tally = self.tallies.len() as u32 - 1;
        for (medium, blocks) in found.media(hit as u32) {
            self.add_medium(tally, medium, blocks);
        }
        for (rank, blocks) in found.ranks(hit as u32) {
            self.add_rank(tally, rank, blocks);
        }
    }
}

/// An answer, beside the owners that it names.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub(super) answer: &'a Answer,
    pub(super) owners: &'a [Option<Owner>],
    /// What the hits are.
    pub(super) holders: Holders<'a>,
}

/// Hits, one after the other.
struct Hits<'a> {
    instances: std::slice::Iter<'a, u32>,
    longest: std::slice::Iter<'a, u32>,
    whole: u32,
}

impl Iterator for Hits<'_> {
    type Item = Hit;

    fn next(&mut self) -> Option<Hit> {
        let instance = *self.instances.next()?;
        let longest = self.longest.next().copied().unwrap_or(self.whole);
        Some(Hit { instance, longest })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.instances.size_hint()
    }

    // whoever reads all hits does not ask at each of them whether the answer is whole
    #[inline]
    fn fold<A, F: FnMut(A, Hit) -> A>(self, first: A, mut with: F) -> A {
        if self.longest.as_slice().is_empty() {
            let hit = |instance: &u32| Hit { instance: *instance, longest: self.whole };
            return self.instances.map(hit).fold(first, with);
        }
        let hits = self.instances.zip(self.longest);
        hits.fold(first, |so_far, (instance, longest)| {
            with(so_far, Hit { instance: *instance, longest: *longest })
        })
    }
}

impl ExactSizeIterator for Hits<'_> {}

impl<'a> Found<'a> {
    /// The instances that hold at least the first block, ascending.
    pub fn hits(self) -> impl ExactSizeIterator<Item = Hit> + 'a {
        let whole = self.answer.whole.map_or(0, |whole| whole.blocks);
        Hits { instances: self.holders.instances.iter(), longest: self.answer.longest.iter(), whole }
    }

    /// The hit of an instance.
    pub fn find(self, instance: u32) -> Option<u32> {
        self.holders.instances.binary_search(&instance).ok().map(|at| at as u32)
    }

    /// Blocks walked of a hit.
    pub fn longest(self, hit: u32) -> u32 {
        match self.answer.whole {
            Some(whole) => whole.blocks,
            None => self.answer.longest[hit as usize],
        }
    }

    /// What is behind a hit: the number of its tally, or its owner.
    fn behind(self, hit: u32) -> Result<u32, Option<&'a Owner>> {
        let owner = self.holders.owners[hit as usize];
        if owner & TALLIED == 0 {
            return Err(self.owners.get(owner as usize).and_then(Option::as_ref));
        }
        Ok(owner & !TALLIED)
    }

    /// Blocks on the media GPU, CPU and DISK.
    pub fn common(self, hit: u32) -> [u32; 3] {
        match self.behind(hit) {
            Ok(tally) => {
                let [gpu, cpu, disk, _] = self.answer.tallies[tally as usize].media;
                [gpu, cpu, disk]
            }
            Err(owner) => {
                let on = |medium| owner.is_some_and(|owner| owner.medium == medium);
                [0, 1, 2].map(|medium| if on(medium) { self.longest(hit) } else { 0 })
            }
        }
    }

    /// (medium, blocks) for every medium with blocks.
    pub fn media(self, hit: u32) -> impl Iterator<Item = (u8, u32)> + 'a {
        let (common, rest, more) = match self.behind(hit) {
            Ok(tally) => {
                let known = &self.answer.tallies[tally as usize];
                (known.media, None, known.more.then_some(tally))
            }
            Err(owner) => ([0; COMMON], owner.map(|owner| (owner.medium, self.longest(hit))), None),
        };
        let common = common.into_iter().enumerate().map(|(medium, blocks)| (medium as u8, blocks));
        let listed = if more.is_some() { self.answer.media.as_slice() } else { &[] };
        let listed = listed.iter().filter(move |(of, ..)| Some(*of) == more);
        let listed = listed.map(|(_, medium, blocks)| (*medium, *blocks));
        common.chain(rest).chain(listed).filter(|(_, blocks)| *blocks > 0)
    }

    /// (rank, blocks) for every rank with blocks, in no order.
    pub fn ranks(self, hit: u32) -> impl Iterator<Item = (u32, u32)> + 'a {
        let (first, more) = match self.behind(hit) {
            Ok(tally) => {
                let known = &self.answer.tallies[tally as usize];
                (known.first_rank, known.more.then_some(tally))
            }
            Err(owner) => (owner.and_then(|owner| owner.rank).map(|rank| (rank, self.longest(hit))), None),
        };
        let listed = if more.is_some() { self.answer.ranks.as_slice() } else { &[] };
        let listed = listed.iter().filter(move |(of, ..)| Some(*of) == more);
        let listed = listed.map(|(_, rank, blocks)| (*rank, *blocks));
        first.into_iter().chain(listed).filter(|(_, blocks)| *blocks > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hits_read_at_once_are_the_hits_read_one_by_one(
            hits in prop::collection::vec((any::<u32>(), any::<u32>()), 0..40),
            whole in prop::option::of(any::<u32>()),
            read in 0usize..50,
        ) {
            let mut answer = Answer::default();
            let instances: Vec<u32> = hits.iter().map(|(instance, _)| *instance).collect();
            match whole {
                Some(blocks) => answer.whole = Some(Whole { run: 0, blocks }),
                None => answer.longest.extend(hits.iter().map(|(_, longest)| longest)),
            }
            let found = Found { answer: &answer, owners: &[], holders: Holders { instances: &instances, owners: &instances } };
            let naive: Vec<Hit> = hits
                .iter()
                .map(|(instance, longest)| Hit { instance: *instance, longest: whole.unwrap_or(*longest) })
                .collect();
            let (mut all, mut one_by_one) = (found.hits(), Vec::new());
            one_by_one.extend(all.by_ref().take(read));
            let rest = all.fold(Vec::new(), |mut rest, hit| {
                rest.push(hit);
                rest
            });
            prop_assert_eq!(&one_by_one, &naive[..read.min(naive.len())]);
            prop_assert_eq!(&rest, &naive[read.min(naive.len())..]);
        }
    }
}
