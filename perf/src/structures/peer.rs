//! What the peer's structures share: their events, their decoder, their answers.

use super::Payload;
use crate::oracle::Depths;
use crate::texts::{BLOCK, Texts};
use crate::workload::Op;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, PlacementEvent, RouterEvent, WorkerWithDpRank,
};
use dynamo_kv_router::zmq_wire::{ZmqEventNormalizer, decode_event_batch};

/// An event as the peer applies it.
pub fn event(op: &Op, texts: &Texts, event_id: u64) -> RouterEvent {
    let name = |node: u32| ExternalSequenceBlockHash(texts.name(node));
    let (worker, data) = match op {
        Op::Store { worker, nodes } => {
            let block = |node: &u32| KvCacheStoredBlockData {
                block_hash: name(*node),
                tokens_hash: LocalBlockHash(texts.local(*node)),
                mm_extra_info: None,
            };
            let data = KvCacheStoreData {
                parent_hash: texts.parent(nodes[0]).map(name),
                start_position: None,
                blocks: nodes.iter().map(block).collect(),
            };
            (*worker, KvCacheEventData::Stored(data))
        }
        Op::Remove { worker, nodes } => {
            let block_hashes = nodes.iter().map(|node| name(*node)).collect();
            (*worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
        }
        Op::Ask { .. } => unreachable!("a question is no event"),
    };
    RouterEvent::new(worker as u64, KvCacheEvent { event_id, data, dp_rank: 0 })
}

/// The peer's way from msgpack to events: what its listener does with a message.
pub struct Decoder {
    normalizers: Vec<ZmqEventNormalizer>,
    next: u64,
}

impl Decoder {
    /// One normalizer a worker, as one listener each has.
    pub fn new() -> Self {
        Self { normalizers: Vec::new(), next: 0 }
    }

    /// Decodes one message.
    pub fn decode(&mut self, payload: &Payload, mut each: impl FnMut(RouterEvent)) {
        while self.normalizers.len() <= payload.worker {
            self.normalizers.push(ZmqEventNormalizer::new(BLOCK as u32));
        }
        let normalizer = &mut self.normalizers[payload.worker];
        let batch = decode_event_batch(&payload.bytes).expect("a good payload");
        let worker = WorkerWithDpRank::new(payload.worker as u64, 0);
        for raw in batch.events {
            let placed = normalizer.normalize(raw, self.next, worker);
            self.next += 1;
            if let Some(event) = placed.and_then(PlacementEvent::into_router_event) {
                each(event);
            }
        }
    }
}

/// Scores as an answer.
pub fn depths(scores: &OverlapScores) -> Depths {
    let pairs = scores.scores.iter().map(|(worker, depth)| (worker.worker_id as u32, *depth));
    let mut depths: Depths = pairs.filter(|(_, depth)| *depth > 0).collect();
    depths.sort_unstable();
    depths
}

/// What a router does with scores: it looks at each.
pub fn looked_at(scores: &OverlapScores) -> u64 {
    scores.scores.values().map(|depth| u64::from(*depth)).sum()
}
