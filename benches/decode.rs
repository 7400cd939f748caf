//! How many blocks a second the decoder takes: 8 blocks of 16 tokens a batch, as an engine's step sends them,
//! and one event of 512 blocks, as a long prompt does; positional and keyed, integer and digest hashes.
//! Every batch is checked against what was encoded before it is measured.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kvatlas::event::{Batch, Event, decode};
use rmp::encode as put;

const BLOCK_SIZE: usize = 16;
/// Size of a common vocabulary: token ids below it take one to five bytes.
const VOCABULARY: u64 = 152_064;

/// Layout of an event.
#[derive(Clone, Copy)]
enum Form {
    /// vLLM before mid-2026.
    Positional,
    /// vLLM from then on.
    Keyed,
    /// Keyed, hashes as 32-byte digests.
    Digests,
}

/// A plain 64-bit mixer: the numbers only have to look random.
fn mix(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn hash_of(block: usize) -> u64 {
    mix(block as u64 + 1) | 1 << 63
}

fn token_of(place: usize) -> u32 {
    (mix(place as u64 + 77) % VOCABULARY) as u32
}

fn write_hashes(out: &mut Vec<u8>, blocks: usize, form: Form) {
    put::write_array_len(out, blocks as u32).unwrap();
    for block in 0..blocks {
        match form {
            Form::Digests => {
                let digest = [&[0xab; 24][..], &hash_of(block).to_be_bytes()].concat();
                put::write_bin(out, &digest).unwrap();
            }
            _ => drop(put::write_uint(out, hash_of(block)).unwrap()),
        }
    }
}

fn payload(blocks: usize, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    put::write_array_len(&mut out, 3).unwrap();
    put::write_f64(&mut out, 1_765_432_100.5).unwrap();
    put::write_array_len(&mut out, 1).unwrap();
    let keyed = !matches!(form, Form::Positional);
    let key = |out: &mut Vec<u8>, name: &str| {
        if keyed {
            put::write_str(out, name).unwrap();
        }
    };
    if keyed {
        put::write_map_len(&mut out, 8).unwrap();
    } else {
        put::write_array_len(&mut out, 8).unwrap();
    }
    key(&mut out, "type");
    put::write_str(&mut out, "BlockStored").unwrap();
    key(&mut out, "block_hashes");
    write_hashes(&mut out, blocks, form);
    key(&mut out, "parent_block_hash");
    put::write_u64(&mut out, hash_of(blocks)).unwrap();
    key(&mut out, "token_ids");
    put::write_array_len(&mut out, (blocks * BLOCK_SIZE) as u32).unwrap();
    for place in 0..blocks * BLOCK_SIZE {
        put::write_uint(&mut out, u64::from(token_of(place))).unwrap();
    }
    key(&mut out, "block_size");
    put::write_uint(&mut out, BLOCK_SIZE as u64).unwrap();
    key(&mut out, "lora_id");
    put::write_nil(&mut out).unwrap();
    key(&mut out, "medium");
    put::write_str(&mut out, "GPU").unwrap();
    key(&mut out, "lora_name");
    put::write_nil(&mut out).unwrap();
    put::write_uint(&mut out, 0).unwrap();
    out
}

fn check(batch: &Batch, blocks: usize) {
    let [Event::Store(store)] = &batch.events[..] else { panic!("one store was encoded") };
    let hashes: Vec<u64> = (0..blocks).map(hash_of).collect();
    let tokens: Vec<u32> = (0..blocks * BLOCK_SIZE).map(token_of).collect();
    assert_eq!(store.hashes.of(&batch.hashes), hashes);
    assert_eq!(store.tokens.unwrap().of(&batch.tokens), tokens);
    assert_eq!(store.parent, Some(hash_of(blocks)));
    assert_eq!(store.block_size, Some(BLOCK_SIZE as u32));
    assert!(batch.skipped.is_empty());
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for blocks in [8, 512] {
        for (name, form) in
            [("keyed", Form::Keyed), ("positional", Form::Positional), ("digests", Form::Digests)]
        {
            let payload = payload(blocks, form);
            let mut batch = Batch::default();
            decode(&payload, &mut batch).unwrap();
            check(&batch, blocks);
            group.throughput(Throughput::Elements(blocks as u64));
            group.bench_function(format!("{name}/{blocks}"), |bencher| {
                bencher.iter(|| {
                    decode(black_box(&payload), &mut batch).unwrap();
                    black_box(&batch);
                });
            });
            check(&batch, blocks);
        }
    }
    group.finish();
}

criterion_group!(benches, decoding);
criterion_main!(benches);
