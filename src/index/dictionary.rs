//! A dialect's dictionary: engine hash → place, eight bytes a block.
//!
//! An entry has no key. It has a place and 24 bits of the key's hash; the label that the dialect's column has at
//! that place says whether it is the right one. Once splits have used up eight of those bits, the places of a segment
//! are asked for their names again.

use super::run::Place;
use super::segments::{Group, Segments, Shape, entries, entry};
use super::table::mix;

const RUN_BITS: u32 = 64 - 16 - Names::TAG_BITS;
/// Groups whose names are on their way from memory at once when tags are renewed.
const RENEWED_AT_ONCE: usize = 4;
/// Runs whose blocks a dictionary can name; the next one would make a free slot.
pub const NAMED_RUNS: u32 = (1 << RUN_BITS) - 1;

/// Entries: a tag, a run and a position in it.
struct Names;

impl Shape for Names {
    const TAG_BITS: u32 = 24;
    const SPLIT_BITS: u32 = if cfg!(test) { 2 } else { 8 }; // few, where a test is to reach the end of them
    const FULL: usize = 9; // five sixths on average
    /// So that no segment is larger than 8 KiB: allocators keep larger objects in pages of half a megabyte, and what
    /// is free in those stays in memory.
    const SEGMENT_ENTRIES: usize = 900;
    const MAX_DEPTH: u32 = 24;
}

fn rest(place: Place) -> u64 {
    u64::from(place.run) << 16 | u64::from(place.at)
}

fn place(entry: u64) -> Place {
    Place { run: (entry >> 16) as u32 & NAMED_RUNS, at: entry as u16 }
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
    names: Segments<Names>,
    salt: u64,
}

impl Dictionary {
    /// An empty dictionary; allocates nothing. `salt` is the process's own.
    pub fn new(salt: u64) -> Self {
        Self { names: Segments::new(), salt }
    }

    /// Whether nothing has a label.
    pub fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.names.bytes()
    }

    /// Any place that has a name.
    pub fn any(&self) -> Option<Place> {
        self.names.any().map(place)
    }

    /// The place of a name: the one of its candidates whose label `is` the name.
    pub fn find(&self, name: u64, is: impl Fn(Place) -> bool) -> Option<Place> {
        self.names.find(mix(name, self.salt), |entry| is(place(entry))).map(place)
    }

    /// Asks for what a search for the name begins with; the misses of several overlap.
    pub fn warm(&self, name: u64) {
        self.names.warm(mix(name, self.salt));
    }

    /// Adds a name that is not there.
    pub fn insert(&mut self, name: u64, place: Place, known: &impl Named) {
        let salt = self.salt;
        self.names.insert(mix(name, salt), rest(place), |groups, base| renew(groups, base, known, salt));
    }

    /// Takes a name from its place; returns whether it was there.
    pub fn remove(&mut self, name: u64, place: Place) -> bool {
        self.names.remove(mix(name, self.salt), rest(place))
    }
}

/// Lets the tags of some groups begin at directory bit `base`: their places are asked for their names again.
fn renew<K: Named>(groups: &mut [Group], base: u32, known: &K, salt: u64) {
    for some in groups.chunks_mut(RENEWED_AT_ONCE) {
        for step in 0..K::STEPS {
            entries(some).for_each(|entry| known.approach(place(entry), step));
        }
        some.iter_mut().flat_map(Group::taken).for_each(|slot| {
            let place = place(*slot);
            *slot = entry::<Names>(mix(known.name(place), salt), base, rest(place));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::prefetch::prefetch;
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
        assert!(naive.len() > Names::SEGMENT_ENTRIES * 2);
        assert_eq!(dictionary.names.len(), naive.len());
        for (name, place) in naive {
            assert_eq!(dictionary.find(name, |place| labels[place.run as usize] == name), Some(place));
            assert!(dictionary.remove(name, place));
        }
        assert_eq!((dictionary.names.len(), dictionary.bytes()), (0, 0));
    }
}
