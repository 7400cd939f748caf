//! Entries without keys: a word each, of which the upper bits are a tag out of the key's hash; whoever finds one looks
//! at what the lower bits stand for to see whether it is the right one.
//!
//! Extendible hashing over small segments keeps every step short. A segment grows by a fifth or so, to a size that
//! allocators have. The lowest bits of a tag tell the halves of a split segment apart, so that few splits, or none, need
//! to look keys up.
//!
//! Within a segment entries stand in groups of one cache line, packed from the left, in the group of their tag or,
//! where that is full, in the first one behind it with room. A search ends at the first free slot.

use super::halves::equal;
use super::prefetch::prefetch;
use std::marker::PhantomData;

/// Entries of a group.
const GROUP: usize = super::halves::WORDS;
/// A segment of fewer groups doubles: its bytes are few, and most tables go through this.
const SMALL_GROUPS: usize = 64;
/// First directory bit within a hash.
const DIRECTORY_BIT: u32 = 16;
/// A free slot; no entry is.
pub(super) const FREE: u64 = u64::MAX;

/// What entries are like.
pub(super) trait Shape {
    /// Bits of a tag.
    const TAG_BITS: u32;
    /// Bits of a tag that splits may use up before tags are renewed; the others find the group and tell its entries
    /// apart.
    const SPLIT_BITS: u32;
    /// Tenths of a segment that may be taken.
    const FULL: usize;
    /// A segment with so many entries is split when it would grow.
    const SEGMENT_ENTRIES: usize;
    /// A segment is split no further than this many directory bits.
    const MAX_DEPTH: u32;
}

/// The tag of an entry.
fn tag_of<S: Shape>(entry: u64) -> u64 {
    entry >> (64 - S::TAG_BITS)
}

/// The tag of a hash in a segment whose tags begin at directory bit `base`.
fn tag<S: Shape>(hash: u64, base: u32) -> u64 {
    hash >> (DIRECTORY_BIT + base) & ((1 << S::TAG_BITS) - 1)
}

/// An entry of a segment whose tags begin at directory bit `base`; `rest` is what stands below the tag.
pub(super) fn entry<S: Shape>(hash: u64, base: u32, rest: u64) -> u64 {
    tag::<S>(hash, base) << (64 - S::TAG_BITS) | rest
}

/// One cache line of entries.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Group([u64; GROUP]);

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

    /// The slots with a tag, a bit each.
    #[inline]
    fn tagged<S: Shape>(&self, tag: u64) -> u32 {
        let shift = 32 - S::TAG_BITS;
        equal(&self.0, u32::MAX << shift, (tag as u32) << shift)
    }

    /// The slots in use.
    pub(super) fn taken(&mut self) -> impl Iterator<Item = &mut u64> {
        self.0.iter_mut().filter(|slot| **slot != FREE)
    }
}

struct Segment<S> {
    groups: Box<[Group]>,
    len: usize,
    depth: u32,
    /// Directory bit at which the tags begin.
    base: u32,
    shape: PhantomData<S>,
}

impl<S: Shape> Segment<S> {
    fn home(&self, tag: u64) -> usize {
        (tag as usize * self.groups.len()) >> S::TAG_BITS
    }

    fn next(&self, group: usize) -> usize {
        if group + 1 == self.groups.len() { 0 } else { group + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.groups.len() - from }
    }

    #[inline]
    fn find(&self, tag: u64, is: impl Fn(u64) -> bool) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(tag);
        loop {
            let group = &self.groups[at];
            let mut tagged = group.tagged::<S>(tag);
            while tagged != 0 {
                let entry = group.0[tagged.trailing_zeros() as usize];
                if entry != FREE && is(entry) {
                    return Some(entry);
                }
                tagged &= tagged - 1;
            }
            if !group.is_full() {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Room for one more without growing.
    fn has_room(&self) -> bool {
        (self.len + 1) * 10 <= self.groups.len() * GROUP * S::FULL
    }

    fn insert(&mut self, entry: u64) {
        let mut at = self.home(tag_of::<S>(entry));
        while !self.groups[at].push(entry) {
            at = self.next(at);
        }
        self.len += 1;
    }

    fn remove(&mut self, entry: u64) -> bool {
        if self.len == 0 {
            return false;
        }
        let mut at = self.home(tag_of::<S>(entry));
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
                let home = self.home(tag_of::<S>(*known));
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
        let empty = Self::empty(groups, self.depth, self.base);
        let old = std::mem::replace(self, empty);
        filled.clear();
        filled.resize(groups, 0);
        entries(&old.groups).for_each(|entry| self.put(entry, filled));
        self.len = old.len;
    }

    fn empty(groups: usize, depth: u32, base: u32) -> Self {
        Self { groups: vec![EMPTY; groups].into_boxed_slice(), len: 0, depth, base, shape: PhantomData }
    }

    /// Puts an entry into a segment that is being filled, whose groups have so many; the caller counts them all.
    fn put(&mut self, entry: u64, filled: &mut [u8]) {
        let mut at = self.home(tag_of::<S>(entry));
        while usize::from(filled[at]) == GROUP {
            at = self.next(at);
        }
        self.groups[at].0[usize::from(filled[at]) % GROUP] = entry;
        filled[at] += 1;
    }

    fn bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }
}

/// The entries of some groups.
pub(super) fn entries(groups: &[Group]) -> impl Iterator<Item = u64> {
    groups.iter().flat_map(|group| &group.0).copied().filter(|known| *known != FREE)
}

/// Groups for so many entries, with room for a tenth more.
fn groups_for<S: Shape>(entries: usize) -> usize {
    let lines = (entries * 11 / S::FULL).div_ceil(GROUP).max(1) + 1;
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

/// A table of such entries.
pub(super) struct Segments<S> {
    directory: Vec<u32>,
    parts: Vec<Segment<S>>,
    depth: u32,
    len: usize,
    bytes: usize,
    /// Entries of each group of a segment that is being filled.
    filled: Vec<u8>,
}

impl<S: Shape> Segments<S> {
    /// An empty table; allocates nothing.
    pub(super) fn new() -> Self {
        let (directory, parts, filled) = (Vec::new(), Vec::new(), Vec::new());
        Self { directory, parts, depth: 0, len: 0, bytes: 0, filled }
    }

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Heap bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
            + self.directory.capacity() * size_of::<u32>()
            + self.parts.capacity() * size_of::<Segment<S>>()
            + self.filled.capacity()
    }

    /// Any entry.
    pub(super) fn any(&self) -> Option<u64> {
        let segment = self.parts.iter().find(|segment| segment.len > 0)?;
        entries(&segment.groups).next()
    }

    /// Segments, for step-wise visits with [`Segments::segment`].
    pub(super) fn segments(&self) -> usize {
        self.parts.len()
    }

    /// The entries of one segment. Splits only ever append segments, so a visit in index order meets every entry
    /// that stood in the table all the while.
    pub(super) fn segment(&self, at: usize) -> impl Iterator<Item = u64> {
        entries(&self.parts[at].groups)
    }

    /// The entry of a hash that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(u64) -> bool) -> Option<u64> {
        let segment = self.parts.get(self.slot(hash)?)?;
        segment.find(tag::<S>(hash, segment.base), is)
    }

