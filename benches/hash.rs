//! The standard block hash: local hashes of blocks, and the rolling one over them.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kvatlas::index::hash::{DEFAULT_SEED, local, next, sequence_hashes};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Tokens hashed in one go.
const TOKENS: u32 = 65_536;

fn bench(criterion: &mut Criterion) {
    let tokens: Vec<u32> = (0..TOKENS).map(|token| token.wrapping_mul(2_654_435_761) >> 15).collect();
    let mut group = criterion.benchmark_group("hash");
    group.throughput(Throughput::Elements(u64::from(TOKENS)));
    for block in [16, 64] {
        let hashes = sequence_hashes(&tokens, block, DEFAULT_SEED);
        let (mut previous, mut bytes) = (None, Vec::new());
        for (block, hash) in tokens.chunks(block).zip(&hashes) {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
            previous = Some(next(previous, xxh3_64_with_seed(&bytes, DEFAULT_SEED), DEFAULT_SEED));
            assert_eq!(previous, Some(*hash));
        }
        group.bench_function(BenchmarkId::new("local", block), |bencher| {
            bencher.iter(|| {
                let blocks = black_box(&tokens).chunks_exact(block);
                blocks.fold(0, |sum: u64, block| sum.wrapping_add(local(block, DEFAULT_SEED)))
            });
        });
        group.bench_function(BenchmarkId::new("local and rolling", block), |bencher| {
            bencher.iter(|| sequence_hashes(black_box(&tokens), block, DEFAULT_SEED));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
