//! The standard block hash of the contract (RFC #1527): XXH3-64 with a seed, one local hash a block and one
//! rolling hash a prefix. Salt, tenant and LoRA are not mixed in; they choose the context.
//!
//! `local[i] = XXH3(tokens of block i as little-endian u32)`, `seq[0] = local[0]`,
//! `seq[i] = XXH3(le64(seq[i-1]) ‖ le64(local[i]))`.

use std::borrow::Cow;

use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{xxh3_64_with_secret, xxh3_64_with_seed};

/// Seed of the contract.
pub const DEFAULT_SEED: u64 = 1337;

/// Bytes of a token.
const TOKEN_BYTES: usize = size_of::<u32>();
/// Bytes of a block of 16 tokens, which is what most engines have.
const COMMON_BYTES: usize = 16 * TOKEN_BYTES;
/// Longest input, bytes, that XXH3 mixes with the seed itself; a longer one with a secret made of the seed.
const SEEDED_BYTES: usize = 240;
/// That secret for the seed of the contract, which would be made anew with every long block.
const DEFAULT_SECRET: [u8; 192] = const_custom_default_secret(DEFAULT_SEED);

/// Local hash of one block.
#[inline]
pub fn local(tokens: &[u32], seed: u64) -> u64 {
    local_of_packed(&packed(tokens), seed)
}

/// Local hash of one block of tokens as little-endian bytes.
#[inline]
fn local_of_packed(block: &[u8], seed: u64) -> u64 {
    // where the length is known to the compiler, nothing of it is left to decide
    match block.as_array::<COMMON_BYTES>() {
        Some(block) => xxh3_64_with_seed(block, seed),
        None if seed == DEFAULT_SEED && block.len() > SEEDED_BYTES => {
            xxh3_64_with_secret(block, &DEFAULT_SECRET)
        }
        None => xxh3_64_with_seed(block, seed),
    }
}

/// Tokens as little-endian bytes, which they are already on nearly every machine.
#[inline]
fn packed(tokens: &[u32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(tokens))
    } else {
        tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
    }
}

/// Hash of a block and everything before it, from the hash before it and its own local hash.
#[inline]
pub fn rolling(previous: u64, local: u64, seed: u64) -> u64 {
    pair(previous, local, seed)
}

/// A local hash that only a block with the same extra keys (images, embeddings) has.
#[inline]
pub fn with_extra(local: u64, digest: u64, seed: u64) -> u64 {
    pair(local, digest, seed)
}

#[inline]
fn pair(first: u64, second: u64, seed: u64) -> u64 {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    xxh3_64_with_seed(&bytes, seed)
}

/// The rolling hash of the next block: `previous` is `None` at the root.
#[inline]
pub fn next(previous: Option<u64>, local: u64, seed: u64) -> u64 {
    previous.map_or(local, |previous| rolling(previous, local, seed))
}

/// Rolling hashes of the complete blocks of a prompt without extra keys.
pub fn sequence_hashes(tokens: &[u32], block_size: usize, seed: u64) -> Vec<u64> {
    let mut hashes: Vec<u64> = Vec::new();
    extend(tokens, block_size, None, seed, &mut hashes);
    hashes
}

/// Appends the rolling hashes of the complete blocks of `tokens`, which stand behind `previous`.
pub fn extend(tokens: &[u32], block_size: usize, previous: Option<u64>, seed: u64, hashes: &mut Vec<u64>) {
    roll(&packed(tokens), block_size.max(1) * TOKEN_BYTES, previous, seed, hashes);
}

/// The same for packed tokens.
fn roll(tokens: &[u8], block_bytes: usize, previous: Option<u64>, seed: u64, hashes: &mut Vec<u64>) {
    if block_bytes == COMMON_BYTES {
        let (blocks, _) = tokens.as_chunks::<COMMON_BYTES>();
        roll_blocks(blocks.iter(), |block| xxh3_64_with_seed(block, seed), previous, seed, hashes);
    } else {
        let blocks = tokens.chunks_exact(block_bytes);
        roll_blocks(blocks, |block| local_of_packed(block, seed), previous, seed, hashes);
    }
}

