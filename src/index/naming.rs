//! What a publisher's names mean: those of its dialect where it holds the block, and its own.

use super::chain::Holding;
use super::column::Labels;
use super::cover::Stretch;
use super::covers::Holder;
use super::dialect::UNLABELLED;
use super::dictionary::NAMED_RUNS;
use super::ledger::Ledger;
use super::name::Known;
use super::names::Places;
use super::publisher::Publisher;
use super::run::Place;
use super::shard::Shard;

impl Shard {
    /// The place that a publisher's name denotes (the latest, where it denotes several).
    pub(super) fn place_of(&self, publisher: &Publisher, name: u64) -> Option<Place> {
        publisher.names.place(name).or_else(|| {
            let place = self.dialect_place(publisher, name)?;
            self.knows_plainly(publisher, place).then_some(place)
        })
    }

    /// Every place that a publisher's name denotes, into `to`, without repeats.
    pub(super) fn places_of(&self, publisher: &Publisher, name: u64, to: &mut Vec<Place>) {
        publisher.names.places(name, to);
        if to.is_empty() {
            to.extend(self.place_of(publisher, name));
        }
    }

    /// The same for the name that the publisher stored last, which denotes nothing else.
    pub(super) fn last_stored(&self, publisher: &Publisher, name: u64) -> Option<Place> {
        let (last, place) = publisher.stored;
        let dialect = publisher.speech.dialect().filter(|_| last == name && name != UNLABELLED)?;
        let run = self.runs.try_get(place.run)?;
        let is = run.labels(dialect).get(usize::from(place.at)) == name
            && publisher.names.known(name) == Known::Not
            && self.knows_plainly(publisher, place);
        is.then_some(place)
    }

    /// What the publisher's dialect says of a name.
    pub(super) fn dialect_place(&self, publisher: &Publisher, name: u64) -> Option<Place> {
        self.dialects.find(&self.runs, publisher.speech.dialect()?, name)
    }

    /// The same for one of several names, which often stands beside the one before.
    pub(super) fn next_place(&self, publisher: &mut Publisher, name: u64) -> Option<Place> {
        let dialect = publisher.speech.dialect()?;
        let Place { run, at } = publisher.removed;
        let labels = self.runs.try_get(run).map_or(Labels::default(), |run| run.labels(dialect));
        let beside = [at.wrapping_sub(1), at.wrapping_add(1)];
        let found = beside.into_iter().find(|at| name != UNLABELLED && labels.get(usize::from(*at)) == name);
        let place = match found {
            Some(at) => Place { run, at },
            None => self.dialects.find(&self.runs, dialect, name)?,
        };
        publisher.removed = place;
        Some(place)
    }

    /// Whether any lane holds the place by the dialect's name, or did just now.
    pub(super) fn knows_plainly(&self, publisher: &Publisher, place: Place) -> bool {
        (0..publisher.lanes.len() as u8).any(|lane| self.holds_plainly_on(publisher, place, lane))
            || publisher.recent.holds(place)
    }

    fn holds_plainly_on(&self, publisher: &Publisher, place: Place, lane: u8) -> bool {
        let run = self.runs.get(place.run);
        let owner = publisher.lanes[usize::from(lane)].owner(run.context);
        owner.is_some_and(|owner| run.held(publisher.instance, owner, place.at))
            && !publisher.names.is_odd(place, lane)
    }

    /// Whether the lane can hold the place by its dialect's name, which this one becomes where there was none.
    /// `fresh` says that the dialect does not know the name.
    pub(super) fn names_plainly(
        &mut self,
        publisher: &mut Publisher,
        name: u64,
        place: Place,
        lane: u8,
        fresh: bool,
    ) -> bool {
        if publisher.speech.dialect().is_none() {
            publisher.speech = self.dialects.hear(publisher.speech, &self.runs, name, place);
            publisher.early = true;
        }
        let Some(dialect) = publisher.speech.dialect() else { return false };
        let known = publisher.names.known(name);
        if known == Known::Kept || publisher.names.is_odd(place, lane) {
            return false;
        }
        let plainly = match self.runs.label(place, dialect) {
            UNLABELLED if name == UNLABELLED || place.run >= NAMED_RUNS => false,
            label if label == name => true,
            UNLABELLED if fresh || !self.dialects.knows(&self.runs, dialect, name) => {
                self.dialects.name(&mut self.runs, dialect, &[name], place);
                true
            }
            _ => false,
        };
        if plainly && known == Known::Removed {
            // it lets go of its place only after the lane holds it
            publisher.names.wake(name, |place| self.apply.unpins.push(place));
        }
        plainly
    }

