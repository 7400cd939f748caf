//! A vault whose outcomes a test waits for.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kvatlas::fleet::key::{ChunkHash, Key};
use kvatlas::fleet::vault::{Change, Failure, Keys, Pinning, Saved, Vault, VaultError};

/// When something is given up for lost; no test waits so long unless it fails.
pub const LOST: Duration = Duration::from_mins(2);

/// Pins by what names their key.
pub type Pins = BTreeMap<String, u32>;

/// A vault, and what it says.
pub struct Bench {
    pub vault: Vault,
    outcomes: Receiver<(u64, Result<(), Failure>)>,
    pub saved: Saved,
    pub pins: Pins,
}

impl Bench {
    pub fn open(dir: &Path) -> Result<Self, VaultError> {
        let (sender, outcomes) = channel();
        let mut pins = Pins::new();
        let post = move |ticket, outcome| {
            // a test that is over wants no more
            let _ = sender.send((ticket, outcome));
        };
        let (vault, saved) = Vault::open(
            dir,
            |key, count| {
                assert!(pins.insert(name(key), count).is_none(), "each key comes once");
            },
            post,
        )?;
        assert_eq!(saved.pins, pins.len() as u64);
        Ok(Self { vault, outcomes, saved, pins })
    }

    /// The next outcome.
    pub fn next(&self) -> (u64, Result<(), Failure>) {
        self.outcomes.recv_timeout(LOST).unwrap()
    }

    /// Makes one change.
    pub fn make(&self, change: Change) -> Result<(), Failure> {
        self.vault.change(0, change).unwrap();
        self.next().1
    }

    /// Closes the vault in good order.
    pub fn close(self) {
        assert!(self.vault.stop(LOST));
    }
}

/// What tells a key from another.
pub fn name(key: &Key<'_>) -> String {
    format!("{}|{}|{}|{}|{}", key.salt, key.model, key.group, key.kv_rank, key.hash)
}

/// One of many keys of a tenant.
pub fn key(number: u64, salt: &str) -> Key<'static> {
    // spread as hashes are
    let mut hash = [0; 32];
    let mut word = number;
    for part in hash.chunks_exact_mut(8) {
        word = (word ^ (word >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        part.copy_from_slice(&word.to_le_bytes());
    }
    Key {
        hash: ChunkHash::Full(hash),
        model: "meta-llama/Llama-3.1-8B-Instruct".into(),
        kv_rank: 16_777_472,
        group: 0,
        salt: salt.to_owned().into(),
    }
}

/// A change of the pins of many keys.
pub fn pins(how: Pinning, keys: Vec<Key<'static>>) -> Change {
    let keys: Keys = Box::new(move |each| keys.iter().for_each(each));
    Change::Pins { how, keys, bytes: 0 }
}

/// The files of a directory that were set aside.
pub fn set_aside(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut aside: Vec<String> = names.filter(|name| name.starts_with("fleet.redb.damaged-")).collect();
    aside.sort();
    aside
}
