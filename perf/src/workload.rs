//! What a fleet does, in order: the same for every structure, and the same for the same seed.

use crate::oracle::Oracle;
use crate::texts::{Node, Random, Texts};

/// Blocks an event of the synthetic workloads.
pub const STEP: usize = 8;
/// Texts a worker that somebody asks for.
const ASKED: usize = 8;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A worker stores blocks, each behind the one before it, the first behind its own parent.
    Store {
        /// Who.
        worker: usize,
        /// What.
        nodes: Vec<Node>,
    },
    /// A worker removes blocks.
    Remove {
        /// Who.
        worker: usize,
        /// What.
        nodes: Vec<Node>,
    },
    /// Somebody asks for a text.
    Ask {
        /// The text.
        nodes: Vec<Node>,
    },
}

/// A fleet, its texts and what happens.
pub struct Workload {
    /// Workers.
    pub workers: usize,
    /// All blocks.
    pub texts: Texts,
    /// In order.
    pub ops: Vec<Op>,
}

impl Workload {
    /// Blocks stored and removed.
    pub fn blocks(&self) -> usize {
        let blocks = |op: &Op| match op {
            Op::Store { nodes, .. } | Op::Remove { nodes, .. } => nodes.len(),
            Op::Ask { .. } => 0,
        };
        self.ops.iter().map(blocks).sum()
    }
}

/// Events that store a text, [`STEP`] blocks each.
pub fn stores(worker: usize, text: &[Node]) -> impl Iterator<Item = Op> {
    text.chunks(STEP).map(move |nodes| Op::Store { worker, nodes: nodes.to_vec() })
}

/// One element of each list in turn, until all are empty.
pub fn side_by_side(lists: Vec<Vec<Op>>) -> Vec<Op> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while !lists.is_empty() {
        lists.retain_mut(|list| list.next().map(|op| all.push(op)).is_some());
    }
    all
}

/// The same events, with questions in between: one a step of `every` events, texts in turn.
pub fn with_questions(ops: &[Op], asked: &[Vec<Node>], every: usize) -> Vec<Op> {
    let mut questions = asked.iter().cycle();
    let mut all = Vec::new();
    for step in ops.chunks(every) {
        all.extend(step.iter().cloned());
        all.extend(questions.next().map(|text| Op::Ask { nodes: text.clone() }));
    }
    all
}

/// Size of the synthetic fleet.
#[derive(Clone, Copy)]
pub struct Size {
    /// Workers.
    pub workers: usize,
    /// Prefixes that several workers hold.
    pub prefixes: usize,
    /// Texts a worker; each begins with a prefix.
    pub texts: usize,
}

impl Size {
    /// The fleet of the records: 64 workers, half a million (block, owner).
    pub const FULL: Self = Self { workers: 64, prefixes: 256, texts: 128 };
}

/// A fleet whose workers share prefixes: what fills it, and what empties it again.
pub struct Synthetic {
    /// Stores, then removals.
    pub all: Workload,
    /// Where the removals begin.
    pub removals: usize,
    /// Texts that were stored.
    pub asked: Vec<Vec<Node>>,
}

