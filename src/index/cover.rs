//! Which positions of a run one owner holds: nearly always one span from the start of the run or from where
//! the owner joined it, rarely more spans behind holes.

/// Positions `start..end` of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// First position held.
    pub start: u16,
    /// First position not held.
    pub end: u16,
}

/// Whose cover it is. What a walk credits stands here, so that it need not look the owner up.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Instance of the owner; a run keeps its covers sorted by (instance, owner).
    pub instance: u32,
    /// Owner, numbered within the context.
    pub owner: u32,
    /// Rank, for engines.
    pub rank: Option<u32>,
    /// Medium, numbered within the shard.
    pub medium: u8,
}

/// One owner's positions in one run. Spans are sorted, disjoint, never adjacent, never empty.
#[derive(Debug)]
pub struct Cover {
    /// Instance of the owner.
    pub instance: u32,
    /// Owner, numbered within the context.
    pub owner: u32,
    rank: u32,
    ranked: bool,
    /// Medium, numbered within the shard.
    pub medium: u8,
    /// Where the owner's list of runs has this one.
    pub listed: u32,
    first: Stretch,
    // boxed twice over on purpose: a hole is rare, and two covers fit a cache line
    #[allow(clippy::box_collection)]
    more: Option<Box<Vec<Stretch>>>,
}

const _: () = assert!(size_of::<Cover>() == 32);

impl Cover {
    /// A cover of one span.
    pub fn new(holder: &Holder, span: Stretch, listed: u32) -> Self {
        let Holder { instance, owner, rank, medium } = *holder;
        let (ranked, rank) = (rank.is_some(), rank.unwrap_or(0));
        Self { instance, owner, rank, ranked, medium, listed, first: span, more: None }
    }

    /// Rank, for engines.
    pub fn rank(&self) -> Option<u32> {
        self.ranked.then_some(self.rank)
    }

    /// The span that nearly always is the only one.
    pub fn first(&self) -> Stretch {
        self.first
    }

    /// All spans in order.
    pub fn spans(&self) -> impl Iterator<Item = Stretch> {
        std::iter::once(self.first).chain(self.rest().iter().copied())
    }

    fn rest(&self) -> &[Stretch] {
        self.more.as_deref().map_or(&[], Vec::as_slice)
    }

    /// First position behind everything held.
    pub fn end(&self) -> u16 {
        self.rest().last().map_or(self.first.end, |last| last.end)
    }

    /// Whether `position` is held.
    pub fn holds(&self, position: u16) -> bool {
        self.extent(position) > position
    }

    /// Where the span that holds `position` ends; `position` itself when it is not held.
    pub fn extent(&self, position: u16) -> u16 {
        if position < self.first.end {
            return if position >= self.first.start { self.first.end } else { position };
        }
        let rest = self.rest();
        let at = rest.partition_point(|span| span.end <= position);
        match rest.get(at) {
            Some(span) if span.start <= position => span.end,
            _ => position,
        }
    }

    /// How many of the positions `from..to` are held.
    pub fn count(&self, from: u16, to: u16) -> u32 {
        self.spans().map(|span| u32::from(span.end.min(to).saturating_sub(span.start.max(from)))).sum()
    }

    /// Heap bytes behind the cover.
    pub fn heap(&self) -> usize {
        self.more
            .as_ref()
            .map_or(0, |more| size_of::<Vec<Stretch>>() + more.capacity() * size_of::<Stretch>())
    }

    /// Adds `start..end`.
    pub fn add(&mut self, span: Stretch) {
        // the way of nearly every event: the owner goes on where it stopped
        if self.more.is_none() && span.start <= self.first.end && span.end >= self.first.start {
            self.first.start = self.first.start.min(span.start);
            self.first.end = self.first.end.max(span.end);
            return;
        }
        let mut spans: Vec<Stretch> = self.spans().collect();
        let from = spans.partition_point(|other| other.end < span.start);
        let to = spans.partition_point(|other| other.start <= span.end);
        let joined = spans[from..to].iter().fold(span, |joined, other| Stretch {
            start: joined.start.min(other.start),
            end: joined.end.max(other.end),
        });
        spans.splice(from..to, [joined]);
        self.set(spans);
    }

    /// Takes one position away; returns whether anything is left.
    pub fn remove(&mut self, position: u16) -> bool {
        if self.more.is_none() {
            let Stretch { start, end } = self.first;
            if position + 1 == end && start <= position {
                self.first.end = position;
                return self.first.end > self.first.start;
            }
            if position == start && position < end {
                self.first.start += 1;
                return true;
            }
            if position < start || position >= end {
                return true;
            }
            self.first.end = position;
            self.more = Some(Box::new(vec![Stretch { start: position + 1, end }]));
            return true;
        }
        self.remove_among_many(position)
    }

