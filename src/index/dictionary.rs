//! A dialect's dictionary: engine hash → place, eight bytes a block.
//!
//! An entry has no key. It has a place and 24 bits of the key's hash; the label that the dialect's column has at
//! that place says whether it is the right one. Extendible hashing over small segments keeps every step short. A
//! segment grows by a fifth or so, to a size that allocators have: it is five sixths full on average.
//!
//! The lowest bits of a tag tell the halves of a split segment apart, so that few splits need to look names up.
//!
//! Within a segment entries stand in groups of one cache line, packed from the left, in the group of their tag or,
//! where that is full, in the first one behind it with room. A search ends at the first free slot.

use super::prefetch::prefetch;
use super::run::Place;
use super::table::mix;

/// Entries of a group.
const GROUP: usize = 8;
/// A segment of fewer groups doubles: its bytes are few, and most dictionaries go through this.
const SMALL_GROUPS: usize = 64;
/// A segment with so many entries is split when it would grow, so that none is larger than 8 KiB: allocators keep
/// larger objects in pages of half a megabyte, and what is free in those stays in memory.
const SEGMENT_ENTRIES: usize = 900;
/// A segment is split no further than this many directory bits.
const MAX_DEPTH: u32 = 24;
/// First directory bit within a hash.
const DIRECTORY_BIT: u32 = 16;
/// Bits of a tag, and of a run's number.
const TAG_BITS: u32 = 24;
const RUN_BITS: u32 = 64 - 16 - TAG_BITS;
/// Bits of a tag that splits may use up; the others find the group and tell its entries apart.
const SPLIT_BITS: u32 = if cfg!(test) { 2 } else { 8 }; // few, where a test is to reach the end of them
/// Groups whose names are on their way from memory at once when tags are renewed.
const RENEWED_AT_ONCE: usize = 4;
/// Runs whose blocks a dictionary can name.
pub const NAMED_RUNS: u32 = (1 << RUN_BITS) - 1;
/// A free slot; [`NAMED_RUNS`] leaves it free.
const FREE: u64 = u64::MAX;

/// One cache line of entries.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u64; GROUP]);

const EMPTY: Group = Group([FREE; GROUP]);

// Where a search in a group ends is as good as random: counting all eight costs less than guessing wrong.
impl Group {
    fn is_full(&self) -> bool {
        self.0[GROUP - 1] != FREE
    }

    fn len(&self) -> usize {
        self.0.iter().map(|slot| usize::from(*slot != FREE)).sum()
    }

    fn push(&mut self, entry: u64) -> bool {
        let len = self.len();
        let free = self.0.get_mut(len);
        free.map(|slot| *slot = entry).is_some()
    }

    fn take(&mut self, at: usize) -> u64 {
        let last = self.len() - 1;
        self.0.swap(at, last);
        std::mem::replace(&mut self.0[last], FREE)
    }

    /// The slot of an entry.
    fn slot(&self, entry: u64) -> Option<usize> {
        let equal = |(at, known): (usize, &u64)| u32::from(*known == entry) << at;
        let found: u32 = self.0.iter().enumerate().map(equal).sum();
        (found != 0).then_some(found.trailing_zeros() as usize)
    }

    fn has_tag(&self, tag: u64) -> bool {
        self.0.iter().fold(false, |any, known| any | (tag_of(*known) == tag))
    }
}

/// The tag of a hash in a segment whose tags begin at directory bit `base`.
fn tag(hash: u64, base: u32) -> u64 {
    hash >> (DIRECTORY_BIT + base) & ((1 << TAG_BITS) - 1)
}

fn tag_of(entry: u64) -> u64 {
    entry >> (64 - TAG_BITS)
}

fn entry(tag: u64, place: Place) -> u64 {
    tag << (64 - TAG_BITS) | u64::from(place.run) << 16 | u64::from(place.at)
}

fn place(entry: u64) -> Place {
    Place { run: (entry >> 16) as u32 & NAMED_RUNS, at: entry as u16 }
}

