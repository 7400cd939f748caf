//! Set-up: simulated workers that compute random texts, beside a naive cache that is a list of blocks.
//! Claim: both evict and store the same; what is held is always a set of whole fronts of texts within the capacity; and
//! the bounds of a right answer are exactly those over all states that the daemon may be in.

use std::collections::HashSet;

use kvatlas::bench::worker::{Bounds, Step, Worker};
use proptest::prelude::*;

/// Blocks in the order in which they go, the next one first.
#[derive(Clone, Default)]
struct Naive {
    blocks: Vec<u64>,
}

impl Naive {
    fn compute(&mut self, capacity: usize, text: &[u64]) -> Step {
        let had = text.iter().take_while(|block| self.blocks.contains(block)).count();
        let text = &text[..text.len().min(capacity)];
        self.blocks.retain(|block| !text.contains(block));
        let others = self.blocks.len();
        let gone = (others + text.len()).saturating_sub(capacity);
        let evicted = self.blocks.drain(..gone).collect();
        self.blocks.extend(text.iter().rev());
        Step { had, has: text.len(), evicted }
    }

    fn holds(&self, text: &[u64]) -> usize {
        text.iter().take_while(|block| self.blocks.contains(block)).count()
    }
}

/// A text is a path: the hash of a block stands for the whole path up to it.
fn text_of(path: &[u8]) -> Vec<u64> {
    let mut hash = 7_u64;
    path.iter()
        .map(|step| {
            hash = hash.wrapping_mul(31).wrapping_add(u64::from(*step) + 1);
            hash
        })
        .collect()
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..3_u8, 0..9)
}

proptest! {
    #[test]
    fn it_evicts_like_the_naive_one(capacity in 1..30_usize, paths in prop::collection::vec(path(), 1..60)) {
        let (mut worker, mut naive) = (Worker::new(capacity), Naive::default());
        let texts: Vec<_> = paths.iter().map(|path| text_of(path)).collect();
        for text in &texts {
            prop_assert_eq!(worker.compute(text), naive.compute(capacity, text));
            prop_assert_eq!(worker.blocks(), naive.blocks.len());
            prop_assert!(worker.blocks() <= capacity);
            prop_assert_eq!(worker.holds(text), text.len().min(capacity));
            for other in &texts {
                // no block without all before it
                let held = other.iter().filter(|block| naive.blocks.contains(block)).count();
                prop_assert_eq!(held, worker.holds(other));
            }
        }
    }

    #[test]
    fn bounds_are_those_over_all_states_under_way(
        capacity in 1..20_usize,
        steps in prop::collection::vec((path(), any::<bool>()), 1..30),
        asked in path(),
    ) {
        let (mut worker, mut naive) = (Worker::new(capacity), Naive::default());
        let asked = text_of(&asked);
        let mut states: Vec<HashSet<u64>> = vec![HashSet::new()];
        for (number, (path, confirm)) in (0..).zip(&steps) {
            let text = text_of(path);
            let step = worker.compute(&text);
            naive.compute(capacity, &text);
            let touched = [&step.evicted[..], &text[step.had..step.has]].concat();
            worker.sent(number, touched.clone());
            let before = states.last().unwrap().clone();
            // the daemon applies block after block
            let mut state = before;
            for block in touched {
                if !state.remove(&block) {
                    state.insert(block);
                }
                states.push(state.clone());
            }
            if *confirm {
                worker.confirmed(number);
                states.drain(..states.len() - 1);
            }
            let now: HashSet<u64> = naive.blocks.iter().copied().collect();
            prop_assert_eq!(states.last().unwrap(), &now);
            let always = asked.iter().take_while(|block| states.iter().all(|state| state.contains(block))).count();
            let ever = asked.iter().take_while(|block| states.iter().any(|state| state.contains(block))).count();
            let Bounds { least, most } = worker.bounds(&asked);
            // a block that went and came back counts as unsure, which it was
            prop_assert!(least <= always && ever <= most, "{least} {always} {ever} {most}");
            for state in &states {
                let held = asked.iter().take_while(|block| state.contains(block)).count();
                prop_assert!((least..=most).contains(&held));
            }
            if states.len() == 1 {
                prop_assert_eq!((least, most), (naive.holds(&asked), naive.holds(&asked)));
            }
        }
    }
}
