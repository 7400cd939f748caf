//! Places blocks: finds or makes the place of each, lets the lane hold it, and names it.
//!
//! A block is found in one of two ways: it is the next one in its parent's run, or [`Context::find`] knows it
//! (a head of a run; any block, where somebody stores by hash alone). What is found nowhere is appended behind
//! its parent, or starts a run. All hashes of a step are computed first, and blocks are then found, named and held
//! a stretch of one run at a time.
//!
//! [`Context::find`]: super::context::Context::find

use super::apply::{Reading, Work};
use super::chain::{ByHash, Chain, Holding, Naming, Placeholder, Row};
use super::cover::Stretch;
use super::name::Stored;
use super::names::Places;
use super::publisher::{Class, Publisher};
use super::run::{Place, RUN_BLOCKS};
use super::shard::Shard;
use crate::event::Skip;

impl Shard {
    pub(super) fn work_chain(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        mut chain: Chain,
        announced: &mut Vec<u64>,
        budget: usize,
    ) -> (Option<Work>, usize) {
        let until = chain.names.of(reading.batch).len().min(chain.at + budget);
        let done = until - chain.at;
        chain.hash(reading.batch, until, self.seed);
        let all = chain.names.of(reading.batch);
        let row = Row {
            context: chain.context,
            lane: chain.lane,
            names: &all[chain.at..until],
            seqs: &chain.seqs[..done],
            called: &all[chain.at..until],
            more: all.len() - until,
            root: chain.root && chain.at == 0,
            fresh: chain.fresh,
        };
        let placed = self.place_row(publisher, &row, &mut chain.previous, announced);
        if let Err(reason) = placed {
            publisher.stats.skipped[reason as usize].add(1);
        } else if until < all.len() {
            chain.at = until;
            chain.seqs.drain(..done);
            chain.fresh = usize::MAX;
            return (Some(Work::Chain(chain)), done);
        }
        self.apply.seqs = std::mem::take(&mut chain.seqs);
        for name in &chain.removed {
            let place = self.next_place(publisher, *name);
            self.remove_name(publisher, *name, place, chain.lane, None);
        }
        (None, done)
    }

    pub(super) fn work_by_hash(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        mut work: ByHash,
        announced: &mut Vec<u64>,
        budget: usize,
    ) -> (Option<Work>, usize) {
        let context = match self.contexts.again(&work.key) {
            Ok(context) => context,
            Err(reason) => {
                publisher.stats.skipped[reason as usize].add(1);
                return (None, 1);
            }
        };
        let runs = &self.runs;
        if !self.contexts.get_mut(context).build_places(budget, |run| runs.try_get(run)) {
            return (Some(Work::ByHash(work)), budget);
        }
        if work.at == 0 {
            work.previous =
                work.parent.and_then(|parent| self.contexts.get(context).find(parent, &self.runs));
        }
        let all = work.names.of(reading.batch);
        let until = all.len().min(work.at + budget);
        let done = until - work.at;
        let seqs = &all[work.at..until];
        let salted: Vec<u64> = match work.salt {
            0 => Vec::new(),
            salt => seqs.iter().map(|name| name ^ salt).collect(),
        };
        let row = Row {
            context,
            lane: work.lane,
            names: if work.salt == 0 { seqs } else { &salted },
            seqs,
            called: seqs,
            more: all.len() - until,
            root: false,
            fresh: usize::MAX,
        };
        let placed = self.place_row(publisher, &row, &mut work.previous, announced);
        let more = until < all.len();
        work.at = until;
        if let Err(reason) = placed {
            publisher.stats.skipped[reason as usize].add(1);
            return (None, done);
        }
        (more.then_some(Work::ByHash(work)), done)
    }