/// Workers store texts behind shared prefixes, then evict them in another order, the last block first.
pub fn synthetic(seed: u64, size: Size) -> Synthetic {
    let mut random = Random::new(seed);
    let mut texts = Texts::new(seed);
    let prefixes: Vec<Vec<Node>> =
        (0..size.prefixes).map(|_| texts.fresh(None, 16 + random.below(112))).collect();
    let mut asked = Vec::new();
    let mut stored = Vec::new();
    let mut removed = Vec::new();
    for worker in 0..size.workers {
        // how many texts of this worker still need a block
        let mut users = std::collections::HashMap::<Node, u32>::new();
        let mut own: Vec<Vec<Node>> = Vec::new();
        let mut events = Vec::new();
        for _ in 0..size.texts {
            // few prefixes are popular
            let popular = 1 + random.below(size.prefixes);
            let prefix = &prefixes[random.below(popular)];
            let mut text = prefix.clone();
            text.extend(texts.fresh(prefix.last().copied(), 8 + random.below(56)));
            let missing: Vec<Node> = text.iter().copied().filter(|node| !users.contains_key(node)).collect();
            for node in &text {
                *users.entry(*node).or_default() += 1;
            }
            events.extend(stores(worker, &missing));
            own.push(text);
        }
        asked.extend(own.iter().take(ASKED).cloned());
        stored.push(events);
        let mut gone = Vec::new();
        while !own.is_empty() {
            let text = own.swap_remove(random.below(own.len()));
            let mut last = Vec::new();
            for node in text.into_iter().rev() {
                let left = users.get_mut(&node).expect("counted when stored");
                *left -= 1;
                if *left == 0 {
                    last.push(node);
                }
            }
            gone.extend(last.chunks(STEP).map(|nodes| Op::Remove { worker, nodes: nodes.to_vec() }));
        }
        removed.push(gone);
    }
    let mut ops = side_by_side(stored);
    let removals = ops.len();
    ops.extend(side_by_side(removed));
    Synthetic { all: Workload { workers: size.workers, texts, ops }, removals, asked }
}

/// What goes wrong between an engine and its reader, or right but in another order than they like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The ends of texts go and come back: no trouble at all.
    Ends,
    /// Single blocks in the middle go and come back.
    Holes,
    /// Whole texts go, the first block first, and come back.
    Fronts,
    /// Children are told before their parents.
    Orphans,
}

impl Trouble {
    /// Everything.
    pub const ALL: [Self; 4] = [Self::Ends, Self::Holes, Self::Fronts, Self::Orphans];
}

/// Small texts that are stored, evicted and stored again, with these troubles, each step followed by questions.
pub fn troubled(seed: u64, steps: usize, troubles: &[Trouble]) -> Workload {
    const WORKERS: usize = 6;
    let mut random = Random::new(seed);
    let mut texts = Texts::new(seed);
    let mut known: Vec<Vec<Node>> = (0..4).map(|_| texts.fresh(None, 24)).collect();
    for _ in 0..12 {
        let from = &known[random.below(4)];
        let at = 1 + random.below(from.len() - 1);
        let mut text = from[..at].to_vec();
        text.extend(texts.fresh(text.last().copied(), 4 + random.below(20)));
        known.push(text);
    }
    let mut held = Oracle::new(WORKERS);
    let mut ops: Vec<Op> = Vec::new();
    for _ in 0..steps {
        let worker = random.below(WORKERS);
        let text = known[random.below(known.len())].clone();
        let (have, lack): (Vec<Node>, Vec<Node>) = text.iter().partition(|node| held.holds(worker, **node));
        let kind = random.below(8);
        let may = |trouble| troubles.contains(&trouble) && !have.is_empty();
        let mut events = match kind {
            0 if may(Trouble::Holes) => {
                vec![Op::Remove { worker, nodes: vec![have[random.below(have.len())]] }]
            }
            1 if may(Trouble::Ends) => end_of(&texts, &held, worker, &known, &text),
            2 if may(Trouble::Fronts) => vec![Op::Remove { worker, nodes: have }],
            _ => stretches(&texts, &lack).into_iter().map(|nodes| Op::Store { worker, nodes }).collect(),
        };
        let stored = events.iter().all(|event| matches!(event, Op::Store { .. }));
        if troubles.contains(&Trouble::Orphans) && stored && random.below(4) == 0 {
            events.reverse();
        }
        for event in events {
            held.apply(&event);
            ops.push(event);
        }
        ops.push(Op::Ask { nodes: text });
        ops.push(Op::Ask { nodes: known[random.below(known.len())].clone() });
    }
    Workload { workers: WORKERS, texts, ops }
}

