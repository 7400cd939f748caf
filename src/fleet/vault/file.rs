//! The file: opened, checked, set aside, changed.

use std::borrow::Borrow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    StorageError, Table, TableDefinition, TableError,
};

use super::rows::{self, Run};
use super::{Change, FILE, Failure, Key, Keys, Pinning, Saved, SetAside, VaultError, fits};
use crate::limits::{VAULT_CACHE_BYTES, VAULT_PATIENCE_MILLIS, VAULT_RUN_BYTES, VAULT_SCOPE_BYTES};

/// What lies in the file, and how.
const SCHEMA: u64 = 1;
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const QUOTAS: TableDefinition<'_, &str, u64> = TableDefinition::new("quotas");
const DEFAULT: TableDefinition<'_, (), u64> = TableDefinition::new("default");
const PINS: TableDefinition<'_, &[u8], u32> = TableDefinition::new("pins");
/// Where [`META`] has the schema version.
const VERSION: &str = "schema";

/// An open file that this process has for itself.
pub(super) struct File {
    path: PathBuf,
    /// None after an error of the disk, until the file is opened anew.
    database: Option<Database>,
    /// Held as long as the file is in use, also while it is opened anew or set aside.
    _lock: fs::File,
}

/// Why a file cannot be read.
enum Fault {
    /// It is damaged.
    Damaged(String),
    /// It is not to be touched.
    Refused(VaultError),
}

