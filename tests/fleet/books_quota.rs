//! Set-up: quotas and a default limit that are set, changed and removed.
//! Claim: a salt's limit is its own quota, else the default, else none; status lists salts with usage or a quota
//! by code point.

use crate::books::{RULES, at, key, numbers, salt_names};
use kvatlas::fleet::books::Books;

/// Whether a sweep would take anything of a salt with one key of 100 bytes.
fn fires(change: impl FnOnce(&mut Books)) -> bool {
    let mut books = Books::default();
    books.store(&key("a", 1), 100);
    change(&mut books);
    let plan = books.plan(at(0), RULES);
    numbers(&books, &plan) == [1]
}

#[test]
fn set_get_overwrite_delete() {
    let mut books = Books::default();
    assert_eq!(books.quota("a"), None);
    assert!(!books.remove_quota("a"));
    books.set_quota("a", 7);
    books.set_quota("a", u64::MAX);
    assert_eq!(books.quota("a"), Some(u64::MAX));
    books.set_quota("", 0);
    assert_eq!(books.quota(""), Some(0), "an explicit zero is a quota");
    assert_eq!(books.quotas().collect::<Vec<_>>(), [("", 0), ("a", u64::MAX)]);
    assert!(books.remove_quota("a"));
    assert!(!books.remove_quota("a"));
    assert_eq!(books.quota("a"), None);
    assert_eq!(books.default_limit(), None);
    books.set_default(Some(3));
    assert_eq!((books.default_limit(), books.quota("a")), (Some(3), None));
}

#[test]
fn no_limit_exempts() {
    assert!(!fires(|_| {}));
    assert!(!fires(|books| books.set_default(None)));
}

#[test]
fn a_default_of_zero_takes_everything() {
    assert!(fires(|books| books.set_default(Some(0))));
}

#[test]
fn a_positive_default_is_a_budget() {
    assert!(!fires(|books| books.set_default(Some(101))));
    assert!(fires(|books| books.set_default(Some(100))));
}

#[test]
fn an_own_quota_goes_before_the_default() {
    assert!(fires(|books| {
        books.set_quota("a", 50);
    }));
    assert!(!fires(|books| {
        books.set_quota("a", 101);
        books.set_default(Some(0));
    }));
    assert!(fires(|books| {
        books.set_quota("a", 0);
        books.set_default(Some(1 << 40));
    }));
}

#[test]
fn a_removed_quota_falls_to_the_default() {
    assert!(!fires(|books| {
        books.set_quota("a", 0);
        books.remove_quota("a");
    }));
    assert!(fires(|books| {
        books.set_quota("a", 1 << 40);
        books.remove_quota("a");
        books.set_default(Some(0));
    }));
}

#[test]
fn status_lists_usage_and_quotas_by_code_point() {
    let mut books = Books::default();
    assert!(books.salts().is_empty());
    for salt in ["b", "\u{ffff}", "\u{10000}", "a"] {
        books.store(&key(salt, 1), 1);
    }
    books.set_quota("", 5);
    books.set_quota("b", 5);
    books.set_quota("B", 0);
    assert_eq!(salt_names(&books), ["", "B", "a", "b", "\u{ffff}", "\u{10000}"]);
    books.delete(&key("a", 1));
    books.delete(&key("b", 1));
    books.remove_quota("B");
    assert_eq!(salt_names(&books), ["", "b", "\u{ffff}", "\u{10000}"]);
}

#[test]
fn pins_alone_are_no_usage() {
    let mut books = Books::default();
    books.pin(&key("a", 1));
    assert!(books.salts().is_empty());
    assert_eq!((books.counters().keys, books.counters().pinned), (0, 1));
}