/// The same for blocks whose local hashes `local` knows to make.
///
/// Only the rolling hash waits for the one before it: it stays in a register, so that the processor is at the
/// local hashes of the next blocks meanwhile.
#[inline]
fn roll_blocks<B>(
    mut blocks: impl ExactSizeIterator<Item = B>,
    local: impl Fn(B) -> u64,
    previous: Option<u64>,
    seed: u64,
    hashes: &mut Vec<u64>,
) {
    let mut previous = match previous {
        Some(previous) => previous,
        None => match blocks.next() {
            Some(root) => {
                let root = local(root);
                hashes.push(root);
                root
            }
            None => return,
        },
    };
    let done = hashes.len();
    hashes.resize(done + blocks.len(), 0);
    for (hash, block) in hashes[done..].iter_mut().zip(blocks) {
        previous = rolling(previous, local(block), seed);
        *hash = previous;
    }
}

/// A prompt whose rolling hashes are computed as far as somebody looks.
pub struct Path<'a> {
    /// Little-endian.
    tokens: Cow<'a, [u8]>,
    extra: &'a [Option<u64>],
    block_bytes: usize,
    seed: u64,
    blocks: usize,
    hashes: Hashes<'a>,
}

enum Hashes<'a> {
    Known(&'a [u64]),
    Growing(&'a mut Vec<u64>),
}

impl<'a> Path<'a> {
    /// A prompt of tokens; only complete blocks count. `extra` holds one digest a block, or nothing. `hashes`
    /// is scratch and is cleared.
    pub fn of_tokens(
        tokens: &'a [u32],
        extra: &'a [Option<u64>],
        block_size: u32,
        seed: u64,
        hashes: &'a mut Vec<u64>,
    ) -> Self {
        Self::of(packed(tokens), extra, block_size, seed, hashes)
    }

    /// [`Path::of_tokens`] for tokens that lie somewhere as little-endian bytes.
    pub fn of_packed(
        tokens: &'a [u8],
        extra: &'a [Option<u64>],
        block_size: u32,
        seed: u64,
        hashes: &'a mut Vec<u64>,
    ) -> Self {
        Self::of(Cow::Borrowed(tokens), extra, block_size, seed, hashes)
    }

    fn of(
        tokens: Cow<'a, [u8]>,
        extra: &'a [Option<u64>],
        block_size: u32,
        seed: u64,
        hashes: &'a mut Vec<u64>,
    ) -> Self {
        hashes.clear();
        let block_bytes = block_size as usize * TOKEN_BYTES;
        let blocks = tokens.len() / block_bytes;
        Self { tokens, extra, block_bytes, seed, blocks, hashes: Hashes::Growing(hashes) }
    }

    /// A prompt whose rolling hashes are known.
    pub fn of_hashes(hashes: &'a [u64]) -> Self {
        let blocks = hashes.len();
        Self {
            tokens: Cow::Borrowed(&[]),
            extra: &[],
            block_bytes: 1,
            seed: 0,
            blocks,
            hashes: Hashes::Known(hashes),
        }
    }

    /// Complete blocks of the prompt.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The rolling hashes of at least the first `blocks` blocks (at most [`Path::blocks`]).
    #[inline]
    pub fn first(&mut self, blocks: usize) -> &[u64] {
        match &self.hashes {
            Hashes::Known(hashes) => hashes,
            Hashes::Growing(_) => self.grow(blocks),
        }
    }

    /// The same where no hash of them is to be made for it.
    #[inline]
    pub fn known(&self, blocks: usize) -> Option<&[u64]> {
        match &self.hashes {
            Hashes::Known(hashes) => Some(hashes),
            Hashes::Growing(hashes) => Some(hashes.as_slice()).filter(|hashes| hashes.len() >= blocks),
        }
    }

    /// Whether a look far ahead costs nothing.
    #[inline]
    pub fn is_known(&self) -> bool {
        matches!(self.hashes, Hashes::Known(_))
    }

    fn grow(&mut self, blocks: usize) -> &[u64] {
        let hashes = match &mut self.hashes {
            Hashes::Known(hashes) => return hashes,
            Hashes::Growing(hashes) => hashes,
        };
        let done = hashes.len();
        if done >= blocks {
            return hashes;
        }
        let tokens = &self.tokens[done * self.block_bytes..blocks * self.block_bytes];
        if self.extra.is_empty() {
            roll(tokens, self.block_bytes, hashes.last().copied(), self.seed, hashes);
            return hashes;
        }
        for (at, block) in (done..).zip(tokens.chunks_exact(self.block_bytes)) {
            let mut own = local_of_packed(block, self.seed);
            if let Some(Some(digest)) = self.extra.get(at) {
                own = with_extra(own, *digest, self.seed);
            }
            hashes.push(next(hashes.last().copied(), own, self.seed));
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_vectors_of_the_contract() {
        let of = |tokens: std::ops::Range<u32>, block, seed| {
            let tokens: Vec<u32> = tokens.collect();
            let locals: Vec<u64> = tokens.chunks(block).map(|block| local(block, seed)).collect();
            (locals, sequence_hashes(&tokens, block, seed))
        };
        let (locals, seq) = of(1..9, 4, DEFAULT_SEED);
        assert_eq!(locals, [14_643_705_804_678_351_452, 16_777_012_769_546_811_212]);
        assert_eq!(seq, [14_643_705_804_678_351_452, 4_945_711_292_740_353_085]);
        let (locals, seq) = of(0..32, 16, DEFAULT_SEED);
        assert_eq!(locals, [15_310_707_395_893_867_146, 15_292_316_782_987_903_195]);
        assert_eq!(seq, [locals[0], 13_769_157_705_258_532_664]);
        let (locals, seq) = of(0..192, 64, DEFAULT_SEED);
        let expected = [3_480_597_578_098_033_343, 3_318_286_205_056_455_972, 1_390_211_181_667_144_747];
        assert_eq!(locals, expected);
        assert_eq!(seq, [expected[0], 2_575_318_956_255_022_795, 15_087_857_196_529_367_026]);
        let top = sequence_hashes(&[u32::MAX; 8], 4, DEFAULT_SEED);
        assert_eq!(top, [12_410_542_959_481_710_713, 12_910_963_785_220_126_862]);
        let (locals, seq) = of(1..9, 4, 0);
        assert_eq!(locals, [8_052_976_908_588_476_977, 13_852_901_005_659_965_728]);
        assert_eq!(seq, [locals[0], 4_185_132_130_981_121_146]);
    }

    #[test]
    fn long_blocks_hash_as_short_ones_do() {
        let tokens: Vec<u32> = (0..300).map(|token| token * 70_000).collect();
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        for length in [1, 4, 15, 16, 17, 59, 60, 61, 63, 64, 65, 255, 256, 257, 300] {
            for seed in [0, 7, DEFAULT_SEED] {
                assert_eq!(local(&tokens[..length], seed), xxh3_64_with_seed(&bytes[..length * 4], seed));
            }
        }
    }

    proptest! {
        #[test]
        fn hashes_are_those_of_the_reference(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            size in prop::sample::select(vec![1, 4, 15, 16, 16, 17, 32]),
            seed in prop::sample::select(vec![0, 7, DEFAULT_SEED, u64::MAX]),
            step in 1usize..9,
        ) {
            let mut naive: Vec<u64> = Vec::new();
            for block in bytes.chunks_exact(size * TOKEN_BYTES) {
                let local = xxh3_64_with_seed(block, seed);
                let pair = |previous: &u64| [previous.to_le_bytes(), local.to_le_bytes()].concat();
                naive.push(naive.last().map_or(local, |previous| xxh3_64_with_seed(&pair(previous), seed)));
            }
            let mut scratch = Vec::new();
            let mut path = Path::of_packed(&bytes, &[], size as u32, seed, &mut scratch);
            prop_assert_eq!(path.blocks(), naive.len());
            for blocks in (0..=naive.len()).step_by(step) {
                prop_assert_eq!(&path.first(blocks)[..blocks], &naive[..blocks]);
                prop_assert_eq!(path.known(blocks).map(|known| &known[..blocks]), Some(&naive[..blocks]));
                prop_assert!(path.known(naive.len() + 1).is_none());
            }
        }
    }

    #[test]
    fn a_path_grows_as_if_it_were_hashed_at_once() {
        let tokens: Vec<u32> = (0..1000).map(|token| token * 70_001).collect();
        for size in [1, 4, 16, 64] {
            let mut naive: Vec<u64> = Vec::new();
            for block in tokens.chunks_exact(size) {
                naive.push(next(naive.last().copied(), local(block, 7), 7));
            }
            assert_eq!(sequence_hashes(&tokens, size, 7), naive);
            let mut scratch = vec![5];
            let mut path = Path::of_tokens(&tokens, &[], size as u32, 7, &mut scratch);
            for blocks in [0, 1, 2, 7, 3, 15, naive.len()].map(|blocks| blocks.min(naive.len())) {
                assert_eq!(path.first(blocks)[..blocks], naive[..blocks]);
            }
            assert_eq!(path.first(naive.len()), naive);
            let bytes: Vec<u8> =
                [0].into_iter().chain(tokens.iter().flat_map(|token| token.to_le_bytes())).collect();
            let mut path = Path::of_packed(&bytes[1..], &[], size as u32, 7, &mut scratch);
            assert_eq!(path.first(naive.len()), naive);
        }
    }
}
