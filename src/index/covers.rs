//! Who holds what of one run: an array of instances, one of their owners, one of spans and one of where the owners'
//! lists have the run, in one piece of memory. A walk compares all spans at once, and an answer that is whole reads the
//! instances alone; what is rare stands elsewhere.

use super::cover::{Cover, Spans, Stretch};
use std::cell::Cell;

/// Whose cover it is: the instance above the owner's number within the context. A run's covers are sorted by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// Instance of the owner.
    pub instance: u32,
    /// Owner, numbered within the context.
    pub owner: u32,
}

impl Holder {
    /// Both in one word.
    pub fn word(self) -> u64 {
        u64::from(self.instance) << 32 | u64::from(self.owner)
    }

    /// Out of such a word.
    pub fn of_word(word: u64) -> Self {
        Self { instance: (word >> 32) as u32, owner: word as u32 }
    }
}

/// Owners and their instances, by the order of [`Holder`]. Within a context an owner has one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders<'a> {
    /// Instances.
    pub instances: &'a [u32],
    /// The owner of each.
    pub owners: &'a [u32],
}

impl Holders<'_> {
    /// The one at an index.
    pub fn at(self, at: usize) -> Holder {
        Holder { instance: self.instances[at], owner: self.owners[at] }
    }
}

/// A span as it is kept: its start, and its end with all bits turned over. That way one comparison with a pair of
/// numbers, from below, says of both whether they reach far enough.
type Kept = [u16; 2];

fn keep(span: Stretch) -> Kept {
    [span.start, !span.end]
}

fn kept(span: Kept) -> Stretch {
    Stretch { start: span[0], end: !span[1] }
}

/// What no stretch lies within.
const UNSURE: Kept = [u16::MAX; 2];
/// Arrays of a piece of memory, and the numbers of two.
const ARRAYS: usize = 4;
const SPANS: usize = 2;
const LISTED: usize = 3;
/// Spans that are compared at once.
const AT_ONCE: usize = 4;

/// The covers of one run.
#[derive(Debug)]
pub struct Covers {
    /// With room for `n` owners: `n` instances, `n` owners, `n` spans, `n` places in lists.
    words: Box<[u32]>,
    len: u32,
    /// Neighbours that belong to one instance.
    crowded: u32,
    /// A stretch that the first spans of all covers hold, as far as somebody looked: mostly there is no need to look
    /// again.
    sure: Cell<Kept>,
    /// Spans behind holes.
    // boxed, since holes are rare
    holes: Option<Box<Holes>>,
}

/// Spans behind holes, by owner.
#[derive(Debug, Default)]
struct Holes {
    by_holder: Vec<(u64, Vec<Stretch>)>,
    /// Heap bytes of the inner lists.
    heap: usize,
}

impl Holes {
    fn of(&self, holder: u64) -> Result<usize, usize> {
        self.by_holder.binary_search_by_key(&holder, |(of, _)| *of)
    }
}

fn bytes_of(more: &Vec<Stretch>) -> usize {
    more.capacity() * size_of::<Stretch>()
}

impl Default for Covers {
    fn default() -> Self {
        Self { words: Box::default(), len: 0, crowded: 0, sure: Cell::new(UNSURE), holes: None }
    }
}

impl Covers {
    /// How many owners hold something.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap bytes taken.
    pub fn heap(&self) -> usize {
        let holes = self.holes.as_deref().map_or(0, |holes| {
            size_of::<Holes>() + holes.by_holder.capacity() * size_of::<(u64, Vec<Stretch>)>() + holes.heap
        });
        size_of_val(&*self.words) + holes
    }

    /// Whether no instance has several owners here, and no cover a hole.
    pub fn is_plain(&self) -> bool {
        self.crowded == 0 && self.holes.is_none()
    }

    fn room(&self) -> usize {
        self.words.len() / ARRAYS
    }

