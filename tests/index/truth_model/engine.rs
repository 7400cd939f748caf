//! An engine that is only simulated: a prefix cache over a small tree of prompts, and what it publishes of it.
//!
//! The cache has blocks as engines have them: a prompt takes the blocks of the longest prefix that is cached,
//! and new ones for the rest, even where a block of the same content lies behind a gap. So one content may be
//! cached twice, and a block in the middle may go before those behind it.
#![allow(unreachable_pub)] // a part of one test

use std::collections::VecDeque;
use std::rc::Rc;

use kvatlas::index::hash::{DEFAULT_SEED, sequence_hashes};
use kvatlas::wire::chain::Chain;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;

/// Tokens a block.
pub const BLOCK: usize = 2;
/// Blocks of the longest prompt.
pub const DEPTH: usize = 5;
/// Prompts of the longest kind.
pub const LEAVES: usize = 1 << DEPTH;
/// Prefixes, by number: the first is 1, and behind `n` come `2n` and `2n + 1`.
const NODES: usize = 2 << DEPTH;
/// How many blocks of the prefixes are cached: what is true.
pub type Copies = [u8; NODES];

/// A batch as it was published.
#[derive(Debug)]
pub struct Message {
    pub life: usize,
    pub sequence: u64,
    pub topic: Rc<[u8]>,
    pub payload: Vec<u8>,
}

/// What an engine is like.
#[derive(Clone, Copy, Debug)]
pub struct Nature {
    /// Number of a life's first batch, 0 or 1.
    pub first: u64,
    /// Batches that can be replayed.
    pub ring: usize,
    /// Blocks that it can cache.
    pub capacity: usize,
    /// The blocks at the end of a prompt go first.
    pub tail_first: bool,
    /// The topic names the life.
    pub epoch: bool,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    node: usize,
    used: u64,
}

/// One number of a life, and what was cached behind it.
type Past = (u64, Copies);

pub struct Engine {
    nature: Nature,
    chain: Chain,
    blocks: Vec<Block>,
    clock: u64,
    topic: Rc<[u8]>,
    next: u64,
    /// What each life published.
    lives: Vec<Vec<Past>>,
    pub ring: VecDeque<Rc<Message>>,
}

/// Tokens of the block at the end of a prefix.
fn block_tokens(node: usize) -> [u32; BLOCK] {
    [node as u32 & 1, 7]
}

/// Tokens of a whole prefix.
fn tokens(node: usize) -> Vec<u32> {
    (0..node.ilog2()).rev().flat_map(|shift| block_tokens(node >> shift)).collect()
}

/// What to ask for to see all that is cached below one leaf, and a block behind it that is never cached.
pub fn question(leaf: usize) -> Vec<u64> {
    let mut tokens = tokens(LEAVES + leaf);
    tokens.extend([9; BLOCK]);
    sequence_hashes(&tokens, BLOCK, DEFAULT_SEED)
}

/// Blocks at the beginning of a leaf's prompt that are cached.
pub fn longest(copies: &Copies, leaf: usize) -> usize {
    let cached = |depth: &usize| copies[(LEAVES + leaf) >> (DEPTH - depth)] > 0;
    (1..=DEPTH).take_while(cached).count()
}

/// Prefixes of which at least one block is cached.
pub fn held(copies: &Copies) -> usize {
    copies.iter().filter(|copies| **copies > 0).count()
}

impl Engine {
    pub fn new(nature: Nature) -> Self {
        let mut engine = Self {
            nature,
            chain: Chain::new(0xe6e),
            blocks: Vec::new(),
            clock: 0,
            topic: Rc::from([]),
            next: nature.first,
            lives: Vec::new(),
            ring: VecDeque::new(),
        };
        engine.begin_life();
        engine
    }

    /// Forgets everything and counts from the beginning again.
    pub fn begin_life(&mut self) {
        self.blocks.clear();
        self.ring.clear();
        self.next = self.nature.first;
        let name =
            if self.nature.epoch { format!("kv\0sgl-kv-epoch={}", self.lives.len()) } else { "kv".into() };
        self.topic = name.into_bytes().into();
        self.lives.push(Vec::new());
    }

    pub fn life(&self) -> usize {
        self.lives.len() - 1
    }

    /// Whether this life has published nothing.
    pub fn is_new(&self) -> bool {
        self.next == self.nature.first
    }

