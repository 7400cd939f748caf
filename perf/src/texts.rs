//! Texts as a tree of blocks: a block is known by what stands before it and by its own key.

use kvatlas::index::hash::{self, DEFAULT_SEED};
use std::collections::HashMap;

/// Tokens a block.
pub const BLOCK: usize = 16;
/// Tokens of the vocabulary.
const VOCABULARY: u64 = 128_000;

/// A block of one context: it stands for the whole prefix that ends with it.
pub type Node = u32;

/// SplitMix64.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[derive(Clone, Copy)]
struct Block {
    parent: Option<Node>,
    key: u64,
    local: u64,
    standard: u64,
}

/// What engines call their blocks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Names {
    /// By the contract's rolling hashes. The peer's positional index takes no other names.
    #[default]
    Standard,
    /// By hashes of their own, the same for all engines.
    Own,
}

/// All blocks of a workload.
pub struct Texts {
    /// What engines call them.
    pub names: Names,
    seed: u64,
    blocks: Vec<Block>,
    known: HashMap<(Option<Node>, u64), Node>,
    fresh: u64,
}

impl Texts {
    /// No blocks; their tokens will follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { names: Names::Standard, seed, blocks: Vec::new(), known: HashMap::new(), fresh: 0 }
    }

    /// The block with this key behind `parent`, made when it is new.
    pub fn child(&mut self, parent: Option<Node>, key: u64) -> Node {
        if let Some(node) = self.known.get(&(parent, key)) {
            return *node;
        }
        let node = self.blocks.len() as Node;
        let mut tokens = Vec::with_capacity(BLOCK);
        self.spell(key, &mut tokens);
        let local = hash::local(&tokens, DEFAULT_SEED);
        let before = parent.map(|parent| self.blocks[parent as usize]);
        let standard = hash::next(before.map(|before| before.standard), local, DEFAULT_SEED);
        self.blocks.push(Block { parent, key, local, standard });
        self.known.insert((parent, key), node);
        node
    }

    /// A text of `blocks` blocks that occur nowhere else, behind `parent`.
    pub fn fresh(&mut self, parent: Option<Node>, blocks: usize) -> Vec<Node> {
        let mut last = parent;
        let mut text = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            self.fresh += 1;
            let node = self.child(last, 1 << 63 | self.fresh);
            text.push(node);
            last = Some(node);
        }
        text
    }

    fn spell(&self, key: u64, tokens: &mut Vec<u32>) {
        let mut random = Random::new(self.seed ^ key.wrapping_mul(0x2545_f491_4f6c_dd1d));
        tokens.extend((0..BLOCK).map(|_| (random.next() % VOCABULARY) as u32));
    }

    /// The block before a block.
    pub fn parent(&self, node: Node) -> Option<Node> {
        self.blocks[node as usize].parent
    }

    /// Tokens of some blocks.
    pub fn tokens(&self, nodes: &[Node]) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(nodes.len() * BLOCK);
        for node in nodes {
            self.spell(self.blocks[*node as usize].key, &mut tokens);
        }
        tokens
    }

    /// Hash of a block's own tokens.
    pub fn local(&self, node: Node) -> u64 {
        self.blocks[node as usize].local
    }

    /// Rolling hash of the contract.
    pub fn standard(&self, node: Node) -> u64 {
        self.blocks[node as usize].standard
    }

    /// What engines call a block.
    pub fn name(&self, node: Node) -> u64 {
        match self.names {
            Names::Standard => self.standard(node),
            Names::Own => Random::new(self.standard(node)).next(),
        }
    }
}
