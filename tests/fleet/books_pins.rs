//! Set-up: keys that are pinned and unpinned, stored or not.
//! Claim: pins are counted by exact key and never below nothing, outlive the key they are on, and are listed page by
//! page in an order that stays.

use crate::books::{key, order, ranked};
use kvatlas::fleet::books::{Books, PinListing};
use kvatlas::fleet::key::{ChunkHash, Key};

fn list(
    books: &Books,
    salt: Option<&str>,
    model: Option<&str>,
    offset: usize,
    limit: usize,
) -> (usize, Vec<(Key<'static>, u32)>) {
    let mut listing = PinListing::new(salt, model, offset, limit);
    while !books.list_pins(&mut listing, 3) {}
    listing.into_parts()
}

#[test]
fn counts_go_up_and_down_to_nothing() {
    let mut books = Books::default();
    let key = key("a", 1);
    assert_eq!((books.unpin(&key), books.drop_pins(&key), books.pinned(&key)), (None, 0, 0));
    assert_eq!((books.pin(&key), books.pin(&key), books.pin(&key)), (Some(1), Some(2), Some(3)));
    assert_eq!((books.unpin(&key), books.pinned(&key)), (Some(2), 2));
    assert_eq!((books.unpin(&key), books.unpin(&key), books.unpin(&key)), (Some(1), Some(0), None));
    assert_eq!(books.counters().pinned, 0);
    assert_eq!((books.pin(&key), books.pin(&key)), (Some(1), Some(2)));
    assert_eq!((books.drop_pins(&key), books.pinned(&key), books.unpin(&key)), (2, 0, None));
}

#[test]
fn counts_are_read_back_and_never_wrap() {
    let mut books = Books::default();
    assert!(books.set_pins(&key("a", 1), u32::MAX));
    assert_eq!((books.pin(&key("a", 1)), books.unpin(&key("a", 1))), (Some(u32::MAX), Some(u32::MAX - 1)));
    assert!(books.set_pins(&key("a", 1), 1) && books.set_pins(&key("a", 2), 0));
    assert_eq!((books.pinned(&key("a", 1)), books.counters().pinned), (1, 1));
}

#[test]
fn a_pin_covers_its_exact_key() {
    let mut books = Books::default();
    let pinned = ranked("a", 1, 2, 0);
    books.pin(&pinned);
    let others = [
        ranked("a", 1, 2, 1),
        ranked("b", 1, 2, 0),
        ranked("a", 2, 2, 0),
        Key { group: 1, ..pinned.clone() },
        Key { model: "other".into(), ..pinned.clone() },
    ];
    for other in &others {
        assert_eq!(books.pinned(other), 0, "{other:?}");
    }
    assert_eq!(books.pinned(&pinned), 1);
}

#[test]
fn pins_outlive_their_key() {
    let mut books = Books::default();
    books.store(&key("a", 1), 10);
    books.store(&key("a", 2), 10);
    books.pin(&key("a", 1));
    books.pin(&key("a", 1));
    books.delete(&key("a", 1));
    assert_eq!((books.usage("a"), books.pinned(&key("a", 1))), (10, 2));
    books.store(&key("a", 1), 10);
    assert_eq!(order(&mut books), [2]);
    books.unpin(&key("a", 1));
    assert_eq!(order(&mut books), [2]);
    books.unpin(&key("a", 1));
    assert_eq!(order(&mut books), [2, 1]);
}

#[test]
fn a_pin_before_the_key_waits_for_it() {
    let mut books = Books::default();
    books.pin(&key("a", 1));
    books.delete(&key("a", 1));
    books.lookup(&key("a", 1));
    assert_eq!(books.pinned(&key("a", 1)), 1);
    books.store(&key("a", 1), 10);
    assert!(order(&mut books).is_empty());
    books.unpin(&key("a", 1));
    books.delete(&key("a", 1));
    assert_eq!((books.counters().keys, books.counters().pinned), (0, 0));
}

#[test]
fn pages_follow_one_another_without_gap_or_repeat() {
    let mut books = Books::default();
    for number in 0..3000 {
        books.store(&key("stored", number), 1);
        books.pin(&Key { model: if number % 3 == 0 { "m" } else { "n" }.into(), ..key("a", number) });
    }
    books.pin(&key("b", 1));
    books.pin(&key("b", 1));
    let (total, all) = list(&books, None, None, 0, usize::MAX);
    assert_eq!((total, all.len()), (3001, 3001));
    let pages: Vec<_> = (0..8).flat_map(|page| list(&books, None, None, page * 400, 400).1).collect();
    assert_eq!(pages, all);
    assert_eq!(list(&books, Some("b"), None, 0, 10), (1, vec![(key("b", 1), 2)]));
    let (total, page) = list(&books, Some("a"), Some("m"), 990, 100);
    assert_eq!((total, page.len()), (1000, 10));
    assert!(page.iter().all(|(key, count)| key.model == "m" && key.salt == "a" && *count == 1));
    for (salt, model) in
        [(Some("c"), None), (None, Some("c")), (Some("b"), Some("m")), (Some("stored"), None)]
    {
        assert_eq!(list(&books, salt, model, 0, 10), (0, vec![]));
    }
    assert_eq!(list(&books, None, None, 3001, 10), (3001, vec![]));
    assert_eq!(list(&books, None, None, 0, 0), (3001, vec![]));
    // one that goes leaves the others where they are
    books.drop_pins(&all[1500].0);
    let (_, mut fewer) = list(&books, None, None, 0, usize::MAX);
    fewer.insert(1500, all[1500].clone());
    assert_eq!(fewer, all);
}

#[test]
fn odd_hashes_can_be_pinned_too() {
    let mut books = Books::default();
    let odd = Key { hash: ChunkHash::of_bytes(b"odd"), ..key("a", 1) };
    books.pin(&odd);
    assert_eq!(list(&books, None, None, 0, 9), (1, vec![(odd.clone(), 1)]));
    books.unpin(&odd);
    assert_eq!(list(&books, None, None, 0, 9), (0, vec![]));
}
