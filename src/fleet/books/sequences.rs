//! Sequence numbers of event batches, watched for `/metrics` alone: nothing is ever dropped by them.

use crate::limits::FLEET_SEQUENCES;
use std::collections::{HashMap, VecDeque};

/// A number this far below the last one is of a new life of the instance, not of a batch that comes late.
const LATE: u64 = 64;
/// A jump longer than this is no gap: nobody lost so many batches, and one wrong number must not spoil the count.
const PLAUSIBLE: u64 = 1 << 20;

/// The highest number of each instance, which goes by the hash of its name: names may be of any length.
#[derive(Default)]
pub(super) struct Sequences {
    last: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

/// What a number says of those between it and the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sequence {
    /// The next, or the first.
    Next,
    /// So many batches had not come before it.
    Gap(u64),
    /// It is not above the last one: sent again, late, or the instance started anew.
    Repeat,
}

impl Sequences {
    pub(super) fn heard(&mut self, instance: u64, seq: u64) -> Sequence {
        let Some(last) = self.last.get_mut(&instance) else {
            if self.order.len() >= FLEET_SEQUENCES
                && let Some(first) = self.order.pop_front()
            {
                self.last.remove(&first);
            }
            self.order.push_back(instance);
            self.last.insert(instance, seq);
            return Sequence::Next;
        };
        let before = *last;
        if seq > before || before - seq > LATE || seq == 1 {
            *last = seq;
        }
        match seq.checked_sub(before) {
            None | Some(0) => Sequence::Repeat,
            Some(1) => Sequence::Next,
            Some(more) if more > PLAUSIBLE => Sequence::Next,
            Some(more) => Sequence::Gap(more - 1),
        }
    }

    /// Heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.order.capacity() * size_of::<u64>() + self.last.capacity() * (2 * size_of::<u64>() + 1)
    }
}
