//! Runs: contiguous arrays of rolling hashes. A block's *place* is a run and a position in it, and a place
//! never moves: a publisher that leaves a run in the middle simply starts another run there.
//!
//! Invariants worth naming:
//! - neighbours in a run are parent and child, so equal hashes at one position mean equal stretches before it;
//! - within a context a hash has at most one place;
//! - a position that a cover or a pin needs is never cut; whatever lies behind all of them goes in time;
//! - a run pins the block that it goes on behind: where everybody says what precedes a block, one that has no
//!   place has none behind it either, and a circle is always recognised.

use super::column::{Columns, Labels};
use super::cover::Stretch;
use super::covers::{Covers, Holder};
use super::dialect::UNLABELLED;
use super::pins::Pins;
use super::prefetch::prefetch;

/// Most blocks of one run; a longer prefix goes on in another.
pub const RUN_BLOCKS: usize = u16::MAX as usize;
/// Dead positions a run keeps before its tail is looked at again.
const SLACK: u16 = 16;
/// Blocks announced for which a run makes room before they come.
const AHEAD: usize = 64;
/// No number of a run, nor of blocks.
const UNKNOWN: u32 = u32::MAX;
/// Runs passed on the way to the root before one is linked to a parent that it was made without.
const LINK_STEPS: usize = 256;

/// A block: position `at` of run `run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Place {
    /// The run.
    pub run: u32,
    /// The position in it.
    pub at: u16,
}

/// A stretch of one path.
// a query reads the first of two cache lines, and mostly no more; allocators align what is as large as two
#[derive(Debug)]
#[repr(C)]
pub struct Run {
    /// Rolling hashes.
    pub hashes: Vec<u64>,
    /// Who holds what.
    pub covers: Covers,
    /// What the dialects call these blocks.
    pub columns: Columns,
    /// Positions that stay although nobody may hold them.
    pub(super) pins: Pins,
    /// The context whose path this is.
    pub context: u32,
    /// Run and position of the block before the first, pinned; [`UNKNOWN`] when nobody said.
    behind: u32,
    behind_at: u16,
    /// Positions that may have died since the tail was last looked at.
    slack: u16,
    /// Blocks before the first, or [`UNKNOWN`].
    depth: u32,
}

// two cache lines
const _: () = assert!(size_of::<Run>() == 128 && std::mem::offset_of!(Run, columns) == 64);

impl Run {
    fn parent(&self) -> Option<Place> {
        (self.behind != UNKNOWN).then_some(Place { run: self.behind, at: self.behind_at })
    }

    fn set_parent(&mut self, parent: Place) {
        self.behind = parent.run;
        self.behind_at = parent.at;
    }

    fn depth(&self) -> Option<u32> {
        (self.depth != UNKNOWN).then_some(self.depth)
    }

    /// Heap bytes, but for what stands in the columns.
    fn heap(&self) -> usize {
        size_of::<Self>() + self.hashes.capacity() * size_of::<u64>() + self.covers.heap() + self.pins.heap()
    }

    /// Index of an owner's cover, or where it would stand.
    pub fn cover_of(&self, instance: u32, owner: u32) -> Result<usize, usize> {
        self.covers.find(Holder { instance, owner })
    }

    /// Whether the owner holds the position.
    pub fn held(&self, instance: u32, owner: u32, at: u16) -> bool {
        self.cover_of(instance, owner).is_ok_and(|index| self.covers.at(index).holds(at))
    }

    /// What a dialect calls the blocks.
    pub fn labels(&self, dialect: u32) -> Labels<'_> {
        self.columns.of(dialect, &self.hashes)
    }

    /// How many of these hashes stand in a row from a position on.
    pub fn equal(&self, hashes: &[u64], from: usize) -> usize {
        let known = self.hashes.get(from..).unwrap_or_default();
        known.iter().zip(hashes).take_while(|(known, hash)| known == hash).count()
    }

    fn needed(&self) -> usize {
        usize::from(self.covers.end().max(self.pins.end()))
    }
}

