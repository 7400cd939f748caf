//! Set-up: store, lookup and delete events of a few keys and salts.
//! Claim: usage is what the stored keys have, by the size last stored; unknown keys change nothing; every part of
//! a key counts for its identity.

use crate::books::{hash, key, order};
use kvatlas::fleet::books::{Books, Bounds, Sequence};
use kvatlas::fleet::key::{ChunkHash, Key};

#[test]
fn stores_sum_up_by_salt() {
    let mut books = Books::default();
    books.store(&key("a", 1), 1000);
    books.store(&key("a", 2), 500);
    books.store(&key("b", 1), 2000);
    assert_eq!((books.usage("a"), books.usage("b"), books.usage("c")), (1500, 2000, 0));
    assert_eq!(books.total(), 3500);
}

#[test]
fn a_store_replaces_the_size() {
    let mut books = Books::default();
    for (bytes, usage) in [(1000, 1000), (1000, 1000), (300, 300), (u64::MAX, u128::from(u64::MAX)), (7, 7)] {
        books.store(&key("a", 1), bytes);
        assert_eq!((books.usage("a"), books.total()), (usage, usage));
        assert_eq!(books.counters().keys, 1);
    }
}

#[test]
fn the_largest_sizes_add_up_exactly() {
    let mut books = Books::default();
    for number in 0..5 {
        books.store(&key("a", number), u64::MAX);
    }
    assert_eq!(books.usage("a"), 5 * u128::from(u64::MAX));
    books.delete(&key("a", 0));
    assert_eq!(books.total(), 4 * u128::from(u64::MAX));
}

#[test]
fn a_store_of_nothing_hides_the_key_until_its_size_is_told() {
    let mut books = Books::default();
    books.set_default(Some(0));
    books.store(&key("a", 1), 64);
    books.store(&key("a", 1), 0);
    assert_eq!(books.usage("a"), 0);
    assert!(books.salts().is_empty());
    assert_eq!(books.counters().keys, 1);
    assert!(order(&mut books).is_empty(), "a salt without usage is not swept");
    books.store(&key("a", 1), 64);
    assert_eq!(order(&mut books), [1]);
}

#[test]
fn a_key_of_no_bytes_keeps_its_place_in_the_list() {
    let mut books = Books::default();
    books.store(&key("a", 1), 64);
    books.store(&key("a", 2), 64);
    books.store(&key("a", 1), 0);
    assert_eq!(order(&mut books), [2, 1]);
}

#[test]
fn a_delete_takes_the_recorded_size() {
    let mut books = Books::default();
    books.store(&key("a", 1), 1000);
    books.store(&key("a", 2), 10);
    books.delete(&key("a", 1));
    assert_eq!((books.usage("a"), books.counters().keys), (10, 1));
    books.delete(&key("a", 1));
    assert_eq!((books.usage("a"), books.counters().deletes), (10, 2));
    books.delete(&key("a", 2));
    assert!(books.salts().is_empty());
}

#[test]
fn unknown_keys_change_nothing() {
    let mut books = Books::default();
    books.lookup(&key("a", 1));
    books.delete(&key("a", 1));
    assert_eq!((books.total(), books.counters().keys), (0, 0));
    books.store(&key("a", 2), 5);
    books.lookup(&key("b", 2));
    books.delete(&key("a", 1));
    assert_eq!((books.usage("a"), books.usage("b")), (5, 0));
    let counters = books.counters();
    assert_eq!((counters.stores, counters.lookups, counters.deletes), (1, 2, 2));
}

#[test]
fn stores_and_lookups_make_a_key_the_newest() {
    let mut books = Books::default();
    for number in 0..4 {
        books.store(&key("a", number), 10);
    }
    books.lookup(&key("a", 0));
    assert_eq!(order(&mut books), [1, 2, 3, 0]);
    books.store(&key("a", 2), 10);
    assert_eq!(order(&mut books), [1, 3, 0, 2]);
    books.lookup(&key("a", 2));
    books.lookup(&key("a", 9));
    assert_eq!(order(&mut books), [1, 3, 0, 2]);
    books.delete(&key("a", 3));
    assert_eq!(order(&mut books), [1, 0, 2]);
}

