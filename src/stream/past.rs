//! What was applied lately: enough to tell a repeat from a restart.

use std::collections::VecDeque;

use crate::limits::STREAM_MEMORY;

/// The last [`STREAM_MEMORY`] batches of a life, by sequence number.
#[derive(Default, Debug)]
pub struct Past {
    // Numbers only rise, so this is sorted.
    recent: VecDeque<(u64, u64)>,
}

impl Past {
    /// Remembers a batch; its number must be above all before.
    pub fn note(&mut self, sequence: u64, content: u64) {
        debug_assert!(self.recent.back().is_none_or(|&(last, _)| last < sequence));
        if self.recent.len() == STREAM_MEMORY {
            self.recent.pop_front();
        }
        self.recent.push_back((sequence, content));
    }

    /// The content hash of a batch, when it is remembered.
    pub fn content(&self, sequence: u64) -> Option<u64> {
        let at = self.recent.binary_search_by_key(&sequence, |&(number, _)| number).ok()?;
        Some(self.recent[at].1)
    }

    /// The number of the batch that came `count` before the last one, or of the first that is remembered.
    pub fn before(&self, count: usize) -> Option<u64> {
        let at = self.recent.len().checked_sub(1)?.saturating_sub(count);
        self.recent.get(at).map(|&(number, _)| number)
    }

    /// Forgets everything: a new life began.
    pub fn clear(&mut self) {
        self.recent.clear();
    }
}