    /// Takes a stretch away that is held as a whole; returns whether anything is left.
    pub fn remove_all(&mut self, span: Stretch) -> bool {
        if self.more.is_none() && span.end == self.first.end {
            self.first.end = span.start;
            return self.first.end > self.first.start;
        }
        if self.more.is_none() && span.start == self.first.start {
            self.first.start = span.end;
            return true;
        }
        (span.start..span.end).rev().fold(true, |_, position| self.remove(position))
    }

    /// Where the span that holds `position` starts.
    pub fn since(&self, position: u16) -> u16 {
        let spans = self.spans().take_while(|span| span.start <= position);
        spans.last().map_or(position, |span| span.start)
    }

    /// The last span.
    pub fn last(&self) -> Stretch {
        self.rest().last().copied().unwrap_or(self.first)
    }

    /// Takes at most `most` positions of the last span away; returns how many. What is left ends at 0 when nothing is.
    pub fn strip(&mut self, most: u16) -> u16 {
        let last = match self.more.as_deref_mut().and_then(|more| more.last_mut()) {
            Some(last) => last,
            None => &mut self.first,
        };
        let taken = most.min(last.end - last.start);
        last.end -= taken;
        let emptied = last.start == last.end;
        if emptied && let Some(more) = &mut self.more {
            more.pop();
        } else if emptied {
            self.first = Stretch { start: 0, end: 0 };
        }
        self.tidy();
        taken
    }

    fn remove_among_many(&mut self, position: u16) -> bool {
        if position < self.first.end {
            let Stretch { start, end } = self.first;
            if position < start {
                return true;
            }
            let tail = Stretch { start: position + 1, end };
            self.first.end = position;
            let more = self.more.get_or_insert_default();
            if tail.start < tail.end {
                more.insert(0, tail);
            }
            if self.first.start == self.first.end {
                self.first = more.remove(0);
            }
        } else if let Some(more) = &mut self.more {
            let at = more.partition_point(|span| span.end <= position);
            if let Some(span) = more.get_mut(at).filter(|span| span.start <= position) {
                let tail = Stretch { start: position + 1, end: span.end };
                span.end = position;
                let emptied = span.start == span.end;
                match (emptied, tail.start < tail.end) {
                    (true, true) => more[at] = tail,
                    (true, false) => {
                        more.remove(at);
                    }
                    (false, true) => more.insert(at + 1, tail),
                    (false, false) => {}
                }
            }
        }
        self.tidy();
        true
    }

    fn set(&mut self, mut spans: Vec<Stretch>) {
        self.first = spans.remove(0);
        self.more = if spans.is_empty() { None } else { Some(Box::new(spans)) };
    }

    fn tidy(&mut self) {
        if let Some(more) = &mut self.more {
            if more.is_empty() {
                self.more = None;
            } else if more.capacity() > 16 && more.len() * 4 < more.capacity() {
                let half = more.capacity() / 2;
                more.shrink_to(half);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn cover_is_a_set_of_positions(steps in prop::collection::vec((any::<bool>(), 0u16..40, 1u16..9), 1..80)) {
            let mut naive: BTreeSet<u16> = BTreeSet::new();
            let mut cover: Option<Cover> = None;
            let holder = Holder { instance: 0, owner: 0, rank: None, medium: 0 };
            for (add, start, len) in steps {
                if add {
                    let span = Stretch { start, end: start + len };
                    naive.extend(span.start..span.end);
                    match &mut cover {
                        Some(cover) => cover.add(span),
                        None => cover = Some(Cover::new(&holder, span, 0)),
                    }
                } else if let Some(held) = &mut cover {
                    naive.remove(&start);
                    if !held.remove(start) {
                        cover = None;
                    }
                }
                let held: BTreeSet<u16> = cover.iter().flat_map(Cover::spans).flat_map(|s| s.start..s.end).collect();
                prop_assert_eq!(&held, &naive);
                if let Some(cover) = &cover {
                    let spans: Vec<Stretch> = cover.spans().collect();
                    prop_assert!(spans.iter().all(|span| span.start < span.end));
                    prop_assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start));
                    for position in 0..50 {
                        prop_assert_eq!(cover.holds(position), naive.contains(&position));
                        let run = (position..u16::MAX).take_while(|p| naive.contains(p)).count() as u16;
                        prop_assert_eq!(cover.extent(position), position + run);
                    }
                    prop_assert_eq!(cover.count(3, 30), naive.range(3..30).count() as u32);
                    prop_assert_eq!(cover.end(), naive.last().map_or(0, |last| last + 1));
                }
            }
        }
    }
}