    /// The owners, ascending.
    #[inline]
    pub fn holders(&self) -> Holders<'_> {
        let (instances, rest) = self.words.split_at(self.room());
        Holders { instances: &instances[..self.len()], owners: &rest[..self.len()] }
    }

    fn spans(&self) -> &[Kept] {
        let from = self.room() * SPANS;
        bytemuck::cast_slice(&self.words[from..from + self.len()])
    }

    fn word(&self, at: usize) -> u64 {
        self.holders().at(at).word()
    }

    /// The first spans of these covers; where they are plain, the only ones.
    pub fn firsts(&self, which: std::ops::Range<usize>) -> impl Iterator<Item = Stretch> {
        self.spans()[which].iter().map(|span| kept(*span))
    }

    /// Whether the first spans of all covers hold all of a stretch.
    #[inline]
    pub fn all_hold(&self, stretch: Stretch) -> bool {
        self.surely_hold(stretch) || self.make_sure(stretch)
    }

    /// Whether it is known that they do, without looking.
    #[inline]
    pub fn surely_hold(&self, stretch: Stretch) -> bool {
        let (sure, bound) = (self.sure.get(), keep(stretch));
        sure[0] <= bound[0] && sure[1] <= bound[1]
    }

    fn make_sure(&self, stretch: Stretch) -> bool {
        if !self.hold(0..self.len(), stretch) {
            return false;
        }
        let both = |sure: Kept, span: &Kept| [sure[0].max(span[0]), sure[1].max(span[1])];
        self.sure.set(self.spans().iter().fold([0, 0], both));
        true
    }

    /// Whether the first spans of all these covers hold all of a stretch.
    pub fn hold(&self, which: std::ops::Range<usize>, stretch: Stretch) -> bool {
        let bound = keep(stretch);
        let missing = |span: &Kept| [span[0].saturating_sub(bound[0]), span[1].saturating_sub(bound[1])];
        let spans = &self.spans()[which];
        let (many, few) = spans.as_chunks::<AT_ONCE>();
        let mut short = [[0_u16; 2]; AT_ONCE];
        for spans in many {
            for (short, span) in short.iter_mut().zip(spans) {
                let missing = missing(span);
                short[0] |= missing[0];
                short[1] |= missing[1];
            }
        }
        // apart, so that what the many wrote at once is not read in pieces
        let few = few.iter().map(missing).fold(0, |short, missing| short | missing[0] | missing[1]);
        few == 0 && (many.is_empty() || short == [[0; 2]; AT_ONCE])
    }

    /// Index of an owner's cover, or where it would stand.
    pub fn find(&self, holder: Holder) -> Result<usize, usize> {
        let Holders { instances, owners } = self.holders();
        if let [only] = owners
            && *only == holder.owner
        {
            return Ok(0);
        }
        let from = instances.partition_point(|instance| *instance < holder.instance);
        let until = match instances.get(from) {
            Some(instance) if *instance != holder.instance => from,
            Some(_) if self.crowded == 0 => from + 1,
            _ => instances.partition_point(|instance| *instance <= holder.instance),
        };
        owners[from..until].binary_search(&holder.owner).map(|at| from + at).map_err(|at| from + at)
    }

    /// The cover at an index.
    pub fn at(&self, at: usize) -> Cover<'_> {
        Cover { first: kept(self.spans()[at]), more: self.more(at) }
    }

    fn more(&self, at: usize) -> &[Stretch] {
        let Some(holes) = &self.holes else { return &[] };
        holes.of(self.word(at)).map_or(&[], |found| &holes.by_holder[found].1)
    }

    /// First position behind everything that anybody holds.
    pub fn end(&self) -> u16 {
        let first = self.firsts(0..self.len()).map(|span| span.end).max().unwrap_or(0);
        let behind = self.holes.iter().flat_map(|holes| &holes.by_holder);
        behind.filter_map(|(_, more)| more.last()).map(|last| last.end).fold(first, u16::max)
    }

    /// Adds a stretch to a cover.
    pub fn add(&mut self, at: usize, span: Stretch) {
        let sure = self.sure.get();
        self.edit(at, |spans| spans.add(span));
        if self.holes.is_none() {
            self.sure.set(sure);
        }
    }

    /// Takes a stretch away that is held as a whole; returns whether anything is left.
    pub fn remove_all(&mut self, at: usize, span: Stretch) -> bool {
        self.edit(at, |spans| spans.remove_all(span))
    }

    /// Takes at most `most` last positions away; returns how many, and whether anything is left.
    pub fn strip(&mut self, at: usize, most: u16) -> (u16, bool) {
        let taken = self.edit(at, |spans| spans.strip(most));
        (taken, self.at(at).end() > 0)
    }

    fn edit<R>(&mut self, at: usize, change: impl FnOnce(&mut Spans) -> R) -> R {
        let known = self.holes.as_ref().map(|holes| holes.of(self.word(at)));
        let more = match (&mut self.holes, known) {
            (Some(holes), Some(Ok(found))) => std::mem::take(&mut holes.by_holder[found].1),
            _ => Vec::new(),
        };
        let before = bytes_of(&more);
        let mut spans = Spans { first: kept(self.spans()[at]), more };
        let result = change(&mut spans);
        let room = self.room();
        self.words[room * SPANS + at] = bytemuck::cast(keep(spans.first));
        self.sure.set(UNSURE);
        if known.is_some_and(|known| known.is_ok()) || !spans.more.is_empty() {
            self.keep_more(self.word(at), spans.more, before);
        }
        result
    }

    /// Puts the spans behind holes back, which took `before` bytes.
    fn keep_more(&mut self, holder: u64, more: Vec<Stretch>, before: usize) {
        let holes = self.holes.get_or_insert_default();
        holes.heap = holes.heap - before + bytes_of(&more);
        match holes.of(holder) {
            Ok(found) if more.is_empty() => {
                holes.heap -= bytes_of(&more);
                holes.by_holder.remove(found);
            }
            Ok(found) => holes.by_holder[found].1 = more,
            Err(new) => holes.by_holder.insert(new, (holder, more)),
        }
        if holes.by_holder.is_empty() {
            self.holes = None;
        }
    }

    /// Adds a cover of one span at the index where [`Covers::find`] missed it.
    pub fn insert(&mut self, at: usize, holder: Holder, span: Stretch, listed: u32) {
        let len = self.len();
        if len == self.room() {
            self.make_room(len + (len / 2).max(1));
        }
        let new = [holder.instance, holder.owner, bytemuck::cast(keep(span)), listed];
        for (array, new) in self.words.chunks_exact_mut(self.words.len() / ARRAYS).zip(new) {
            array.copy_within(at..len, at + 1);
            array[at] = new;
        }
        self.len += 1;
        self.sure.set(UNSURE);
        self.crowded = self.crowded + self.pairs(at) - u32::from(self.is_pair(at.wrapping_sub(1), at + 1));
    }

    /// Takes a cover away; returns where its owner's list of runs has this one.
    pub fn remove(&mut self, at: usize) -> u32 {
        let (len, room) = (self.len(), self.room());
        self.drop_more(self.word(at));
        self.crowded = self.crowded + u32::from(self.is_pair(at.wrapping_sub(1), at + 1)) - self.pairs(at);
        let listed = self.words[room * LISTED + at];
        for array in self.words.chunks_exact_mut(room) {
            array.copy_within(at + 1..len, at);
        }
        self.len -= 1;
        self.sure.set(UNSURE);
        if self.len() * 4 < room {
            self.make_room(self.len() * 2);
        }
        listed
    }

    fn drop_more(&mut self, holder: u64) {
        let Some(holes) = &mut self.holes else { return };
        if let Ok(found) = holes.of(holder) {
            let (_, more) = holes.by_holder.remove(found);
            holes.heap -= bytes_of(&more);
        }
        if holes.by_holder.is_empty() {
            self.holes = None;
        }
    }

    /// Where the owner's list of runs has this one.
    pub fn set_listed(&mut self, at: usize, listed: u32) {
        let room = self.room();
        self.words[room * LISTED + at] = listed;
    }

    fn is_pair(&self, one: usize, other: usize) -> bool {
        let instances = self.holders().instances;
        instances.get(one).is_some_and(|known| instances.get(other) == Some(known))
    }

    /// Neighbours of one of its instance.
    fn pairs(&self, at: usize) -> u32 {
        u32::from(self.is_pair(at.wrapping_sub(1), at)) + u32::from(self.is_pair(at, at + 1))
    }

    fn make_room(&mut self, room: usize) {
        let (len, before) = (self.len(), self.room());
        let mut words = vec![0; room * ARRAYS].into_boxed_slice();
        if len > 0 {
            for (new, old) in words.chunks_exact_mut(room).zip(self.words.chunks_exact(before)) {
                new[..len].copy_from_slice(&old[..len]);
            }
        }
        self.words = words;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    type Naive = BTreeMap<u64, (u32, BTreeSet<u16>)>;

    fn agree(covers: &Covers, naive: &Naive) -> Result<(), TestCaseError> {
        let holders: Vec<u64> = naive.keys().copied().collect();
        prop_assert_eq!((0..covers.len()).map(|at| covers.word(at)).collect::<Vec<u64>>(), holders.clone());
        let pairs = holders.windows(2).filter(|pair| pair[0] >> 32 == pair[1] >> 32).count();
        prop_assert_eq!(covers.crowded as usize, pairs);
        let mut many_spans = false;
        for (at, (_, (listed, held))) in naive.iter().enumerate() {
            let cover = covers.at(at);
            let positions: BTreeSet<u16> = cover.spans().flat_map(|span| span.start..span.end).collect();
            prop_assert_eq!(&positions, held);
            prop_assert_eq!(covers.words[covers.room() * LISTED + at], *listed);
            let spans: Vec<Stretch> = cover.spans().collect();
            many_spans |= spans.len() > 1;
            prop_assert!(spans.iter().all(|span| span.start < span.end));
            prop_assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start));
            for position in 0..50 {
                prop_assert_eq!(cover.holds(position), held.contains(&position));
                let run = (position..u16::MAX).take_while(|at| held.contains(at)).count() as u16;
                prop_assert_eq!(cover.extent(position), position + run);
            }
            prop_assert_eq!(cover.count(3, 30), held.range(3..30).count() as u32);
            prop_assert_eq!(cover.end(), held.last().map_or(0, |last| last + 1));
        }
        prop_assert_eq!(covers.is_plain(), pairs == 0 && !many_spans);
        let end = naive.values().filter_map(|(_, held)| held.last()).max().map_or(0, |last| last + 1);
        prop_assert_eq!(covers.end(), end);
        if !many_spans {
            for (start, end) in [(0, 1), (3, 9), (20, 21)] {
                let all = naive.values().all(|(_, held)| (start..end).all(|at| held.contains(&at)));
                prop_assert_eq!(covers.hold(0..covers.len(), Stretch { start, end }), all);
                prop_assert_eq!(covers.all_hold(Stretch { start, end }), all);
                prop_assert_eq!(covers.all_hold(Stretch { start, end }), all);
            }
        }
        let behind = covers.holes.iter().flat_map(|holes| &holes.by_holder).map(|(_, more)| bytes_of(more));
        prop_assert_eq!(covers.holes.as_ref().map_or(0, |holes| holes.heap), behind.sum::<usize>());
        Ok(())
    }

    proptest! {
        #[test]
        fn covers_are_sets_of_positions(
            steps in prop::collection::vec((0u8..5, 0u32..6, 0u32..3, 0u16..40, 1u16..9), 1..160),
        ) {
            let (mut covers, mut naive) = (Covers::default(), Naive::new());
            for (step, (what, instance, owner, start, length)) in steps.into_iter().enumerate() {
                // an owner's number belongs to one instance
                let holder = Holder { instance, owner: owner * 6 + instance };
                let found = covers.find(holder);
                prop_assert_eq!(found.is_ok(), naive.contains_key(&holder.word()));
                let span = Stretch { start, end: start + length };
                let listed = step as u32;
                match (what, found) {
                    (0..=2, Ok(at)) => covers.add(at, span),
                    (0..=2, Err(at)) => covers.insert(at, holder, span, listed),
                    (3, Ok(at)) => {
                        let held = &mut naive.get_mut(&holder.word()).unwrap().1;
                        let from = start;
                        let until = (from..span.end).take_while(|at| held.contains(at)).last().map_or(from, |at| at + 1);
                        held.retain(|at| !(from..until).contains(at));
                        if until > from && !covers.remove_all(at, Stretch { start: from, end: until }) {
                            prop_assert!(held.is_empty());
                            prop_assert_eq!(covers.remove(at), naive.remove(&holder.word()).unwrap().0);
                        }
                    }
                    (_, Ok(at)) => {
                        let held = &mut naive.get_mut(&holder.word()).unwrap().1;
                        let (taken, left) = covers.strip(at, length);
                        for _ in 0..taken {
                            held.pop_last();
                        }
                        prop_assert_eq!(left, !held.is_empty());
                        if !left {
                            prop_assert_eq!(covers.remove(at), naive.remove(&holder.word()).unwrap().0);
                        } else if start > 30 {
                            let listed_at = naive.remove(&holder.word()).unwrap().0;
                            prop_assert_eq!(covers.remove(at), listed_at);
                        } else {
                            covers.set_listed(at, listed);
                            naive.get_mut(&holder.word()).unwrap().0 = listed;
                        }
                    }
                    (_, Err(_)) => {}
                }
                if what <= 2 {
                    naive.entry(holder.word()).or_insert((listed, BTreeSet::new())).1.extend(span.start..span.end);
                }
                agree(&covers, &naive)?;
            }
        }
    }
}
