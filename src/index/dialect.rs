//! Dialects: publishers that hash alike call a block alike, and share one dictionary and one column a run.
//!
//! A publisher begins undecided, with names of its own. The first block that it stores where a dialect already has
//! a name decides: the same name is proof that both hash alike, other names are proof that nobody there does. One
//! that shares nothing, or hashes as nobody else does (a randomly seeded engine), gets a dialect of its own. What a
//! publisher stored before that, or calls otherwise than its dialect does, stays among its own names.
//!
//! What a dialect's name means to one of its publishers is what that publisher holds: a label is no copy.

use super::dictionary::{Dictionary, Named};
use super::run::{Cut, Place, Runs};

/// No name. A publisher's hash of this value never gets into a dialect.
pub const UNLABELLED: u64 = 0x8F1B_BCDC_BFA5_3E0B;
/// Blocks with other names after which an undecided publisher hashes as nobody else does.
const DISAGREEMENTS: u32 = 4;
/// Blocks that no dialect has a name for after which an undecided publisher shares nothing.
const STRANGERS: u32 = 256;

/// Names of an event that are asked for before the first is searched.
pub(super) const WARMED: usize = 64;

struct Dialect {
    dictionary: Dictionary,
    /// What its names say by themselves.
    plain: Plain,
    /// Publishers that speak it.
    speakers: u32,
}

/// What is known of all names of a dialect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// Each is the rolling hash of a block of this context: another block of it has another name.
    Hashes(u32),
    /// Nothing.
    No,
}

/// How a publisher names its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speech {
    /// Nothing tells yet.
    Undecided {
        /// Blocks that others call otherwise.
        disagreements: u32,
        /// Blocks that nobody has a name for.
        strangers: u32,
    },
    /// As this dialect does.
    Dialect(u32),
    /// Like nobody, for good: its names are no blocks' names.
    Alone,
}

impl Speech {
    /// Nothing tells yet.
    pub const NEW: Self = Self::Undecided { disagreements: 0, strangers: 0 };

    /// The dialect.
    pub fn dialect(self) -> Option<u32> {
        match self {
            Self::Dialect(dialect) => Some(dialect),
            _ => None,
        }
    }
}

/// What one dialect calls the blocks of all runs.
struct Spoken<'a> {
    runs: &'a Runs,
    dialect: u32,
}

impl Named for Spoken<'_> {
    const STEPS: usize = Runs::APPROACHES;

    fn name(&self, place: Place) -> u64 {
        self.runs.label(place, self.dialect)
    }

    fn approach(&self, place: Place, step: usize) {
        self.runs.approach(place, self.dialect, step);
    }
}

/// All dialects of a shard.
pub(super) struct Dialects {
    slots: Vec<Option<Dialect>>,
    /// Dialects that nobody speaks any more, on the way out.
    dying: Vec<u32>,
    salt: u64,
}

impl Dialects {
    pub(super) fn new(salt: u64) -> Self {
        Self { slots: Vec::new(), dying: Vec::new(), salt }
    }

