//! An engine's prefix cache under a made-up load, as far as its events show it.
//!
//! A prompt is one of a few shared prefixes followed by text of its own. The cache keeps *runs*: the blocks
//! that one step stored. When it holds too many blocks, the run least recently used among those that no other
//! run stands on gives up its blocks, the last one first.

use std::collections::{BTreeSet, HashMap};

use super::chain::Chain;

/// Token ids are below this.
const VOCABULARY: u64 = 128_000;
/// Numbers of texts times this give each its own first token, for as many texts as there are tokens: it has no factor in
/// common with [`VOCABULARY`].
const STRIDE: u64 = 77_773;
/// Set in the number of a prefix: prompts are counted from 0 and never get this far.
const PREFIX: u64 = 1 << 63;
/// Steps that a prompt goes on for behind its prefix.
const PROMPT_STEPS: usize = 4;

/// The shape of the load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Seed of all tokens, and the engine's secret.
    pub seed: u64,
    /// Tokens a block.
    pub block_size: usize,
    /// Blocks that a step stores.
    pub blocks_per_step: usize,
    /// Shared prefixes; 0 gives every prompt a text of its own from the start.
    pub prefixes: usize,
    /// Most blocks held; `None` never evicts.
    pub capacity: Option<usize>,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Engine hash of the block before the first one; `None` at the root.
    pub parent: Option<u64>,
    /// Tokens stored.
    pub tokens: Vec<u32>,
    /// Engine hashes of the blocks stored.
    pub hashes: Vec<u64>,
    /// Number of the prompt that the step belongs to, for [`Cache::prompt`].
    pub prompt: u64,
    /// Blocks of that prompt in front of the stored ones.
    pub depth: usize,
    /// Engine hashes of the blocks evicted, in the order in which they went.
    pub evicted: Vec<u64>,
}

/// The blocks of one step.
#[derive(Debug)]
struct Run {
    hashes: Vec<u64>,
    parent: Option<usize>,
    children: usize,
    used: u64,
    prefix: Option<usize>,
}

/// The prompt that is being stored.
#[derive(Debug)]
struct Prompt {
    number: u64,
    steps_left: usize,
    last: Option<usize>,
    depth: usize,
}

/// The cache and the load on it.
#[derive(Debug)]
pub struct Cache {
    load: Load,
    chain: Chain,
    runs: HashMap<usize, Run>,
    leaves: BTreeSet<(u64, usize)>,
    prefix_runs: HashMap<usize, usize>,
    current: Prompt,
    next_run: usize,
    clock: u64,
    blocks: usize,
}

impl Cache {
    /// An empty cache. Steps and blocks are at least 1 long.
    pub fn new(load: Load) -> Self {
        let load =
            Load { block_size: load.block_size.max(1), blocks_per_step: load.blocks_per_step.max(1), ..load };
        Self {
            load,
            chain: Chain::new(load.seed ^ 0x6b76_6174_6c61_7321),
            runs: HashMap::new(),
            leaves: BTreeSet::new(),
            prefix_runs: HashMap::new(),
            current: Prompt { number: 0, steps_left: PROMPT_STEPS, last: None, depth: 0 },
            next_run: 0,
            clock: 0,
            blocks: 0,
        }
    }

    /// Blocks held.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Tokens a block.
    pub fn block_size(&self) -> usize {
        self.load.block_size
    }

    /// All tokens of the prompt that was stored last, all of whose blocks the cache holds.
    pub fn last_prompt(&self) -> Vec<u32> {
        self.prompt(self.current.number, self.current.depth)
    }

    /// The first `blocks` blocks of a prompt.
    pub fn prompt(&self, number: u64, blocks: usize) -> Vec<u32> {
        let len = blocks * self.load.block_size;
        let mut tokens = self.prefix_of(number).map(|prefix| self.prefix_text(prefix)).unwrap_or_default();
        for step in 0.. {
            if tokens.len() >= len {
                break;
            }
            tokens.extend(self.text(number, step));
        }
        tokens.truncate(len);
        tokens
    }

