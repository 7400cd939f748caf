//! Stored chunks found again anywhere in a prompt, across the fleet.
//!
//! Servers publish the tokens of what they stored with the storage key of each chunk; a prompt is then looked through
//! window by window. Two chunks are the same where their 64-bit hashes are, within one scope (model and tenant); tokens
//! are not kept, and not compared. Of equal chunks the first that was published counts.
//!
//! The directory is bounded: beyond [`FLEET_FINGERPRINTS`], or [`FLEET_FINGERPRINT_BYTES`] of text, the oldest go. What
//! is not found is computed again, which is slower and never wrong.

pub mod codec;
mod names;
pub mod rolling;

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::limits::{FLEET_FINGERPRINT_BYTES, FLEET_FINGERPRINTS};
use names::Names;
use rolling::Window;

/// Most chunks that a step takes in.
const CHUNKS: usize = 256;
/// No print.
const NONE: u32 = u32::MAX;

/// A stored range of tokens, as a server publishes it.
#[derive(Debug)]
pub struct Range<'a, T, K> {
    /// Model and tenant.
    pub scope: &'a str,
    /// Its tokens.
    pub tokens: &'a [T],
    /// Storage key of each complete chunk, in order.
    pub object_keys: &'a [K],
    /// Position of its first token in the stored sequence.
    pub old_st_base: u64,
}

/// A chunk that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Storage key of the chunk.
    pub object_key: Arc<str>,
    /// Its position in the stored sequence, tokens.
    pub old_st: u64,
    /// Its position in the prompt, tokens.
    pub cur_st: u64,
}

/// The fingerprint of a chunk.
#[derive(Clone, Copy, Debug)]
struct Print {
    hash: u64,
    old_st: u64,
    scope: u32,
    key: u32,
    /// Next print of the same key.
    next: u32,
    /// The prints published before and after it.
    older: u32,
    newer: u32,
}

/// First and last of a chain of prints.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// All fingerprints of the fleet.
#[derive(Debug)]
pub struct Directory {
    chunk_size: usize,
    stride: usize,
    most: usize,
    scopes: Names,
    keys: Names,
    /// The prints of each key, oldest first.
    of_key: Vec<Ends>,
    prints: Vec<Print>,
    free: Vec<u32>,
    /// Prints by scope and hash.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// All prints, oldest first.
    ages: Ends,
    dropped: u64,
}

/// A range on its way in.
#[derive(Debug)]
pub struct Publishing<'a, T, K> {
    range: Range<'a, T, K>,
    chunk: usize,
    inserted: u64,
}

impl<T, K> Publishing<'_, T, K> {
    /// Fingerprints that were new.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }
}

/// A prompt that is looked through.
#[derive(Debug)]
pub struct Matching<'a, T> {
    scope: &'a str,
    tokens: &'a [T],
    window: Window,
    seen: HashSet<Arc<str>>,
    matches: Vec<Match>,
}

impl<T> Matching<'_, T> {
    /// What was found, by position in the prompt.
    pub fn into_matches(self) -> Vec<Match> {
        self.matches
    }

    /// What was found, and the keys of it, which may be as many.
    pub fn into_parts(self) -> (Vec<Match>, HashSet<Arc<str>>) {
        (self.matches, self.seen)
    }
}

impl Directory {
    /// An empty directory. Chunks of `chunk_size` tokens; a prompt is probed every `stride` positions. Both are at
    /// least 1.
    pub fn new(chunk_size: u64, stride: u64) -> Self {
        Self::with_most(chunk_size, stride, FLEET_FINGERPRINTS)
    }

    /// As [`Self::new`], with another bound on fingerprints, at least 1.
    pub fn with_most(chunk_size: u64, stride: u64, most: usize) -> Self {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Self {
            chunk_size: size(chunk_size),
            stride: size(stride),
            most: most.clamp(1, FLEET_FINGERPRINTS),
            scopes: Names::default(),
            keys: Names::default(),
            of_key: Vec::new(),
            prints: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            ages: EMPTY,
            dropped: 0,
        }
    }

