//! Pins: counts by exact key, whether it is stored or not. A pinned key is an entry with a flag; a count above
//! one stands beside.

use super::Books;
use super::entry::{NIL, PAGE, State};
use crate::fleet::key::Key;
use crate::index::table::{Keyed, Table};

/// Pins of an entry beyond the first.
#[derive(Clone, Copy)]
struct More {
    slot: u32,
    pins: u32,
}

impl Keyed for More {
    fn key(&self) -> u64 {
        u64::from(self.slot)
    }
}

/// Counts, and where the pinned entries are.
pub(super) struct Pins {
    more: Table<More>,
    /// Pinned entries of each page.
    by_page: Vec<u16>,
    pub(super) keys: usize,
}

impl Pins {
    pub(super) fn new(salt: u64) -> Self {
        Self { more: Table::new(salt), by_page: Vec::new(), keys: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.more.bytes() + self.by_page.capacity() * size_of::<u16>()
    }

    fn beyond_first(&self, slot: u32) -> u32 {
        self.more.find(u64::from(slot), |_| true).map_or(0, |more| more.pins)
    }

    fn set_beyond_first(&mut self, slot: u32, pins: u32) {
        let found = self.more.find_mut(u64::from(slot), |_| true);
        match (found, pins) {
            (Some(_), 0) => {
                self.more.remove(u64::from(slot), |_| true);
            }
            (Some(more), pins) => more.pins = pins,
            (None, 0) => {}
            (None, pins) => self.more.insert(More { slot, pins }),
        }
    }

    fn page(&mut self, slot: u32) -> &mut u16 {
        let page = slot as usize / PAGE;
        if self.by_page.len() <= page {
            self.by_page.resize(page + 1, 0);
        }
        &mut self.by_page[page]
    }
}

/// Which pins to list, and how far that is.
#[derive(Debug)]
pub struct PinListing {
    salt: Option<Box<str>>,
    model: Option<Box<str>>,
    offset: usize,
    limit: usize,
    at: u32,
    total: usize,
    pins: Vec<(Key<'static>, u32)>,
}

impl PinListing {
    /// Pins of one salt and one model, or of any; the first `offset` are left out, then `limit` listed.
    pub fn new(salt: Option<&str>, model: Option<&str>, offset: usize, limit: usize) -> Self {
        let (salt, model) = (salt.map(Into::into), model.map(Into::into));
        Self { salt, model, offset, limit, at: 0, total: 0, pins: Vec::new() }
    }

    /// How many there are in all, and the listed ones with their counts.
    pub fn into_parts(self) -> (usize, Vec<(Key<'static>, u32)>) {
        (self.total, self.pins)
    }
}

impl Books {
    /// One pin more; the new count, or nothing when the books are full.
    pub fn pin(&mut self, key: &Key<'_>) -> Option<u32> {
        let count = self.pinned(key).saturating_add(1);
        self.set_pins(key, count).then_some(count)
    }

    /// One pin less; the new count, or nothing when there was none.
    pub fn unpin(&mut self, key: &Key<'_>) -> Option<u32> {
        let count = self.pinned(key).checked_sub(1)?;
        self.set_pins(key, count);
        Some(count)
    }

    /// Lifts all pins of a key; how many there were.
    pub fn drop_pins(&mut self, key: &Key<'_>) -> u32 {
        let count = self.pinned(key);
        self.set_pins(key, 0);
        count
    }

    /// Pins of a key.
    pub fn pinned(&self, key: &Key<'_>) -> u32 {
        self.ledger.find(key).map_or(0, |slot| self.pins_of(slot))
    }

    fn pins_of(&self, slot: u32) -> u32 {
        if self.ledger.entries[slot].state.has(State::PINNED) {
            self.pins.beyond_first(slot).saturating_add(1)
        } else {
            0
        }
    }

    /// Sets the pins of a key, as when they are read back after a restart; false when the books are full.
    pub fn set_pins(&mut self, key: &Key<'_>, count: u32) -> bool {
        let slot = if count > 0 { self.ledger.keep(key) } else { self.ledger.find(key) };
        let Some(slot) = slot else {
            self.counters.refused += u64::from(count > 0);
            return count == 0;
        };
        let state = &mut self.ledger.entries[slot].state;
        match (state.has(State::PINNED), count > 0) {
            (false, true) => {
                state.set(State::PINNED, true);
                self.pins.keys += 1;
                *self.pins.page(slot) += 1;
            }
            (true, false) => {
                state.set(State::PINNED, false);
                self.pins.keys -= 1;
                *self.pins.page(slot) -= 1;
            }
            _ => {}
        }
        self.pins.set_beyond_first(slot, count.saturating_sub(1));
        self.ledger.drop_if_idle(slot);
        true
    }

    /// Looks at up to `most` entries for a listing; true when it is complete. A key keeps its place in the
    /// listing as long as it is pinned; pins that come or go between two steps may or may not be listed.
    pub fn list_pins(&self, listing: &mut PinListing, most: usize) -> bool {
        let end = self.ledger.entries.end();
        let scopes = &self.ledger.scopes;
        let tenant = listing.salt.as_deref().map(|salt| scopes.tenant(salt).unwrap_or(NIL));
        let model = listing.model.as_deref().map(|model| scopes.model_number(model).unwrap_or(NIL));
        for _ in 0..most.max(1) {
            if listing.at >= end {
                return true;
            }
            let slot = listing.at;
            let page = slot as usize / PAGE;
            if self.pins.by_page.get(page).is_none_or(|pinned| *pinned == 0) {
                listing.at = ((page + 1) * PAGE) as u32;
                continue;
            }
            listing.at += 1;
            let Some(entry) = self.ledger.entries.look(slot) else { continue };
            if !entry.state.has(State::PINNED) {
                continue;
            }
            let scope = scopes.get(entry.scope);
            if tenant.is_some_and(|tenant| scope.tenant != tenant)
                || model.is_some_and(|model| scope.model != model)
            {
                continue;
            }
            if listing.total >= listing.offset && listing.pins.len() < listing.limit {
                listing.pins.push((self.ledger.key(slot).into_owned(), self.pins_of(slot)));
            }
            listing.total += 1;
        }
        listing.at >= end
    }
}