    /// How many of the blocks from `first` on the lane can hold by its dialect's names, which these become where there
    /// are none. The dialect knows none of the names from `fresh` on.
    pub(super) fn name_plainly(
        &mut self,
        publisher: &Publisher,
        names: &[u64],
        first: Place,
        lane: u8,
        fresh: usize,
    ) -> usize {
        let Some(dialect) = publisher.speech.dialect() else { return 0 };
        let place = |at: usize| Place { at: first.at + at as u16, ..first };
        let own = !publisher.names.is_empty();
        let plain = |at: usize| {
            let name = names[at];
            name != UNLABELLED
                && !(own
                    && (publisher.names.known(name) != Known::Not || publisher.names.is_odd(place(at), lane)))
        };
        let (mut at, runs) = (0, &mut self.runs);
        while at < names.len() {
            let run = runs.get(first.run);
            let labels = run.labels(dialect);
            let same = labels.equal(&names[at..], usize::from(first.at) + at);
            at += if own { (at..at + same).take_while(|at| plain(*at)).count() } else { same };
            let nameless = |at: usize| labels.get(usize::from(first.at) + at) == UNLABELLED;
            let from = at;
            let hashes_only = self.dialects.has_hashes_only(dialect, run.context);
            let hashes = if hashes_only { run.equal(&names[at..], usize::from(first.at) + at) } else { 0 };
            // of a name that is its block's hash there is no need to ask
            let fresh = if from + hashes >= fresh { from } else { fresh };
            let asked = from + hashes..fresh.min(names.len());
            self.dialects.warm(dialect, names.get(asked).unwrap_or_default());
            while at < names.len()
                && nameless(at)
                && plain(at)
                && (at >= fresh || at < from + hashes || !self.dialects.knows(runs, dialect, names[at]))
            {
                at += 1;
            }
            if at == from || first.run >= NAMED_RUNS {
                return from;
            }
            self.dialects.name(runs, dialect, &names[from..at], place(from));
        }
        at
    }

    /// Before the publisher keeps `name` at `place` among its own names: whatever of the dialect's names it holds
    /// there, or by this name, it holds by names of its own from now on. The holding is to be settled afterwards.
    pub(super) fn keep_apart(&mut self, publisher: &mut Publisher, name: u64, place: Place) {
        let Some(dialect) = publisher.speech.dialect() else { return };
        if let Some(elsewhere) = self.dialects.find(&self.runs, dialect, name) {
            self.take_over(publisher, name, elsewhere);
            publisher.recent.forget(&mut self.runs, elsewhere);
            // its run may be the one whose blocks are being placed, which nobody holds yet
            self.runs.pin(elsewhere);
            self.apply.unpins.push(elsewhere);
        }
        let label = self.runs.label(place, dialect);
        if label != UNLABELLED && label != name {
            self.take_over(publisher, label, place);
        }
    }

    fn take_over(&mut self, publisher: &mut Publisher, name: u64, place: Place) {
        if publisher.names.known(name) == Known::Kept {
            return;
        }
        for lane in 0..publisher.lanes.len() as u8 {
            if self.holds_plainly_on(publisher, place, lane) {
                publisher.names.take_over(name, place, lane);
            }
        }
    }

    /// One copy less of a name on a lane, or with `left` exactly so many left; `place` is what the dialect says.
    /// Returns whether the lane had the name.
    pub(super) fn remove_name(
        &mut self,
        publisher: &mut Publisher,
        name: u64,
        place: Option<Place>,
        lane: u8,
        left: Option<u32>,
    ) -> bool {
        if publisher.names.known(name) == Known::Kept {
            let (names, mut ledger) = self.ledger(publisher);
            return names.remove(name, lane, left, &mut ledger);
        }
        let Some(place) = place.filter(|place| self.holds_plainly_on(publisher, *place, lane)) else {
            return false;
        };
        let left = left.unwrap_or_else(|| publisher.names.copies(name, lane));
        publisher.names.set_copies(name, lane, left.saturating_sub(1));
        if left > 0 {
            return true;
        }
        self.release_plainly(publisher, place.run, Stretch { start: place.at, end: place.at + 1 }, lane);
        true
    }