#[derive(Default)]
struct Segment {
    groups: Box<[Group]>,
    len: usize,
    depth: u32,
    /// Directory bit at which the tags begin.
    base: u32,
}

impl Segment {
    fn home(&self, tag: u64) -> usize {
        (tag as usize * self.groups.len()) >> TAG_BITS
    }

    fn next(&self, group: usize) -> usize {
        if group + 1 == self.groups.len() { 0 } else { group + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.groups.len() - from }
    }

    fn find(&self, tag: u64, is: impl Fn(Place) -> bool) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(tag);
        loop {
            let group = &self.groups[at];
            if group.has_tag(tag) {
                let known = group.0.iter().filter(|known| **known != FREE && tag_of(**known) == tag);
                let found = known.map(|known| place(*known)).find(|place| is(*place));
                if found.is_some() {
                    return found;
                }
            }
            if !group.is_full() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Room for one more without growing: one slot in ten stays free.
    fn has_room(&self) -> bool {
        (self.len + 1) * 10 <= self.groups.len() * GROUP * 9
    }

    fn insert(&mut self, entry: u64) {
        let mut at = self.home(tag_of(entry));
        while !self.groups[at].push(entry) {
            at = self.next(at);
        }
        self.len += 1;
    }

    fn remove(&mut self, entry: u64) -> bool {
        if self.len == 0 {
            return false;
        }
        let mut at = self.home(tag_of(entry));
        loop {
            let group = &mut self.groups[at];
            let full = group.is_full();
            if let Some(slot) = group.slot(entry) {
                group.take(slot);
                self.len -= 1;
                if full {
                    self.close(at);
                }
                return true;
            }
            if !full {
                return false;
            }
            at = self.next(at);
        }
    }

    /// The group `hole` is no longer full: what did not find room in it comes back.
    fn close(&mut self, mut hole: usize) {
        let mut at = self.next(hole);
        while at != hole {
            let full = self.groups[at].is_full();
            let mut entries = self.groups[at].0.iter().take_while(|known| **known != FREE);
            let back = entries.position(|known| {
                let home = self.home(tag_of(*known));
                self.distance(home, at) >= self.distance(hole, at)
            });
            if let Some(slot) = back {
                let entry = self.groups[at].take(slot);
                self.groups[hole].push(entry);
                hole = at;
            }
            if !full {
                return;
            }
            at = self.next(at);
        }
    }

    /// Moves the entries into so many groups.
    fn rebuild(&mut self, groups: usize, filled: &mut Vec<u8>) {
        let old = std::mem::take(self);
        *self = Self::empty(groups, old.depth, old.base);
        self.fill(&old.groups, filled, |_| true);
    }

    fn empty(groups: usize, depth: u32, base: u32) -> Self {
        Self { groups: vec![EMPTY; groups].into_boxed_slice(), len: 0, depth, base }
    }

    /// Fills an empty segment with those of the entries that it takes; `filled` is room to count in.
    fn fill(&mut self, groups: &[Group], filled: &mut Vec<u8>, takes: impl Fn(u64) -> bool) {
        filled.clear();
        filled.resize(self.groups.len(), 0);
        entries(groups).filter(|entry| takes(*entry)).for_each(|entry| {
            let mut at = self.home(tag_of(entry));
            while usize::from(filled[at]) == GROUP {
                at = self.next(at);
            }
            self.groups[at].0[usize::from(filled[at])] = entry;
            filled[at] += 1;
            self.len += 1;
        });
    }

    fn bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }
}

fn entries(groups: &[Group]) -> impl Iterator<Item = u64> {
    groups.iter().flat_map(|group| &group.0).copied().filter(|known| *known != FREE)
}

/// Groups for so many entries, with room for a tenth more.
fn groups_for(entries: usize) -> usize {
    let lines = (entries * 11 / 9).div_ceil(GROUP).max(1) + 1;
    lines.next_multiple_of(step(lines - 1)) - 1
}

