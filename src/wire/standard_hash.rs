//! The standard block hash of the contract: XXH3-64 over little-endian tokens, chained.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Rolling sequence hashes of the whole blocks of `tokens`; a partial last block has none.
pub fn sequence_hashes(tokens: &[u32], block_size: usize, seed: u64) -> Vec<u64> {
    let mut bytes = Vec::with_capacity(block_size * 4);
    let mut rolling: Option<u64> = None;
    let blocks = tokens.chunks_exact(block_size.max(1));
    blocks
        .map(|block| {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
            let local = xxh3_64_with_seed(&bytes, seed);
            let hash = match rolling {
                None => local,
                Some(previous) => {
                    let mut pair = [0; 16];
                    pair[..8].copy_from_slice(&previous.to_le_bytes());
                    pair[8..].copy_from_slice(&local.to_le_bytes());
                    xxh3_64_with_seed(&pair, seed)
                }
            };
            rolling = Some(hash);
            hash
        })
        .collect()
}