    /// Asks for what a search for the hash begins with; the misses of several overlap.
    pub(super) fn warm(&self, hash: u64) {
        let segment = self.slot(hash).map(|at| &self.parts[at]);
        if let Some(segment) = segment.filter(|segment| segment.len > 0) {
            prefetch(&segment.groups[segment.home(tag::<S>(hash, segment.base))]);
        }
    }

    /// Adds an entry. `renew` lets the tags of some groups begin at a directory bit.
    pub(super) fn insert(&mut self, hash: u64, rest: u64, renew: impl Fn(&mut [Group], u32)) {
        let at = self.room(hash, renew);
        let segment = &mut self.parts[at];
        segment.insert(entry::<S>(hash, segment.base, rest));
        self.len += 1;
    }

    /// Takes an entry away; returns whether it was there.
    pub(super) fn remove(&mut self, hash: u64, rest: u64) -> bool {
        let Some(at) = self.slot(hash) else { return false };
        let segment = &mut self.parts[at];
        let removed = segment.remove(entry::<S>(hash, segment.base, rest));
        if removed {
            self.len -= 1;
            if self.len == 0 {
                *self = Self::new();
            } else if segment.len * 9 < segment.groups.len() * S::FULL * 3 && segment.groups.len() > 1 {
                self.bytes -= segment.bytes();
                segment.rebuild(groups_for::<S>(segment.len), &mut self.filled);
                self.bytes += segment.bytes();
            }
        }
        removed
    }

    #[inline]
    fn slot(&self, hash: u64) -> Option<usize> {
        let at = (hash >> DIRECTORY_BIT) as usize & ((1 << self.depth) - 1);
        self.directory.get(at).map(|segment| *segment as usize)
    }

    /// The segment that takes an entry of this hash: made larger or split first when full.
    fn room(&mut self, hash: u64, renew: impl Fn(&mut [Group], u32)) -> usize {
        loop {
            let Some(at) = self.slot(hash) else {
                self.directory.push(0);
                self.parts.push(Segment::empty(0, 0, 0));
                continue;
            };
            let segment = &mut self.parts[at];
            if segment.has_room() {
                return at;
            }
            if segment.len >= S::SEGMENT_ENTRIES && segment.depth < S::MAX_DEPTH {
                self.split(at, &renew);
            } else {
                self.bytes -= segment.bytes();
                segment.rebuild(larger(segment.groups.len()), &mut self.filled);
                self.bytes += segment.bytes();
            }
        }
    }

    fn split(&mut self, at: usize, renew: impl Fn(&mut [Group], u32)) {
        let depth = self.parts[at].depth;
        if depth == self.depth {
            self.directory.reserve_exact(self.directory.len());
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let mut old = std::mem::replace(&mut self.parts[at], Segment::empty(0, 0, 0));
        if depth - old.base >= S::SPLIT_BITS {
            renew(&mut old.groups, depth);
            old.base = depth;
        }
        let base = old.base;
        let half = |entry: u64| (tag_of::<S>(entry) >> (depth - base)) as usize & 1;
        let moving = entries(&old.groups).map(half).sum::<usize>();
        let lens = [old.len - moving, moving];
        let mut made = lens.map(|len| Segment::<S>::empty(groups_for::<S>(len + 1), depth + 1, base));
        self.filled.clear();
        self.filled.resize(made[0].groups.len() + made[1].groups.len(), 0);
        let (stay, moved) = self.filled.split_at_mut(made[0].groups.len());
        let mut filled = [stay, moved];
        entries(&old.groups).for_each(|entry| made[half(entry)].put(entry, filled[half(entry)]));
        (made[0].len, made[1].len) = (lens[0], lens[1]);
        self.bytes = self.bytes + made[0].bytes() + made[1].bytes() - old.bytes();
        let [stay, moved] = made;
        self.parts[at] = stay;
        let new = self.parts.len() as u32;
        self.parts.push(moved);
        let step = 1usize << depth;
        for (position, slot) in self.directory.iter_mut().enumerate() {
            if *slot as usize == at && position & step != 0 {
                *slot = new;
            }
        }
    }
}
