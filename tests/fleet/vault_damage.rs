//! Set-up: a vault's file cut, flipped, overwritten, replaced, locked or written by others. Claim: opening it never
//! panics; either what was saved is there, or the file is set aside byte for byte and a new one begun, and the
//! report says so; what is no damage is refused with the reason and left alone.

use std::fs;
use std::path::Path;

use crate::vault::{Bench, Pins, key, name, pins, set_aside};
use kvatlas::fleet::vault::{Change, FILE, Pinning, VaultError};
use kvatlas::limits::VAULT_PATIENCE_MILLIS;
use redb::{Database, TableDefinition};

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// A file with some of everything, its first and its last state.
fn sample(dir: &Path) -> (Vec<u8>, Pins) {
    let bench = Bench::open(dir).unwrap();
    for number in 0..20 {
        bench.make(Change::Quota(format!("salt-{number}"), Some(number))).unwrap();
        bench
            .make(pins(
                Pinning::Pin,
                (number * 40..number * 40 + 40).map(|number| key(number, "s")).collect(),
            ))
            .unwrap();
    }
    bench.make(Change::Default(Some(99))).unwrap();
    bench.close();
    let pins = (0..800).map(|number| (name(&key(number, "s")), 1)).collect();
    (fs::read(dir.join(FILE)).unwrap(), pins)
}

/// Opens a directory with this file in it; whether what was saved is there, else it must have been set aside.
fn survives(bytes: &[u8], want: &Pins) -> bool {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), bytes).unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    let whole = if let Some(aside) = &bench.saved.set_aside {
        assert!(!aside.reason.is_empty());
        assert_eq!(fs::read(&aside.path).unwrap(), bytes, "it is kept as it was");
        assert!(bench.saved.quotas.is_empty() && bench.pins.is_empty());
        false
    } else {
        // the last commit, or the one before it where the last one is what was hit
        assert!(bench.pins == *want && bench.saved.quotas.len() == 20, "neither whole nor set aside");
        assert!(matches!(bench.saved.default, Some(99) | None));
        bench.saved.default == Some(99)
    };
    // the new or repaired file works
    bench.make(Change::Quota("new".into(), Some(1))).unwrap();
    bench.close();
    let again = Bench::open(dir.path()).unwrap();
    assert!(again.saved.quotas.contains(&("new".to_owned(), 1)));
    assert_eq!(again.saved.set_aside, None);
    whole
}

/// Bytes of the file that say something: runs of zeroes are empty space.
fn told(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0));
    pages.flat_map(|(at, page)| at * 4096..at * 4096 + page.len()).collect()
}

#[test]
fn a_cut_file_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, want) = sample(dir.path());
    assert!(survives(&bytes, &want), "the whole file is whole");
    let mut cuts: Vec<usize> = (1..bytes.len()).step_by(bytes.len() / 80).collect();
    cuts.extend([1, 9, 63, 64, 191, 320, 4095, 4096, 4097, 8192, bytes.len() - 1]);
    for cut in cuts {
        assert!(!survives(&bytes[..cut], &want), "cut at {cut}");
    }
}

#[test]
fn flipped_bits_never_hurt() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, want) = sample(dir.path());
    let told = told(&bytes);
    let mut random = fastrand::Rng::with_seed(7);
    let mut damaged = 0;
    // all of the header, and some of everything
    let places = (0..320).chain((0..150).map(|_| told[random.usize(..told.len())])).collect::<Vec<_>>();
    for at in &places {
        let mut flipped = bytes.clone();
        flipped[*at] ^= 1 << random.u8(..8);
        damaged += usize::from(!survives(&flipped, &want));
    }
    assert!(damaged > 20 && damaged < places.len(), "{damaged}");
}

#[test]
fn overwritten_parts_never_hurt() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, want) = sample(dir.path());
    let told = told(&bytes);
    let mut random = fastrand::Rng::with_seed(8);
    for round in 0..90 {
        let mut written = bytes.clone();
        for _ in 0..random.usize(1..8) {
            let at = told[random.usize(..told.len())];
            let end = written.len().min(at + random.usize(1..5000));
            match round % 3 {
                0 => written[at..end].fill(0),
                1 => written[at..end].fill(0xff),
                _ => written[at..end].iter_mut().for_each(|byte| *byte = random.u8(..)),
            }
        }
        survives(&written, &want);
    }
}

#[test]
fn what_is_no_file_of_ours_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, want) = sample(dir.path());
    let mut longer = bytes.clone();
    longer.extend([7; 1000]);
    let others = [vec![0; bytes.len()], vec![0; 10], b"hello".to_vec(), vec![0xff; 5000], longer];
    for bytes in others {
        assert!(!survives(&bytes, &want));
    }
}

