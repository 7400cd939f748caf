//! Which objects a sequence of tokens is: a hash for every complete chunk, a key for every hash and rank.
//!
//! The hash of a chunk covers the hash before it and the chunk's tokens, and nothing else: neither model nor tenant
//! nor world size. MP servers compute the same, so both must know the same chunk size.

use std::borrow::Cow;

use super::key::{ChunkHash, HASH_BYTES, Key, KeyFault, check_model, check_salt};
use crate::limits::{FLEET_RESOLVED_KEYS, FLEET_WORLD_SIZE};

/// Tokens that are laid out as bytes at a time.
const PIECE: usize = 256;

/// The hash before the first chunk: blake3 of a 64-bit zero and a 32-bit zero.
pub fn none_hash() -> [u8; HASH_BYTES] {
    *blake3::hash(&[0; 12]).as_bytes()
}

/// The hash of a chunk: blake3 of the hash before it, then each token as four bytes, the highest first.
pub fn chunk_hash(before: &[u8; HASH_BYTES], chunk: &[u32]) -> [u8; HASH_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before);
    let mut bytes = [0; PIECE * size_of::<u32>()];
    for piece in chunk.chunks(PIECE) {
        let bytes = &mut bytes[..size_of_val(piece)];
        for (place, token) in bytes.chunks_exact_mut(size_of::<u32>()).zip(piece) {
            place.copy_from_slice(&token.to_be_bytes());
        }
        hasher.update(bytes);
    }
    *hasher.finalize().as_bytes()
}

/// World size and rank in one number: `W<<24 | r<<16 | W<<8 | r`. Nothing is masked, so from a world size of 257 on
/// two ranks can have the same number, as they have on the servers.
pub fn kv_rank(world_size: u64, rank: u64) -> i128 {
    let (world_size, rank) = (u128::from(world_size), u128::from(rank));
    (world_size << 24 | rank << 16 | world_size << 8 | rank) as i128
}

/// Why tokens are not resolved; the text says so to a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveFault {
    /// Salt or model cannot be part of a key.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// A rank has a key for every chunk, and these are too many ranks.
    #[error("world_size is too large (limit={FLEET_WORLD_SIZE}, got={0})")]
    WorldSize(u64),
    /// Too many keys for one request.
    #[error("too many keys in a single request: chunks x world_size (limit={FLEET_RESOLVED_KEYS}, got={0})")]
    Keys(u64),
}

/// The hashes of the complete chunks of a sequence, in order.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    chunks: std::slice::ChunksExact<'a, u32>,
    before: [u8; HASH_BYTES],
}

/// Hashes the complete chunks of `tokens`; a tail shorter than `chunk_size` has none. A `chunk_size` of 0 is none
/// that settings allow, and gives nothing.
pub fn chain(tokens: &[u32], chunk_size: u64) -> Chain<'_> {
    let size = usize::try_from(chunk_size).unwrap_or(usize::MAX);
    let tokens = if size == 0 { &[] } else { tokens };
    Chain { chunks: tokens.chunks_exact(size.max(1)), before: none_hash() }
}

impl Iterator for Chain<'_> {
    type Item = [u8; HASH_BYTES];

    fn next(&mut self) -> Option<Self::Item> {
        self.before = chunk_hash(&self.before, self.chunks.next()?);
        Some(self.before)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl ExactSizeIterator for Chain<'_> {}

/// The keys of a sequence: for each chunk one of every rank. An iterator, so that a long one is taken in steps:
/// `keys.by_ref().take(n)`.
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    chain: Chain<'a>,
    model: &'a str,
    salt: &'a str,
    world_size: u64,
    chunks: u64,
    hash: [u8; HASH_BYTES],
    /// Next rank of `hash`; `world_size` when a new one is due.
    rank: u64,
}

/// Resolves `tokens` to keys, object group 0. Refuses what cannot be a key, more than [`FLEET_WORLD_SIZE`] ranks and
/// more than [`FLEET_RESOLVED_KEYS`] keys. The model is only looked at where there is a chunk.
pub fn resolve<'a>(
    tokens: &'a [u32],
    chunk_size: u64,
    model: &'a str,
    salt: &'a str,
    world_size: u64,
) -> Result<Keys<'a>, ResolveFault> {
    check_salt(salt)?;
    if world_size > FLEET_WORLD_SIZE {
        return Err(ResolveFault::WorldSize(world_size));
    }
    let chain = chain(tokens, chunk_size);
    let chunks = chain.len() as u64;
    let count = chunks.saturating_mul(world_size);
    if count > FLEET_RESOLVED_KEYS {
        return Err(ResolveFault::Keys(count));
    }
    if chunks > 0 {
        check_model(model)?;
    }
    Ok(Keys { chain, model, salt, world_size, chunks, hash: [0; HASH_BYTES], rank: world_size })
}

impl Keys<'_> {
    /// Complete chunks of the sequence (`requested` of an answer).
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Keys of the sequence, taken and not yet taken (`affected` of an answer).
    pub fn keys(&self) -> u64 {
        self.chunks * self.world_size
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Key<'a>;

    fn next(&mut self) -> Option<Key<'a>> {
        if self.world_size == 0 {
            return None;
        }
        if self.rank >= self.world_size {
            self.hash = self.chain.next()?;
            self.rank = 0;
        }
        let rank = self.rank;
        self.rank += 1;
        Some(Key {
            hash: ChunkHash::Full(self.hash),
            model: Cow::Borrowed(self.model),
            kv_rank: kv_rank(self.world_size, rank),
            group: 0,
            salt: Cow::Borrowed(self.salt),
        })
    }
}
