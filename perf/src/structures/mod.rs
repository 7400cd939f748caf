//! The structures that are compared, behind one seam.

pub mod compressed;
pub mod ours;
pub mod peer;
pub mod positional;
pub mod radix;

use crate::oracle::Depths;
use crate::texts::{BLOCK, Node, Texts};
use crate::workload::Op;
use dynamo_kv_router::protocols::{
    BlockHashOptions, LocalBlockHash, RouterEvent, compute_block_hash_for_seq,
};
use kvatlas::event::Batch;
use std::ops::Range;
use std::time::Duration;

/// One batch on its way: who sent it, and its msgpack.
pub struct Payload {
    /// Who.
    pub worker: usize,
    /// msgpack of one event.
    pub bytes: Vec<u8>,
}

/// Events, made ready for everybody before the clock runs.
#[derive(Default)]
pub struct Events {
    /// As they come.
    pub payloads: Vec<Payload>,
    /// As our decoder leaves them.
    pub batches: Vec<Batch>,
    /// As the peer's decoder leaves them.
    pub peer: Vec<RouterEvent>,
}

impl Events {
    /// Encodes and decodes the events among `ops`.
    pub fn of(ops: &[Op], texts: &Texts) -> Self {
        let mut events = Self::default();
        for op in ops {
            let (Op::Store { worker, .. } | Op::Remove { worker, .. }) = op else { continue };
            let payload = ours::encode(op, texts);
            let mut batch = Batch::default();
            kvatlas::event::decode(&payload, &mut batch).expect("our own payload");
            events.batches.push(batch);
            events.payloads.push(Payload { worker: *worker, bytes: payload });
            events.peer.push(peer::event(op, texts, events.peer.len() as u64));
        }
        events
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.payloads.len()
    }
}

/// A question, made ready for everybody before the clock runs.
pub struct Question {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Its rolling hashes: what we look up.
    pub standard: Vec<u64>,
    /// Its block hashes: what the peer looks up.
    pub local: Vec<LocalBlockHash>,
}

impl Question {
    /// Asks for a text.
    pub fn of(text: &[Node], texts: &Texts) -> Self {
        Self {
            tokens: texts.tokens(text),
            standard: text.iter().map(|node| texts.standard(*node)).collect(),
            local: text.iter().map(|node| LocalBlockHash(texts.local(*node))).collect(),
        }
    }
}

/// What a question is asked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Hashes, known already: each structure's own kind.
    Hashes,
    /// Tokens, to be hashed by each structure's own function.
    Tokens,
}

/// The peer's block hashes of a question.
pub fn peer_hashes(tokens: &[u32]) -> Vec<LocalBlockHash> {
    compute_block_hash_for_seq(tokens, BLOCK as u32, BlockHashOptions::default())
}

/// One structure under test.
pub trait Structure {
    /// Applies some of the events; CPU time of the thread that does so.
    fn apply(&mut self, events: &Events, which: Range<usize>) -> Duration;
    /// Decodes and applies events, from msgpack.
    fn hear(&mut self, payloads: &[Payload]) -> Duration;
    /// The answer, sorted by worker; workers without a block left out.
    fn ask(&mut self, question: &Question) -> Depths;
    /// CPU time of asking these questions one after the other, `times` times.
    fn time(&mut self, questions: &[Question], form: Form, times: usize) -> Duration;
    /// Does what is put off for later, so that bytes can be counted.
    fn settle(&mut self) {}
}

/// Who is compared, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Our shard.
    Ours,
    /// `RadixTree`.
    Radix,
    /// `ConcurrentRadixTreeCompressed`.
    Compressed,
    /// `PositionalIndexer`.
    Positional,
}

impl Kind {
    /// Everybody.
    pub const ALL: [Self; 4] = [Self::Ours, Self::Radix, Self::Compressed, Self::Positional];

    /// Its name in tables and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "kvatlas",
            Self::Radix => "RadixTree",
            Self::Compressed => "ConcurrentRadixTreeCompressed",
            Self::Positional => "PositionalIndexer",
        }
    }

    /// An empty one for so many workers.
    pub fn build(self, workers: usize) -> Box<dyn Structure> {
        match self {
            Self::Ours => Box::new(ours::Ours::new(workers)),
            Self::Radix => Box::new(radix::Radix::new()),
            Self::Compressed => Box::new(compressed::Compressed::new()),
            Self::Positional => Box::new(positional::Positional::new()),
        }
    }
}
