//! Set-up: another process makes changes and says which are acknowledged; it is killed in the middle, or its disk
//! is full. Claim: every acknowledged change is there afterwards, and each change is there whole or not at all.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use crate::vault::{Bench, Pins, key, name, pins};
use kvatlas::fleet::vault::{Change, Pinning, Vault};

/// Keys of one change.
const KEYS: u64 = 60;
/// Changes that the other process has under way.
const AHEAD: u64 = 40;

/// What change `number` does: three in four pin keys of their own, the others move a quota up.
fn change(number: u64) -> Change {
    if number.is_multiple_of(4) {
        Change::Quota(format!("salt-{}", number % 5), Some(number))
    } else {
        pins(Pinning::Pin, (number * KEYS..(number + 1) * KEYS).map(|number| key(number, "s")).collect())
    }
}

/// The other process: changes from `from` on, for ever; acknowledged numbers go to stdout.
fn write_for_ever(dir: &Path, from: u64) {
    let (sender, outcomes) = channel();
    let post = move |ticket, outcome| sender.send((ticket, outcome)).unwrap();
    let (vault, _) = Vault::open(dir, |_, _| {}, post).unwrap();
    let mut out = std::io::stdout();
    let mut next = from;
    loop {
        while next < from + AHEAD {
            vault.change(next, change(next)).unwrap();
            next += 1;
        }
        let (ticket, outcome) = outcomes.recv().unwrap();
        outcome.unwrap();
        writeln!(out, "acknowledged {ticket}").unwrap();
        out.flush().unwrap();
        vault.change(next, change(next)).unwrap();
        next += 1;
        while let Ok((ticket, outcome)) = outcomes.try_recv() {
            outcome.unwrap();
            writeln!(out, "acknowledged {ticket}").unwrap();
            out.flush().unwrap();
            vault.change(next, change(next)).unwrap();
            next += 1;
        }
    }
}

fn spawn(test: &str, dir: &Path, from: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("KVATLAS_TEST_WRITER", dir)
        .env("KVATLAS_TEST_FROM", from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    if let Some(dir) = std::env::var_os("KVATLAS_TEST_WRITER") {
        let from = std::env::var("KVATLAS_TEST_FROM").unwrap().parse().unwrap();
        write_for_ever(Path::new(&dir), from);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(9);
    let (mut from, mut acknowledged) = (0, BTreeSet::new());
    for _ in 0..16 {
        let mut child =
            spawn("vault_crash::a_killed_writer_loses_nothing_that_was_acknowledged", dir.path(), from);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let number =
            |line: String| line.strip_prefix("acknowledged ").map(|number| number.parse::<u64>().unwrap());
        let mut told: BTreeSet<u64> = lines.by_ref().filter_map(number).take(random.usize(1..60)).collect();
        std::thread::sleep(std::time::Duration::from_micros(random.u64(..5000)));
        child.kill().unwrap();
        // what was said before it died counts too
        told.extend(lines.filter_map(number));
        child.wait().unwrap();
        acknowledged.extend(told);
        from = check(dir.path(), &acknowledged);
    }
    assert!(acknowledged.len() > 300, "{}", acknowledged.len());
}

/// Opens the directory after a crash; the first number that no process can have used.
fn check(dir: &Path, acknowledged: &BTreeSet<u64>) -> u64 {
    let bench = Bench::open(dir).unwrap();
    assert_eq!(bench.saved.set_aside, None);
    for number in acknowledged.iter().filter(|number| !number.is_multiple_of(4)) {
        let whole = (number * KEYS..(number + 1) * KEYS)
            .all(|number| bench.pins.contains_key(&name(&key(number, "s"))));
        assert!(whole, "change {number} was acknowledged");
    }
    for salt in 0..5 {
        let last = acknowledged.iter().rev().find(|number| number.is_multiple_of(4) && **number % 5 == salt);
        let saved = bench.saved.quotas.iter().find(|(named, _)| *named == format!("salt-{salt}"));
        assert!(saved.map(|(_, limit)| limit) >= last, "salt-{salt}: {saved:?}, acknowledged {last:?}");
    }
    let next = acknowledged.last().map_or(0, |last| last + 1) + AHEAD;
    let there = (0..next).filter(|number| !number.is_multiple_of(4));
    let mut keys = 0;
    for number in there {
        let found = (number * KEYS..(number + 1) * KEYS)
            .filter(|number| bench.pins.contains_key(&name(&key(*number, "s"))))
            .count();
        assert!(found == 0 || found as u64 == KEYS, "change {number} is there by half: {found}");
        keys += found;
    }
    assert_eq!(keys, bench.pins.len(), "nothing else is there");
    bench.close();
    next
}

#[test]
fn a_full_disk_is_told_and_small_changes_go_on() {
    if let Some(dir) = std::env::var_os("KVATLAS_TEST_FULL") {
        fill(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    // a limit on the size of files is as good as a full disk; ignored, its signal leaves an error
    let script = "trap '' XFSZ; ulimit -f 8000; exec \"$0\" vault_crash::a_full_disk_is_told_and_small_changes_go_on --exact --nocapture";
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(exe)
        .env("KVATLAS_TEST_FULL", dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    let bench = Bench::open(dir.path()).unwrap();
    assert_eq!(bench.saved.set_aside, None);
    assert_eq!(bench.saved.quotas, [("after".to_owned(), 2), ("before".to_owned(), 1)]);
    let want: Pins = (0..1000).map(|number| (name(&key(number, "s")), 1)).collect();
    assert_eq!(bench.pins, want);
}

fn fill(dir: &Path) {
    let bench = Bench::open(dir).unwrap();
    let many = |from: u64, to: u64| Change::Pins {
        how: Pinning::Pin,
        keys: Box::new(move |each| (from..to).for_each(|number| each(&key(number, "s")))),
        bytes: 0,
    };
    bench.make(Change::Quota("before".into(), Some(1))).unwrap();
    bench.make(many(0, 1000)).unwrap();
    for _ in 0..3 {
        let failure = bench.make(many(1000, 300_000)).unwrap_err();
        assert!(failure.0.contains("File too large"), "the cause is told: {failure}");
    }
    bench.make(Change::Quota("after".into(), Some(2))).unwrap();
    bench.close();
}
