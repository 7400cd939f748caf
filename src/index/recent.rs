//! Blocks that a publisher just removed by its dialect's names: a child or a placeholder that comes right after the
//! removal still finds its place. Bounded; one entry a stretch, since blocks go in stretches.
//!
//! An entry pins its last position, and so every block in front of it. That a block was stored again meanwhile is no
//! matter: it is known either way.

use super::cover::Stretch;
use super::run::{Place, Runs};
use std::collections::VecDeque;

/// Blocks that a publisher remembers so.
pub const RECENT_BLOCKS: usize = 1024;
/// An entry of more blocks takes no further ones: they are forgotten together.
const ENTRY_BLOCKS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    run: u32,
    span: Stretch,
}

impl Entry {
    fn holds(self, place: Place) -> bool {
        self.run == place.run && self.span.start <= place.at && place.at < self.span.end
    }

    fn last(self) -> Place {
        Place { run: self.run, at: self.span.end - 1 }
    }

    fn len(self) -> usize {
        usize::from(self.span.end - self.span.start)
    }
}

/// Stretches just removed, oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    entries: VecDeque<Entry>,
    blocks: usize,
}

impl Recent {
    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Whether the block was just removed.
    pub fn holds(&self, place: Place) -> bool {
        self.entries.iter().rev().any(|entry| entry.holds(place))
    }

    /// Remembers a stretch, which somebody still holds.
    pub fn remember(&mut self, runs: &mut Runs, run: u32, span: Stretch) {
        self.blocks += usize::from(span.end - span.start);
        let new = Entry { run, span };
        let last = self.entries.back_mut();
        if let Some(last) = last.filter(|last| last.run == run && last.len() < ENTRY_BLOCKS) {
            if last.span.start == span.end {
                last.span.start = span.start;
                return;
            }
            if last.span.end == span.start {
                runs.pin(new.last());
                runs.unpin(last.last());
                last.span.end = span.end;
                return;
            }
        }
        runs.pin(new.last());
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.entries.len() / 2).max(4));
        }
        self.entries.push_back(new);
    }

    /// Asks for the memory that the next removals will need to let the oldest stretches go, a step an entry.
    pub fn approach(&self, runs: &Runs, dialect: u32) {
        if self.blocks + ENTRY_BLOCKS < RECENT_BLOCKS {
            return;
        }
        let steps = (0..Runs::APPROACHES).rev();
        for (entry, step) in self.entries.iter().zip(steps) {
            runs.approach(Place { run: entry.run, at: entry.span.start }, dialect, step);
        }
    }

    /// Forgets the oldest stretch beyond the bound; returns its run, which is to be trimmed.
    pub fn expire(&mut self, runs: &mut Runs) -> Option<u32> {
        if self.blocks > RECENT_BLOCKS { self.forget_oldest(runs) } else { None }
    }

    /// Forgets the oldest stretch; returns its run, which is to be trimmed.
    pub fn forget_oldest(&mut self, runs: &mut Runs) -> Option<u32> {
        let oldest = self.entries.pop_front()?;
        self.blocks -= oldest.len();
        runs.unpin(oldest.last());
        if self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        Some(oldest.run)
    }

    /// Forgets one block: its name denotes another one now. Its run is to be trimmed.
    pub fn forget(&mut self, runs: &mut Runs, place: Place) {
        while let Some(index) = self.entries.iter().position(|entry| entry.holds(place)) {
            let Entry { run, span } = self.entries[index];
            let before = Entry { run, span: Stretch { start: span.start, end: place.at } };
            let behind = Entry { run, span: Stretch { start: place.at + 1, end: span.end } };
            let left = [before, behind].into_iter().filter(|entry| entry.span.start < entry.span.end);
            left.clone().for_each(|entry| runs.pin(entry.last()));
            runs.unpin(self.entries[index].last());
            self.blocks -= 1;
            self.entries.remove(index);
            for entry in left {
                self.entries.insert(index, entry);
            }
        }
    }
}