#[test]
fn every_part_of_a_key_counts() {
    let first = key("a", 1);
    let hashes: [&[u8]; 5] = [b"", b"\0", b"\0\0", &[0; 31], &[0; 33]];
    let mut keys = vec![
        first.clone(),
        Key { hash: hash(2), ..first.clone() },
        Key { model: "other".into(), ..first.clone() },
        Key { kv_rank: i128::from(u64::MAX), ..first.clone() },
        Key { kv_rank: -1, ..first.clone() },
        Key { kv_rank: i128::from(i64::MIN), ..first.clone() },
        Key { group: 1, ..first.clone() },
        Key { group: u64::MAX, ..first.clone() },
        Key { salt: "".into(), ..first.clone() },
        Key { model: "a".into(), salt: "model".into(), ..first.clone() },
    ];
    keys.extend(hashes.map(|bytes| Key { hash: ChunkHash::of_bytes(bytes), ..first.clone() }));
    let mut books = Books::default();
    for (at, key) in keys.iter().enumerate() {
        books.store(key, 1 << at);
        assert_eq!(books.total(), (2 << at) - 1);
    }
    for (at, key) in keys.iter().enumerate() {
        let before = books.total();
        books.delete(key);
        assert_eq!(books.total(), before - (1 << at), "{key:?}");
    }
    assert_eq!(books.counters().keys, 0);
}

#[test]
fn full_books_refuse_and_count() {
    let mut books = Books::new(Bounds { keys: 2, text: 100 });
    assert!(books.store(&key("a", 1), 1) && books.store(&key("a", 2), 1));
    assert!(!books.store(&key("a", 3), 1));
    assert!(books.store(&key("a", 2), 5), "a known key is no new one");
    assert_eq!(books.pin(&key("a", 3)), None);
    assert_eq!(books.pin(&key("a", 2)), Some(1));
    assert_eq!((books.usage("a"), books.counters().refused), (6, 2));
    books.delete(&key("a", 1));
    let long = "x".repeat(200);
    assert!(!books.store(&key(&long, 3), 1));
    assert!(!books.store(&Key { model: long.into(), ..key("a", 3) }, 1));
    assert!(!books.store(&Key { hash: ChunkHash::of_bytes(&[0; 200]), ..key("a", 3) }, 1));
    assert!(books.store(&key("a", 3), 1));
    assert_eq!(books.counters().refused, 5);
}

#[test]
fn sequence_numbers_are_counted_and_nothing_else() {
    let mut books = Books::default();
    assert_eq!(books.heard("x", 5), Sequence::Next);
    assert_eq!(books.heard("x", 6), Sequence::Next);
    assert_eq!(books.heard("y", 1), Sequence::Next);
    assert_eq!(books.heard("x", 9), Sequence::Gap(2));
    assert_eq!(books.heard("x", 9), Sequence::Repeat);
    assert_eq!(books.heard("x", 1), Sequence::Repeat);
    assert_eq!(books.heard("x", 2), Sequence::Next);
    assert_eq!(books.heard("x", 1000), Sequence::Gap(997));
    assert_eq!(books.heard("x", 999), Sequence::Repeat, "late");
    assert_eq!(books.heard("x", 1001), Sequence::Next, "what came late does not count twice");
    assert_eq!(books.heard("x", 500), Sequence::Repeat, "a new life");
    assert_eq!(books.heard("x", 501), Sequence::Next);
    assert_eq!((books.counters().missing, books.counters().repeats), (999, 4));
    assert_eq!(books.heard("x", u64::MAX), Sequence::Next, "no such gap");
    assert_eq!(books.heard("x", 1), Sequence::Repeat);
    assert_eq!(books.heard("x", 3), Sequence::Gap(1));
    assert_eq!(books.counters().missing, 1000, "one wrong number spoils nothing");
}

#[test]
fn invented_instances_need_no_more_memory() {
    let mut books = Books::default();
    let mut hear = |from: u64| {
        (from..from + 50_000).for_each(|instance| {
            books.heard(&format!("instance-{instance:09}"), 1);
        });
        books.bytes_used()
    };
    let before = hear(0);
    let after = hear(50_000);
    // names fall into the segments of a table as their hashes have it
    assert!(after <= before + before / 10, "{before}, then {after}");
    books.heard("known", 1);
    assert_eq!(books.heard("known", 3), Sequence::Gap(1));
}
