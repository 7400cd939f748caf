//! Keys of a sequence of tokens, and how a key is written.

use serde::Serialize;

use crate::fleet::form::Sequence;
use crate::fleet::key::Key;
use crate::fleet::tokens::{self, Keys, ResolveFault};

/// A key as it is written on the wire.
#[derive(Serialize)]
pub struct WireKey {
    chunk_hash_hex: String,
    model_name: String,
    kv_rank: i128,
    object_group_id: u64,
    cache_salt: String,
}

impl WireKey {
    /// The written form of `key`.
    pub fn of(key: Key<'_>) -> Self {
        Self {
            chunk_hash_hex: key.hash.to_string(),
            model_name: key.model.into_owned(),
            kv_rank: key.kv_rank,
            object_group_id: key.group,
            cache_salt: key.salt.into_owned(),
        }
    }
}

/// The keys of a sequence, or the limit that they are beyond.
pub fn resolve(sequence: &Sequence, chunk_size: u64) -> Result<Keys<'_>, ResolveFault> {
    let Sequence { model_name, world_size, token_ids, cache_salt, .. } = sequence;
    tokens::resolve(token_ids, chunk_size, model_name, cache_salt, *world_size)
}
