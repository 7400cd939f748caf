//! What a publisher's holdings change in the shard: covers, owners, contexts, dialects.

use super::contexts::Contexts;
use super::cover::Stretch;
use super::dialect::Dialects;
use super::names::{Names, Places};
use super::publisher::{Books, Publisher};
use super::run::{Place, Runs};
use super::shard::Shard;

/// Runs that one removal gives back; those that only kept each other alive go a few at a time.
const FREED_AT_ONCE: usize = 32;

/// The shard apart from one publisher's names.
pub(super) struct Ledger<'a> {
    pub(super) runs: &'a mut Runs,
    pub(super) contexts: &'a mut Contexts,
    pub(super) dialects: &'a mut Dialects,
    pub(super) books: Books<'a>,
}

impl Shard {
    /// A publisher's names, and what their changes touch.
    pub(super) fn ledger<'a>(&'a mut self, publisher: &'a mut Publisher) -> (&'a mut Names, Ledger<'a>) {
        let (names, books) = publisher.split();
        let Self { runs, contexts, dialects, .. } = self;
        (names, Ledger { runs, contexts, dialects, books })
    }

    /// Gives about `budget` runs back that only those kept alive which went; returns whether all are gone.
    pub(super) fn purge_orphaned(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(parent) = self.runs.postponed() else { return true };
            self.runs.unpin(parent);
            trim(&mut self.runs, &mut self.contexts, &mut self.dialects, parent.run);
        }
        false
    }
}

/// Positions of the run may have died, and with them what it went on behind.
fn trim(runs: &mut Runs, contexts: &mut Contexts, dialects: &mut Dialects, run: u32) {
    let mut next = run;
    for _ in 0..FREED_AT_ONCE {
        let Some(doomed) = runs.doomed(next) else { return };
        let cut = runs.before_cut(doomed);
        let context = cut.run.context;
        contexts.get_mut(context).cut(&cut);
        dialects.cut(&cut);
        let parent = runs.cut(doomed);
        contexts.drop_if_idle(context);
        let Some(parent) = parent.or_else(|| runs.postponed()) else { return };
        runs.unpin(parent);
        next = parent.run;
    }
    let first = Place { run: next, at: 0 };
    runs.pin(first);
    runs.postpone(first);
}

impl Ledger<'_> {
    /// Positions of the run may have died.
    pub(super) fn trim(&mut self, run: u32) {
        trim(self.runs, self.contexts, self.dialects, run);
    }

    /// Takes a stretch from a lane that holds all of it.
    pub(super) fn release_all(&mut self, run: u32, span: Stretch, lane: u8) {
        let context = self.runs.get(run).context;
        let Some(owner) = self.books.lanes[usize::from(lane)].owner(context) else { return };
        let instance = self.contexts.instance(context, owner);
        if let Some(listed) = self.runs.release(run, span, instance, owner) {
            self.unlist(context, instance, owner, listed);
        }
        self.lost(lane, context, u64::from(span.end - span.start));
        self.trim(run);
    }

    /// An owner holds nothing of a run any more, which its list has at `listed`.
    fn unlist(&mut self, context: u32, instance: u32, owner: u32, listed: u32) {
        let Some(known) = self.contexts.get_mut(context).owners[owner as usize].as_mut() else { return };
        known.runs.swap_remove(listed as usize);
        if let Some(moved) = known.runs.get(listed as usize) {
            self.runs.relist(*moved, instance, owner, listed);
        }
        if known.runs.len() * 2 < known.runs.capacity() {
            known.runs.shrink_to(known.runs.len() * 5 / 4);
        }
    }

    /// A lane holds `blocks` less in a context.
    fn lost(&mut self, lane: u8, context: u32, blocks: u64) {
        self.contexts.get_mut(context).held -= blocks;
        self.books.stats.blocks_held.set(self.books.stats.blocks_held.get() - blocks);
        if let Some(last) = self.books.lanes[usize::from(lane)].lose(context, blocks) {
            self.contexts.remove_owner(context, last);
        }
    }

    /// The last span that a lane holds of any run, in one of the contexts that `of` accepts.
    pub(super) fn any_held(&self, lane: u8, of: impl Fn(u32) -> bool) -> Option<(u32, Stretch)> {
        let mut owners = self.books.lanes[usize::from(lane)].owners().filter(|(context, _)| of(*context));
        owners.find_map(|(context, owner)| {
            let known = self.contexts.get(context).owners[owner as usize].as_ref()?;
            let run = *known.runs.last()?;
            let covers = &self.runs.get(run).covers;
            let at = self.runs.get(run).cover_of(known.instance, owner).ok()?;
            Some((run, covers.at(at).last()))
        })
    }

    /// Takes about `most` blocks of one run from a lane whose names are gone; returns how many.
    pub(super) fn strip(&mut self, lane: u8, most: usize) -> usize {
        let Some((run, _)) = self.any_held(lane, |_| true) else { return 0 };
        let context = self.runs.get(run).context;
        let Some(owner) = self.books.lanes[usize::from(lane)].owner(context) else { return 0 };
        let instance = self.contexts.instance(context, owner);
        let (taken, listed) = self.runs.strip(run, instance, owner, most.min(usize::from(u16::MAX)) as u16);
        if let Some(listed) = listed {
            self.unlist(context, instance, owner, listed);
        }
        self.lost(lane, context, u64::from(taken));
        self.trim(run);
        usize::from(taken)
    }
}

impl Places for Ledger<'_> {
    fn release(&mut self, place: Place, lane: u8) {
        if let Some(base) = self.books.lanes[usize::from(lane)].base {
            return self.release_part(place, lane, base);
        }
        self.release_all(place.run, Stretch { start: place.at, end: place.at + 1 }, lane);
    }

    fn pin(&mut self, place: Place) {
        self.runs.pin(place);
    }

    fn unpin(&mut self, place: Place) {
        self.runs.unpin(place);
        self.trim(place.run);
    }
}
