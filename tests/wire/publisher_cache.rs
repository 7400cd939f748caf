//! Set-up: a made-up load runs over the cache model, with and without shared prefixes and capacity.
//! Claim: its events are those of an engine — a naive ledger that only reads the events agrees at every step
//! about what is held; a block's parent is held when it is stored; nothing is evicted that another block stands
//! on; hashes follow from tokens; the last prompt is always wholly held; the same seed does the same again.

use std::collections::{HashMap, HashSet};

use kvatlas::wire::cache::{Cache, Load, Step};
use kvatlas::wire::chain::Chain;
use proptest::prelude::*;

fn loads() -> impl Strategy<Value = Load> {
    (any::<u64>(), 1..5usize, 1..6usize, 0..4usize, proptest::option::of(0..60usize)).prop_map(
        |(seed, block_size, blocks_per_step, prefixes, capacity)| Load {
            seed,
            block_size,
            blocks_per_step,
            prefixes,
            capacity,
        },
    )
}

/// What can be known from the events alone.
#[derive(Default)]
struct Ledger {
    /// Held blocks with their parents.
    held: HashMap<u64, Option<u64>>,
}

impl Ledger {
    fn read(&mut self, step: &Step) {
        if let Some(parent) = step.parent {
            assert!(self.held.contains_key(&parent), "stored behind a block that is not held");
        }
        let mut parent = step.parent;
        for &hash in &step.hashes {
            assert!(self.held.insert(hash, parent).is_none(), "stored twice");
            parent = Some(hash);
        }
        for hash in &step.evicted {
            assert!(self.held.remove(hash).is_some(), "evicted but not held");
            assert!(self.held.values().all(|parent| *parent != Some(*hash)), "evicted from under another");
        }
    }
}

/// Blocks of one token, as many prompts as make two random first tokens equal for certain.
#[test]
fn short_blocks_are_stored_once() {
    for prefixes in [0, 3] {
        let load = Load { seed: 7, block_size: 1, blocks_per_step: 1, prefixes, capacity: None };
        let mut cache = Cache::new(load);
        let mut ledger = Ledger::default();
        for _ in 0..20_000 {
            ledger.read(&cache.step());
        }
        assert_eq!(ledger.held.len(), cache.blocks());
    }
}

proptest! {
    #[test]
    fn events_are_those_of_an_engine(load in loads()) {
        let mut cache = Cache::new(load);
        let mut ledger = Ledger::default();
        for _ in 0..60 {
            let step = cache.step();
            ledger.read(&step);
            prop_assert_eq!(ledger.held.len(), cache.blocks());
            prop_assert_eq!(step.tokens.len(), load.block_size * load.blocks_per_step);
            // the deepest held chain of one prompt is one prefix and a prompt's own steps
            let floor = load.blocks_per_step * 5;
            prop_assert!(load.capacity.is_none_or(|most| cache.blocks() <= most.max(floor)));
        }
    }

    #[test]
    fn steps_are_stretches_of_their_prompt(load in loads()) {
        let mut cache = Cache::new(load);
        let mut seen: HashMap<(u64, usize), Vec<u32>> = HashMap::new();
        for _ in 0..40 {
            let step = cache.step();
            let end = step.depth + step.hashes.len();
            let prompt = cache.prompt(step.prompt, end);
            prop_assert_eq!(&prompt[step.depth * load.block_size..], &step.tokens[..]);
            prop_assert_eq!(cache.last_prompt(), prompt.clone());
            if let Some(before) = seen.insert((step.prompt, end), prompt.clone()) {
                prop_assert_eq!(before, prompt);
            }
        }
    }

    #[test]
    fn the_last_prompt_is_wholly_held(load in loads()) {
        let mut cache = Cache::new(load);
        let mut held = HashSet::new();
        let mut by_tokens: HashMap<Vec<u32>, u64> = HashMap::new();
        for _ in 0..40 {
            let step = cache.step();
            let prompt = cache.last_prompt();
            for (place, &hash) in step.hashes.iter().enumerate() {
                held.insert(hash);
                by_tokens.insert(prompt[..(step.depth + place + 1) * load.block_size].to_vec(), hash);
            }
            for hash in &step.evicted {
                held.remove(hash);
            }
            for end in 1..=prompt.len() / load.block_size {
                let hash = by_tokens[&prompt[..end * load.block_size]];
                prop_assert!(held.contains(&hash));
            }
        }
    }

    #[test]
    fn the_same_seed_does_the_same_again(load in loads()) {
        let (mut one, mut other) = (Cache::new(load), Cache::new(load));
        for _ in 0..20 {
            prop_assert_eq!(one.step(), other.step());
        }
    }

    /// Engine hashes chain: a stretch hashed at once or in two goes is the same, and engines do not agree.
    #[test]
    fn hashes_chain(tokens in proptest::collection::vec(any::<u32>(), 0..64), block in 1..5usize, cut in 0..8usize) {
        let chain = Chain::new(1);
        let whole = chain.extend(None, &tokens, block);
        let cut = cut.min(whole.len());
        let mut parts = chain.extend(None, &tokens[..cut * block], block);
        parts.extend(chain.extend(parts.last().copied(), &tokens[cut * block..], block));
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(whole.len(), tokens.len() / block);
        let other = Chain::new(2).extend(None, &tokens, block);
        prop_assert!(whole.iter().zip(&other).all(|(a, b)| a != b));
    }
}