/// All runs of a shard.
#[derive(Default)]
pub struct Runs {
    slots: Vec<Option<Box<Run>>>,
    free: Vec<u32>,
    /// Parents of runs that went, to be unpinned later.
    orphaned: Vec<Place>,
    live: usize,
    heap: usize,
}

/// A tail that nobody needs: before [`Runs::cut`] whoever knows its blocks has to forget them.
#[derive(Clone, Copy, Debug)]
pub struct Doomed {
    /// Its run.
    pub run: u32,
    /// The first position that goes.
    pub from: u16,
    /// Whether the run itself goes; then its first hash is its head.
    pub gone: bool,
}

/// The blocks of such a tail.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// Which they are.
    pub doomed: Doomed,
    /// What their run is until they are cut.
    pub run: &'a Run,
}

impl<'a> Cut<'a> {
    /// Their rolling hashes.
    pub fn hashes(&self) -> &'a [u64] {
        &self.run.hashes[usize::from(self.doomed.from)..]
    }

    /// What the dialects call the blocks of the run.
    pub fn columns(&self) -> impl Iterator<Item = (u32, Labels<'a>)> {
        self.run.columns.all(&self.run.hashes)
    }
}

impl Runs {
    /// Steps from a place to its label: number of a run, run, names.
    pub const APPROACHES: usize = 3;

