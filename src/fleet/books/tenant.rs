//! A salt with keys: its list from oldest to newest, and its sums.

use super::entry::NIL;

/// Keys and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    pub(super) keys: u32,
    pub(super) bytes: u128,
}

impl Sum {
    pub(super) fn add(&mut self, bytes: u64) {
        self.keys += 1;
        self.bytes += u128::from(bytes);
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.keys -= 1;
        self.bytes -= u128::from(bytes);
    }
}

/// One salt.
pub(super) struct Tenant {
    pub(super) salt: Box<str>,
    /// Scopes that name it.
    pub(super) refs: u32,
    /// Its place among salts with stored keys; 0 while it has none.
    pub(super) born: u64,
    /// All that is stored.
    pub(super) stored: Sum,
    /// Of that, what is in flight.
    pub(super) flying: Sum,
    /// Of that, what backs off and is not in flight.
    stuck: Sum,
    /// Registrations that there had been when `stuck` was last counted; each starts it anew.
    stuck_since: u64,
    pub(super) oldest: u32,
    pub(super) newest: u32,
    /// The newest of the keys at the old end that only a listing has named.
    pub(super) listed: u32,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            salt: Box::default(),
            refs: 0,
            born: 0,
            stored: Sum::default(),
            flying: Sum::default(),
            stuck: Sum::default(),
            stuck_since: 0,
            oldest: NIL,
            newest: NIL,
            listed: NIL,
        }
    }
}

impl Tenant {
    /// A salt without keys.
    pub(super) fn of(salt: &str) -> Self {
        Self { salt: salt.into(), ..Self::default() }
    }

    /// What backs off, when there have been so many registrations.
    pub(super) fn stuck(&self, registrations: u64) -> Sum {
        if self.stuck_since == registrations { self.stuck } else { Sum::default() }
    }

    pub(super) fn stuck_mut(&mut self, registrations: u64) -> &mut Sum {
        self.stuck = self.stuck(registrations);
        self.stuck_since = registrations;
        &mut self.stuck
    }
}
