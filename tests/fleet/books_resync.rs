//! Set-up: pages of a listing, with events before, between and after them.
//! Claim: any event since the resync began wins over a listed entry of the same key; listed keys stand before all
//! that events named, in the order of the listing.

use crate::books::{key, order};
use kvatlas::fleet::books::{Books, Listed};
use kvatlas::limits::FLEET_RESYNC_DELETIONS;

/// Books with a resync under way.
fn resyncing() -> Books {
    let mut books = Books::default();
    books.begin_resync();
    assert!(books.resyncing());
    books
}

#[test]
fn listed_keys_are_stored_and_evictable() {
    let mut books = resyncing();
    for number in [3, 1, 2] {
        assert_eq!(books.listed(&key("a", number), 100), Listed::Added);
    }
    books.end_resync();
    assert!(!books.resyncing());
    assert_eq!(books.usage("a"), 300);
    assert_eq!(order(&mut books), [3, 1, 2]);
    assert_eq!(books.counters().listed, 3);
}

#[test]
fn a_store_wins() {
    let mut books = resyncing();
    books.store(&key("a", 1), 7);
    assert_eq!(books.listed(&key("a", 1), 100), Listed::Overruled);
    assert_eq!((books.usage("a"), books.counters().overruled), (7, 1));
}

#[test]
fn a_delete_wins_known_or_not() {
    let mut books = Books::default();
    books.store(&key("a", 1), 7);
    books.begin_resync();
    books.delete(&key("a", 1));
    books.delete(&key("a", 2));
    assert_eq!(books.listed(&key("a", 1), 100), Listed::Overruled);
    assert_eq!(books.listed(&key("a", 2), 100), Listed::Overruled);
    assert_eq!(books.listed(&key("b", 2), 100), Listed::Added, "another salt's key is another key");
    assert_eq!(books.usage("a"), 0);
    books.store(&key("a", 2), 5);
    assert_eq!(books.listed(&key("a", 2), 100), Listed::Overruled);
    assert_eq!(books.usage("a"), 5);
}

#[test]
fn a_lookup_wins_where_the_key_is_known() {
    let mut books = Books::default();
    books.store(&key("a", 1), 7);
    books.begin_resync();
    books.lookup(&key("a", 1));
    books.lookup(&key("a", 2));
    assert_eq!(books.listed(&key("a", 1), 100), Listed::Overruled);
    assert_eq!(books.listed(&key("a", 2), 100), Listed::Added);
    assert_eq!(books.usage("a"), 107);
}

#[test]
fn what_was_known_before_takes_the_listed_size_and_keeps_its_place() {
    let mut books = Books::default();
    books.store(&key("a", 1), 7);
    books.store(&key("a", 2), 7);
    books.begin_resync();
    assert_eq!(books.listed(&key("a", 3), 1), Listed::Added);
    assert_eq!(books.listed(&key("a", 1), 100), Listed::Known);
    assert_eq!(books.listed(&key("a", 3), 2), Listed::Known);
    assert_eq!(books.usage("a"), 109);
    assert_eq!(order(&mut books), [3, 1, 2]);
}

#[test]
fn listed_keys_are_older_than_any_event() {
    let mut books = Books::default();
    books.store(&key("a", 1), 1);
    books.begin_resync();
    books.store(&key("a", 2), 1);
    books.listed(&key("a", 3), 1);
    books.listed(&key("a", 4), 1);
    books.store(&key("a", 5), 1);
    books.lookup(&key("a", 4));
    books.listed(&key("a", 6), 1);
    books.delete(&key("a", 6));
    books.listed(&key("a", 7), 1);
    books.lookup(&key("a", 3));
    books.listed(&key("a", 8), 1);
    assert_eq!(order(&mut books), [7, 8, 1, 2, 5, 4, 3]);
}

#[test]
fn a_listed_key_that_is_the_only_one_can_be_used() {
    let mut books = resyncing();
    books.listed(&key("a", 1), 1);
    books.lookup(&key("a", 1));
    books.listed(&key("a", 2), 1);
    assert_eq!(order(&mut books), [2, 1]);
}

#[test]
fn a_second_resync_knows_nothing_of_the_first() {
    let mut books = Books::default();
    for round in 0..300_u64 {
        books.begin_resync();
        assert_eq!(books.listed(&key("a", 1), round), if round == 0 { Listed::Added } else { Listed::Known });
        books.store(&key("a", 1), 5);
        books.delete(&key("a", 2));
        assert_eq!(books.listed(&key("a", 1), round), Listed::Overruled);
        assert_eq!(books.listed(&key("a", 2), round), Listed::Overruled);
        books.end_resync();
        assert_eq!(books.usage("a"), 5);
    }
}

#[test]
fn with_too_many_deletions_nothing_more_is_added() {
    let mut books = resyncing();
    assert_eq!(books.listed(&key("a", 0), 1), Listed::Added);
    for number in 1..=FLEET_RESYNC_DELETIONS as u64 {
        books.delete(&key("a", number));
        books.delete(&key("a", number));
    }
    assert_eq!(books.listed(&key("b", 0), 1), Listed::Added);
    books.delete(&key("a", u64::MAX));
    assert_eq!(books.listed(&key("a", u64::MAX), 1), Listed::Doubtful);
    assert_eq!(books.listed(&key("b", 1), 1), Listed::Doubtful);
    assert_eq!(books.listed(&key("a", 5), 1), Listed::Overruled);
    assert_eq!(books.listed(&key("b", 0), 3), Listed::Known, "what is there may still be corrected");
    assert_eq!(books.counters().doubtful, 2);
    let most = books.bytes_used();
    books.end_resync();
    assert!(books.bytes_used() < most / 10, "what was remembered goes with the resync");
}

#[test]
fn a_pin_waits_for_its_key() {
    let mut books = Books::default();
    books.pin(&key("a", 1));
    books.begin_resync();
    assert_eq!(books.listed(&key("a", 1), 10), Listed::Added);
    assert_eq!(books.listed(&key("a", 2), 10), Listed::Added);
    assert_eq!(order(&mut books), [2]);
    books.delete(&key("a", 1));
    assert_eq!(books.listed(&key("a", 1), 10), Listed::Overruled);
    assert_eq!(books.pinned(&key("a", 1)), 1);
}
