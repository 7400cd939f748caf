//! What the owners of one instance hold of one stretch, credited to the instance's hit.

use super::cover::{Cover, Stretch};
use super::covers::{Covers, Holder, Holders};
use super::walk::{Counting, Scratch};
use std::ops::Range;

impl Scratch {
    /// Credits one instance's covers with a stretch at depth `base`; returns how many blocks of it the instance
    /// holds in a row. Without a hit it gets one, when that is any.
    pub(super) fn credit(
        &mut self,
        covers: &Covers,
        group: Range<usize>,
        stretch: Stretch,
        hit: Option<u32>,
        base: u32,
        counting: Counting<'_>,
    ) -> u16 {
        let mut members = std::mem::take(&mut self.group);
        members.clear();
        let owners = covers.holders().owners;
        members.extend(group.filter(|at| counting.takes(owners[*at])).map(|at| at as u32));
        let held = match members.as_slice() {
            [] => 0,
            [only] => self.credit_one(covers, *only, stretch, hit, base, counting),
            _ => self.credit_many(covers, &members, stretch, hit, base, counting),
        };
        self.group = members;
        held
    }

    /// The only owner of an instance here.
    fn credit_one(
        &mut self,
        covers: &Covers,
        at: u32,
        stretch: Stretch,
        hit: Option<u32>,
        base: u32,
        counting: Counting<'_>,
    ) -> u16 {
        let held = covers.at(at as usize).extent(stretch.start).min(stretch.end) - stretch.start;
        if held == 0 {
            return 0;
        }
        let Holder { instance, owner } = covers.holders().at(at as usize);
        match hit {
            None => {
                let only = Holders { instances: &[instance], owners: &[owner] };
                self.answer.take_all(only, u32::from(held));
            }
            Some(hit) if self.answer.behind[hit as usize] == owner => {}
            Some(hit) => {
                let tally = self.answer.tally(hit, base, counting.owners);
                if let Some(owner) = counting.owner(owner) {
                    self.answer.add_owner(tally, owner, u32::from(held));
                }
            }
        }
        held
    }

    /// Several owners of one instance: they take turns, and a medium or rank counts their union.
    fn credit_many(
        &mut self,
        covers: &Covers,
        members: &[u32],
        stretch: Stretch,
        hit: Option<u32>,
        base: u32,
        counting: Counting<'_>,
    ) -> u16 {
        let cover = |at: &u32| covers.at(*at as usize);
        let mut end = stretch.start;
        while end < stretch.end {
            let further = members.iter().map(|at| cover(at).extent(end)).max().unwrap_or(end);
            if further == end {
                break;
            }
            end = further;
        }
        let held = Stretch { start: stretch.start, end: end.min(stretch.end) };
        if held.start == held.end {
            return 0;
        }
        let Holders { instances, owners } = covers.holders();
        let owner = |at: &u32| counting.owner(owners[*at as usize]);
        let hit = hit.unwrap_or_else(|| self.answer.start(instances[members[0] as usize]));
        let tally = self.answer.tally(hit, base, counting.owners);
        let medium = |at: &u32| owner(at).map(|owner| owner.medium);
        let rank = |at: &u32| owner(at).and_then(|owner| owner.rank);
        for (number, member) in members.iter().enumerate() {
            let before = &members[..number];
            if let Some(own) = medium(member).filter(|own| !before.iter().any(|at| medium(at) == Some(*own)))
            {
                let of = members.iter().filter(|at| medium(at) == Some(own));
                let blocks = self.union(of.map(cover), held);
                self.answer.add_medium(tally, own, blocks);
            }
            if let Some(own) = rank(member).filter(|own| !before.iter().any(|at| rank(at) == Some(*own))) {
                let of = members.iter().filter(|at| rank(at) == Some(own));
                let blocks = self.union(of.map(cover), held);
                self.answer.add_rank(tally, own, blocks);
            }
        }
        held.end - held.start
    }

    /// Positions of a stretch that any of the covers holds.
    fn union<'a>(&mut self, mut covers: impl Iterator<Item = Cover<'a>>, stretch: Stretch) -> u32 {
        let Stretch { start: from, end: to } = stretch;
        let Some(first) = covers.next() else { return 0 };
        let Some(second) = covers.next() else { return first.count(from, to) };
        self.spans.clear();
        for cover in [first, second].into_iter().chain(covers) {
            let clipped = cover.spans().map(|span| (span.start.max(from), span.end.min(to)));
            self.spans.extend(clipped.filter(|(start, end)| start < end));
        }
        self.spans.sort_unstable();
        let (mut blocks, mut done) = (0, from);
        for (start, end) in &self.spans {
            if *end > done {
                blocks += u32::from(*end - done.max(*start));
                done = *end;
            }
        }
        blocks
    }
}
