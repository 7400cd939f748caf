//! The peer's `PositionalIndexer`.

use super::peer::{Decoder, depths, looked_at};
use super::{Events, Form, Payload, Question, Structure, peer_hashes};
use crate::clock::cpu_of;
use crate::oracle::Depths;
use dynamo_kv_router::PositionalIndexer;
use dynamo_kv_router::indexer::SyncIndexer;
use dynamo_kv_router::nested_map::{LevelIndex, SearchMode};
use dynamo_kv_router::protocols::WorkerWithDpRank;
use rustc_hash::FxHashMap;
use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

/// Positions jumped over at a time: what the peer's own documentation suggests.
const JUMP: usize = 32;

/// The index, and what its worker thread keeps.
pub struct Positional {
    index: PositionalIndexer,
    blocks: FxHashMap<WorkerWithDpRank, LevelIndex>,
    decoder: Decoder,
}

impl Positional {
    /// An empty index.
    pub fn new() -> Self {
        let index = PositionalIndexer::new_with_mode(JUMP, SearchMode::Strided);
        Self { index, blocks: FxHashMap::default(), decoder: Decoder::new() }
    }
}

impl Structure for Positional {
    fn apply(&mut self, events: &Events, which: Range<usize>) -> Duration {
        let events = events.peer[which].to_vec();
        cpu_of(|| {
            for event in events {
                // what it refuses shows in its answers
                let _ = self.index.apply_event(&mut self.blocks, event, None);
            }
        })
    }

    fn hear(&mut self, payloads: &[Payload]) -> Duration {
        cpu_of(|| {
            for payload in payloads {
                self.decoder.decode(payload, |event| {
                    let _ = self.index.apply_event(&mut self.blocks, event, None);
                });
            }
        })
    }

    fn ask(&mut self, question: &Question) -> Depths {
        depths(&self.index.find_matches(&question.local, false))
    }

    fn time(&mut self, questions: &[Question], form: Form, times: usize) -> Duration {
        cpu_of(|| {
            for question in (0..times).flat_map(|_| questions) {
                let scores = match form {
                    Form::Hashes => self.index.find_matches(black_box(&question.local), false),
                    Form::Tokens => self.index.find_matches(&peer_hashes(black_box(&question.tokens)), false),
                };
                black_box(looked_at(&scores));
            }
        })
    }

    fn settle(&mut self) {
        self.index.run_cleanup_task();
    }
}
