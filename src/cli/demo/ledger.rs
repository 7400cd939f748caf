//! What the demo has published, and what a daemon must therefore answer.
//!
//! A naive model of the counting rules: a set of copies, one walk from the first block. It shares nothing with
//! the index, so that the demo checks the daemon and not itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Where a copy of a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// On an engine's GPU.
    EngineGpu,
    /// In an engine's host memory.
    EngineCpu,
    /// In a pool's memory.
    PoolCpu,
}

/// Copies by instance; a block is named by its standard hash.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    instances: BTreeMap<&'static str, BTreeSet<(u64, Place)>>,
}

impl Ledger {
    /// `blocks` came to `place`.
    pub(super) fn store(&mut self, instance: &'static str, place: Place, blocks: &[u64]) {
        self.instances.entry(instance).or_default().extend(blocks.iter().map(|&block| (block, place)));
    }

    /// `blocks` left `place`.
    pub(super) fn remove(&mut self, instance: &'static str, place: Place, blocks: &[u64]) {
        let copies = self.instances.entry(instance).or_default();
        copies.retain(|(block, at)| *at != place || !blocks.contains(block));
    }

    /// The answer to a prompt whose blocks are `prompt`, in tokens.
    pub(super) fn answer(&self, prompt: &[u64], block_size: usize) -> Value {
        let instances = self.instances.iter().map(|(instance, copies)| {
            let held = |block: &u64, place| copies.contains(&(*block, place));
            let on = |block: &u64, places: &[Place]| places.iter().any(|&place| held(block, place));
            let all = [Place::EngineGpu, Place::EngineCpu, Place::PoolCpu];
            let walk: Vec<_> = prompt.iter().take_while(|block| on(block, &all)).collect();
            let tokens =
                |places: &[Place]| walk.iter().filter(|block| on(block, places)).count() * block_size;
            let hit = json!({
                "longest_matched": walk.len() * block_size,
                "GPU": tokens(&[Place::EngineGpu]),
                "CPU": tokens(&[Place::EngineCpu, Place::PoolCpu]),
                "DISK": 0,
                "DP": {"0": tokens(&[Place::EngineGpu, Place::EngineCpu])},
            });
            ((*instance).to_owned(), hit)
        });
        json!({"default": Value::Object(instances.collect::<Map<_, _>>())})
    }
}
