//! Batches of one publisher that were sent and are not applied yet.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::BENCH_IN_FLIGHT;

/// A batch under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    due: Duration,
    /// Blocks that all batches up to this one name.
    blocks: u64,
}

/// What the daemon says of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of the last batch that it began to apply.
    pub last: Option<u64>,
    /// Blocks that its events named so far, stored and removed.
    pub blocks: u64,
}

/// The batches under way, in order.
#[derive(Debug, Default)]
pub struct SendLog {
    under_way: VecDeque<Sent>,
    blocks: u64,
}

impl SendLog {
    /// A batch that names so many blocks is sent now, and was due then. Numbers grow. `false` when too many are under
    /// way: it was not entered, and must not be sent.
    pub fn send(&mut self, number: u64, due: Duration, blocks: u64) -> bool {
        if self.under_way.len() >= BENCH_IN_FLIGHT {
            return false;
        }
        self.blocks += blocks;
        self.under_way.push_back(Sent { number, due, blocks: self.blocks });
        true
    }

    /// Takes out what is applied, and says when each of those batches was due.
    ///
    /// Numbers are counted when a batch is begun. Those before the last one are done; the last one is when all blocks
    /// up to its end were counted, which happens as the last of its events begins.
    pub fn applied(&mut self, progress: Progress, mut credit: impl FnMut(Duration)) {
        let Some(last) = progress.last else { return };
        while let Some(sent) = self.under_way.front() {
            let done = sent.number < last || (sent.number == last && progress.blocks >= sent.blocks);
            if !done {
                break;
            }
            credit(sent.due);
            self.under_way.pop_front();
        }
    }

    /// Batches under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Blocks named so far.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
}