    /// Places a row of blocks, stretch by stretch.
    fn place_row(
        &mut self,
        publisher: &mut Publisher,
        row: &Row<'_>,
        previous: &mut Option<Place>,
        announced: &mut Vec<u64>,
    ) -> Result<(), Skip> {
        let mut holding = self.hold(publisher, row.lane, row.context);
        let (mut at, mut outcome) = (0, Ok(()));
        while at < row.seqs.len() && outcome.is_ok() {
            let (first, blocks) =
                self.find_or_make(row.context, &row.seqs[at..], *previous, row.root && at == 0, row.more);
            let fresh = row.fresh.saturating_sub(at);
            let credited =
                self.credit_all(publisher, &mut holding, &row.names[at..at + blocks], first, fresh);
            let (credited, failed) = credited;
            outcome = failed.map_or(Ok(()), Err);
            self.announce(publisher, &row.called[at..at + credited], first, announced);
            *previous = Some(Place { at: first.at + blocks as u16 - 1, ..first });
            at += blocks;
        }
        self.settle_holding(publisher, &holding);
        if let (Some(name), Some(place)) = (row.names.last(), *previous) {
            publisher.stored = (*name, place);
        }
        self.wake_all();
        outcome
    }

    /// Notes who waits for these names: orphans of their publisher, and pool objects anywhere.
    fn announce(&mut self, publisher: &Publisher, names: &[u64], first: Place, announced: &mut Vec<u64>) {
        if !publisher.orphans.is_empty() {
            announced.extend(names.iter().filter(|name| publisher.orphans.await_parent(**name)));
        }
        if self.resolver.is_awaited() && publisher.registration.class == Class::Engine {
            for (name, at) in names.iter().zip(first.at..) {
                if self.resolver.cares(*name) {
                    self.apply.woken.push((*name, Place { at, ..first }));
                }
            }
        }
    }

    pub(super) fn work_placeholder(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        mut work: Placeholder,
        budget: usize,
    ) -> (Option<Work>, usize) {
        let all = work.names.of(&reading.batch.hashes);
        let until = all.len().min(work.at + budget);
        let done = until - work.at;
        let mut places = std::mem::take(&mut self.apply.places);
        for name in &all[work.at..until] {
            self.places_of(publisher, *name, &mut places);
            work.unknown |= places.is_empty();
            self.credit_everywhere(publisher, *name, work.lane, &places);
        }
        self.apply.places = places;
        if until < all.len() {
            work.at = until;
            return (Some(Work::Placeholder(work)), done);
        }
        if work.unknown {
            publisher.stats.skipped[Skip::UnknownPlaceholder as usize].add(1);
        }
        (None, done)
    }

    /// One copy of a name that stands at all these places.
    fn credit_everywhere(&mut self, publisher: &mut Publisher, name: u64, lane: u8, places: &[Place]) {
        let preferred = self.place_of(publisher, name);
        for place in places {
            // the first credit wakes all tombstones of the name; none of its places may go meanwhile
            self.runs.pin(*place);
        }
        for (nth, place) in places.iter().enumerate() {
            let context = self.runs.get(place.run).context;
            let mut holding = self.hold(publisher, lane, context);
            let credited =
                self.credit(publisher, &mut holding, name, *place, Naming { counts: nth == 0, fresh: false });
            self.settle_holding(publisher, &holding);
            if let Err(reason) = credited {
                publisher.stats.skipped[reason as usize].add(1);
            }
        }
        if places.len() > 1
            && let Some(preferred) = preferred
        {
            publisher.names.prefer(name, preferred);
        }
        let (_, mut ledger) = self.ledger(publisher);
        for place in places {
            ledger.unpin(*place);
        }
    }

    pub(super) fn hold(&mut self, publisher: &mut Publisher, lane: u8, context: u32) -> Holding {
        let owner = publisher.lanes[usize::from(lane)].owner(context).unwrap_or_else(|| {
            let owner = self.contexts.add_owner(context, publisher.owner(lane));
            publisher.lanes[usize::from(lane)].enter(context, owner);
            owner
        });
        Holding {
            lane,
            context,
            instance: publisher.instance,
            owner,
            run: u32::MAX,
            span: Stretch { start: 0, end: 0 },
            held_until: 0,
            gained: 0,
        }
    }

