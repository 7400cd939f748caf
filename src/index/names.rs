//! What one publisher calls its blocks where its dialect does not say it: engine hash → place, with a copy count
//! for each lane (rank, backend, medium); and names removed.
//!
//! A name is either all in the dialect (it has one place, and the publisher's lanes hold that by this name alone)
//! or all here:
//! - one with copies on several lanes has one entry a lane;
//! - one that denotes several places (hashes that are not chained or ignore the salt) has one *primary*
//!   entry a lane, which carries the count and the latest place, and *secondary* ones with count 0: it holds
//!   all of them until the count is 0;
//! - two names may denote one place: the place is held while any of them has a count ([`Names::hold_oddly`]).
//!
//! A name whose counts are all 0 stays as a bounded tombstone, so that a child or a placeholder that comes
//! right after the removal still finds its place.

use super::name::{Copies, Known, Name, Odd, Stored, TOMBSTONE};
use super::run::Place;
use super::table::Table;
use std::collections::{HashMap, VecDeque};

/// Lanes of one publisher; lane numbers fit a byte, one value of which marks removed names.
pub const LANES: usize = 254;
/// Places that one name may denote.
pub const NAME_PLACES: usize = LANES;
/// Removed names that a publisher is remembered by.
pub const TOMBSTONES: usize = 1024;
/// A table of fewer entries stays in the cache by itself.
const WARMED_FROM: usize = 4 * TOMBSTONES;
/// The names of one publisher.
pub struct Names {
    table: Table<Name>,
    /// Removed names, oldest first.
    removed: VecDeque<u64>,
    /// (place, lane) → names kept here that hold it; the dialect's name then does not.
    odd: Table<Odd>,
    /// Name → its latest place, for names that denote several.
    latest: HashMap<u64, Place>,
    /// (name, lane) → copies beyond the 255 that an entry counts, or the one of a dialect's name.
    copies: Table<Copies>,
}

impl Names {
    /// No names; allocates nothing.
    pub fn new(salt: u64) -> Self {
        Self {
            table: Table::new(salt),
            removed: VecDeque::new(),
            odd: Table::new(salt),
            latest: HashMap::new(),
            copies: Table::new(salt),
        }
    }

