//! Quotas, the default limit and pins on disk: one file, one writer thread, and no word of a change before it is
//! safe.
//!
//! A change is whole or not at all, also after a crash. Changes that wait together share one fsync. A file that
//! cannot be read is set aside and never deleted.

mod file;
mod rows;
mod writer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use self::file::File;
use self::writer::Shared;
use super::key::Key;
use crate::limits::VAULT_SCOPE_BYTES;

/// Name of the file in the state directory.
pub const FILE: &str = "fleet.redb";

/// What a pin change does to the count of each of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinning {
    /// One more.
    Pin,
    /// One less, at least 0.
    Unpin,
    /// None any more.
    Drop,
}

/// Calls its argument with each key of a change; runs on the writer's thread.
pub type Keys = Box<dyn FnOnce(&mut dyn FnMut(&Key<'_>)) + Send>;

/// One change: applied whole or not at all.
pub enum Change {
    /// The quota of a salt, bytes; none removes it.
    Quota(String, Option<u64>),
    /// The limit of salts without a quota, bytes.
    Default(Option<u64>),
    /// Counts of pins. Relative, so that changes that wait together add up.
    Pins {
        /// What happens to the count of each key; a key that comes twice counts twice.
        how: Pinning,
        /// The keys. They may be made one by one, so that millions need no memory while they wait.
        keys: Keys,
        /// Bytes that `keys` holds on to, roughly.
        bytes: usize,
    },
}

/// What the file held, pins apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Bytes by salt, in the order of salts.
    pub quotas: Vec<(String, u64)>,
    /// The limit of salts without a quota, bytes.
    pub default: Option<u64>,
    /// Pinned keys.
    pub pins: u64,
    /// A damaged file was found and set aside; this vault began empty.
    pub set_aside: Option<SetAside>,
}

/// A file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// Where it lies now.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Why there is no vault.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The directory or the file cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{0} is in use by another process: each coordinator needs a state directory of its own")]
    InUse(PathBuf),
    /// Written by a later release.
    #[error(
        "{path} has schema version {found}, this release knows {known}: it was written by a later release"
    )]
    Newer {
        /// Where.
        path: PathBuf,
        /// Version in the file.
        found: u64,
        /// The newest version that is known here.
        known: u64,
    },
    /// Anything else that is no damage.
    #[error("{path} cannot be opened: {reason}")]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Why a change is not on disk, for a human. After an error of the disk itself it may be there all the same, and
/// show after a restart.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// Too many changes wait already, or the vault is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many changes wait to be written")]
pub struct Busy;

/// The file and its writer. Dropping it lets the writer finish what waits, and end.
pub struct Vault {
    shared: Arc<Shared>,
}

impl Vault {
    /// Opens the file in `dir`, or begins one; creates `dir` when it is not there. Reads and checks all of it:
    /// `pin` is called with each pinned key and its count. From then on `post` is called on the writer's thread with
    /// the ticket of each change and what became of it, in the order of the changes.
    pub fn open(
        dir: &Path,
        mut pin: impl FnMut(&Key<'_>, u32),
        post: impl Fn(u64, Result<(), Failure>) + Send + 'static,
    ) -> Result<(Self, Saved), VaultError> {
        let (file, saved) = File::open(dir, &mut pin)?;
        let path = dir.join(FILE);
        let shared = Shared::start(file, Box::new(post)).map_err(|source| VaultError::Io { path, source })?;
        Ok((Self { shared }, saved))
    }

    /// Takes a change; exactly one outcome follows, unless it is refused. Never waits.
    pub fn change(&self, ticket: u64, change: Change) -> Result<(), Busy> {
        self.shared.send(ticket, change)
    }

    /// Takes no more changes, and waits at most `grace` until those taken are on disk; whether all are.
    pub fn stop(&self, grace: Duration) -> bool {
        self.shared.stop(grace)
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Change {
    /// Bytes that it holds on to while it waits.
    fn size(&self) -> usize {
        match self {
            Self::Quota(salt, _) => salt.len(),
            Self::Default(_) => 0,
            Self::Pins { bytes, .. } => *bytes,
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(salt, limit) => write!(f, "Quota({salt:?}, {limit:?})"),
            Self::Default(limit) => write!(f, "Default({limit:?})"),
            Self::Pins { how, .. } => write!(f, "Pins({how:?})"),
        }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

/// Whether the names of a key are short enough to be stored with millions of keys.
fn fits(key: &Key<'_>) -> bool {
    key.model.len() + key.salt.len() <= VAULT_SCOPE_BYTES
}
