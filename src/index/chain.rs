//! What is being placed: chains of blocks, what their names and local hashes come from, and who is to hold them.

use super::context::ContextKey;
use super::cover::Stretch;
use super::hash;
use super::run::Place;
use crate::event::{Batch, Slice};
use std::ops::Range;
use std::sync::Arc;

/// Names of a chain's blocks.
pub(super) enum NameSource {
    /// In the batch.
    Batch(Slice),
    /// Kept from an earlier one.
    Owned(Vec<u64>),
}

impl NameSource {
    pub(super) fn of<'a>(&'a self, batch: &'a Batch) -> &'a [u64] {
        match self {
            Self::Batch(slice) => slice.of(&batch.hashes),
            Self::Owned(names) => names,
        }
    }
}

/// Local hashes of a chain's blocks.
pub(super) enum Locals {
    /// From tokens in the batch.
    Tokens { tokens: Slice, block_size: u32, digests: Vec<Option<u64>> },
    /// Kept from an earlier one.
    Owned(Vec<u64>),
}

impl Locals {
    /// Appends the rolling hashes of these blocks, which stand behind `previous`.
    pub(super) fn roll(
        &self,
        batch: &Batch,
        blocks: Range<usize>,
        mut previous: Option<u64>,
        seed: u64,
        to: &mut Vec<u64>,
    ) {
        if let Self::Tokens { tokens, block_size, digests } = self
            && digests.is_empty()
        {
            let size = *block_size as usize;
            let tokens = &tokens.of(&batch.tokens)[blocks.start * size..blocks.end * size];
            return hash::extend(tokens, size, previous, seed, to);
        }
        for at in blocks {
            let next = hash::next(previous, self.local(batch, at, seed), seed);
            to.push(next);
            previous = Some(next);
        }
    }

    pub(super) fn local(&self, batch: &Batch, at: usize, seed: u64) -> u64 {
        match self {
            Self::Owned(locals) => locals[at],
            Self::Tokens { tokens, block_size, digests } => {
                let size = *block_size as usize;
                let own = hash::local(&tokens.of(&batch.tokens)[at * size..(at + 1) * size], seed);
                match digests.get(at) {
                    Some(Some(digest)) => hash::with_extra(own, *digest, seed),
                    _ => own,
                }
            }
        }
    }
}

/// Blocks to be placed one behind the other.
pub(super) struct Chain {
    pub(super) names: NameSource,
    pub(super) locals: Locals,
    pub(super) lane: u8,
    pub(super) context: u32,
    pub(super) previous: Option<Place>,
    /// Whether the first block is a prompt's first.
    pub(super) root: bool,
    /// Rolling hash of the last block that was hashed, or of the parent.
    pub(super) seq: Option<u64>,
    pub(super) at: usize,
    /// Rolling hashes from block `at` on, as far as they were computed ahead.
    pub(super) seqs: Vec<u64>,
    /// When this was begun, in this turn, the dialect knew none of the names from this one on.
    pub(super) fresh: usize,
    /// Names removed while the chain was an orphan.
    pub(super) removed: Vec<u64>,
}

impl Chain {
    pub(super) fn new(
        names: NameSource,
        locals: Locals,
        lane: u8,
        context: u32,
        previous: Option<Place>,
        seq: Option<u64>,
    ) -> Self {
        let (root, fresh) = (seq.is_none(), usize::MAX);
        let (seqs, removed) = (Vec::new(), Vec::new());
        Self { names, locals, lane, context, previous, root, seq, at: 0, seqs, fresh, removed }
    }

    /// Computes the hashes of the blocks up to `until`.
    pub(super) fn hash(&mut self, batch: &Batch, until: usize, seed: u64) {
        let done = self.at + self.seqs.len();
        if done < until {
            self.locals.roll(batch, done..until, self.seq, seed, &mut self.seqs);
            self.seq = self.seqs.last().copied();
        }
    }
}

/// Blocks that are being placed in this step.
pub(super) struct Row<'a> {
    pub(super) context: u32,
    pub(super) lane: u8,
    /// What their publisher calls them.
    pub(super) names: &'a [u64],
    pub(super) seqs: &'a [u64],
    /// What others may know them by.
    pub(super) called: &'a [u64],
    /// How many of the event follow.
    pub(super) more: usize,
    /// Whether the first is a prompt's first.
    pub(super) root: bool,
    /// The dialect knows none of the names from this one on.
    pub(super) fresh: usize,
}

/// Blocks to be placed by their standard hashes alone.
pub(super) struct ByHash {
    pub(super) names: NameSource,
    pub(super) lane: u8,
    /// The context; its number may change between two steps, while nothing is held there yet.
    pub(super) key: Arc<ContextKey>,
    /// What names are mixed with.
    pub(super) salt: u64,
    pub(super) parent: Option<u64>,
    pub(super) at: usize,
    pub(super) previous: Option<Place>,
}

/// Blocks that have a name already and now also live on another lane.
pub(super) struct Placeholder {
    pub(super) names: Slice,
    pub(super) lane: u8,
    pub(super) at: usize,
    pub(super) unknown: bool,
}

/// What is known of a name that is being credited.
#[derive(Clone, Copy)]
pub(super) struct Naming {
    /// It is a copy more; otherwise a further place of the copy just credited.
    pub(super) counts: bool,
    /// The publisher's dialect does not know it.
    pub(super) fresh: bool,
}

impl Naming {
    /// A copy more.
    pub(super) const COPY: Self = Self { counts: true, fresh: false };
}

/// Who holds the blocks that are being placed, and the stretch of one run not yet credited.
pub(super) struct Holding {
    /// The lane that is credited.
    pub(super) lane: u8,
    pub(super) context: u32,
    pub(super) instance: u32,
    pub(super) owner: u32,
    pub(super) run: u32,
    pub(super) span: Stretch,
    /// End of what the owner held in the run before; only below it a block may be held already.
    pub(super) held_until: u16,
    pub(super) gained: u64,
}

impl Holding {
    /// Credits this one block, which the lane does not hold yet.
    pub(super) fn take_whole(&mut self, place: Place) {
        self.run = place.run;
        self.span = Stretch { start: place.at, end: place.at + 1 };
        self.gained = 1;
    }
}
