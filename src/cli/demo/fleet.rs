//! The fleet of the demo: two engines and a pool that publish over ZMQ and keep the ledger.

use super::ledger::{Ledger, Place};
use crate::cli::publish::now;
use crate::config::DEFAULT_HASH_SEED;
use crate::index::hash::sequence_hashes;
use crate::limits::POOL_BATCH_EVENTS;
use crate::wire::chain::Chain;
use crate::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use crate::wire::family::Family;
use crate::wire::pool::{FIRST_SEQUENCE, Master, PoolEvent};
use crate::wire::publisher::{PublishError, Publisher, PublisherOptions};

/// Tokens a block.
pub(super) const BLOCK_SIZE: usize = 16;
/// Tokens that every prompt of the demo starts with.
pub(super) const SYSTEM_TOKENS: usize = 8 * BLOCK_SIZE;

/// The instance that runs vLLM, and lends the pool.
pub(super) const VLLM: &str = "vllm-0";
/// The instance that runs SGLang.
pub(super) const SGLANG: &str = "sglang-0";

/// Where the publishers listen: any free port of this machine.
const ANYWHERE: &str = "tcp://127.0.0.1:0";

/// A text of `tokens` tokens behind the system prompt all prompts share. Texts of different `topic`s differ.
pub(super) fn prompt(topic: u32, tokens: usize) -> Vec<u32> {
    let system = (0..SYSTEM_TOKENS as u32).map(|place| 1000 + place);
    let own = (0..tokens as u32).map(|place| 10_000 * topic + place);
    system.chain(own).collect()
}

/// Standard hashes of a prompt's whole blocks.
pub(super) fn blocks(prompt: &[u32]) -> Vec<u64> {
    sequence_hashes(prompt, BLOCK_SIZE, DEFAULT_HASH_SEED)
}

/// One engine.
pub(super) struct Engine {
    /// Its socket.
    pub(super) publisher: Publisher,
    /// Its wire version.
    pub(super) family: &'static Family,
    /// Its instance.
    pub(super) instance: &'static str,
    chain: Chain,
}

impl Engine {
    /// An engine of `family` with hashes of its own.
    pub(super) fn start(
        family: &'static Family,
        instance: &'static str,
        secret: u64,
    ) -> Result<Self, PublishError> {
        let options = PublisherOptions {
            replay: Some(ANYWHERE.into()),
            replay_shape: family.replay,
            ..PublisherOptions::new(ANYWHERE)
        };
        Ok(Self { publisher: Publisher::bind(options)?, family, instance, chain: Chain::new(secret) })
    }

    /// Stores the blocks of `prompt` on GPU, all in one event.
    pub(super) fn store(&self, ledger: &mut Ledger, prompt: &[u32]) -> Result<(), PublishError> {
        let hashes = self.hashes(prompt);
        let stored = Stored::plain(&hashes, None, prompt, BLOCK_SIZE as u32);
        ledger.store(self.instance, Place::EngineGpu, &blocks(prompt));
        self.send(&EngineEvent::Stored(Stored { medium: Some("GPU"), ..stored }))
    }

    /// Evicts all blocks of `prompt` behind its first `keep` from GPU.
    pub(super) fn evict(&self, ledger: &mut Ledger, prompt: &[u32], keep: usize) -> Result<(), PublishError> {
        ledger.remove(self.instance, Place::EngineGpu, &blocks(prompt)[keep..]);
        let hashes = &self.hashes(prompt)[keep..];
        self.send(&EngineEvent::Removed(Removed::plain(hashes, Some("GPU"))))
    }

    /// Moves all blocks of `prompt` behind its first `keep` from GPU to host memory, as SGLang does: stored
    /// there first, then gone here.
    pub(super) fn offload(
        &self,
        ledger: &mut Ledger,
        prompt: &[u32],
        keep: usize,
    ) -> Result<(), PublishError> {
        ledger.store(self.instance, Place::EngineCpu, &blocks(prompt)[keep..]);
        let hashes = self.hashes(prompt);
        let tokens = &prompt[keep * BLOCK_SIZE..];
        let stored = Stored::plain(&hashes[keep..], Some(hashes[keep - 1]), tokens, BLOCK_SIZE as u32);
        self.send(&EngineEvent::Stored(Stored { medium: Some("CPU_PINNED"), ..stored }))?;
        self.evict(ledger, prompt, keep)
    }

    fn hashes(&self, prompt: &[u32]) -> Vec<Hash> {
        let hashes = self.chain.extend(None, prompt, BLOCK_SIZE);
        hashes.into_iter().map(|hash| Hash::of(self.family, hash)).collect()
    }

    fn send(&self, event: &EngineEvent<'_>) -> Result<(), PublishError> {
        let stamp = Stamp::Seconds(now().as_secs_f64());
        let batch = EngineBatch { stamp, events: std::slice::from_ref(event), rank: Some(0) };
        self.publisher.send(encode_batch(self.family, &batch)).map(drop)
    }
}

/// The storage pool.
pub(super) struct Pool {
    /// Its socket.
    pub(super) publisher: Publisher,
    master: Master,
}

impl Pool {
    /// A pool that has just started. Masters answer no replay.
    pub(super) fn start() -> Result<Self, PublishError> {
        let options = PublisherOptions { first_seq: FIRST_SEQUENCE, ..PublisherOptions::new(ANYWHERE) };
        Ok(Self { publisher: Publisher::bind(options)?, master: Master::new("pool-0") })
    }

    /// Puts the blocks of `prompt` into the pool's memory; they serve the instance it is registered under.
    pub(super) fn store(&mut self, ledger: &mut Ledger, prompt: &[u32]) -> Result<(), PublishError> {
        let blocks = blocks(prompt);
        ledger.store(VLLM, Place::PoolCpu, &blocks);
        let keys: Vec<_> = blocks.iter().map(u64::to_string).collect();
        let events: Vec<_> = keys.iter().map(|key| PoolEvent::stored(key)).collect();
        for events in events.chunks(POOL_BATCH_EVENTS) {
            if let Some(payload) = self.master.encode(now().as_millis() as u64, events) {
                self.publisher.send(payload)?;
            }
        }
        Ok(())
    }
}