/// The next number of groups.
fn larger(groups: usize) -> usize {
    let lines = groups + 1;
    if groups < SMALL_GROUPS { 2 * lines - 1 } else { groups + step(lines) }
}

/// How far sizes of so many cache lines and more lie apart: allocators have four between two powers of two, and
/// round up what lies between. One line goes to the alignment.
fn step(lines: usize) -> usize {
    1 << lines.ilog2().saturating_sub(2)
}

/// What the places of a dictionary are called.
pub trait Named {
    /// Steps towards a name that lies somewhere in memory.
    const STEPS: usize;

    /// The name of a place that has one.
    fn name(&self, place: Place) -> u64;

    /// Asks for the memory of one step, when those before it have come.
    fn approach(&self, place: Place, step: usize);
}

/// Engine hash → place.
pub struct Dictionary {
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u32,
    len: usize,
    bytes: usize,
    salt: u64,
    /// Entries of each group of a segment that is being filled.
    filled: Vec<u8>,
}

impl Dictionary {
    /// An empty dictionary; allocates nothing. `salt` is the process's own.
    pub fn new(salt: u64) -> Self {
        Self {
            directory: Vec::new(),
            segments: Vec::new(),
            depth: 0,
            len: 0,
            bytes: 0,
            salt,
            filled: Vec::new(),
        }
    }

