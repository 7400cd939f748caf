//! Set-up: random changes and restarts, against a plain map. Claim: what was acknowledged is there after a
//! restart, acknowledgements come in order, a change that is refused leaves no trace, and a queue that is full says
//! so.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use crate::vault::{Bench, LOST, Pins, key, name, pins};
use kvatlas::fleet::vault::{Busy, Change, Keys, Pinning, Vault};
use kvatlas::limits::{VAULT_BATCH, VAULT_QUEUE, VAULT_QUEUE_BYTES, VAULT_SCOPE_BYTES};
use proptest::prelude::*;

/// What a test does.
#[derive(Clone, Debug)]
enum Act {
    Quota(u8, Option<u64>),
    Default(Option<u64>),
    Pins(u8, Vec<u8>),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6u8, any::<Option<u64>>()).prop_map(|(salt, limit)| Act::Quota(salt, limit)),
        2 => any::<Option<u64>>().prop_map(Act::Default),
        6 => (0..5u8, proptest::collection::vec(0..12u8, 0..8)).prop_map(|(how, keys)| Act::Pins(how, keys)),
        1 => Just(Act::Restart),
    ]
}

/// The oracle.
#[derive(Default)]
struct Plain {
    quotas: BTreeMap<String, u64>,
    default: Option<u64>,
    pins: Pins,
}

impl Plain {
    fn put(&mut self, act: &Act) -> Option<Change> {
        match act {
            Act::Quota(salt, limit) => {
                let salt = if *salt == 0 { String::new() } else { format!("salt {salt} é") };
                match limit {
                    Some(limit) => self.quotas.insert(salt.clone(), *limit),
                    None => self.quotas.remove(&salt),
                };
                Some(Change::Quota(salt, *limit))
            }
            Act::Default(limit) => {
                self.default = *limit;
                Some(Change::Default(*limit))
            }
            Act::Pins(how, numbers) => {
                let how = match how {
                    0..3 => Pinning::Pin,
                    3 => Pinning::Unpin,
                    _ => Pinning::Drop,
                };
                let keys: Vec<_> = numbers.iter().map(|number| key(u64::from(*number), "s")).collect();
                for key in &keys {
                    let count = self.pins.entry(name(key)).or_default();
                    *count = match how {
                        Pinning::Pin => *count + 1,
                        Pinning::Unpin => count.saturating_sub(1),
                        Pinning::Drop => 0,
                    };
                }
                self.pins.retain(|_, count| *count > 0);
                Some(pins(how, keys))
            }
            Act::Restart => None,
        }
    }