    /// Heap bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Dialect>>()
            + self.slots.iter().flatten().map(|dialect| dialect.dictionary.bytes()).sum::<usize>()
    }

    fn get(&self, dialect: u32) -> &Dialect {
        self.slots[dialect as usize].as_ref().expect("a dialect outlives its speakers and labels")
    }

    fn get_mut(&mut self, dialect: u32) -> &mut Dialect {
        self.slots[dialect as usize].as_mut().expect("a dialect outlives its speakers and labels")
    }

    /// What a publisher speaks that stores the block at `place` under this name.
    pub(super) fn hear(&mut self, speech: Speech, runs: &Runs, name: u64, place: Place) -> Speech {
        let Speech::Undecided { mut disagreements, mut strangers } = speech else { return speech };
        let mut named = false;
        let run = runs.get(place.run);
        for (dialect, labels) in run.columns.all(&run.hashes) {
            match labels.get(usize::from(place.at)) {
                UNLABELLED => {}
                label if label == name => return self.join(dialect),
                _ => named = true,
            }
        }
        if named {
            disagreements += 1;
        } else {
            strangers += 1;
        }
        if self.slots.is_empty() || disagreements >= DISAGREEMENTS || strangers >= STRANGERS {
            return self.found();
        }
        Speech::Undecided { disagreements, strangers }
    }

    fn join(&mut self, dialect: u32) -> Speech {
        self.get_mut(dialect).speakers += 1;
        Speech::Dialect(dialect)
    }

    fn found(&mut self) -> Speech {
        let new = Dialect { dictionary: Dictionary::new(self.salt), plain: Plain::No, speakers: 1 };
        let free = self.slots.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[at] = Some(new);
        Speech::Dialect(at as u32)
    }

    /// A publisher speaks no more.
    pub(super) fn leave(&mut self, speech: Speech) {
        if let Speech::Dialect(dialect) = speech {
            let left = self.get_mut(dialect);
            left.speakers -= 1;
            if left.speakers == 0 {
                self.dying.push(dialect);
            }
        }
    }

    /// The place that a dialect's name denotes.
    pub(super) fn find(&self, runs: &Runs, dialect: u32, name: u64) -> Option<Place> {
        self.get(dialect).dictionary.find(name, |place| runs.label(place, dialect) == name)
    }

    /// Touches what a search for these names begins with.
    pub(super) fn warm(&self, dialect: u32, names: &[u64]) {
        let dictionary = &self.get(dialect).dictionary;
        for name in names {
            dictionary.warm(*name);
        }
    }

    /// Names the blocks from a place on, which have no names, nor have the names places.
    pub(super) fn name(&mut self, runs: &mut Runs, dialect: u32, names: &[u64], first: Place) {
        runs.set_labels(first, dialect, names);
        let known = Spoken { runs, dialect };
        let Dialect { dictionary, plain, .. } = self.get_mut(dialect);
        let run = runs.get(first.run);
        let hashes = Plain::Hashes(run.context);
        if dictionary.is_empty() || *plain == hashes {
            let own = run.equal(names, usize::from(first.at)) == names.len();
            *plain = if own { hashes } else { Plain::No };
        } else {
            *plain = Plain::No;
        }
        for (nth, (name, at)) in names.iter().zip(first.at..).enumerate() {
            // the first ones were asked for when their event began
            if nth > 0 && nth % WARMED == 0 {
                names[nth..].iter().take(WARMED).for_each(|name| dictionary.warm(*name));
            }
            dictionary.insert(*name, Place { run: first.run, at }, &known);
        }
    }

    /// Whether the dialect calls every block that it has a name for by its rolling hash, and all of them stand in this
    /// context: then a block without a name whose hash is asked for is not known under it.
    pub(super) fn has_hashes_only(&self, dialect: u32, context: u32) -> bool {
        let known = self.get(dialect);
        known.plain == Plain::Hashes(context) || known.dictionary.is_empty()
    }

    /// Whether the dialect has the name at any place.
    pub(super) fn knows(&self, runs: &Runs, dialect: u32, name: u64) -> bool {
        self.find(runs, dialect, name).is_some()
    }

    /// Forgets the names of blocks that are to be cut.
    pub(super) fn cut(&mut self, cut: &Cut<'_>) {
        let (run, from) = (cut.doomed.run, cut.doomed.from);
        for (dialect, labels) in cut.columns() {
            let dictionary = &mut self.get_mut(dialect).dictionary;
            let gone = || labels.from(usize::from(from));
            gone().for_each(|label| dictionary.warm(label));
            for (label, at) in gone().zip(from..) {
                if label != UNLABELLED {
                    dictionary.remove(label, Place { run, at });
                }
            }
        }
    }

    /// Takes away about `budget` names of dialects that nobody speaks; returns whether all are gone.
    pub(super) fn purge(&mut self, runs: &mut Runs, budget: usize) -> bool {
        let mut done = 0;
        while let Some(dialect) = self.dying.last().copied() {
            let Some(known) = self.slots[dialect as usize].as_mut().filter(|known| known.speakers == 0)
            else {
                self.dying.pop();
                continue;
            };
            let dictionary = &mut known.dictionary;
            while done < budget
                && let Some(place) = dictionary.any()
            {
                let (from, labels) = runs.cut_column(place.run, dialect, budget - done);
                for (label, at) in labels.iter().zip(from..) {
                    if *label != UNLABELLED {
                        dictionary.remove(*label, Place { run: place.run, at });
                    }
                }
                done += labels.len();
            }
            if !dictionary.is_empty() {
                return false;
            }
            self.slots[dialect as usize] = None;
            self.dying.pop();
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        if self.slots.is_empty() {
            *self = Self::new(self.salt);
        }
        true
    }
}