    /// Fingerprints that are kept.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Fingerprints that went because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins to take in a range; `None` where it has not one key for each complete chunk. Such a range comes from a
    /// server with another chunk size, and would map chunks to the keys of others.
    pub fn publish<'a, T, K>(&self, range: Range<'a, T, K>) -> Option<Publishing<'a, T, K>> {
        let fits = range.tokens.len() / self.chunk_size == range.object_keys.len();
        fits.then_some(Publishing { range, chunk: 0, inserted: 0 })
    }

    /// Takes in about `tokens` tokens more, at most `CHUNKS` chunks; whether there are more.
    pub fn publish_step<T: Copy + Into<u64>, K: AsRef<str>>(
        &mut self,
        publishing: &mut Publishing<'_, T, K>,
        tokens: usize,
    ) -> bool {
        let range = &publishing.range;
        let chunks = range.object_keys.len();
        let most = (tokens / self.chunk_size).saturating_add(1).min(CHUNKS);
        let until = (publishing.chunk + most).min(chunks);
        for chunk in publishing.chunk..until {
            let start = chunk * self.chunk_size;
            let hash = rolling::hash(&range.tokens[start..start + self.chunk_size]);
            let old_st = range.old_st_base.saturating_add(start as u64);
            publishing.inserted +=
                u64::from(self.insert(range.scope, hash, range.object_keys[chunk].as_ref(), old_st));
        }
        publishing.chunk = until;
        until < chunks
    }

    /// Takes in a whole range; the number of new fingerprints.
    pub fn register<T: Copy + Into<u64>, K: AsRef<str>>(&mut self, range: Range<'_, T, K>) -> u64 {
        let Some(mut publishing) = self.publish(range) else { return 0 };
        while self.publish_step(&mut publishing, usize::MAX) {}
        publishing.inserted
    }

    /// Takes out all fingerprints of a storage key; how many there were.
    pub fn remove(&mut self, object_key: &str) -> u64 {
        self.remove_some(object_key, usize::MAX)
    }

    /// Removes at most so many fingerprints of a key, the oldest; how many, which is less when none is left.
    pub fn remove_some(&mut self, object_key: &str, most: usize) -> u64 {
        let Some(key) = self.keys.find(object_key) else { return 0 };
        let mut removed = 0;
        let mut next = self.of_key[key as usize].first;
        while next != NONE && removed < most {
            let at = next;
            next = self.prints[at as usize].next;
            self.unlink(at);
            removed += 1;
        }
        removed as u64
    }

    /// Begins to look through a prompt.
    pub fn find<'a, T>(&self, scope: &'a str, tokens: &'a [T]) -> Matching<'a, T> {
        let window = Window::new(self.chunk_size);
        Matching { scope, tokens, window, seen: HashSet::new(), matches: Vec::new() }
    }

    /// Looks through about `tokens` tokens more; whether there are more. The directory may change between steps.
    pub fn find_step<T: Copy + Into<u64>>(&self, matching: &mut Matching<'_, T>, tokens: usize) -> bool {
        let until = matching.window.seen().saturating_add(tokens.max(1)).min(matching.tokens.len());
        let Some(scope) = self.scopes.find(matching.scope) else { return false };
        while matching.window.seen() < until {
            let Some((position, hash)) = matching.window.advance(matching.tokens) else { continue };
            if position % self.stride != 0 {
                continue;
            }
            let Some(print) = self.lookup(scope, hash) else { continue };
            let object_key = self.keys.text(print.key);
            if matching.seen.contains(object_key) {
                continue;
            }
            matching.seen.insert(object_key.clone());
            let (object_key, old_st) = (object_key.clone(), print.old_st);
            matching.matches.push(Match { object_key, old_st, cur_st: position as u64 });
        }
        until < matching.tokens.len()
    }

    /// The chunks of a scope that `tokens` have, each key once, where it is first found, by position.
    pub fn matches<T: Copy + Into<u64>>(&self, scope: &str, tokens: &[T]) -> Vec<Match> {
        let mut matching = self.find(scope, tokens);
        while self.find_step(&mut matching, usize::MAX) {}
        matching.matches
    }

    fn lookup(&self, scope: u32, hash: u64) -> Option<&Print> {
        let is_it = |at: &u32| {
            let print = &self.prints[*at as usize];
            print.hash == hash && print.scope == scope
        };
        let at = self.table.find(self.hasher.hash_one((scope, hash)), is_it)?;
        Some(&self.prints[*at as usize])
    }

    /// Adds a print unless an equal one is there; whether it did.
    fn insert(&mut self, scope: &str, hash: u64, key: &str, old_st: u64) -> bool {
        if self.scopes.find(scope).is_some_and(|scope| self.lookup(scope, hash).is_some()) {
            return false;
        }
        let (scope, key) = (self.scopes.take(scope), self.keys.take(key));
        let print = Print { hash, old_st, scope, key, next: NONE, older: self.ages.last, newer: NONE };
        let at = if let Some(at) = self.free.pop() {
            self.prints[at as usize] = print;
            at
        } else {
            self.prints.push(print);
            (self.prints.len() - 1) as u32
        };
        self.link(at);
        while self.ages.first != NONE
            && (self.len() > self.most || self.keys.bytes() + self.scopes.bytes() > FLEET_FINGERPRINT_BYTES)
        {
            self.unlink(self.ages.first);
            self.dropped += 1;
        }
        true
    }

    /// Puts a print behind all others, of its key and by age, and where it is found.
    fn link(&mut self, at: u32) {
        let Print { hash, scope, key, .. } = self.prints[at as usize];
        if self.of_key.len() <= key as usize {
            self.of_key.resize(key as usize + 1, EMPTY);
        }
        let same = &mut self.of_key[key as usize];
        match same.last {
            NONE => same.first = at,
            last => self.prints[last as usize].next = at,
        }
        same.last = at;
        match self.ages.last {
            NONE => self.ages.first = at,
            last => self.prints[last as usize].newer = at,
        }
        self.ages.last = at;
        let (prints, hasher) = (&self.prints, &self.hasher);
        let hash_of = |at: &u32| {
            let print = &prints[*at as usize];
            hasher.hash_one((print.scope, print.hash))
        };
        self.table.insert_unique(hasher.hash_one((scope, hash)), at, hash_of);
    }

    /// Takes out a print that is the oldest of its key.
    fn unlink(&mut self, at: u32) {
        let print = self.prints[at as usize];
        let same = &mut self.of_key[print.key as usize];
        debug_assert_eq!(same.first, at);
        same.first = print.next;
        if print.next == NONE {
            same.last = NONE;
        }
        match print.older {
            NONE => self.ages.first = print.newer,
            older => self.prints[older as usize].newer = print.newer,
        }
        match print.newer {
            NONE => self.ages.last = print.older,
            newer => self.prints[newer as usize].older = print.older,
        }
        let hash = self.hasher.hash_one((print.scope, print.hash));
        if let Ok(found) = self.table.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.scopes.give_back(print.scope);
        self.keys.give_back(print.key);
        self.free.push(at);
    }
}
