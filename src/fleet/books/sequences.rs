//! Sequence numbers of event batches, watched for `/metrics` alone: nothing is ever dropped by them.

use crate::limits::FLEET_SEQUENCES;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The last number of each instance.
#[derive(Default)]
pub(super) struct Sequences {
    last: HashMap<Arc<str>, u64>,
    order: VecDeque<Arc<str>>,
}

/// What a number says of those between it and the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sequence {
    /// The next, or the first.
    Next,
    /// So many batches never came.
    Gap(u64),
    /// It is not above the last one: sent again, or the instance started anew.
    Repeat,
}

impl Sequences {
    pub(super) fn heard(&mut self, instance: &str, seq: u64) -> Sequence {
        let Some(last) = self.last.get_mut(instance) else {
            if self.order.len() >= FLEET_SEQUENCES
                && let Some(first) = self.order.pop_front()
            {
                self.last.remove(&first);
            }
            let instance: Arc<str> = instance.into();
            self.order.push_back(instance.clone());
            self.last.insert(instance, seq);
            return Sequence::Next;
        };
        let before = std::mem::replace(last, seq);
        match seq.checked_sub(before) {
            None | Some(0) => Sequence::Repeat,
            Some(1) => Sequence::Next,
            Some(more) => Sequence::Gap(more - 1),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.order.iter().map(|instance| instance.len() + 2 * size_of::<usize>()).sum();
        texts
            + self.order.capacity() * size_of::<Arc<str>>()
            + self.last.capacity() * (size_of::<(Arc<str>, u64)>() + 1)
    }
}