impl File {
    /// Opens or begins the file and reads it.
    pub(super) fn open(dir: &Path, pin: &mut dyn FnMut(&Key<'_>, u32)) -> Result<(Self, Saved), VaultError> {
        let failed = |source| VaultError::Io { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.join(FILE);
        let lock = patiently(|| lock(dir)).map_err(|fault| fault.final_word(&path))?;
        // the library would take an empty file for a new one
        let emptied = fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0);
        let opened =
            if emptied { Err(Fault::Damaged("it is empty".to_owned())) } else { patiently(|| open(&path)) };
        let (database, saved) = match opened {
            Ok(opened) => opened,
            Err(Fault::Refused(error)) => return Err(error),
            Err(Fault::Damaged(reason)) => {
                let aside = set_aside(&path).map_err(failed)?;
                tracing::error!(
                    file = %path.display(), set_aside = %aside.display(), reason,
                    "the saved quotas and pins are damaged: the file is set aside and a new one begun"
                );
                let (database, mut saved) = open(&path).map_err(|fault| fault.final_word(&path))?;
                saved.set_aside = Some(SetAside { path: aside, reason });
                (database, saved)
            }
        };
        // the names of new files are safe too
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        let fault = |fault: Damage| Fault::from(fault).final_word(&path);
        each_pin(&database.begin_read().map_err(Damage::from).map_err(fault)?, pin).map_err(fault)?;
        Ok((Self { path, database: Some(database), _lock: lock }, saved))
    }

    /// Opens the file again after an error of the disk.
    pub(super) fn reopen(&mut self) -> Result<(), Failure> {
        if !self.path.exists() {
            return Err(Failure(format!("{} is gone", self.path.display())));
        }
        if self.database.is_none() {
            match open(&self.path) {
                Ok((database, _)) => self.database = Some(database),
                Err(fault) => return Err(Failure(fault.final_word(&self.path).to_string())),
            }
        }
        Ok(())
    }

    /// Gives the file up until it is opened anew: after an error it is in no known state.
    pub(super) fn abandon(&mut self) {
        self.database = None;
    }

    /// Applies one change, which is safe only after [`File::sync`].
    pub(super) fn apply(&self, change: Change) -> Result<(), Refusal> {
        let Some(database) = &self.database else { return Err(closed()) };
        let mut transaction = database.begin_write().map_err(Damage::from)?;
        transaction.set_durability(Durability::None).map_err(Damage::from)?;
        let outcome = match change {
            Change::Quota(salt, limit) => {
                let mut table = transaction.open_table(QUOTAS).map_err(Damage::from)?;
                put(&mut table, salt.as_str(), limit).map_err(Damage::from)?;
                Ok(())
            }
            Change::Default(limit) => {
                let mut table = transaction.open_table(DEFAULT).map_err(Damage::from)?;
                put(&mut table, (), limit).map_err(Damage::from)?;
                Ok(())
            }
            Change::Pins { how, keys, .. } => {
                count(&mut transaction.open_table(PINS).map_err(Damage::from)?, how, keys)
            }
        };
        match &outcome {
            Ok(()) => transaction.commit().map_err(Damage::from)?,
            Err(Refusal::Change(_)) => transaction.abort().map_err(Damage::from)?,
            // after an error of the disk aborting fails as well, and knows less of why
            Err(Refusal::File(_)) => drop(transaction.abort()),
        }
        outcome
    }

    /// Makes all changes safe.
    pub(super) fn sync(&self) -> Result<(), Refusal> {
        let Some(database) = &self.database else { return Err(closed()) };
        let transaction = database.begin_write().map_err(Damage::from)?;
        transaction.commit().map_err(Damage::from)?;
        Ok(())
    }
}

/// Why a change was not applied.
pub(super) enum Refusal {
    /// Something is wrong with the change; the file is as it was.
    Change(Failure),
    /// Something is wrong with the file.
    File(Failure),
}

fn closed() -> Refusal {
    Refusal::File(Failure("the file is not open".to_owned()))
}

/// An error of reading or writing.
struct Damage(redb::Error);

impl<E: Into<redb::Error>> From<E> for Damage {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<Damage> for Refusal {
    fn from(Damage(error): Damage) -> Self {
        Self::File(Failure(error.to_string()))
    }
}

impl From<Damage> for Fault {
    fn from(Damage(error): Damage) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl Fault {
    /// The error when nothing more can be done about it.
    fn final_word(self, path: &Path) -> VaultError {
        match self {
            Self::Refused(error) => error,
            Self::Damaged(reason) => VaultError::Refused { path: path.to_owned(), reason },
        }
    }
}

/// Attempts it again for a while where another process has the file: one that has just ended, or is about to, as at a
/// restart.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let patience = Instant::now() + Duration::from_millis(VAULT_PATIENCE_MILLIS);
    loop {
        match attempt() {
            Err(Fault::Refused(VaultError::InUse(_))) if Instant::now() < patience => {
                thread::sleep(Duration::from_millis(VAULT_PATIENCE_MILLIS / 100));
            }
            outcome => return outcome,
        }
    }
}

fn lock(dir: &Path) -> Result<fs::File, Fault> {
    let path = dir.join("fleet.lock");
    let failed = |source| Fault::Refused(VaultError::Io { path: path.clone(), source });
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Fault::Refused(VaultError::InUse(dir.join(FILE)))),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Opens or begins a file, checks every page and row of it, and reads all but the pins.
fn open(path: &Path) -> Result<(Database, Saved), Fault> {
    let database = Database::builder()
        .set_cache_size(VAULT_CACHE_BYTES)
        .set_check_integrity_on_open(true)
        .create(path)
        .map_err(|error| fault(path, error))?;
    let version = version(&database)?;
    match version {
        None => begin(&database).map_err(Fault::from)?,
        Some(SCHEMA) => {}
        Some(found) if found > SCHEMA => {
            let path = path.to_owned();
            return Err(Fault::Refused(VaultError::Newer { path, found, known: SCHEMA }));
        }
        Some(found) => return Err(Fault::Damaged(format!("schema version {found} never was"))),
    }
    let saved = read(&database)?;
    Ok((database, saved))
}

/// What an error of opening means: damage, or something to leave alone.
fn fault(path: &Path, error: DatabaseError) -> Fault {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            Fault::Refused(VaultError::InUse(path))
        }
        DatabaseError::TransactionInProgress => {
            Fault::Refused(VaultError::Refused { path, reason: error.to_string() })
        }
        DatabaseError::Storage(StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Fault::Damaged(source.to_string()),
            _ => Fault::Refused(VaultError::Io { path, source }),
        },
        other => Fault::Damaged(other.to_string()),
    }
}

/// The schema version; none in a file that was only just begun.
fn version(database: &Database) -> Result<Option<u64>, Fault> {
    let transaction = database.begin_read().map_err(Damage::from)?;
    match transaction.open_table(META) {
        Ok(meta) => match meta.get(VERSION).map_err(Damage::from)? {
            Some(version) => Ok(Some(version.value())),
            None => Err(Fault::Damaged("it has no schema version".to_owned())),
        },
        Err(TableError::TableDoesNotExist(_)) => {
            match transaction.list_tables().map_err(Damage::from)?.next() {
                None => Ok(None),
                Some(_) => Err(Fault::Damaged("it has tables and no schema version".to_owned())),
            }
        }
        Err(error) => Err(Damage::from(error).into()),
    }
}

