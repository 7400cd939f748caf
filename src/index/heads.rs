//! Which run begins with a block: eight bytes a run.
//!
//! An entry has no hash. It has the run and 32 bits of the mixed hash; the first hash of the run says whether it is the
//! right one, and whoever finds a run is about to read it anyway.

use super::segments::{Segments, Shape};
use super::table::mix;

/// Entries: a tag and a run.
struct Firsts;

impl Shape for Firsts {
    const TAG_BITS: u32 = 32;
    const SPLIT_BITS: u32 = Self::MAX_DEPTH;
    // so empty that hardly a group is full: a miss ends in the first one
    const FULL: usize = 5;
    const SEGMENT_ENTRIES: usize = 4000;
    // more segments than four thousand million runs need, and tags last as long
    const MAX_DEPTH: u32 = 16;
}

/// First hash of a run → the run.
pub struct Heads {
    firsts: Segments<Firsts>,
    salt: u64,
}

impl Heads {
    /// No runs; allocates nothing. `salt` is the process's own.
    pub fn new(salt: u64) -> Self {
        Self { firsts: Segments::new(), salt }
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.firsts.len() == 0
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.firsts.bytes()
    }

    /// The run that begins with a hash: the one of its candidates of which `is` says so.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.firsts.find(mix(hash, self.salt), |entry| is(entry as u32)).map(|entry| entry as u32)
    }

    /// A run begins with a hash. No run has the highest number.
    pub fn insert(&mut self, hash: u64, run: u32) {
        let renew = |_: &mut [_], _| unreachable!("splits end before the tags do");
        self.firsts.insert(mix(hash, self.salt), u64::from(run), renew);
    }

    /// A run goes that begins with a hash; returns whether it was there.
    pub fn remove(&mut self, hash: u64, run: u32) -> bool {
        self.firsts.remove(mix(hash, self.salt), u64::from(run))
    }

    /// Segments, for step-wise visits with [`Heads::segment`].
    pub fn segments(&self) -> usize {
        self.firsts.segments()
    }

    /// The runs of one segment. Splits only ever append segments, so a visit in index order meets every run that was
    /// there all the while.
    pub fn segment(&self, at: usize) -> impl Iterator<Item = u32> {
        self.firsts.segment(at).map(|entry| entry as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Runs that come and go at random, some of which begin alike: what is found is what a map has, visits in between
    /// meet whoever stays, and the bytes come back.
    #[test]
    fn heads_are_a_map() {
        let (mut dice, mut heads) = (1_u64, Heads::new(7));
        let (mut naive, mut firsts) = (HashMap::new(), Vec::new());
        for step in 0..60_000_u32 {
            dice = mix(dice.wrapping_add(0x9E37_79B9), 3);
            let growing = step % 20_000 < 14_000;
            let hash = if dice & 1 == 0 || !growing { dice >> 8 & 0x1FFF } else { dice };
            if let Some(run) = naive.remove(&hash) {
                assert!(heads.remove(hash, run));
                assert!(!heads.remove(hash, run));
            } else if growing {
                naive.insert(hash, firsts.len() as u32);
                heads.insert(hash, firsts.len() as u32);
                firsts.push(hash);
            }
            assert_eq!(heads.find(hash, |run| firsts[run as usize] == hash), naive.get(&hash).copied());
        }
        assert!(naive.len() > Firsts::SEGMENT_ENTRIES * 2);
        let mut visited: Vec<u32> = (0..heads.segments()).flat_map(|at| heads.segment(at)).collect();
        let mut all: Vec<u32> = naive.values().copied().collect();
        visited.sort_unstable();
        all.sort_unstable();
        assert_eq!(visited, all);
        for (hash, run) in naive {
            assert_eq!(heads.find(hash, |run| firsts[run as usize] == hash), Some(run));
            assert!(heads.remove(hash, run));
        }
        assert!(heads.is_empty());
        assert_eq!(heads.bytes(), 0);
    }
}
