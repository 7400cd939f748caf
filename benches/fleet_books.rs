//! The fleet's books: 100,000 events applied, 600,000 keys planned, a DELETE of 10,000 keys written.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kvatlas::fleet::books::{Books, Outcome, Rules};
use kvatlas::fleet::key::{ChunkHash, Key};
use std::borrow::Cow;
use std::hint::black_box;
use std::time::Duration;

/// Events of one batch as the largest MP servers send them.
const EVENTS: u64 = 100_000;
/// Keys in the books.
const KEYS: u64 = 600_000;

const RULES: Rules = Rules {
    watermark: 1.0,
    ratio: 0.2,
    whole_chunks: false,
    dry_run: false,
    interval: Duration::from_secs(10),
};

fn key(number: u64) -> Key<'static> {
    let mut hash = [0; 32];
    for (at, part) in hash.chunks_exact_mut(8).enumerate() {
        let mixed = (number / 8 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(at as u32 * 17);
        part.copy_from_slice(&mixed.to_le_bytes());
    }
    let rank = i128::from(number % 8);
    Key {
        hash: ChunkHash::Full(hash),
        model: Cow::Borrowed("meta-llama/Llama-3.1-70B-Instruct"),
        kv_rank: 8 << 24 | rank << 16 | 8 << 8 | rank,
        group: 0,
        salt: Cow::Borrowed("tenant"),
    }
}

fn full(keys: u64) -> Books {
    let mut books = Books::default();
    (0..keys).for_each(|number| {
        books.store(&key(number), 1 << 20);
    });
    books
}

fn store(books: &mut Books, keys: &[Key<'_>]) {
    for key in keys {
        black_box(books.store(key, 1 << 20));
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fleet books");
    group.sample_size(10);
    group.throughput(Throughput::Elements(EVENTS));
    let fresh: Vec<_> = (0..EVENTS).map(|number| key(KEYS + number)).collect();
    let spread: Vec<_> = (0..EVENTS).map(|number| key(number * 7919 % KEYS)).collect();
    group.bench_function("100,000 stores of new keys into empty books", |bencher| {
        bencher.iter_batched_ref(Books::default, |books| store(books, &fresh), BatchSize::PerIteration);
    });
    let mut books = full(KEYS);
    group.bench_function("50,000 stores and deletes of new keys beside 600,000", |bencher| {
        bencher.iter(|| {
            let half = &fresh[..fresh.len() / 2];
            store(&mut books, half);
            for key in half {
                books.delete(key);
            }
        });
    });
    group.bench_function("100,000 lookups among 600,000", |bencher| {
        bencher.iter(|| spread.iter().for_each(|key| books.lookup(key)));
    });
    group.throughput(Throughput::Elements(KEYS));
    for (name, ratio) in [("a fifth", 0.2), ("all", 1.0)] {
        books.set_default(Some(1));
        group.bench_function(format!("plan {name} of 600,000 keys, and an answer"), |bencher| {
            bencher.iter(|| {
                let plan = books.plan(Duration::ZERO, Rules { ratio, ..RULES });
                for batch in &plan.batches {
                    books.answered(batch, Outcome::Failed, Duration::ZERO);
                }
            });
        });
    }
    let mut plan = books.plan(Duration::ZERO, RULES);
    group.throughput(Throughput::Elements(plan.batches[0].len() as u64));
    group.bench_function("write a DELETE of 10,000 keys", |bencher| {
        let mut body = Vec::new();
        bencher.iter(|| {
            body.clear();
            books.write_batch(black_box(&mut plan.batches[0]), &mut body)
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
