//! The peer's single-threaded `RadixTree`.

use super::peer::{Decoder, depths, looked_at};
use super::{Events, Form, Payload, Question, Structure, peer_hashes};
use crate::clock::cpu_of;
use crate::oracle::Depths;
use dynamo_kv_router::RadixTree;
use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

/// Questions copied ahead at a time: the tree takes them by value.
const COPIES: usize = 64;

/// The tree.
pub struct Radix {
    tree: RadixTree,
    decoder: Decoder,
}

impl Radix {
    /// An empty tree.
    pub fn new() -> Self {
        Self { tree: RadixTree::new(), decoder: Decoder::new() }
    }
}

impl Structure for Radix {
    fn apply(&mut self, events: &Events, which: Range<usize>) -> Duration {
        let events = events.peer[which].to_vec();
        cpu_of(|| {
            for event in events {
                // what it refuses shows in its answers
                let _ = self.tree.apply_event(event);
            }
        })
    }

    fn hear(&mut self, payloads: &[Payload]) -> Duration {
        cpu_of(|| {
            for payload in payloads {
                self.decoder.decode(payload, |event| {
                    let _ = self.tree.apply_event(event);
                });
            }
        })
    }

    fn ask(&mut self, question: &Question) -> Depths {
        depths(&self.tree.find_matches(question.local.clone(), false))
    }

    fn time(&mut self, questions: &[Question], form: Form, times: usize) -> Duration {
        let mut taken = Duration::ZERO;
        if form == Form::Tokens {
            return cpu_of(|| {
                for question in (0..times).flat_map(|_| questions) {
                    let hashes = peer_hashes(black_box(&question.tokens));
                    black_box(looked_at(&self.tree.find_matches(hashes, false)));
                }
            });
        }
        let mut all = (0..times).flat_map(|_| questions);
        loop {
            let copies: Vec<_> = all.by_ref().take(COPIES).map(|question| question.local.clone()).collect();
            if copies.is_empty() {
                return taken;
            }
            taken += cpu_of(|| {
                for copy in copies {
                    black_box(looked_at(&self.tree.find_matches(black_box(copy), false)));
                }
            });
        }
    }
}