    /// Stores what the load stores next.
    pub fn step(&mut self) -> Step {
        if self.current.steps_left == 0 {
            let number = self.current.number + 1;
            self.current = Prompt { number, steps_left: PROMPT_STEPS, last: None, depth: 0 };
        }
        self.clock += 1;
        let prefix = self.prefix_of(self.current.number);
        if let (None, Some(prefix)) = (self.current.last, prefix) {
            if let Some(&run) = self.prefix_runs.get(&prefix) {
                // a hit: the prompt goes on behind the prefix
                self.current.last = Some(run);
                self.current.depth = self.load.blocks_per_step;
            } else {
                return self.store(self.prefix_text(prefix), Some(prefix));
            }
        }
        let tokens = self.text(self.current.number, PROMPT_STEPS - self.current.steps_left);
        self.current.steps_left -= 1;
        self.store(tokens, None)
    }

    fn store(&mut self, tokens: Vec<u32>, prefix: Option<usize>) -> Step {
        let parent_run = self.current.last;
        let parent = parent_run.and_then(|run| self.runs.get(&run)?.hashes.last().copied());
        let hashes = self.chain.extend(parent, &tokens, self.load.block_size);
        let run = self.next_run;
        self.next_run += 1;
        if let Some(parent) = parent_run {
            self.stand_on(parent);
        }
        let new = Run { hashes: hashes.clone(), parent: parent_run, children: 0, used: self.clock, prefix };
        self.runs.insert(run, new);
        self.leaves.insert((self.clock, run));
        if let Some(prefix) = prefix {
            self.prefix_runs.insert(prefix, run);
        }
        self.blocks += hashes.len();
        let depth = self.current.depth;
        self.current.depth += hashes.len();
        self.current.last = Some(run);
        let evicted = self.evict(run);
        Step { parent, tokens, hashes, prompt: self.current.number, depth, evicted }
    }

    /// A run that another one stands on is no leaf, and was used just now.
    fn stand_on(&mut self, run: usize) {
        if let Some(parent) = self.runs.get_mut(&run) {
            self.leaves.remove(&(parent.used, run));
            parent.children += 1;
            parent.used = self.clock;
        }
    }

    /// Evicts down to the capacity, but not `newest`, nor what it stands on.
    fn evict(&mut self, newest: usize) -> Vec<u64> {
        let mut evicted = Vec::new();
        let capacity = self.load.capacity.unwrap_or(usize::MAX);
        while self.blocks > capacity {
            let Some(&leaf) = self.leaves.iter().find(|(_, run)| *run != newest) else { break };
            self.leaves.remove(&leaf);
            let Some(run) = self.runs.remove(&leaf.1) else { break };
            self.blocks -= run.hashes.len();
            evicted.extend(run.hashes.iter().rev());
            if let Some(prefix) = run.prefix {
                self.prefix_runs.remove(&prefix);
            }
            if let Some((number, parent)) = run.parent.and_then(|at| Some((at, self.runs.get_mut(&at)?))) {
                parent.children -= 1;
                if parent.children == 0 {
                    self.leaves.insert((parent.used, number));
                }
            }
        }
        evicted
    }

    fn prefix_of(&self, prompt: u64) -> Option<usize> {
        let prefixes = self.load.prefixes as u64;
        (prefixes > 0).then(|| (mix(self.load.seed ^ mix(prompt)) % prefixes) as usize)
    }

    fn prefix_text(&self, prefix: usize) -> Vec<u32> {
        self.text(prefix as u64 | PREFIX, 0)
    }

    fn text(&self, text: u64, step: usize) -> Vec<u32> {
        let start = mix(self.load.seed ^ mix(text) ^ (step as u64).rotate_left(32));
        let len = (self.load.block_size * self.load.blocks_per_step) as u64;
        let token = |place| match (step, place) {
            // an engine stores no block twice: where blocks are short, texts must not begin alike by chance
            (0, 0) => mix(self.load.seed) % VOCABULARY + (text & !PREFIX) % VOCABULARY * STRIDE,
            _ => mix(start.wrapping_add(place)),
        };
        (0..len).map(|place| (token(place) % VOCABULARY) as u32).collect()
    }
}

/// SplitMix64's finaliser: neighbours become strangers.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
