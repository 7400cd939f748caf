//! A conversation trace in Mooncake's format, as the events of a fleet whose caches evict, and as questions.
//!
//! One JSON object a line: `input_length` tokens, and `hash_ids`, one a block of 512 tokens; equal ids mean equal
//! prefixes. Each becomes 32 blocks of 16 tokens.

use crate::texts::{BLOCK, Node, Random, Texts};
use crate::workload::{Op, Workload};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

/// Tokens behind one id of the trace.
const TRACE_BLOCK: usize = 512;
/// Most blocks an event: what an engine computes in one step of 2048 tokens.
pub const STEP: usize = 128;

#[derive(Deserialize)]
struct Line {
    input_length: usize,
    hash_ids: Vec<u64>,
}

/// A cache of a worker: it evicts the block that was not used for the longest time, the end of a text first.
struct Cache {
    capacity: usize,
    clock: u64,
    used: HashMap<Node, u64>,
    oldest: BTreeMap<u64, Node>,
}

impl Cache {
    fn new(capacity: usize) -> Self {
        Self { capacity, clock: 0, used: HashMap::new(), oldest: BTreeMap::new() }
    }

    /// Blocks of a text that are here, from the first one on.
    fn depth(&self, text: &[Node]) -> usize {
        text.iter().take_while(|node| self.used.contains_key(node)).count()
    }

    /// Uses a text; returns what had to go for it.
    fn take(&mut self, text: &[Node]) -> Vec<Node> {
        for node in text.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(*node, self.clock) {
                self.oldest.remove(&before);
            }
            self.oldest.insert(self.clock, *node);
        }
        let mut gone = Vec::new();
        while self.used.len() > self.capacity
            && let Some((_, node)) = self.oldest.pop_first()
        {
            self.used.remove(&node);
            gone.push(node);
        }
        gone
    }
}

/// How a trace is played.
#[derive(Clone, Copy)]
pub struct Load {
    /// Workers.
    pub workers: usize,
    /// Blocks that each can hold.
    pub capacity: usize,
    /// Most requests.
    pub requests: usize,
    /// Chooses workers, and makes the tokens.
    pub seed: u64,
}

/// Plays a trace: each request goes to the better of two workers.
///
/// # Errors
/// A line that cannot be read or is not of the format, with its number.
pub fn play(lines: impl BufRead, load: Load) -> Result<Workload, String> {
    let mut random = Random::new(load.seed);
    let mut texts = Texts::new(load.seed);
    let mut caches: Vec<Cache> = (0..load.workers).map(|_| Cache::new(load.capacity)).collect();
    let mut ops = Vec::new();
    for (number, line) in lines.lines().enumerate().take(load.requests) {
        let wrong = |what: &dyn std::fmt::Display| format!("line {}: {what}", number + 1);
        let line = line.map_err(|error| wrong(&error))?;
        let line: Line = serde_json::from_str(&line).map_err(|error| wrong(&error))?;
        let text = text_of(&mut texts, &line, load.capacity);
        if text.is_empty() {
            continue;
        }
        let (one, other) = (random.below(load.workers), random.below(load.workers));
        let worker = if caches[one].depth(&text) >= caches[other].depth(&text) { one } else { other };
        let missing = text[caches[worker].depth(&text)..].to_vec();
        let gone = caches[worker].take(&text);
        ops.push(Op::Ask { nodes: text });
        ops.extend(gone.chunks(STEP).map(|nodes| Op::Remove { worker, nodes: nodes.to_vec() }));
        ops.extend(missing.chunks(STEP).map(|nodes| Op::Store { worker, nodes: nodes.to_vec() }));
    }
    Ok(Workload { workers: load.workers, texts, ops })
}

fn text_of(texts: &mut Texts, line: &Line, most: usize) -> Vec<Node> {
    let blocks = (line.input_length / BLOCK).min(line.hash_ids.len() * (TRACE_BLOCK / BLOCK)).min(most);
    let mut text = Vec::with_capacity(blocks);
    for at in 0..blocks {
        let per = TRACE_BLOCK / BLOCK;
        let key = line.hash_ids[at / per] * per as u64 + (at % per) as u64;
        text.push(texts.child(text.last().copied(), key));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    const LOAD: Load = Load { workers: 3, capacity: 200, requests: 100, seed: 1 };

    fn lines() -> String {
        let line = |at: u64| {
            let ids: Vec<u64> =
                (0..=at % 3).map(|block| if block == 0 { 0 } else { at * 8 + block }).collect();
            format!("{{\"timestamp\":{at},\"input_length\":{},\"hash_ids\":{ids:?}}}\n", ids.len() * 512 - 40)
        };
        (0..60).map(line).collect()
    }

    #[test]
    fn caches_never_hold_more_than_they_can_and_never_store_what_they_hold() {
        let workload = play(lines().as_bytes(), LOAD).unwrap();
        let mut oracle = Oracle::new(LOAD.workers);
        let mut evicted = 0;
        for op in &workload.ops {
            match op {
                Op::Store { worker, nodes } => {
                    assert!(nodes.iter().all(|node| !oracle.holds(*worker, *node)));
                    let parent = workload.texts.parent(nodes[0]);
                    assert!(parent.is_none_or(|parent| oracle.holds(*worker, parent)));
                }
                Op::Remove { worker, nodes } => {
                    evicted += nodes.len();
                    assert!(nodes.iter().all(|node| oracle.holds(*worker, *node)));
                }
                Op::Ask { .. } => {}
            }
            oracle.apply(op);
        }
        assert!(evicted > 0);
        assert!(oracle.blocks() <= LOAD.workers * LOAD.capacity);
    }

    #[test]
    fn the_same_trace_makes_the_same_events() {
        let (first, second) = (play(lines().as_bytes(), LOAD), play(lines().as_bytes(), LOAD));
        assert_eq!(first.unwrap().ops, second.unwrap().ops);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = play("{\"input_length\":1,\"hash_ids\":[]}\nno\n".as_bytes(), LOAD).err().unwrap();
        assert!(error.starts_with("line 2:"), "{error}");
    }
}