#[test]
fn tables_of_another_kind_are_set_aside() {
    type Break = fn(&Database);
    let breaks: [Break; 5] = [
        |database| {
            // a pin that is no key
            let table: TableDefinition<'_, &[u8], u32> = TableDefinition::new("pins");
            let transaction = database.begin_write().unwrap();
            transaction.open_table(table).unwrap().insert(b"\0\0\0\x09x".as_slice(), 1).unwrap();
            transaction.commit().unwrap();
        },
        |database| {
            let table: TableDefinition<'_, &str, &str> = TableDefinition::new("quotas");
            let transaction = database.begin_write().unwrap();
            transaction.delete_table(TableDefinition::<&str, u64>::new("quotas")).unwrap();
            transaction.open_table(table).unwrap().insert("a", "b").unwrap();
            transaction.commit().unwrap();
        },
        |database| {
            let transaction = database.begin_write().unwrap();
            transaction.delete_table(META).unwrap();
            transaction.commit().unwrap();
        },
        |database| {
            let transaction = database.begin_write().unwrap();
            transaction.delete_table(TableDefinition::<(), u64>::new("default")).unwrap();
            transaction.commit().unwrap();
        },
        |database| {
            let transaction = database.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert("schema", 0).unwrap();
            transaction.commit().unwrap();
        },
    ];
    for (at, break_it) in breaks.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let database = Database::open(dir.path().join(FILE)).unwrap();
        break_it(&database);
        drop(database);
        let bench = Bench::open(dir.path()).unwrap();
        assert!(bench.saved.set_aside.is_some(), "{at}");
    }
}

#[test]
fn a_file_of_a_later_release_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let database = Database::open(dir.path().join(FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("schema", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = Bench::open(dir.path()).err().unwrap();
    assert!(matches!(error, VaultError::Newer { found: 2, known: 1, .. }));
    assert!(error.to_string().contains("later release"), "{error}");
    assert!(set_aside(dir.path()).is_empty() && dir.path().join(FILE).exists());
}

#[test]
fn what_was_set_aside_before_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        fs::write(dir.path().join(FILE), format!("damage {round}")).unwrap();
        Bench::open(dir.path()).unwrap().close();
    }
    let mut kept: Vec<String> =
        set_aside(dir.path()).iter().map(|name| fs::read_to_string(dir.path().join(name)).unwrap()).collect();
    kept.sort();
    let mut want: Vec<String> = (0..20).map(|round| format!("damage {round}")).collect();
    want.sort();
    assert_eq!(kept, want);
}

#[test]
fn what_is_no_file_at_all_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    let error = Bench::open(dir.path()).err().unwrap();
    assert!(error.to_string().contains(FILE), "{error}");
    assert!(dir.path().join(FILE).is_dir());
    // a state directory that is a file
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    assert!(matches!(Bench::open(&file), Err(VaultError::Io { .. })));
    assert!(matches!(Bench::open(&file.join("below")), Err(VaultError::Io { .. })));
    // and one that is yet to be made
    assert!(Bench::open(&dir.path().join("a/b")).is_ok());
}

#[test]
fn a_file_that_was_emptied_is_damaged_and_one_that_went_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    assert_eq!(bench.make(Change::Quota("a".to_owned(), Some(1))), Ok(()));
    bench.close();
    let file = dir.path().join(FILE);
    fs::write(&file, b"").unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    assert_eq!(set_aside(dir.path()).len(), 1);
    fs::remove_file(&file).unwrap();
    let failure = bench.make(Change::Quota("a".to_owned(), Some(1))).unwrap_err();
    assert!(failure.to_string().contains("is gone"), "{failure}");
    bench.close();
}

#[test]
fn a_start_waits_for_the_one_before_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let before = Bench::open(dir.path()).unwrap();
    let opened = std::thread::scope(|scope| {
        let next = scope.spawn(|| Bench::open(dir.path()).map(Bench::close));
        std::thread::sleep(std::time::Duration::from_millis(VAULT_PATIENCE_MILLIS / 5));
        before.close();
        next.join().unwrap()
    });
    assert!(opened.is_ok());
}

#[test]
fn a_second_process_is_refused() {
    if let Some(dir) = std::env::var_os("KVATLAS_TEST_SECOND") {
        let error = Bench::open(Path::new(&dir)).err().unwrap();
        assert!(matches!(error, VaultError::InUse(_)), "{error}");
        assert!(error.to_string().contains("in use"), "{error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(dir.path()).unwrap();
    assert!(
        matches!(Bench::open(dir.path()), Err(VaultError::InUse(_))),
        "nor a second time in this process"
    );
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["vault_damage::a_second_process_is_refused", "--exact"])
        .env("KVATLAS_TEST_SECOND", dir.path())
        .output()
        .unwrap();
    assert!(run.status.success() && String::from_utf8_lossy(&run.stdout).contains("1 passed"), "{run:?}");
    bench.close();
    assert!(Bench::open(dir.path()).is_ok(), "one after the other is well");
    assert!(set_aside(dir.path()).is_empty());
}