    /// The place of the first of these blocks behind `previous`, and how many of them stand in a row from there; `more`
    /// are likely to follow the last one.
    pub(super) fn find_or_make(
        &mut self,
        context: u32,
        seqs: &[u64],
        previous: Option<Place>,
        root: bool,
        more: usize,
    ) -> (Place, usize) {
        let mut append = None;
        if let Some(previous) = previous {
            let next = Place { at: previous.at.saturating_add(1), ..previous };
            let run = self.runs.get(previous.run);
            let known = run.equal(seqs, usize::from(previous.at) + 1);
            if known > 0 {
                return (next, known);
            }
            if run.hashes.len() == usize::from(previous.at) + 1 {
                append = Some(previous);
            }
        }
        let known = self.contexts.get_mut(context);
        if let Some(place) = known.find(seqs[0], &self.runs) {
            if let Some(previous) = previous
                && place.at == 0
            {
                self.runs.link(place.run, previous);
            }
            return (place, self.runs.get(place.run).equal(seqs, usize::from(place.at)));
        }
        // where every run names its parent, no block stands behind one that stands nowhere
        let unknown = if known.finds_heads_only() {
            seqs.len().min(RUN_BLOCKS)
        } else {
            let rest = seqs[1..].iter().take(RUN_BLOCKS - 1);
            1 + rest.take_while(|seq| known.find(**seq, &self.runs).is_none()).count()
        };
        if append.is_none()
            && let Some(previous) = previous
        {
            // what a former life of this prefix left behind its last needed block may go
            if let Some(doomed) = self.runs.doomed_behind(previous) {
                let cut = self.runs.before_cut(doomed);
                known.cut(&cut);
                self.dialects.cut(&cut);
                self.runs.cut(doomed);
                append = Some(previous);
            }
        }
        let more = more + seqs.len() - unknown;
        // a parent in another context (a lie of a by-hash publisher) is no place to append to
        if let Some(previous) = append
            && self.runs.get(previous.run).context == context
        {
            let blocks = self.runs.append(previous.run, &seqs[..unknown], more);
            if blocks > 0 {
                let first = Place { at: previous.at + 1, ..previous };
                known.appended(&seqs[..blocks], first);
                return (first, blocks);
            }
        }
        let first = self.runs.create(context, &seqs[..unknown], previous, root, more);
        known.head(&seqs[..unknown], first);
        (first, unknown)
    }

    /// Names a stretch of blocks and lets the lane hold them; returns how many it could, and why not the next.
    fn credit_all(
        &mut self,
        publisher: &mut Publisher,
        holding: &mut Holding,
        names: &[u64],
        first: Place,
        fresh: usize,
    ) -> (usize, Option<Skip>) {
        let mut at = 0;
        while at < names.len() {
            let place = Place { at: first.at + at as u16, ..first };
            let plain = match publisher.lanes[usize::from(holding.lane)].base {
                None => {
                    let fresh = fresh.saturating_sub(at);
                    self.name_plainly(publisher, &names[at..], place, holding.lane, fresh)
                }
                Some(_) => 0,
            };
            if plain > 0 {
                self.credit_plainly(publisher, holding, &names[at..at + plain], place);
            } else {
                let naming = Naming { counts: true, fresh: at >= fresh };
                if let Err(reason) = self.credit(publisher, holding, names[at], place, naming) {
                    return (at, Some(reason));
                }
            }
            at += plain.max(1);
        }
        (at, None)
    }