    /// Heap bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.odd.bytes()
            + self.copies.bytes()
            + self.removed.capacity() * size_of::<u64>()
            + self.latest.capacity() * (size_of::<(u64, Place)>() + 1)
    }

    /// The place that a name denotes (the latest, where it denotes several).
    pub fn place(&self, hash: u64) -> Option<Place> {
        let found = self.table.find(hash, |_| true)?.place();
        if self.latest.is_empty() {
            Some(found)
        } else {
            Some(self.latest.get(&hash).copied().unwrap_or(found))
        }
    }

    /// Looks names up that are about to be used: together their cache misses overlap, one by one they add up.
    pub fn warm(&self, hashes: &[u64]) {
        if self.table.len() < WARMED_FROM {
            return;
        }
        let known = hashes.iter().filter(|hash| self.table.find(**hash, |_| true).is_some()).count();
        std::hint::black_box(known);
    }

    /// Whether nothing is here: whatever is known is plain.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.odd.is_empty() && self.copies.is_empty()
    }

    /// Whether the dialect's name, held on the lane, is all there is to the block.
    pub fn is_plain(&self, hash: u64, place: Place, lane: u8) -> bool {
        self.is_empty()
            || self.known(hash) != Known::Kept && !self.is_odd(place, lane) && self.copies(hash, lane) == 0
    }

    /// Whether the name denotes several places.
    pub fn is_ambiguous(&self, hash: u64) -> bool {
        !self.latest.is_empty() && self.latest.contains_key(&hash)
    }

    /// Every place that a name denotes, into `to`, without repeats.
    pub fn places(&self, hash: u64, to: &mut Vec<Place>) {
        to.clear();
        for name in self.table.all(hash) {
            if !to.contains(&name.place()) {
                to.push(name.place());
            }
        }
    }

    /// What is known here of a name.
    pub fn known(&self, hash: u64) -> Known {
        // a removed name has nothing but tombstones
        match self.table.find(hash, |_| true) {
            None => Known::Not,
            Some(name) if name.lane == TOMBSTONE => Known::Removed,
            Some(_) => Known::Kept,
        }
    }

    /// Whether names kept here hold the place on the lane.
    pub fn is_odd(&self, place: Place, lane: u8) -> bool {
        !self.odd.is_empty() && self.odd.find(Odd::key_of(place, lane), |_| true).is_some()
    }

    /// One name more that holds the place on the lane; returns whether it is the first.
    pub fn hold_oddly(&mut self, place: Place, lane: u8) -> bool {
        let key = Odd::key_of(place, lane);
        if let Some(odd) = self.odd.find_mut(key, |_| true) {
            odd.names += 1;
            return false;
        }
        self.odd.insert(Odd { key, names: 1 });
        true
    }

    /// Takes a name over from the dialect, on one lane.
    pub fn take_over(&mut self, hash: u64, place: Place, lane: u8) {
        let copies = 1 + self.take_copies(hash, lane);
        let count = copies.min(u32::from(u8::MAX));
        self.table.insert(Name { hash, run: place.run, at: place.at, lane, count: count as u8 });
        self.set_copies(hash, lane, copies - count);
        self.hold_oddly(place, lane);
    }

    /// Names with copies that denote one place each, which no other name kept here holds; with those places.
    pub fn sole(&self) -> Vec<(u64, Place)> {
        let mut sole: Vec<(u64, Place)> = (0..self.segments()).flat_map(|at| self.held(at)).collect();
        sole.retain(|(hash, place)| {
            let alone =
                |lane| self.odd.find(Odd::key_of(*place, lane), |_| true).is_some_and(|odd| odd.names == 1);
            self.table.all(*hash).all(|name| name.place() == *place && name.lane().is_some_and(alone))
        });
        // one with copies on several lanes was met once a lane
        sole.sort_unstable_by_key(|(hash, _)| *hash);
        sole.dedup_by_key(|(hash, _)| *hash);
        sole
    }

    /// Gives a name of [`Names::sole`] over to the dialect.
    pub fn give_over(&mut self, hash: u64, place: Place) {
        while let Some(name) = self.table.remove(hash, |_| true) {
            self.odd.remove(Odd::key_of(place, name.lane), |_| true);
            let copies = u32::from(name.count) + self.copies(hash, name.lane);
            self.set_copies(hash, name.lane, copies - 1);
        }
        if self.table.is_empty() {
            self.table.clear();
            self.odd.clear();
        }
    }

    /// Forgets that a name was removed. `unpin` is called for its places.
    pub fn wake(&mut self, hash: u64, mut unpin: impl FnMut(Place)) {
        while let Some(name) = self.table.remove(hash, |name| name.lane == TOMBSTONE) {
            unpin(name.place());
            if !self.latest.is_empty() {
                self.latest.remove(&hash);
            }
        }
    }

    /// Copies of a name beyond those counted elsewhere.
    pub fn copies(&self, hash: u64, lane: u8) -> u32 {
        if self.copies.is_empty() {
            return 0;
        }
        self.copies.find(hash, |copies| copies.lane == lane).map_or(0, |copies| copies.more)
    }

    /// Sets that number.
    pub fn set_copies(&mut self, hash: u64, lane: u8, more: u32) {
        if more == 0 {
            self.take_copies(hash, lane);
        } else if let Some(copies) = self.copies.find_mut(hash, |copies| copies.lane == lane) {
            copies.more = more;
        } else {
            self.copies.insert(Copies { hash, more, lane });
        }
    }

    fn take_copies(&mut self, hash: u64, lane: u8) -> u32 {
        if self.copies.is_empty() {
            return 0;
        }
        self.copies.remove(hash, |copies| copies.lane == lane).map_or(0, |copies| copies.more)
    }

    /// One copy more of a block, or with `counts` off a further place of the copy just stored. `unpin` is called
    /// for the place of a tombstone that this wakes.
    pub fn store(
        &mut self,
        hash: u64,
        place: Place,
        lane: u8,
        counts: bool,
        mut unpin: impl FnMut(Place),
    ) -> Stored {
        let (mut same, mut primary, mut dead, mut elsewhere, mut entries) = (false, false, false, None, 0);
        for name in self.table.all(hash) {
            entries += 1;
            let here = name.place() == place;
            if name.lane == TOMBSTONE {
                dead = true;
            } else if name.lane == lane {
                same |= here;
                primary |= name.count > 0;
            }
            if !here {
                elsewhere = Some(name.place());
            }
        }
        if same {
            if counts {
                self.count_one_more(hash, lane);
            }
            if counts && !self.latest.is_empty() && self.latest.contains_key(&hash) {
                self.latest.insert(hash, place);
            }
            return Stored::Again;
        }
        if entries >= NAME_PLACES {
            return Stored::Full;
        }
        while dead && let Some(name) = self.table.remove(hash, |name| name.lane == TOMBSTONE) {
            // a removed name has nothing but tombstones, so it starts anew here
            unpin(name.place());
            elsewhere = None;
        }
        if primary && counts {
            self.count_one_more(hash, lane);
        }
        let count = u8::from(!primary);
        self.table.insert(Name { hash, run: place.run, at: place.at, lane, count });
        if elsewhere.is_some() {
            self.latest.insert(hash, place);
        } else if !self.latest.is_empty() {
            self.latest.remove(&hash);
        }
        Stored::Fresh
    }

    /// Says which of its several places a name denotes first.
    pub fn prefer(&mut self, hash: u64, place: Place) {
        self.latest.insert(hash, place);
    }

    fn count_one_more(&mut self, hash: u64, lane: u8) {
        let Some(name) = self.table.find_mut(hash, |name| name.lane == lane && name.count > 0) else {
            return;
        };
        if name.count < u8::MAX {
            name.count += 1;
        } else {
            self.set_copies(hash, lane, self.copies(hash, lane) + 1);
        }
    }

    /// One copy less, or with `remaining` exactly so many left. Calls `release` for every place that the lane
    /// no longer holds, then `pin`/`unpin` as tombstones come and go. Returns whether the lane had the name.
    pub fn remove(&mut self, hash: u64, lane: u8, remaining: Option<u32>, events: &mut impl Places) -> bool {
        let (mut found, mut entries) = (None, 0);
        for name in self.table.all_mut(hash) {
            entries += 1;
            if name.lane == lane && name.count > 0 {
                found = Some(name);
            }
        }
        let Some(name) = found else { return false };
        let counted = u32::from(name.count);
        let more = if name.count < u8::MAX || self.copies.is_empty() {
            0
        } else {
            self.copies.remove(hash, |copies| copies.lane == lane).map_or(0, |copies| copies.more)
        };
        let left = remaining.unwrap_or(counted + more - 1);
        if left > 0 {
            name.count = left.min(u32::from(u8::MAX)) as u8;
            self.set_copies(hash, lane, left.saturating_sub(u32::from(u8::MAX)));
            return true;
        }
        if entries == 1 {
            name.lane = TOMBSTONE;
            name.count = 0;
            let place = name.place();
            events.pin(place);
            self.let_go(place, lane, events);
            self.bury(hash, events);
        } else {
            self.remove_of_many(hash, lane, events);
        }
        true
    }

    fn remove_of_many(&mut self, hash: u64, lane: u8, events: &mut impl Places) {
        let mut gone = Vec::new();
        while let Some(name) = self.table.remove(hash, |name| name.lane == lane) {
            gone.push(name.place());
        }
        let last = self.table.find(hash, |_| true).is_none();
        for place in &gone {
            if last {
                events.pin(*place);
                self.table.insert(Name { hash, run: place.run, at: place.at, lane: TOMBSTONE, count: 0 });
            }
            self.let_go(*place, lane, events);
        }
        if last {
            self.bury(hash, events);
        } else if !self.latest.is_empty() {
            self.forget_latest(hash, &gone);
        }
    }

    /// After some places of a name went, `latest` must not point to one of them.
    fn forget_latest(&mut self, hash: u64, gone: &[Place]) {
        let Some(latest) = self.latest.get(&hash).copied() else { return };
        let mut places = Vec::new();
        self.places(hash, &mut places);
        if gone.contains(&latest) && !places.contains(&latest) || places.len() < 2 {
            self.latest.remove(&hash);
        }
    }

    /// Takes one entry out of a table that is being purged.
    pub fn purge(&mut self, name: Name, events: &mut impl Places) {
        match name.lane() {
            Some(lane) => self.let_go(name.place(), lane, events),
            None => events.unpin(name.place()),
        }
    }

    fn let_go(&mut self, place: Place, lane: u8, events: &mut impl Places) {
        let key = Odd::key_of(place, lane);
        if let Some(odd) = self.odd.find_mut(key, |_| true) {
            odd.names -= 1;
            if odd.names > 0 {
                return;
            }
            self.odd.remove(key, |_| true);
        }
        events.release(place, lane);
    }

    /// Remembers a removed name and forgets the oldest one beyond the bound.
    fn bury(&mut self, hash: u64, events: &mut impl Places) {
        self.removed.push_back(hash);
        if self.removed.len() > TOMBSTONES
            && let Some(oldest) = self.removed.pop_front()
        {
            self.dig_up(oldest, events);
        }
    }

    fn dig_up(&mut self, hash: u64, events: &mut impl Places) {
        while let Some(name) = self.table.remove(hash, |name| name.lane == TOMBSTONE) {
            events.unpin(name.place());
            if !self.latest.is_empty() {
                self.latest.remove(&hash);
            }
        }
    }

    /// Segments of the table, for step-wise visits.
    pub fn segments(&self) -> usize {
        self.table.segments()
    }

    /// Entries of one segment.
    pub fn segment_len(&self, segment: usize) -> usize {
        self.table.segment_len(segment)
    }

    /// Names on lanes that `on` accepts, of one segment.
    pub fn on_lanes(&self, segment: usize, on: impl Fn(u8, Place) -> bool, to: &mut Vec<(u64, u8)>) {
        to.extend(
            self.table
                .segment(segment)
                .filter(|name| name.count > 0 && name.lane().is_some_and(|lane| on(lane, name.place())))
                .map(|name| (name.hash, name.lane)),
        );
    }

    /// Names with copies, and their places, of one segment.
    pub fn held(&self, segment: usize) -> impl Iterator<Item = (u64, Place)> {
        self.table.segment(segment).filter(|name| name.count > 0).map(|name| (name.hash, name.place()))
    }

    /// Takes all entries of one segment out.
    pub fn drain_segment(&mut self, segment: usize, to: &mut Vec<Name>) {
        self.table.drain_segment(segment, to);
    }

    /// Forgets everything; whatever was held must have been purged before.
    pub fn clear(&mut self) {
        self.table.clear();
        self.removed = VecDeque::new();
        self.odd.clear();
        self.latest = HashMap::new();
        self.copies.clear();
    }
}

/// What removals do to places; the shard implements it over its runs.
pub trait Places {
    /// The lane no longer holds the place.
    fn release(&mut self, place: Place, lane: u8);
    /// A tombstone denotes the place.
    fn pin(&mut self, place: Place);
    /// It no longer does.
    fn unpin(&mut self, place: Place);
}
