//! The salts, listed in steps.

use super::Books;
use std::ops::Bound;

/// A salt with usage above 0 or a quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salt {
    /// Its name.
    pub name: Box<str>,
    /// Bytes stored under it.
    pub usage: u128,
    /// Its own quota, bytes.
    pub quota: Option<u64>,
}

/// How far a listing is. While none of the usage changes it lists each salt once, and their usage is the total.
#[derive(Debug)]
pub struct SaltListing {
    at: At,
    salts: Vec<Salt>,
}

#[derive(Debug)]
enum At {
    /// Before the first used salt that was born so late.
    Used(u64),
    /// After this quota of salts that are not used.
    Unused(Option<Box<str>>),
}

impl SaltListing {
    /// Nothing listed yet.
    pub fn new() -> Self {
        Self { at: At::Used(0), salts: Vec::new() }
    }

    /// What was listed since this was last called, in no order.
    pub fn take(&mut self) -> Vec<Salt> {
        std::mem::take(&mut self.salts)
    }
}

impl Default for SaltListing {
    fn default() -> Self {
        Self::new()
    }
}

impl Books {
    /// Looks at up to `most` salts for a listing; true when it is complete.
    pub fn list_salts(&self, listing: &mut SaltListing, most: usize) -> bool {
        let SaltListing { at, salts } = listing;
        match at {
            At::Used(born) => {
                let mut looked = 0;
                for (place, tenant) in self.ledger.order.range(*born..).take(most.max(1)) {
                    let tenant = &self.ledger.scopes.tenants[*tenant];
                    if tenant.stored.bytes > 0 {
                        let (usage, quota) = (tenant.stored.bytes, self.quota(&tenant.salt));
                        salts.push(Salt { name: tenant.salt.clone(), usage, quota });
                    }
                    *born = place + 1;
                    looked += 1;
                }
                if looked < most.max(1) {
                    *at = At::Unused(None);
                }
                false
            }
            At::Unused(after) => {
                let from = after.take().map_or(Bound::Unbounded, Bound::Excluded);
                let mut looked = 0;
                for (name, quota) in self
                    .quotas
                    .by_salt
                    .range::<str, _>((from.as_ref().map(|name| &**name), Bound::Unbounded))
                    .take(most.max(1))
                {
                    if self.usage(name) == 0 {
                        salts.push(Salt { name: name.clone(), usage: 0, quota: Some(*quota) });
                    }
                    *after = Some(name.clone());
                    looked += 1;
                }
                looked < most.max(1)
            }
        }
    }

    /// Salts with usage above 0 or a quota, sorted by code point.
    pub fn salts(&self) -> Vec<Salt> {
        let mut listing = SaltListing::new();
        while !self.list_salts(&mut listing, usize::MAX) {}
        let mut salts = listing.take();
        salts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        salts
    }
}