    /// Number of the next batch.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Highest number of any life.
    pub fn highest(&self) -> u64 {
        self.lives.iter().filter_map(|past| past.last()).map(|(number, _)| *number).max().unwrap_or(0)
    }

    /// What was cached in a life behind a number.
    pub fn cached(&self, life: usize, sequence: u64) -> Copies {
        let past = &self.lives[life];
        let known = past.partition_point(|(number, _)| *number <= sequence);
        known.checked_sub(1).map_or([0; NODES], |at| past[at].1)
    }

    /// Uses up numbers for nothing.
    pub fn hole(&mut self, count: u64) {
        self.next += count;
    }

    /// Computes the first `blocks` blocks of a leaf's prompt.
    pub fn run(&mut self, leaf: usize, blocks: usize) -> Rc<Message> {
        // 0 and 1 are both beginnings: a batch 0 that is never heard of must not matter
        if self.next == 0 {
            return self.publish(&[]);
        }
        self.clock += 1;
        let path: Vec<usize> = (1..=blocks).map(|depth| (LEAVES + leaf) >> (DEPTH - depth)).collect();
        let hits =
            path.iter().take_while(|node| self.blocks.iter().any(|block| block.node == **node)).count();
        let stamp = |at: usize| {
            let order = if self.nature.tail_first { DEPTH - at } else { at };
            self.clock * DEPTH as u64 * 2 + order as u64
        };
        for (at, node) in path[..hits].iter().enumerate() {
            let block =
                self.blocks.iter_mut().filter(|block| block.node == *node).max_by_key(|block| block.used);
            block.expect("it is a hit").used = stamp(at);
        }
        let mut evicted = Vec::new();
        let in_use = self.clock * DEPTH as u64 * 2;
        for (at, node) in path.iter().enumerate().skip(hits) {
            let oldest = self.blocks.iter().enumerate().min_by_key(|(_, block)| block.used);
            if let Some((oldest, block)) = oldest
                && self.blocks.len() >= self.nature.capacity
                && block.used < in_use
            {
                evicted.push(block.node);
                self.blocks.swap_remove(oldest);
            }
            self.blocks.push(Block { node: *node, used: stamp(at) });
        }
        let names = |nodes: &[usize]| nodes.iter().map(|node| self.name(*node)).collect::<Vec<_>>();
        let (stored, evicted) = (names(&path[hits..]), names(&evicted));
        let tokens: Vec<u32> = path[hits..].iter().flat_map(|node| block_tokens(*node)).collect();
        let parent = hits.checked_sub(1).map(|last| self.name(path[last]));
        let store = Stored { medium: Some("GPU"), ..Stored::plain(&stored, parent, &tokens, BLOCK as u32) };
        let mut events = Vec::new();
        if !evicted.is_empty() {
            events.push(EngineEvent::Removed(Removed::plain(&evicted, Some("GPU"))));
        }
        if !stored.is_empty() {
            events.push(EngineEvent::Stored(store));
        }
        self.publish(&events)
    }

    /// Empties the cache.
    pub fn clear(&mut self) -> Rc<Message> {
        self.blocks.clear();
        self.publish(&[EngineEvent::Cleared(None)])
    }

    fn name(&self, node: usize) -> Hash {
        let names = self.chain.extend(None, &tokens(node), BLOCK);
        Hash::Unsigned(names[names.len() - 1])
    }

    fn publish(&mut self, events: &[EngineEvent<'_>]) -> Rc<Message> {
        let family = Family::named("vllm-0.33.0").expect("a known family");
        let sequence = self.next;
        // no two batches are made at one time
        let stamp = Stamp::Seconds((self.life() as u64 * 1_000_000 + sequence) as f64);
        let payload = encode_batch(family, &EngineBatch { stamp, events, rank: Some(0) });
        let message = Rc::new(Message { life: self.life(), sequence, topic: self.topic.clone(), payload });
        self.next += 1;
        let mut copies = [0; NODES];
        self.blocks.iter().for_each(|block| copies[block.node] += 1);
        self.lives.last_mut().expect("there is a life").push((sequence, copies));
        self.ring.push_back(message.clone());
        if self.ring.len() > self.nature.ring {
            self.ring.pop_front();
        }
        message
    }
}
