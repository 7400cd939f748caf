//! Places blocks: finds or makes the place of each, lets the lane hold it, and names it.
//!
//! A block is found in one of two ways: it is the next one in its parent's run, or [`Context::find`] knows it
//! (a head of a run; any block, where somebody stores by hash alone). What is found nowhere is appended behind
//! its parent, or starts a run.
//!
//! [`Context::find`]: super::context::Context::find

use super::apply::{Reading, Work};
use super::chain::{ByHash, Chain, Holding, Naming, Placeholder};
use super::cover::Stretch;
use super::hash;
use super::name::Stored;
use super::names::Places;
use super::publisher::{Class, Publisher};
use super::run::Place;
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
        let names = chain.names.of(reading.batch);
        let until = names.len().min(chain.at + budget);
        let done = until - chain.at;
        let mut holding = self.hold(publisher, chain.lane, chain.context);
        let mut failed = None;
        for (at, name) in names[..until].iter().enumerate().skip(chain.at) {
            let local = chain.locals.local(reading.batch, at, self.seed);
            let seq = hash::next(chain.seq, local, self.seed);
            let place = self.find_or_make(
                chain.context,
                seq,
                chain.previous,
                chain.seq.is_none(),
                names.len() - at - 1,
            );
            if let Err(reason) = self.credit(
                publisher,
                &mut holding,
                *name,
                place,
                Naming { counts: true, fresh: chain.fresh },
            ) {
                failed = Some(reason);
                break;
            }
            chain.seq = Some(seq);
            chain.previous = Some(place);
            self.announce(publisher, *name, place, announced);
        }
        self.settle_holding(publisher, &holding);
        self.wake_all();
        if let Some(reason) = failed {
            publisher.stats.skipped[reason as usize].add(1);
        } else if until < names.len() {
            chain.at = until;
            chain.fresh = false;
            return (Some(Work::Chain(chain)), done);
        }
        for name in &chain.removed {
            let place = self.next_place(publisher, *name);
            self.remove_name(publisher, *name, place, chain.lane, None);
        }
        (None, done)
    }

    /// Notes who waits for a name: orphans of its publisher, and pool objects anywhere.
    fn announce(&mut self, publisher: &Publisher, name: u64, place: Place, announced: &mut Vec<u64>) {
        if publisher.orphans.await_parent(name) {
            announced.push(name);
        }
        if self.resolver.cares(name) && publisher.registration.class == Class::Engine {
            self.apply.woken.push((name, place));
        }
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
            work.previous = work.parent.and_then(|parent| self.contexts.get(context).find(parent));
        }
        let all = work.names.of(reading.batch);
        let until = all.len().min(work.at + budget);
        let done = until - work.at;
        let mut holding = self.hold(publisher, work.lane, context);
        for (at, name) in all[..until].iter().enumerate().skip(work.at) {
            let place = self.find_or_make(context, *name, work.previous, false, all.len() - at - 1);
            if let Err(reason) = self.credit(publisher, &mut holding, *name ^ work.salt, place, Naming::COPY)
            {
                publisher.stats.skipped[reason as usize].add(1);
                self.settle_holding(publisher, &holding);
                self.wake_all();
                return (None, done);
            }
            work.previous = Some(place);
            self.announce(publisher, *name, place, announced);
        }
        self.settle_holding(publisher, &holding);
        let more = until < all.len();
        work.at = until;
        self.wake_all();
        (more.then_some(Work::ByHash(work)), done)
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

    /// The place of block `seq` behind `previous`, which `more` blocks are likely to follow.
    pub(super) fn find_or_make(
        &mut self,
        context: u32,
        seq: u64,
        previous: Option<Place>,
        root: bool,
        more: usize,
    ) -> Place {
        let mut append = None;
        if let Some(previous) = previous {
            let run = self.runs.get(previous.run);
            match run.hashes.get(usize::from(previous.at) + 1) {
                Some(next) if *next == seq => return Place { at: previous.at + 1, ..previous },
                Some(_) => {}
                None => append = Some(previous),
            }
        }
        let known = self.contexts.get_mut(context);
        if let Some(place) = known.find(seq) {
            if let Some(previous) = previous
                && place.at == 0
            {
                self.runs.link(place.run, previous);
            }
            return place;
        }
        if append.is_none()
            && let Some(previous) = previous
        {
            // what a former life of this prefix left behind its last needed block may go
            if let Some(cut) = self.runs.cut_behind(previous) {
                known.cut(&cut);
                self.dialects.cut(&cut);
                append = Some(previous);
            }
        }
        // a parent in another context (a lie of a by-hash publisher) is no place to append to
        if let Some(previous) = append
            && self.runs.get(previous.run).context == context
            && let Some(place) = self.runs.append(previous.run, seq, more)
        {
            known.appended(seq, place);
            return place;
        }
        let place = self.runs.create(context, seq, previous, root, more);
        known.head(seq, place);
        place
    }

    /// Names the block and lets the lane hold it; whole stretches are credited at once.
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
        holding.held_until = cover.map_or(0, |at| run.covers[at].end());
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
