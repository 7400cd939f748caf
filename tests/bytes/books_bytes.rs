//! Set-up: books of 600,000 keys with hashes of full length, under an allocator that counts.
//! Claim: a key takes at most 100 bytes with all that belongs to it, the books know how much they take, churn does
//! not make it more, and whoever goes gives everything back.

use crate::books::{RULES, answer, at, key, ranked};
use crate::counting::live;
use kvatlas::fleet::books::{Books, Outcome, Rules};
use kvatlas::fleet::key::Key;

const KEYS: u64 = 600_000;
/// Most bytes a key, everything included.
const A_KEY: f64 = 100.0;

/// Books, and what was allocated before them.
struct Watched {
    books: Books,
    before: isize,
}

impl Watched {
    fn new() -> Self {
        let before = live();
        Self { books: Books::default(), before }
    }

    fn taken(&self) -> f64 {
        (live() - self.before) as f64
    }

    /// Checks what the books say they take; returns what they do.
    fn check(&self, what: &str) -> f64 {
        let (taken, said) = (self.taken(), self.books.bytes_used() as f64);
        assert!((taken - said).abs() <= 0.02 * taken + 64.0 * 1024.0, "{what}: {taken}, says {said}");
        taken
    }
}

/// Key `number` among eight ranks, two salts.
fn one(number: u64) -> Key<'static> {
    let salt = if number % 16 < 8 { "tenant-a" } else { "tenant-b" };
    ranked(salt, number / 8, 8, i128::from(number % 8))
}

#[test]
fn a_key_is_small_and_churn_is_flat() {
    let mut watched = Watched::new();
    let mut worst: f64 = 0.0;
    for number in 0..KEYS {
        watched.books.store(&one(number), 1 << 20);
        // tables are at their emptiest soon after they grew
        if number >= KEYS / 3 && number % 10_000 == 0 {
            worst = worst.max(watched.taken() / (number + 1) as f64);
        }
    }
    let full = watched.check("full");
    assert!(worst <= A_KEY && full / KEYS as f64 <= A_KEY, "{worst}, {}", full / KEYS as f64);
    let mut most: f64 = 0.0;
    for number in 0..2_000_000 {
        watched.books.store(&one(KEYS + number), 1 << 20);
        watched.books.delete(&one(number));
        if number % 50_000 == 0 {
            most = most.max(watched.taken());
        }
    }
    let end = watched.check("churned");
    assert_eq!(watched.books.counters().keys as u64, KEYS);
    assert!(most.max(end) <= full * 1.05 && most / KEYS as f64 <= A_KEY, "{full} grew to {most}");
    // whoever backs off takes no more
    watched.books.set_default(Some(0));
    for _ in 0..9 {
        let plan = watched.books.plan(at(0), RULES);
        answer(&mut watched.books, &plan, Outcome::Ok, 0);
    }
    assert_eq!(watched.books.counters().backed_off as u64, KEYS);
    assert!(watched.check("backed off") <= end);
    for number in 2_000_000..2_000_000 + KEYS {
        watched.books.delete(&one(number));
    }
    assert_eq!((watched.books.counters().keys, watched.books.total()), (0, 0));
    let left = watched.check("empty");
    assert!(left <= 256.0 * 1024.0, "{left}");
    drop(watched.books);
    assert_eq!(live(), watched.before);
    let each = [full, most, end].map(|taken| taken / KEYS as f64);
    println!("bytes a key when full, at most after that, and churned: {each:.1?}; {worst:.1} while it grew");
}

#[test]
fn tenants_that_vanish_leave_nothing() {
    let mut watched = Watched::new();
    let mut round = |from: u64| {
        for tenant in from..from + 20_000 {
            let salt = format!("a-tenant-with-a-long-name-{tenant}");
            watched.books.store(&key(&salt, 1), 1);
            watched.books.store(&Key { model: format!("model-{tenant}").into(), ..key(&salt, 2) }, 1);
        }
        let full = watched.check("tenants");
        for tenant in from..from + 20_000 {
            let salt = format!("a-tenant-with-a-long-name-{tenant}");
            watched.books.delete(&key(&salt, 1));
            watched.books.delete(&Key { model: format!("model-{tenant}").into(), ..key(&salt, 2) });
        }
        (full, watched.check("gone"))
    };
    let (full, left) = round(0);
    for from in 1..6 {
        let (again, still) = round(from * 20_000);
        assert!(again <= full * 1.02 && still <= left * 1.1, "{full} {again}, {left} {still}");
    }
    assert!(left < full / 20.0, "{left} of {full}");
}

#[test]
fn pins_of_unknown_keys_cost_no_more_than_keys() {
    let mut watched = Watched::new();
    for number in 0..100_000 {
        watched.books.pin(&one(number));
    }
    let once = watched.check("pinned");
    assert!(once / 1e5 <= A_KEY, "{}", once / 1e5);
    for number in 0..100_000 {
        watched.books.pin(&one(number));
    }
    let twice = watched.check("pinned twice");
    assert!(twice / 1e5 <= A_KEY + 21.0, "{}", twice / 1e5);
    for number in 0..100_000 {
        watched.books.drop_pins(&one(number));
    }
    let left = watched.check("unpinned");
    assert!(left <= 256.0 * 1024.0, "{left}");
}

#[test]
fn a_plan_takes_eight_bytes_a_victim() {
    let mut watched = Watched::new();
    for number in 0..100_000 {
        watched.books.store(&one(number), 1);
    }
    watched.books.set_default(Some(0));
    let before = watched.taken();
    let plan = watched.books.plan(at(0), Rules { ratio: 1.0, ..RULES });
    assert_eq!(plan.keys(), 100_000);
    // vectors grow by doubling
    assert!(watched.taken() - before <= 2.0 * 8.0 * 100_000.0, "{}", watched.taken() - before);
}