/// Removal of the end of a text, the last block first: only of blocks behind which the worker holds nothing else.
fn end_of(texts: &Texts, held: &Oracle, worker: usize, known: &[Vec<Node>], text: &[Node]) -> Vec<Op> {
    let needed = |node: Node| {
        let others = known.iter().flatten();
        others
            .filter(|other| texts.parent(**other) == Some(node))
            .any(|other| held.holds(worker, *other) && !text.contains(other))
    };
    let ends = text.iter().rev().filter(|node| held.holds(worker, **node));
    let nodes: Vec<Node> = ends.take_while(|node| !needed(**node)).copied().collect();
    if nodes.is_empty() { Vec::new() } else { vec![Op::Remove { worker, nodes }] }
}

/// Blocks of one text as stretches without holes, at most [`STEP`] blocks each.
fn stretches(texts: &Texts, nodes: &[Node]) -> Vec<Vec<Node>> {
    let mut found: Vec<Vec<Node>> = Vec::new();
    for node in nodes {
        match found.last_mut() {
            Some(stretch) if stretch.len() < STEP && stretch.last().copied() == texts.parent(*node) => {
                stretch.push(*node);
            }
            _ => found.push(vec![*node]),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(op: &Op) -> &[Node] {
        let (Op::Store { nodes, .. } | Op::Remove { nodes, .. } | Op::Ask { nodes }) = op;
        nodes
    }

    const SMALL: Size = Size { workers: 5, prefixes: 8, texts: 6 };

    #[test]
    fn the_same_seed_makes_the_same_events_and_another_seed_others() {
        let of = |seed| synthetic(seed, SMALL).all;
        assert_eq!(of(1).ops, of(1).ops);
        assert_ne!(of(1).ops, of(2).ops);
        let (first, second) = (of(1), of(1));
        let names = |workload: &Workload| -> Vec<u64> {
            workload.ops.iter().flat_map(nodes).map(|node| workload.texts.name(*node)).collect()
        };
        assert_eq!(names(&first), names(&second));
        assert_eq!(troubled(3, 200, &Trouble::ALL).ops, troubled(3, 200, &Trouble::ALL).ops);
    }

    #[test]
    fn the_synthetic_fleet_stores_each_block_once_and_ends_empty() {
        let made = synthetic(7, SMALL);
        let mut oracle = Oracle::new(SMALL.workers);
        for (at, op) in made.all.ops.iter().enumerate() {
            match op {
                Op::Store { worker, nodes } => {
                    assert!(at < made.removals);
                    assert!(nodes.iter().all(|node| !oracle.holds(*worker, *node)));
                }
                Op::Remove { worker, nodes } => {
                    assert!(at >= made.removals);
                    assert!(nodes.iter().all(|node| oracle.holds(*worker, *node)));
                }
                Op::Ask { .. } => panic!("nobody asks here"),
            }
            oracle.apply(op);
        }
        assert_eq!(oracle.blocks(), 0);
    }

    #[test]
    fn events_store_chains_only() {
        for workload in [synthetic(7, SMALL).all, troubled(7, 500, &Trouble::ALL)] {
            for op in &workload.ops {
                if let Op::Store { nodes, .. } = op {
                    for pair in nodes.windows(2) {
                        assert_eq!(workload.texts.parent(pair[1]), Some(pair[0]));
                    }
                }
            }
        }
    }

    #[test]
    fn trouble_has_orphans_holes_and_blocks_that_come_back() {
        let workload = troubled(1, 2000, &Trouble::ALL);
        let mut oracle = Oracle::new(workload.workers);
        let mut ever = vec![std::collections::HashSet::new(); workload.workers];
        let (mut orphans, mut holes, mut back) = (0, 0, 0);
        for op in &workload.ops {
            match op {
                Op::Store { worker, nodes } => {
                    let parent = workload.texts.parent(nodes[0]);
                    orphans += usize::from(parent.is_some_and(|parent| !oracle.holds(*worker, parent)));
                    back += nodes.iter().filter(|node| !ever[*worker].insert(**node)).count();
                }
                Op::Remove { nodes, .. } => holes += usize::from(nodes.len() == 1),
                Op::Ask { .. } => {}
            }
            oracle.apply(op);
        }
        assert!(orphans > 20 && holes > 20 && back > 20, "{orphans} {holes} {back}");
    }
}
