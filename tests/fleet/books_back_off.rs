//! Set-up: a key whose DELETEs are answered well, and never reported.
//! Claim: after eight answers it backs off, one interval at first, then twice as long each time; any event for it
//! and any registration end that, and failures never start it.

use crate::books::{RULES, answer, at, key, numbers};
use kvatlas::fleet::books::{Books, Outcome};

/// The key, after so many answers of one kind at 0 ms.
fn answered(times: usize, outcome: Outcome) -> Books {
    let mut books = Books::default();
    books.set_default(Some(1));
    books.store(&key("a", 1), 100);
    for _ in 0..times {
        let plan = books.plan(at(0), RULES);
        assert_eq!(numbers(&books, &plan), [1]);
        answer(&mut books, &plan, outcome, 0);
    }
    books
}

/// Whether a sweep would send it now.
fn goes(books: &mut Books, now: u64) -> bool {
    let plan = books.plan(at(now), RULES);
    let goes = !plan.batches.is_empty();
    answer(books, &plan, Outcome::Failed, now);
    goes
}

#[test]
fn it_begins_after_eight_answers() {
    assert!(goes(&mut answered(7, Outcome::Ok), 0));
    let mut books = answered(8, Outcome::Ok);
    assert_eq!((books.counters().backed_off, books.counters().back_offs), (1, 1));
    assert!(!goes(&mut books, 0));
    assert!(!goes(&mut books, 999));
    assert!(goes(&mut books, 1000));
    assert_eq!(books.usage("a"), 100);
}

#[test]
fn failures_do_not_count() {
    let mut books = answered(100, Outcome::Failed);
    assert_eq!((books.counters().backed_off, books.counters().failed), (0, 100));
    assert!(goes(&mut books, 0));
}

#[test]
fn pauses_double_up_to_a_minute() {
    let mut books = answered(8, Outcome::Ok);
    let mut now = 0;
    for pause in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000] {
        assert!(!goes(&mut books, now + pause - 1));
        now += pause;
        let plan = books.plan(at(now), RULES);
        assert_eq!(numbers(&books, &plan), [1]);
        assert_eq!((books.counters().backed_off, books.counters().in_flight), (0, 1));
        answer(&mut books, &plan, Outcome::Ok, now);
        assert_eq!((books.counters().backed_off, books.counters().in_flight), (1, 0));
    }
}

#[test]
fn a_failure_meanwhile_neither_ends_nor_lengthens_it() {
    let mut books = answered(8, Outcome::Ok);
    assert!(goes(&mut books, 1000));
    assert!(goes(&mut books, 1000), "it is due until it is answered well");
    assert_eq!(books.counters().backed_off, 1);
}

#[test]
fn any_event_ends_it() {
    let events: [fn(&mut Books); 3] = [
        |books| {
            books.store(&key("a", 1), 100);
        },
        |books| books.lookup(&key("a", 1)),
        |books| {
            books.delete(&key("a", 1));
            books.store(&key("a", 1), 100);
        },
    ];
    for event in events {
        let mut books = answered(12, Outcome::Failed);
        for _ in 0..8 {
            let plan = books.plan(at(0), RULES);
            answer(&mut books, &plan, Outcome::Ok, 0);
        }
        assert!(!goes(&mut books, 0));
        event(&mut books);
        assert_eq!(books.counters().backed_off, 0);
        // and the answers count anew
        for _ in 0..8 {
            let plan = books.plan(at(0), RULES);
            assert_eq!(numbers(&books, &plan), [1]);
            answer(&mut books, &plan, Outcome::Ok, 0);
        }
        assert!(!goes(&mut books, 0));
    }
}

#[test]
fn any_registration_ends_it() {
    let mut books = answered(8, Outcome::Ok);
    for _ in 0..3 {
        // all in one and the same millisecond
        assert!(!goes(&mut books, 0));
        books.registered(at(0));
        assert_eq!(books.counters().backed_off, 0);
        for _ in 0..8 {
            let plan = books.plan(at(0), RULES);
            assert_eq!(numbers(&books, &plan), [1]);
            answer(&mut books, &plan, Outcome::Ok, 0);
        }
        assert_eq!(books.counters().backed_off, 1);
    }
}

#[test]
fn a_registration_while_it_is_in_flight_ends_it_too() {
    let mut books = answered(8, Outcome::Ok);
    let plan = books.plan(at(1000), RULES);
    books.registered(at(1000));
    answer(&mut books, &plan, Outcome::Ok, 1001);
    assert_eq!(books.counters().backed_off, 0);
    assert!(goes(&mut books, 1001));
}

#[test]
fn a_deleted_key_leaves_nothing_of_it() {
    let mut books = answered(8, Outcome::Ok);
    books.delete(&key("a", 1));
    assert_eq!((books.counters().backed_off, books.counters().confirmed), (0, 1));
    books.store(&key("a", 2), 100);
    assert!(goes(&mut books, 0));
}