fn begin(database: &Database) -> Result<(), Damage> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(VERSION, SCHEMA)?;
    transaction.open_table(QUOTAS)?;
    transaction.open_table(DEFAULT)?;
    transaction.open_table(PINS)?;
    transaction.commit()?;
    Ok(())
}

fn read(database: &Database) -> Result<Saved, Fault> {
    let transaction = database.begin_read().map_err(Damage::from)?;
    let quotas = quotas(&transaction)?;
    let default = transaction.open_table(DEFAULT).map_err(Damage::from)?.get(()).map_err(Damage::from)?;
    let default = default.map(|limit| limit.value());
    let mut pins = 0;
    each_pin(&transaction, &mut |_, _| pins += 1)?;
    Ok(Saved { quotas, default, pins, set_aside: None })
}

fn quotas(transaction: &ReadTransaction) -> Result<Vec<(String, u64)>, Damage> {
    let table = transaction.open_table(QUOTAS)?;
    let rows = table.iter()?.map(|row| row.map(|(salt, limit)| (salt.value().to_owned(), limit.value())));
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Calls `pin` with each pinned key; a row that is no key is damage.
fn each_pin(transaction: &ReadTransaction, pin: &mut dyn FnMut(&Key<'_>, u32)) -> Result<(), Damage> {
    let table = transaction.open_table(PINS)?;
    for row in table.iter()? {
        let (key, count) = row?;
        match rows::decode(key.value()) {
            Some(key) if count.value() > 0 => pin(&key, count.value()),
            _ => return Err(StorageError::Corrupted("a pin cannot be read".to_owned()).into()),
        }
    }
    Ok(())
}

fn put<'k, K: redb::Key + 'static>(
    table: &mut Table<'_, K, u64>,
    key: impl Borrow<K::SelfType<'k>>,
    value: Option<u64>,
) -> Result<(), StorageError> {
    match value {
        Some(value) => table.insert(key, value)?,
        None => table.remove(key)?,
    };
    Ok(())
}

/// Counts each key of a change. The first error is the outcome; the keys after it are passed over.
fn count(table: &mut Table<'_, &'static [u8], u32>, how: Pinning, keys: Keys) -> Result<(), Refusal> {
    let mut outcome = Ok(());
    let mut run = Run::default();
    keys(&mut |key| {
        if outcome.is_err() {
            return;
        }
        if !fits(key) {
            outcome = Err(Refusal::Change(Failure(format!(
                "model_name and cache_salt are longer than {VAULT_SCOPE_BYTES} bytes"
            ))));
            return;
        }
        run.push(key);
        if run.bytes() >= VAULT_RUN_BYTES {
            outcome = count_run(table, how, &mut run);
        }
    });
    outcome?;
    count_run(table, how, &mut run)
}

fn count_run(table: &mut Table<'_, &'static [u8], u32>, how: Pinning, run: &mut Run) -> Result<(), Refusal> {
    run.sort();
    run.rows().try_for_each(|row| count_one(table, how, row)).map_err(Damage::from)?;
    run.clear();
    Ok(())
}

fn count_one(
    table: &mut Table<'_, &'static [u8], u32>,
    how: Pinning,
    row: &[u8],
) -> Result<(), StorageError> {
    let count = table.get(row)?.map_or(0, |count| count.value());
    let next = match how {
        Pinning::Pin => count.saturating_add(1),
        Pinning::Unpin => count.saturating_sub(1),
        Pinning::Drop => 0,
    };
    if next == 0 {
        if count > 0 {
            table.remove(row)?;
        }
    } else if next != count {
        table.insert(row, next)?;
    }
    Ok(())
}

/// Renames a damaged file to a name that is free, and says which.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut free = path.with_file_name(format!("{FILE}.damaged-{seconds}"));
    let mut more = 1;
    while free.symlink_metadata().is_ok() {
        free = path.with_file_name(format!("{FILE}.damaged-{seconds}-{more}"));
        more += 1;
    }
    fs::rename(path, &free)?;
    Ok(free)
}
