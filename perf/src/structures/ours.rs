//! Our shard, as a reactor drives it.

use super::{Events, Form, Payload, Question, Structure};
use crate::clock::cpu_of;
use crate::oracle::Depths;
use crate::texts::{BLOCK, Texts};
use crate::workload::Op;
use kvatlas::event::{self, Batch};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::publisher::{Class, Registration};
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::index::walk::Filter;
use kvatlas::metrics::PublisherStats;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Blocks that one turn of a reactor applies before others come.
const BUDGET: usize = 64;
/// Who encodes: maps, as vLLM sends them today.
const FAMILY: &str = "vllm-0.33.0";

/// An event as an engine sends it.
pub fn encode(op: &Op, texts: &Texts) -> Vec<u8> {
    let family = Family::named(FAMILY).expect("a known family");
    let spell = |node: u32| Hash::of(family, texts.name(node));
    let of = |event: &EngineEvent<'_>| {
        let batch =
            EngineBatch { stamp: Stamp::Seconds(1.7e9), events: std::slice::from_ref(event), rank: Some(0) };
        encode_batch(family, &batch)
    };
    match op {
        Op::Store { nodes, .. } => {
            let names: Vec<Hash> = nodes.iter().map(|node| spell(*node)).collect();
            let parent = texts.parent(nodes[0]).map(spell);
            let tokens = texts.tokens(nodes);
            let plain = Stored::plain(&names, parent, &tokens, BLOCK as u32);
            of(&EngineEvent::Stored(Stored { medium: Some("GPU"), ..plain }))
        }
        Op::Remove { nodes, .. } => {
            let names: Vec<Hash> = nodes.iter().map(|node| spell(*node)).collect();
            of(&EngineEvent::Removed(Removed::plain(&names, Some("GPU"))))
        }
        Op::Ask { .. } => unreachable!("a question is no event"),
    }
}

fn registration(worker: usize) -> Registration {
    Registration {
        tenant: "default".into(),
        instance: format!("worker-{worker}"),
        rank: 0,
        class: Class::Engine,
        model: "model".into(),
        lora_name: String::new(),
        block_size: BLOCK as u32,
        additional_salt: String::new(),
        standard_hashes: false,
        tp_size: None,
        removal_scope: None,
    }
}

/// The shard and its workers.
pub struct Ours {
    shard: Shard,
    publishers: Vec<u32>,
    context: u32,
    batch: Batch,
    hashes: Vec<u64>,
}

impl Ours {
    /// An empty shard where so many workers are registered.
    pub fn new(workers: usize) -> Self {
        let mut shard = Shard::new(DEFAULT_SEED);
        let publishers: Vec<u32> = (0..workers)
            .map(|worker| {
                let stats = Arc::new(PublisherStats::default());
                shard.add_publisher(Arc::new(registration(worker)), stats).expect("there is room")
            })
            .collect();
        let context = shard.find_context(&base_key(&registration(0))).expect("registered");
        Self { shard, publishers, context, batch: Batch::default(), hashes: Vec::new() }
    }

    /// Heap bytes of the shard.
    pub fn bytes(&self) -> u64 {
        self.shard.owned_bytes() as u64
    }

    fn query(&mut self, question: &Question, form: Form) {
        let mut path = match form {
            Form::Hashes => Path::of_hashes(black_box(&question.standard)),
            Form::Tokens => Path::of_tokens(
                black_box(&question.tokens),
                &[],
                BLOCK as u32,
                DEFAULT_SEED,
                &mut self.hashes,
            ),
        };
        self.shard.query(&[self.context], &mut path, Filter::ALL);
    }
}

fn apply(shard: &mut Shard, publisher: u32, payload: &[u8], batch: &Batch) {
    let mut cursor = Cursor::default();
    while !shard.apply(publisher, payload, batch, &mut cursor, BUDGET) {}
}

impl Structure for Ours {
    fn apply(&mut self, events: &Events, which: Range<usize>) -> Duration {
        cpu_of(|| {
            let batches = &events.batches[which.clone()];
            for (payload, batch) in events.payloads[which].iter().zip(batches) {
                apply(&mut self.shard, self.publishers[payload.worker], &payload.bytes, batch);
            }
        })
    }

    fn hear(&mut self, payloads: &[Payload]) -> Duration {
        cpu_of(|| {
            for payload in payloads {
                event::decode(&payload.bytes, &mut self.batch).expect("a good payload");
                apply(&mut self.shard, self.publishers[payload.worker], &payload.bytes, &self.batch);
            }
        })
    }

    fn ask(&mut self, question: &Question) -> Depths {
        self.query(question, Form::Hashes);
        let hits = self.shard.answer().hits();
        let mut depths: Depths = hits
            .map(|hit| {
                let name = self.shard.instance_name(hit.instance);
                let worker = name.strip_prefix("worker-").and_then(|number| number.parse().ok());
                let worker: u32 = worker.expect("the name that was registered");
                (worker, hit.longest)
            })
            .collect();
        depths.sort_unstable();
        depths
    }

    fn time(&mut self, questions: &[Question], form: Form, times: usize) -> Duration {
        cpu_of(|| {
            for question in (0..times).flat_map(|_| questions) {
                self.query(question, form);
                // what a router does with an answer: it looks at each
                let hits = self.shard.answer().hits();
                black_box(hits.map(|hit| u64::from(hit.instance ^ hit.longest)).sum::<u64>());
            }
        })
    }
}
