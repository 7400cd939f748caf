//! Quotas in whole bytes, and the limit of salts that have none.

use crate::limits::FLEET_QUOTAS;
use std::collections::BTreeMap;

/// Who may store how much.
#[derive(Default)]
pub(super) struct Quotas {
    pub(super) by_salt: BTreeMap<Box<str>, u64>,
    pub(super) default: Option<u64>,
    /// Bytes of all salts.
    text: usize,
}

impl Quotas {
    /// Sets a quota; false when there are too many.
    pub(super) fn set(&mut self, salt: &str, bytes: u64) -> bool {
        if let Some(quota) = self.by_salt.get_mut(salt) {
            *quota = bytes;
            return true;
        }
        let room = self.by_salt.len() < FLEET_QUOTAS;
        if room {
            self.text += salt.len();
            self.by_salt.insert(salt.into(), bytes);
        }
        room
    }

    /// Removes a quota; whether there was one.
    pub(super) fn remove(&mut self, salt: &str) -> bool {
        let removed = self.by_salt.remove(salt).is_some();
        self.text -= if removed { salt.len() } else { 0 };
        removed
    }

    /// What a salt may store: its own quota, else the default, else anything.
    pub(super) fn limit(&self, salt: &str) -> Option<u64> {
        self.by_salt.get(salt).copied().or(self.default)
    }

    /// Heap bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.by_salt.len() * 2 * size_of::<(Box<str>, u64)>() + self.text
    }
}
