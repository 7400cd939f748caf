//! Keys and sweeps of the fleet's books, for their tests.
#![allow(dead_code, unreachable_pub)] // each test takes its part

use kvatlas::fleet::books::{Batch, Books, Outcome, Plan, Rules};
use kvatlas::fleet::key::{ChunkHash, Key};
use std::borrow::Cow;
use std::time::Duration;

/// A sweep as the fleet's defaults have it, but for the interval.
pub const RULES: Rules = Rules {
    watermark: 1.0,
    ratio: 0.2,
    whole_chunks: false,
    dry_run: false,
    interval: Duration::from_secs(1),
};

/// The time in milliseconds.
pub fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A hash of the usual length.
pub fn hash(number: u64) -> ChunkHash {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (at % 8 * 8)) as u8 ^ at as u8;
    }
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    ChunkHash::Full(bytes)
}

/// Key `number` of a salt: world size 1, group 0.
pub fn key(salt: &str, number: u64) -> Key<'_> {
    ranked(salt, number, 1, 0)
}

/// The same, of one rank of a larger world.
pub fn ranked(salt: &str, number: u64, world: i128, rank: i128) -> Key<'_> {
    Key {
        hash: hash(number),
        model: Cow::Borrowed("model"),
        kv_rank: world << 24 | rank << 16 | world << 8 | rank,
        group: 0,
        salt: Cow::Borrowed(salt),
    }
}

/// The keys of a batch.
pub fn keys_of(books: &Books, batch: &Batch) -> Vec<Key<'static>> {
    books.batch_keys(batch).map(Key::into_owned).collect()
}

/// The keys of a plan.
pub fn victims(books: &Books, plan: &Plan) -> Vec<Key<'static>> {
    plan.batches.iter().flat_map(|batch| keys_of(books, batch)).collect()
}

/// The numbers of a plan's keys, as [`hash`] made them.
pub fn numbers(books: &Books, plan: &Plan) -> Vec<u64> {
    let number = |key: Key<'_>| u64::from_be_bytes(key.hash.bytes()[..8].try_into().unwrap());
    victims(books, plan).into_iter().map(number).collect()
}

/// Answers every batch of a plan.
pub fn answer(books: &mut Books, plan: &Plan, outcome: Outcome, now: u64) {
    for batch in &plan.batches {
        books.answered(batch, outcome, at(now));
    }
}

/// What would go if everything had to: all keys that are neither pinned nor in flight, oldest first.
pub fn order(books: &mut Books) -> Vec<u64> {
    let default = books.default_limit();
    let quotas: Vec<(String, u64)> = books.quotas().map(|(salt, bytes)| (salt.to_owned(), bytes)).collect();
    for (salt, _) in &quotas {
        books.remove_quota(salt);
    }
    books.set_default(Some(0));
    let plan = books.plan(at(1 << 40), Rules { dry_run: true, ..RULES });
    books.set_default(default);
    for (salt, bytes) in quotas {
        books.set_quota(&salt, bytes);
    }
    numbers(books, &plan)
}

/// Names of the salts that have usage or a quota, in order.
pub fn salt_names(books: &Books) -> Vec<String> {
    books.salts().into_iter().map(|salt| salt.name.into()).collect()
}
