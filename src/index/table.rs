//! A hash table that never stops the world: extendible hashing over small `hashbrown` tables.
//!
//! hashbrown cannot rehash in steps; one 32 M-entry rehash would stop a shard for more than a second. Here a
//! directory points to segments of at most [`SEGMENT_ENTRIES`] entries, each growing, splitting and shrinking
//! alone, so that the longest step moves one segment.
//!
//! The table holds plain entries and asks a caller's function for their hash; hashes must be well mixed
//! ([`mix`]): the directory takes bits 32.., a segment the lowest and the top seven.

use hashbrown::HashTable;

/// Entries of a full segment: what 4096 buckets take at hashbrown's load limit of 7/8.
pub const SEGMENT_ENTRIES: usize = 3584;
/// A segment is split no further than this many directory bits.
const MAX_DEPTH: u32 = 24;
/// Segments with fewer buckets are not worth shrinking.
const SHRINK_ABOVE: usize = 56;

/// Spreads a publisher's hash over the word; `salt` keeps publishers from choosing collisions.
pub fn mix(hash: u64, salt: u64) -> u64 {
    let wide = u128::from(hash ^ salt) * 0x9E37_79B9_7F4A_7C15;
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Entries that hashbrown puts into so many buckets.
fn full_at(buckets: usize) -> usize {
    if buckets < 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
}

/// An entry knows the (mixed) hash it is found by.
pub trait Keyed: Copy {
    /// The unmixed key.
    fn key(&self) -> u64;
}

struct Segment<T> {
    entries: HashTable<T>,
    depth: u32,
}

/// The table; `T` is `Copy` and small.
pub struct Table<T> {
    directory: Vec<u32>,
    segments: Vec<Segment<T>>,
    depth: u32,
    len: usize,
    bytes: usize,
    salt: u64,
}

impl<T: Keyed> Table<T> {
    /// An empty table; allocates nothing. `salt` is the process's own.
    pub fn new(salt: u64) -> Self {
        Self { directory: Vec::new(), segments: Vec::new(), depth: 0, len: 0, bytes: 0, salt }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing stands in the table.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Segments, for step-wise visits with [`Table::segment`].
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The entries of one segment. Splits only ever append segments, so a visit in index order meets every
    /// entry that stood in the table all the while.
    pub fn segment(&self, at: usize) -> impl Iterator<Item = &T> {
        self.segments[at].entries.iter()
    }

    /// Entries of one segment.
    pub fn segment_len(&self, at: usize) -> usize {
        self.segments[at].entries.len()
    }

    /// Takes all entries out of one segment.
    pub fn drain_segment(&mut self, at: usize, to: &mut Vec<T>) {
        let segment = &mut self.segments[at];
        self.bytes -= segment.entries.allocation_size();
        self.len -= segment.entries.len();
        to.extend(std::mem::take(&mut segment.entries));
    }

    /// The first entry of `key` that `is` accepts.
    pub fn find(&self, key: u64, mut is: impl FnMut(&T) -> bool) -> Option<&T> {
        let hash = mix(key, self.salt);
        self.segment_of(hash)?.entries.find(hash, |entry| entry.key() == key && is(entry))
    }

    /// The same, to change it (never its key).
    pub fn find_mut(&mut self, key: u64, mut is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let hash = mix(key, self.salt);
        let at = self.slot(hash)?;
        self.segments[at].entries.find_mut(hash, |entry| entry.key() == key && is(entry))
    }

    /// All entries of `key`.
    pub fn all(&self, key: u64) -> impl Iterator<Item = &T> {
        let hash = mix(key, self.salt);
        self.segment_of(hash)
            .into_iter()
            .flat_map(move |segment| segment.entries.iter_hash(hash))
            .filter(move |entry| entry.key() == key)
    }

    /// All entries of `key`, to change them (never their keys).
    pub fn all_mut(&mut self, key: u64) -> impl Iterator<Item = &mut T> {
        let hash = mix(key, self.salt);
        let at = self.slot(hash);
        at.and_then(|at| self.segments.get_mut(at))
            .into_iter()
            .flat_map(move |segment| segment.entries.iter_hash_mut(hash))
            .filter(move |entry| entry.key() == key)
    }

    /// Adds an entry beside whatever stands under its key.
    pub fn insert(&mut self, entry: T) {
        let hash = mix(entry.key(), self.salt);
        let at = self.room(hash);
        let salt = self.salt;
        self.segments[at].entries.insert_unique(hash, entry, |entry| mix(entry.key(), salt));
        self.len += 1;
    }

    /// Removes the first entry of `key` that `is` accepts.
    pub fn remove(&mut self, key: u64, mut is: impl FnMut(&T) -> bool) -> Option<T> {
        let hash = mix(key, self.salt);
        let at = self.slot(hash)?;
        let entries = &mut self.segments[at].entries;
        let found = entries.find_entry(hash, |entry| entry.key() == key && is(entry)).ok()?;
        let (entry, _) = found.remove();
        self.len -= 1;
        self.shrink(at);
        Some(entry)
    }

    /// Gives all memory back.
    pub fn clear(&mut self) {
        *self = Self::new(self.salt);
    }

    fn slot(&self, hash: u64) -> Option<usize> {
        let at = self.directory.get(self.position(hash))?;
        Some(*at as usize)
    }

    fn segment_of(&self, hash: u64) -> Option<&Segment<T>> {
        Some(&self.segments[self.slot(hash)?])
    }

    fn position(&self, hash: u64) -> usize {
        ((hash >> 32) as usize) & ((1usize << self.depth) - 1)
    }

    /// The segment that takes an entry of this hash without growing: made larger or split first when full.
    fn room(&mut self, hash: u64) -> usize {
        if self.directory.is_empty() {
            self.directory.push(0);
            self.segments.push(Segment { entries: HashTable::new(), depth: 0 });
            self.bytes += size_of::<Segment<T>>() + size_of::<u32>();
        }
        loop {
            let at = self.directory[self.position(hash)] as usize;
            let Segment { entries, depth } = &self.segments[at];
            if entries.len() < entries.capacity() {
                return at;
            }
            let full = full_at(entries.num_buckets());
            if entries.len() < full - full / 4 {
                // worn by removals: hashbrown itself would double it
                self.rebuild(at, full);
            } else if full < SEGMENT_ENTRIES || *depth >= MAX_DEPTH {
                self.rebuild(at, full + 1);
            } else {
                self.split(at);
            }
        }
    }

    /// Moves a segment's entries into a fresh table with room for `capacity`.
    fn rebuild(&mut self, at: usize, capacity: usize) {
        let salt = self.salt;
        let old = std::mem::take(&mut self.segments[at].entries);
        self.bytes -= old.allocation_size();
        let mut new = HashTable::with_capacity(capacity);
        for entry in old {
            new.insert_unique(mix(entry.key(), salt), entry, |entry| mix(entry.key(), salt));
        }
        self.bytes += new.allocation_size();
        self.segments[at].entries = new;
    }

    fn split(&mut self, at: usize) {
        let depth = self.segments[at].depth;
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
            self.bytes += self.directory.len() / 2 * size_of::<u32>();
        }
        let salt = self.salt;
        let old = std::mem::take(&mut self.segments[at].entries);
        self.bytes -= old.allocation_size();
        let bit = 1u64 << (32 + depth);
        let moving = old.iter().filter(|entry| mix(entry.key(), salt) & bit != 0).count();
        let mut stay = HashTable::with_capacity(old.len() - moving);
        let mut moved = HashTable::with_capacity(moving);
        for entry in old {
            let hash = mix(entry.key(), salt);
            let to = if hash & bit == 0 { &mut stay } else { &mut moved };
            to.insert_unique(hash, entry, |entry| mix(entry.key(), salt));
        }
        self.bytes += stay.allocation_size() + moved.allocation_size() + size_of::<Segment<T>>();
        let new = self.segments.len() as u32;
        self.segments[at] = Segment { entries: stay, depth: depth + 1 };
        self.segments.push(Segment { entries: moved, depth: depth + 1 });
        let step = 1usize << depth;
        for (position, slot) in self.directory.iter_mut().enumerate() {
            if *slot as usize == at && position & step != 0 {
                *slot = new;
            }
        }
    }

    fn shrink(&mut self, at: usize) {
        let salt = self.salt;
        let entries = &mut self.segments[at].entries;
        if entries.capacity() > SHRINK_ABOVE && entries.len() * 8 < entries.capacity() {
            let before = entries.allocation_size();
            entries.shrink_to(entries.len() * 2, |entry| mix(entry.key(), salt));
            self.bytes -= before - entries.allocation_size();
        }
        if self.len == 0 {
            self.clear();
        }
    }
}
