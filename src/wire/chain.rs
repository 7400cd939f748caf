//! Block hashes of one engine: a chain over tokens with a secret of its own, so that two engines that hold
//! the same prompt name its blocks differently.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hash function of one engine.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    secret: u64,
}

impl Chain {
    /// An engine's own function.
    pub const fn new(secret: u64) -> Self {
        Self { secret }
    }

    /// Hashes of the whole blocks of `tokens` behind the block `parent`.
    pub fn extend(self, parent: Option<u64>, tokens: &[u32], block_size: usize) -> Vec<u64> {
        let mut previous = parent.unwrap_or(0);
        let mut bytes = Vec::with_capacity(8 + block_size * 4);
        let blocks = tokens.chunks_exact(block_size.max(1));
        blocks
            .map(|block| {
                bytes.clear();
                bytes.extend(previous.to_le_bytes());
                bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
                previous = xxh3_64_with_seed(&bytes, self.secret);
                previous
            })
            .collect()
    }
}
