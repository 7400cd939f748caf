//! Reading a prompt of 65,536 tokens: as the daemon does on this processor, in words, a byte at a time, and with
//! serde_json.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kvatlas::http::tokens;

const TOKENS: usize = 65_536;

/// Tokens as a vocabulary of 128 Ki spreads them, from a fixed linear congruence.
fn prompt() -> Vec<u32> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 15
    };
    std::iter::repeat_with(next).take(TOKENS).collect()
}

fn bench(criterion: &mut Criterion) {
    let expected = prompt();
    let compact = serde_json::to_vec(&expected).expect("integers are JSON");
    let mut spaced = Vec::new();
    for byte in &compact {
        spaced.push(*byte);
        if *byte == b',' {
            spaced.push(b' ');
        }
    }
    for (spelling, text) in [("compact", &compact), ("spaced", &spaced)] {
        let mut group = criterion.benchmark_group(spelling);
        group.throughput(Throughput::Elements(TOKENS as u64));
        let mut out = Vec::new();
        for parse in [tokens::parse, tokens::parse_words, tokens::parse_naive] {
            assert_eq!(parse(text, &mut out), Ok(text.len()));
            assert_eq!(out, expected);
        }
        let general: Vec<u32> = serde_json::from_slice(text).expect("an array of tokens");
        assert_eq!(general, expected);
        group.bench_function("fastest", |bencher| {
            bencher.iter(|| tokens::parse(black_box(text), &mut out));
        });
        group.bench_function("words", |bencher| {
            bencher.iter(|| tokens::parse_words(black_box(text), &mut out));
        });
        group.bench_function("bytes", |bencher| {
            bencher.iter(|| tokens::parse_naive(black_box(text), &mut out));
        });
        group.bench_function("serde_json", |bencher| {
            bencher.iter(|| serde_json::from_slice::<Vec<u32>>(black_box(text)));
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