    fn check(&self, bench: &Bench) {
        let quotas: Vec<_> = self.quotas.iter().map(|(salt, limit)| (salt.clone(), *limit)).collect();
        assert_eq!(bench.saved.quotas, quotas);
        assert_eq!(bench.saved.default, self.default);
        assert_eq!(bench.pins, self.pins);
        assert_eq!(bench.saved.set_aside, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn what_was_acknowledged_is_there_after_a_restart(acts in proptest::collection::vec(act(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let (mut plain, mut bench) = (Plain::default(), Bench::open(dir.path()).unwrap());
        plain.check(&bench);
        let mut waiting = 0..0;
        for act in acts.iter().chain([&Act::Restart]) {
            if let Some(change) = plain.put(act) {
                bench.vault.change(waiting.end, change).unwrap();
                waiting.end += 1;
            } else {
                for ticket in waiting.by_ref() {
                    assert_eq!(bench.next(), (ticket, Ok(())));
                }
                bench.close();
                bench = Bench::open(dir.path()).unwrap();
                plain.check(&bench);
            }
        }
    }
}

#[test]
fn keys_of_every_shape_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut keys = vec![key(1, ""), key(1, "s"), key(2, "s")];
    for rank in [0, -1, i128::from(i64::MIN), i128::from(u64::MAX)] {
        keys.push(kvatlas::fleet::key::Key { kv_rank: rank, ..key(1, "s") });
    }
    for hash in [&b""[..], b"a", &[0; 64]] {
        let hash = kvatlas::fleet::key::ChunkHash::of_bytes(hash);
        keys.push(kvatlas::fleet::key::Key { hash, ..key(1, "s") });
    }
    keys.push(kvatlas::fleet::key::Key { group: u64::MAX, ..key(1, "s") });
    keys.push(kvatlas::fleet::key::Key { model: "".into(), ..key(1, "s") });
    let names: Pins = keys.iter().map(|key| (name(key), 1)).collect();
    let bench = Bench::open(dir.path()).unwrap();
    bench.make(pins(Pinning::Pin, keys)).unwrap();
    bench.close();
    assert_eq!(Bench::open(dir.path()).unwrap().pins, names);
}

#[test]
fn a_change_that_is_refused_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    let long = kvatlas::fleet::key::Key { model: "m".repeat(VAULT_SCOPE_BYTES + 1).into(), ..key(2, "") };
    // they may share a commit
    bench.vault.change(1, Change::Quota("a".into(), Some(1))).unwrap();
    bench.vault.change(2, pins(Pinning::Pin, vec![key(1, ""), long, key(3, "")])).unwrap();
    bench.vault.change(3, Change::Quota("b".into(), Some(2))).unwrap();
    assert_eq!(bench.next(), (1, Ok(())));
    let (ticket, outcome) = bench.next();
    assert_eq!(ticket, 2);
    assert!(outcome.unwrap_err().0.contains("model_name"));
    assert_eq!(bench.next(), (3, Ok(())));
    bench.close();
    let bench = Bench::open(dir.path()).unwrap();
    assert_eq!(bench.saved.quotas, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert!(bench.pins.is_empty());
}

#[test]
fn a_full_queue_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    let (go, wait) = channel::<()>();
    let (begun, began) = channel();
    // the writer is busy until the test says go
    let keys: Keys = Box::new(move |each| {
        begun.send(()).unwrap();
        wait.recv().unwrap();
        each(&key(1, ""));
    });
    bench.vault.change(0, Change::Pins { how: Pinning::Pin, keys, bytes: 0 }).unwrap();
    began.recv_timeout(LOST).unwrap();
    // bytes that changes hold on to count too; one that is alone in the queue is taken whatever it holds
    let huge = |bytes| Change::Pins { how: Pinning::Pin, keys: Box::new(|_| {}), bytes };
    bench.vault.change(1, huge(usize::MAX)).unwrap();
    assert_eq!(bench.vault.change(99, huge(1)), Err(Busy));
    go.send(()).unwrap();
    assert_eq!(bench.next(), (0, Ok(())));
    assert_eq!(bench.next(), (1, Ok(())));
    assert!(bench.vault.change(2, huge(VAULT_QUEUE_BYTES)).is_ok());
    assert_eq!(bench.next(), (2, Ok(())));

    let (go, wait) = channel::<()>();
    let (begun, began) = channel();
    let keys: Keys = Box::new(move |_| {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    bench.vault.change(0, Change::Pins { how: Pinning::Pin, keys, bytes: 0 }).unwrap();
    began.recv_timeout(LOST).unwrap();
    for ticket in 1..=VAULT_QUEUE as u64 {
        bench.vault.change(ticket, Change::Default(Some(ticket))).unwrap();
    }
    assert_eq!(bench.vault.change(0, Change::Default(None)), Err(Busy));
    assert!(!bench.vault.stop(std::time::Duration::from_millis(50)), "not all is written");
    assert_eq!(bench.vault.change(0, Change::Default(None)), Err(Busy), "nothing is taken any more");
    go.send(()).unwrap();
    // many batches, all in order
    const { assert!(VAULT_QUEUE > 2 * VAULT_BATCH) };
    for ticket in 0..=VAULT_QUEUE as u64 {
        assert_eq!(bench.next(), (ticket, Ok(())));
    }
    bench.close();
    assert_eq!(Bench::open(dir.path()).unwrap().saved.default, Some(VAULT_QUEUE as u64));
}

#[test]
fn a_dropped_vault_writes_what_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, outcomes) = channel();
    let post = move |ticket, outcome: Result<(), _>| sender.send((ticket, outcome.is_ok())).unwrap();
    let (vault, _) = Vault::open(dir.path(), |_, _| {}, post).unwrap();
    for ticket in 0..100 {
        vault.change(ticket, Change::Default(Some(ticket))).unwrap();
    }
    drop(vault);
    let told: Vec<_> = outcomes.iter().collect();
    assert_eq!(told, (0..100).map(|ticket| (ticket, true)).collect::<Vec<_>>());
}

#[test]
fn a_big_change_is_one_change() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    let count = std::env::var("KVATLAS_TEST_PINS").map_or(100_000, |count| count.parse().unwrap());
    let keys = |how| -> Change {
        let keys: Keys = Box::new(move |each| (0..count).for_each(|number| each(&key(number, "s"))));
        Change::Pins { how, keys, bytes: 0 }
    };
    bench.make(keys(Pinning::Pin)).unwrap();
    bench.close();
    let (mut seen, (sender, outcomes)) = (0, channel());
    let post = move |_, outcome| sender.send(outcome).unwrap();
    let (vault, saved) = Vault::open(dir.path(), |_, _| seen += 1, post).unwrap();
    assert_eq!((seen, saved.pins), (count, count));
    vault.change(0, keys(Pinning::Unpin)).unwrap();
    assert_eq!(outcomes.recv(), Ok(Ok(())));
    assert!(vault.stop(std::time::Duration::MAX));
    assert_eq!(Bench::open(dir.path()).unwrap().saved.pins, 0);
}
