//! The prefix cache of a simulated worker, and what the daemon may believe of it by now.
//!
//! A block is known by its chained hash, so that equal hashes mean equal prompts up to there. What the worker did is
//! under way until the daemon is known to have applied it; until then a block may count or not, and only what
//! lies between the two is a right answer.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A cache that evicts the block that was not used for the longest time, the end of a text first.
#[derive(Debug)]
pub struct Worker {
    capacity: usize,
    clock: u64,
    used: HashMap<u64, u64>,
    oldest: BTreeMap<u64, u64>,
    /// Steps that may not be applied yet: the number that tells, and the blocks.
    under_way: VecDeque<(u64, Vec<u64>)>,
    /// Steps under way that stored or removed a block.
    touched: HashMap<u64, u32>,
}

/// What a worker did for one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Blocks of the text that were there already, from the first on.
    pub had: usize,
    /// Blocks of the text that are there now: those from `had` on were stored.
    pub has: usize,
    /// Blocks evicted before that, in order.
    pub evicted: Vec<u64>,
}

/// The blocks that a right answer may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Held for certain.
    pub least: usize,
    /// Held at most.
    pub most: usize,
}

impl Worker {
    /// An empty cache of so many blocks.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            clock: 0,
            used: HashMap::new(),
            oldest: BTreeMap::new(),
            under_way: VecDeque::new(),
            touched: HashMap::new(),
        }
    }

    /// Blocks held.
    pub fn blocks(&self) -> usize {
        self.used.len()
    }

    /// Blocks of a text that are here, from the first one on.
    pub fn holds(&self, text: &[u64]) -> usize {
        text.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    /// Computes a text: uses what is here of it, and stores the rest as far as the cache is large enough.
    pub fn compute(&mut self, text: &[u64]) -> Step {
        let had = self.holds(text);
        let text = &text[..text.len().min(self.capacity)];
        // the front of a text is always younger than what stands on it
        for block in text[..had.min(text.len())].iter().rev() {
            self.touch(*block);
        }
        let missing = text.len().saturating_sub(had);
        let mut evicted = Vec::new();
        while self.used.len() + missing > self.capacity
            && let Some((_, block)) = self.oldest.pop_first()
        {
            self.used.remove(&block);
            evicted.push(block);
        }
        for block in text.iter().rev() {
            self.touch(*block);
        }
        Step { had, has: text.len().max(had), evicted }
    }

    fn touch(&mut self, block: u64) {
        self.clock += 1;
        if let Some(before) = self.used.insert(block, self.clock) {
            self.oldest.remove(&before);
        }
        self.oldest.insert(self.clock, block);
    }

    /// These blocks were stored or removed by batches that are applied once the daemon has seen `number`. Numbers
    /// grow.
    pub fn sent(&mut self, number: u64, blocks: Vec<u64>) {
        for block in &blocks {
            *self.touched.entry(*block).or_default() += 1;
        }
        self.under_way.push_back((number, blocks));
    }

    /// The daemon has seen this number.
    pub fn confirmed(&mut self, number: u64) {
        while self.under_way.front().is_some_and(|(until, _)| *until <= number)
            && let Some((_, blocks)) = self.under_way.pop_front()
        {
            for block in blocks {
                if let Some(steps) = self.touched.get_mut(&block) {
                    *steps -= 1;
                    if *steps == 0 {
                        self.touched.remove(&block);
                    }
                }
            }
        }
    }

    /// What a right answer says of a text now, in blocks.
    pub fn bounds(&self, text: &[u64]) -> Bounds {
        let held = |block: &u64| self.used.contains_key(block);
        let may = |block: &u64| self.touched.contains_key(block);
        Bounds {
            least: text.iter().take_while(|block| held(block) && !may(block)).count(),
            most: text.iter().take_while(|block| held(block) || may(block)).count(),
        }
    }
}