    /// Live runs.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.heap
            + self.slots.capacity() * size_of::<Option<Box<Run>>>()
            + self.free.capacity() * size_of::<u32>()
            + self.orphaned.capacity() * size_of::<Place>()
    }

    /// A live run. Callers hold places only of blocks that are held or pinned, so the run is there.
    pub fn get(&self, run: u32) -> &Run {
        self.slots[run as usize].as_deref().expect("a place outlives nobody who holds it")
    }

    /// A run that may be gone.
    pub fn try_get(&self, run: u32) -> Option<&Run> {
        self.slots.get(run as usize)?.as_deref()
    }

    fn get_mut(&mut self, run: u32) -> &mut Run {
        self.slots[run as usize].as_deref_mut().expect("a place outlives nobody who holds it")
    }

    /// The rolling hash that stands at a place.
    pub fn hash(&self, place: Place) -> u64 {
        self.get(place.run).hashes[usize::from(place.at)]
    }

    /// What a dialect calls a place.
    pub fn label(&self, place: Place, dialect: u32) -> u64 {
        self.try_get(place.run).map_or(UNLABELLED, |run| run.labels(dialect).get(usize::from(place.at)))
    }

    /// Goes one step of [`Runs::APPROACHES`] towards a label without waiting for it: the steps of several places
    /// overlap.
    pub fn approach(&self, place: Place, dialect: u32, step: usize) {
        let Some(slot) = self.slots.get(place.run as usize) else { return };
        let Some(run) = slot.as_deref().filter(|_| step > 0) else { return prefetch(slot) };
        if step == 1 {
            prefetch(&run.hashes);
            prefetch(&run.columns);
            prefetch(&run.covers);
            prefetch(&run.pins);
        } else if let Some(label) = run.labels(dialect).slot(usize::from(place.at)) {
            prefetch(label);
        }
    }

    /// Lets a dialect name the blocks from a place on.
    pub fn set_labels(&mut self, place: Place, dialect: u32, names: &[u64]) {
        let run = self.get_mut(place.run);
        let grown = run.columns.set(dialect, place.at, names, &run.hashes, run.hashes.capacity());
        self.heap += grown;
    }

    /// Cuts the last `most` labels of a dialect's column; returns the first position cut, and the labels.
    pub fn cut_column(&mut self, run: u32, dialect: u32, most: usize) -> (u16, Vec<u64>) {
        let Run { columns, hashes, .. } = self.get_mut(run);
        let before = columns.heap();
        let cut = columns.cut_one(dialect, hashes, most);
        let after = columns.heap();
        self.heap = self.heap + after - before;
        cut
    }

    /// A new run; `more` blocks are likely to follow at once.
    pub fn create(
        &mut self,
        context: u32,
        blocks: &[u64],
        parent: Option<Place>,
        root: bool,
        more: usize,
    ) -> Place {
        let depth =
            if root { Some(0) } else { parent.and_then(|parent| self.depth(parent)).map(|depth| depth + 1) };
        if let Some(parent) = parent {
            self.pin(parent);
        }
        let mut hashes = Vec::with_capacity(blocks.len() + more.min(AHEAD));
        hashes.extend_from_slice(blocks);
        let Place { run: behind, at: behind_at } = parent.unwrap_or(Place { run: UNKNOWN, at: 0 });
        let run = Box::new(Run {
            context,
            hashes,
            columns: Columns::default(),
            covers: Covers::default(),
            pins: Pins::default(),
            behind,
            behind_at,
            slack: 0,
            depth: depth.unwrap_or(UNKNOWN),
        });
        self.heap += run.heap();
        self.live += 1;
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if let Some(slot) = self.slots.get_mut(number as usize) {
            *slot = Some(run);
        } else {
            self.slots.push(Some(run));
        }
        Place { run: number, at: 0 }
    }

    /// Notes the block before the first of a run that was made without knowing it.
    pub fn link(&mut self, number: u32, parent: Place) {
        let run = self.get(number);
        let first = Place { run: number, at: 0 };
        let known = run.parent().is_some() || run.depth == 0;
        // publishers that do not say what precedes a block may also lie about it
        if known || self.is_ancestor(first, parent, LINK_STEPS) != Some(false) {
            return;
        }
        self.pin(parent);
        let depth = self.depth(parent).map(|depth| depth + 1);
        let run = self.get_mut(number);
        run.set_parent(parent);
        run.depth = depth.unwrap_or(run.depth);
    }

    /// Appends blocks behind the last one, `more` being likely to follow; returns how many there was room for.
    pub fn append(&mut self, number: u32, hashes: &[u64], more: usize) -> usize {
        let run = self.get_mut(number);
        let (at, before) = (run.hashes.len(), run.hashes.capacity());
        let room = hashes.len().min(RUN_BLOCKS - at);
        if at + room > before {
            // what the event brings or a quarter more, not twice: half-empty tails are most of what an index wastes
            run.hashes.reserve_exact((room + more.min(AHEAD)).max(at / 4).max(4));
            self.heap += (self.get(number).hashes.capacity() - before) * size_of::<u64>();
        }
        self.get_mut(number).hashes.extend_from_slice(&hashes[..room]);
        room
    }

    /// Lets an owner hold a stretch. Returns whether it held nothing of the run before; its list of runs then has
    /// this one at `listed`.
    pub fn hold(&mut self, run: u32, holder: Holder, span: Stretch, listed: u32) -> bool {
        self.change(run, |run| match run.covers.find(holder) {
            Ok(at) => {
                run.covers.add(at, span);
                false
            }
            Err(at) => {
                run.covers.insert(at, holder, span, listed);
                true
            }
        })
    }

    /// Takes a stretch from an owner that holds all of it. Returns where the owner's list of runs has this one, when
    /// it holds nothing of it any more.
    pub fn release(&mut self, run: u32, span: Stretch, instance: u32, owner: u32) -> Option<u32> {
        self.change(run, |run| {
            let at = run.cover_of(instance, owner).ok()?;
            run.slack = run.slack.saturating_add(span.end - span.start);
            let left = run.covers.remove_all(at, span);
            (!left).then(|| run.covers.remove(at))
        })
    }

    /// Takes about `most` last positions from an owner; returns how many, and the same as [`Runs::release`].
    pub fn strip(&mut self, run: u32, instance: u32, owner: u32, most: u16) -> (u16, Option<u32>) {
        self.change(run, |run| {
            let Ok(at) = run.cover_of(instance, owner) else { return (0, None) };
            let (taken, left) = run.covers.strip(at, most);
            run.slack = run.slack.saturating_add(taken);
            (taken, (!left).then(|| run.covers.remove(at)))
        })
    }

    /// An owner's list of runs has this one elsewhere now.
    pub fn relist(&mut self, run: u32, instance: u32, owner: u32, listed: u32) {
        let run = self.get_mut(run);
        if let Ok(at) = run.cover_of(instance, owner) {
            run.covers.set_listed(at, listed);
        }
    }

    /// Keeps a position although nobody may hold it.
    pub fn pin(&mut self, place: Place) {
        let pins = &mut self.get_mut(place.run).pins;
        let before = pins.heap();
        pins.add(place.at);
        let after = pins.heap();
        self.heap = self.heap + after - before;
    }

    /// Undoes one [`Runs::pin`]; the run is to be trimmed then.
    pub fn unpin(&mut self, place: Place) {
        let pins = &mut self.get_mut(place.run).pins;
        let before = pins.heap();
        pins.remove(place.at);
        let after = pins.heap();
        self.heap = self.heap + after - before;
    }

    /// Leaves the unpinning of a parent for later.
    pub fn postpone(&mut self, parent: Place) {
        self.orphaned.push(parent);
    }

    /// A parent whose unpinning was left for later.
    pub fn postponed(&mut self) -> Option<Place> {
        let parent = self.orphaned.pop();
        if self.orphaned.is_empty() {
            self.orphaned = Vec::new();
        }
        parent
    }

    /// Zero-based depth of a block, when known.
    pub fn depth(&self, place: Place) -> Option<u32> {
        self.get(place.run).depth().map(|depth| depth + u32::from(place.at))
    }

    /// Whether `block` stands on the way from the root to `from` (or is `from`), as far as parents are known; `None`
    /// when more runs than `most_steps` are on it.
    pub fn is_ancestor(&self, block: Place, from: Place, most_steps: usize) -> Option<bool> {
        let mut at = from;
        for _ in 0..most_steps {
            if at.run == block.run {
                return Some(block.at <= at.at);
            }
            match self.get(at.run).parent() {
                Some(parent) => at = parent,
                None => return Some(false),
            }
        }
        None
    }

    fn change<R>(&mut self, number: u32, change: impl FnOnce(&mut Run) -> R) -> R {
        let run = self.get_mut(number);
        let before = run.heap();
        let result = change(run);
        let after = run.heap();
        self.heap = self.heap + after - before;
        result
    }

    /// What nobody needs behind `place`, so that a block can be appended there once it is cut; `None` when somebody
    /// does. The block at `place` itself counts as needed.
    pub fn doomed_behind(&self, place: Place) -> Option<Doomed> {
        let unneeded = self.get(place.run).needed() <= usize::from(place.at) + 1;
        unneeded.then_some(Doomed { run: place.run, from: place.at + 1, gone: false })
    }

    /// After a position may have died: the tail that nobody needs, when it is long enough.
    pub fn doomed(&mut self, number: u32) -> Option<Doomed> {
        let run = self.get_mut(number);
        let gone = run.covers.is_empty() && run.pins.is_empty();
        run.slack = run.slack.saturating_add(1);
        if gone {
            return Some(Doomed { run: number, from: 0, gone });
        }
        if run.slack < SLACK || usize::from(run.slack) * 4 < run.hashes.len() {
            return None;
        }
        run.slack = 0;
        let needed = run.needed();
        (needed < run.hashes.len()).then_some(Doomed { run: number, from: needed as u16, gone })
    }

    /// The blocks of a tail that is to be cut.
    pub fn before_cut(&self, doomed: Doomed) -> Cut<'_> {
        Cut { doomed, run: self.get(doomed.run) }
    }

    /// Cuts a tail. Returns what a run that is gone went on behind; to be unpinned.
    pub fn cut(&mut self, doomed: Doomed) -> Option<Place> {
        if doomed.gone {
            return self.free(doomed.run);
        }
        let (before, after) = self.change(doomed.run, |run| {
            let needed = usize::from(doomed.from);
            run.hashes.truncate(needed);
            run.hashes.shrink_to(needed + needed / 8);
            let before = run.columns.heap();
            run.columns.cut(needed);
            (before, run.columns.heap())
        });
        self.heap = self.heap + after - before;
        None
    }

    fn free(&mut self, number: u32) -> Option<Place> {
        let run = self.slots[number as usize].take().expect("freed once");
        self.heap -= run.heap() + run.columns.heap();
        self.live -= 1;
        self.free.push(number);
        if self.live == 0 {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        run.parent()
    }
}
