//! Set-up: salts with keys, with keys of no bytes, with quotas, with both, listed in steps of all sizes, while quotas
//! come and go in between.
//! Claim: a listing names each salt with usage or a quota once, with both as they are, and its usage is the total;
//! quotas that change meanwhile change nothing else.

use crate::books::ranked;
use kvatlas::fleet::books::{Books, Salt, SaltListing};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What a salt has, by number: keys of so many bytes, and a quota.
type Salts = Vec<(u8, Option<u64>, Option<u64>)>;

fn salts() -> impl Strategy<Value = Salts> {
    let salt = (0..40_u8, prop::option::of(0..3_u64), prop::option::of(0..5_u64));
    prop::collection::vec(salt, 0..60)
}

fn name(number: u8) -> String {
    format!("s{number}")
}

fn listed(books: &Books, most: usize) -> Vec<Salt> {
    let (mut listing, mut salts) = (SaltListing::new(), Vec::new());
    loop {
        let over = books.list_salts(&mut listing, most);
        let some = listing.take();
        assert!(some.len() <= most.max(1));
        salts.extend(some);
        if over {
            return salts;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_salt_is_listed_once(
        salts in salts(),
        most in 0..20_usize,
    ) {
        let (mut books, mut usage, mut quotas) = (Books::default(), BTreeMap::new(), BTreeMap::new());
        for (at, (number, bytes, quota)) in salts.into_iter().enumerate() {
            if let Some(bytes) = bytes {
                books.store(&ranked(&name(number), at as u64, 1, 0), bytes);
                *usage.entry(name(number)).or_insert(0) += u128::from(bytes);
            }
            if let Some(quota) = quota {
                books.set_quota(&name(number), quota);
                quotas.insert(name(number), quota);
            }
        }
        usage.retain(|_, bytes| *bytes > 0);
        let expected: BTreeMap<String, (u128, Option<u64>)> = usage.keys().chain(quotas.keys())
            .map(|salt| (salt.clone(), (usage.get(salt).copied().unwrap_or(0), quotas.get(salt).copied())))
            .collect();
        let found = listed(&books, most);
        prop_assert_eq!(found.iter().map(|salt| salt.usage).sum::<u128>(), books.total());
        let count = found.len();
        let by_name = |salts: Vec<Salt>| -> BTreeMap<String, (u128, Option<u64>)> {
            salts.into_iter().map(|salt| (salt.name.into(), (salt.usage, salt.quota))).collect()
        };
        let found = by_name(found);
        prop_assert_eq!(found.len(), count, "none twice");
        prop_assert_eq!(&found, &expected);
        let sorted = books.salts();
        prop_assert!(sorted.is_sorted_by(|a, b| a.name < b.name));
        prop_assert_eq!(&by_name(sorted), &expected);
    }
}

#[test]
fn quotas_that_come_and_go_meanwhile_disturb_nobody() {
    let mut books = Books::default();
    for number in 0..50 {
        books.set_quota(&format!("q{number:02}"), number);
        books.store(&ranked(&format!("u{number:02}"), number, 1, 0), 7);
    }
    let (mut listing, mut seen, mut turn) = (SaltListing::new(), Vec::new(), 0);
    while !books.list_salts(&mut listing, 3) {
        seen.extend(listing.take().into_iter().map(|salt| String::from(salt.name)));
        books.remove_quota(&format!("q{:02}", turn % 10));
        books.set_quota(&format!("u{:02}", turn % 50), 1);
        turn += 1;
    }
    seen.extend(listing.take().into_iter().map(|salt| String::from(salt.name)));
    let names: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(names.len(), seen.len(), "none twice");
    for number in 0..50 {
        assert!(names.contains(&format!("u{number:02}")));
        assert!(number < 10 || names.contains(&format!("q{number:02}")));
    }
}
