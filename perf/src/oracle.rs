//! What a router should be told, by the simplest model there is: per worker, the set of prefixes it holds.

use crate::texts::Node;
use crate::workload::{Op, Workload};
use std::collections::HashSet;

/// (worker, blocks held in a row from the first), for every worker that holds the first one, in order.
pub type Depths = Vec<(u32, u32)>;

/// Per worker, the prefixes held.
pub struct Oracle {
    held: Vec<HashSet<Node>>,
}

impl Oracle {
    /// Nobody holds anything.
    pub fn new(workers: usize) -> Self {
        Self { held: vec![HashSet::new(); workers] }
    }

    /// What holds after all events of a workload.
    pub fn after(workload: &Workload) -> Self {
        let mut oracle = Self::new(workload.workers);
        workload.ops.iter().for_each(|op| oracle.apply(op));
        oracle
    }

    /// An event happened.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Store { worker, nodes } => self.held[*worker].extend(nodes),
            Op::Remove { worker, nodes } => {
                for node in nodes {
                    self.held[*worker].remove(node);
                }
            }
            Op::Ask { .. } => {}
        }
    }

    /// Whether a worker holds the prefix that ends with this block.
    pub fn holds(&self, worker: usize, node: Node) -> bool {
        self.held[worker].contains(&node)
    }

    /// Blocks of a text that a worker holds in a row from the first.
    pub fn depth(&self, worker: usize, text: &[Node]) -> u32 {
        text.iter().take_while(|node| self.holds(worker, **node)).count() as u32
    }

    /// The right answer.
    pub fn answer(&self, text: &[Node]) -> Depths {
        let depths = (0..self.held.len()).map(|worker| (worker as u32, self.depth(worker, text)));
        depths.filter(|(_, depth)| *depth > 0).collect()
    }

    /// Blocks held, counted once a worker.
    pub fn blocks(&self) -> usize {
        self.held.iter().map(HashSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Texts;

    #[test]
    fn depth_ends_at_a_hole_and_goes_on_when_it_is_filled() {
        let mut texts = Texts::new(1);
        let text = texts.fresh(None, 4);
        let fork = [&text[..2], &texts.fresh(Some(text[1]), 2)].concat();
        let mut oracle = Oracle::new(3);
        oracle.apply(&Op::Store { worker: 0, nodes: text.clone() });
        oracle.apply(&Op::Store { worker: 2, nodes: fork.clone() });
        assert_eq!(oracle.answer(&text), [(0, 4), (2, 2)]);
        assert_eq!(oracle.answer(&fork), [(0, 2), (2, 4)]);
        oracle.apply(&Op::Remove { worker: 0, nodes: vec![text[1]] });
        assert_eq!(oracle.answer(&text), [(0, 1), (2, 2)]);
        oracle.apply(&Op::Remove { worker: 2, nodes: vec![text[0]] });
        assert_eq!(oracle.answer(&fork), [(0, 1)]);
        oracle.apply(&Op::Store { worker: 0, nodes: vec![text[1]] });
        assert_eq!(oracle.answer(&text), [(0, 4)]);
        assert_eq!(oracle.blocks(), 4 + 3);
    }
}