    /// Whether nothing has a label.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.bytes
            + self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.filled.capacity()
    }

    /// Any place that has a name.
    pub fn any(&self) -> Option<Place> {
        let segment = self.segments.iter().find(|segment| segment.len > 0)?;
        entries(&segment.groups).next().map(place)
    }

    /// The place of a name: the one of its candidates whose label `is` the name.
    pub fn find(&self, name: u64, is: impl Fn(Place) -> bool) -> Option<Place> {
        let hash = mix(name, self.salt);
        let segment = self.segments.get(self.slot(hash)?)?;
        segment.find(tag(hash, segment.base), is)
    }

    /// Asks for what a search for the name begins with; the misses of several overlap.
    pub fn warm(&self, name: u64) {
        let hash = mix(name, self.salt);
        let segment = self.slot(hash).map(|at| &self.segments[at]);
        if let Some(segment) = segment.filter(|segment| segment.len > 0) {
            prefetch(&segment.groups[segment.home(tag(hash, segment.base))]);
        }
    }

    /// Adds a name that is not there.
    pub fn insert(&mut self, name: u64, place: Place, known: &impl Named) {
        let hash = mix(name, self.salt);
        let at = self.room(hash, known);
        let segment = &mut self.segments[at];
        segment.insert(entry(tag(hash, segment.base), place));
        self.len += 1;
    }

    /// Takes a name from its place; returns whether it was there.
    pub fn remove(&mut self, name: u64, place: Place) -> bool {
        let hash = mix(name, self.salt);
        let Some(at) = self.slot(hash) else { return false };
        let segment = &mut self.segments[at];
        let removed = segment.remove(entry(tag(hash, segment.base), place));
        if removed {
            self.len -= 1;
            if self.len == 0 {
                *self = Self::new(self.salt);
            } else if segment.len < segment.groups.len() * 3 && segment.groups.len() > 1 {
                self.bytes -= segment.bytes();
                segment.rebuild(groups_for(segment.len), &mut self.filled);
                self.bytes += segment.bytes();
            }
        }
        removed
    }

    fn slot(&self, hash: u64) -> Option<usize> {
        let at = (hash >> DIRECTORY_BIT) as usize & ((1 << self.depth) - 1);
        self.directory.get(at).map(|segment| *segment as usize)
    }

    /// The segment that takes an entry of this hash: made larger or split first when full.
    fn room(&mut self, hash: u64, known: &impl Named) -> usize {
        loop {
            let Some(at) = self.slot(hash) else {
                self.directory.push(0);
                self.segments.push(Segment::default());
                continue;
            };
            let segment = &mut self.segments[at];
            if segment.has_room() {
                return at;
            }
            if segment.len >= SEGMENT_ENTRIES && segment.depth < MAX_DEPTH {
                self.split(at, known);
            } else {
                self.bytes -= segment.bytes();
                segment.rebuild(larger(segment.groups.len()), &mut self.filled);
                self.bytes += segment.bytes();
            }
        }
    }

    /// Lets the tags of a segment begin at directory bit `base`: its places are asked for their names again.
    fn renew<K: Named>(&self, segment: &mut Segment, base: u32, known: &K) {
        segment.base = base;
        for some in segment.groups.chunks_mut(RENEWED_AT_ONCE) {
            for step in 0..K::STEPS {
                entries(some).for_each(|entry| known.approach(place(entry), step));
            }
            let slots = some.iter_mut().flat_map(|group| &mut group.0);
            slots.filter(|slot| **slot != FREE).for_each(|slot| {
                let place = place(*slot);
                *slot = entry(tag(mix(known.name(place), self.salt), base), place);
            });
        }
    }

    fn split(&mut self, at: usize, known: &impl Named) {
        let depth = self.segments[at].depth;
        if depth == self.depth {
            self.directory.reserve_exact(self.directory.len());
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let mut old = std::mem::take(&mut self.segments[at]);
        if depth - old.base >= SPLIT_BITS {
            self.renew(&mut old, depth, known);
        }
        let base = old.base;
        let moves = |entry: u64| tag_of(entry) >> (depth - base) & 1 == 1;
        let moving = entries(&old.groups).map(|entry| usize::from(moves(entry))).sum::<usize>();
        let mut made =
            [old.len - moving, moving].map(|len| Segment::empty(groups_for(len + 1), depth + 1, base));
        made[0].fill(&old.groups, &mut self.filled, |entry| !moves(entry));
        made[1].fill(&old.groups, &mut self.filled, moves);
        self.bytes = self.bytes + made[0].bytes() + made[1].bytes() - old.bytes();
        let [stay, moved] = made;
        self.segments[at] = stay;
        let new = self.segments.len() as u32;
        self.segments.push(moved);
        let step = 1usize << depth;
        for (position, slot) in self.directory.iter_mut().enumerate() {
            if *slot as usize == at && position & step != 0 {
                *slot = new;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Labels<'a>(&'a [u64]);

    impl Named for Labels<'_> {
        const STEPS: usize = 1;

        fn name(&self, place: Place) -> u64 {
            self.0[place.run as usize]
        }

        fn approach(&self, place: Place, _: usize) {
            prefetch(&self.0[place.run as usize]);
        }
    }

    /// Stores and removals at random: what is found is what a map has, and the bytes come back.
    #[test]
    fn a_dictionary_is_a_map() {
        let (mut dice, mut dictionary) = (1_u64, Dictionary::new(7));
        let (mut naive, mut labels) = (HashMap::new(), Vec::new());
        for step in 0..60_000_u32 {
            dice = mix(dice.wrapping_add(0x9E37_79B9), 3);
            let growing = step % 20_000 < 14_000;
            let name = if dice & 1 == 0 || !growing { dice >> 8 & 0x1FFF } else { dice };
            let removed = naive.remove(&name);
            if let Some(place) = removed {
                assert!(dictionary.remove(name, place));
                assert!(!dictionary.remove(name, place));
            } else if growing {
                let place = Place { run: labels.len() as u32, at: step as u16 };
                labels.push(name);
                dictionary.insert(name, place, &Labels(&labels));
                naive.insert(name, place);
            }
            let found = dictionary.find(name, |place| labels[place.run as usize] == name);
            assert_eq!(found, naive.get(&name).copied());
        }
        assert!(naive.len() > SEGMENT_ENTRIES * 2);
        assert_eq!(dictionary.len, naive.len());
        for (name, place) in naive {
            assert_eq!(dictionary.find(name, |place| labels[place.run as usize] == name), Some(place));
            assert!(dictionary.remove(name, place));
        }
        assert_eq!((dictionary.len, dictionary.bytes()), (0, 0));
    }
}