    /// Lets the lane hold blocks by its dialect's names.
    fn credit_plainly(
        &mut self,
        publisher: &mut Publisher,
        holding: &mut Holding,
        names: &[u64],
        first: Place,
    ) {
        if first.run != holding.run || first.at != holding.span.end {
            self.begin_stretch(holding, first);
        }
        let end = first.at + names.len() as u16;
        holding.span.end = end;
        if first.at >= holding.held_until {
            holding.gained += names.len() as u64;
            return;
        }
        let run = self.runs.get(first.run);
        let Ok(cover) = run.cover_of(holding.instance, holding.owner) else { return };
        let cover = run.covers.at(cover);
        for (name, at) in names.iter().zip(first.at..end) {
            if cover.holds(at) {
                let copies = publisher.names.copies(*name, holding.lane);
                publisher.names.set_copies(*name, holding.lane, copies + 1);
            } else {
                holding.gained += 1;
            }
        }
    }

    /// Names a block and lets the lane hold it; whole stretches are credited at once.
    pub(super) fn credit(
        &mut self,
        publisher: &mut Publisher,
        holding: &mut Holding,
        name: u64,
        place: Place,
        naming: Naming,
    ) -> Result<(), Skip> {
        if place.run != holding.run || place.at != holding.span.end {
            self.begin_stretch(holding, place);
        }
        if let Some(base) = publisher.lanes[usize::from(holding.lane)].base {
            return self.credit_part(publisher, holding, base, name, place);
        }
        if self.names_plainly(publisher, name, place, holding.lane, naming.fresh) {
            let held = place.at < holding.held_until
                && self.runs.get(place.run).held(holding.instance, holding.owner, place.at);
            if held {
                let copies = publisher.names.copies(name, holding.lane);
                publisher.names.set_copies(name, holding.lane, copies + 1);
            } else {
                holding.gained += 1;
            }
        } else {
            self.begin_stretch(holding, place);
            self.credit_oddly(publisher, holding, name, place, naming.counts)?;
        }
        holding.span.end = place.at + 1;
        Ok(())
    }

    /// The same for a name that is the publisher's own.
    fn credit_oddly(
        &mut self,
        publisher: &mut Publisher,
        holding: &mut Holding,
        name: u64,
        place: Place,
        counts: bool,
    ) -> Result<(), Skip> {
        self.keep_apart(publisher, name, place);
        let unpins = &mut self.apply.unpins;
        match publisher.names.store(name, place, holding.lane, counts, |place| unpins.push(place)) {
            Stored::Again => {}
            Stored::Fresh => holding.gained += u64::from(publisher.names.hold_oddly(place, holding.lane)),
            Stored::Full => {
                self.runs.pin(place);
                self.apply.unpins.push(place);
                return Err(Skip::Bound);
            }
        }
        Ok(())
    }

    /// What is credited from now on starts at `place`.
    fn begin_stretch(&mut self, holding: &mut Holding, place: Place) {
        self.hold_stretch(holding);
        let run = self.runs.get(place.run);
        let cover = run.cover_of(holding.instance, holding.owner);
        holding.held_until = cover.map_or(0, |at| run.covers.at(at).end());
        holding.run = place.run;
        holding.span = Stretch { start: place.at, end: place.at };
    }

    /// Ends a holding: what was credited is held, and tombstones that woke up let go of their places.
    pub(super) fn settle_holding(&mut self, publisher: &mut Publisher, holding: &Holding) {
        self.settle_whole(publisher, holding);
        let mut unpins = std::mem::take(&mut self.apply.unpins);
        let (_, mut ledger) = self.ledger(publisher);
        ledger.unpin_all(&mut unpins);
        self.apply.unpins = unpins;
        self.contexts.drop_if_idle(holding.context);
    }

    /// The same without the tombstones.
    pub(super) fn settle_whole(&mut self, publisher: &mut Publisher, holding: &Holding) {
        self.hold_stretch(holding);
        let lane = &mut publisher.lanes[usize::from(holding.lane)];
        lane.gain(holding.context, holding.gained);
        self.contexts.get_mut(holding.context).held += holding.gained;
        publisher.stats.blocks_held.add(holding.gained);
        if let Some(owner) = lane.leave_if_empty(holding.context) {
            self.contexts.remove_owner(holding.context, owner);
        }
    }
}