    /// Takes a stretch from the lane, which holds all of it by its dialect's names alone.
    pub(super) fn release_plainly(&mut self, publisher: &mut Publisher, run: u32, span: Stretch, lane: u8) {
        let (_, mut ledger) = self.ledger(publisher);
        ledger.books.recent.remember(ledger.runs, run, span);
        ledger.release_all(run, span, lane);
        while let Some(run) = ledger.books.recent.expire(ledger.runs) {
            ledger.trim(run);
        }
        if let Some(dialect) = publisher.speech.dialect() {
            publisher.recent.approach(&self.runs, dialect);
        }
    }

    /// Takes one copy of the first of these names from the lane, and of the names behind it that stand beside one
    /// another; returns how many that were. 0 when the first is no plain name with one copy.
    pub(super) fn remove_plainly(
        &mut self,
        publisher: &mut Publisher,
        names: &[u64],
        salt: u64,
        lane: u8,
    ) -> usize {
        let (Some(first), Some(dialect)) = (names.first(), publisher.speech.dialect()) else { return 0 };
        if !publisher.names.is_empty() && publisher.names.known(first ^ salt) == Known::Kept {
            return 0;
        }
        let Some(place) = self.next_place(publisher, first ^ salt) else { return 0 };
        let run = self.runs.get(place.run);
        let owner = publisher.lanes[usize::from(lane)].owner(run.context);
        let cover = owner.and_then(|owner| run.cover_of(publisher.instance, owner).ok());
        let Some(cover) = cover.map(|at| run.covers.at(at)) else { return 0 };
        let held = Stretch { start: cover.since(place.at), end: cover.extent(place.at) };
        let labels = run.labels(dialect);
        let is = |name: &u64, at: u16| {
            let name = name ^ salt;
            name == labels.get(usize::from(at))
                && publisher.names.is_plain(name, Place { run: place.run, at }, lane)
        };
        if held.end <= place.at || !is(first, place.at) {
            return 0;
        }
        let below = (held.start..place.at).rev().zip(&names[1..]).take_while(|(at, name)| is(name, *at));
        let below = below.count() as u16;
        let span = if below > 0 {
            Stretch { start: place.at - below, end: place.at + 1 }
        } else {
            let known = held.end.min(labels.len() as u16);
            let above = (place.at + 1..known).zip(&names[1..]).take_while(|(at, name)| is(name, *at));
            Stretch { start: place.at, end: place.at + 1 + above.count() as u16 }
        };
        publisher.removed.at = if below > 0 { span.start } else { span.end - 1 };
        self.release_plainly(publisher, place.run, span, lane);
        usize::from(span.end - span.start)
    }

    /// Gives the names that a publisher kept before it spoke its dialect over to that, where they are plain names.
    pub(super) fn give_early(&mut self, publisher: &mut Publisher) {
        let Some(dialect) = publisher.speech.dialect() else { return };
        publisher.early = false;
        for (name, place) in publisher.names.sole() {
            if name == UNLABELLED || place.run >= NAMED_RUNS {
                continue;
            }
            match self.runs.label(place, dialect) {
                label if label == name => {}
                UNLABELLED if !self.dialects.knows(&self.runs, dialect, name) => {
                    self.dialects.name(&mut self.runs, dialect, &[name], place);
                }
                _ => continue,
            }
            publisher.names.give_over(name, place);
        }
    }

    /// Lets the owner hold the stretch credited so far.
    pub(super) fn hold_stretch(&mut self, holding: &Holding) {
        let span = holding.span;
        if span.start >= span.end {
            return;
        }
        let owner = self.contexts.get_mut(holding.context).owners[holding.owner as usize].as_mut();
        let Some(owner) = owner else { return };
        let listed = owner.runs.len();
        let Holding { instance, owner: number, .. } = *holding;
        let holder = Holder { instance, owner: number };
        if self.runs.hold(holding.run, holder, span, listed as u32) {
            if listed == owner.runs.capacity() {
                owner.runs.reserve_exact((listed / 4).max(1));
            }
            owner.runs.push(holding.run);
        }
    }
}

impl Ledger<'_> {
    /// Lets go of names that woke up.
    pub(super) fn unpin_all(&mut self, places: &mut Vec<Place>) {
        for place in places.drain(..) {
            self.unpin(place);
        }
    }
}
