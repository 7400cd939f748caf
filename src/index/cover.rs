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

/// One owner's positions in one run, to be read. Spans are sorted, disjoint, never adjacent, never empty.
#[derive(Clone, Copy, Debug)]
pub struct Cover<'a> {
    pub(super) first: Stretch,
    pub(super) more: &'a [Stretch],
}

impl<'a> Cover<'a> {
    /// All spans in order.
    pub fn spans(self) -> impl Iterator<Item = Stretch> + 'a {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// First position behind everything held.
    pub fn end(self) -> u16 {
        self.last().end
    }

    /// Whether `position` is held.
    pub fn holds(self, position: u16) -> bool {
        self.extent(position) > position
    }

    /// Where the span that holds `position` ends; `position` itself when it is not held.
    pub fn extent(self, position: u16) -> u16 {
        if position < self.first.end {
            return if position >= self.first.start { self.first.end } else { position };
        }
        let at = self.more.partition_point(|span| span.end <= position);
        match self.more.get(at) {
            Some(span) if span.start <= position => span.end,
            _ => position,
        }
    }

    /// How many of the positions `from..to` are held.
    pub fn count(self, from: u16, to: u16) -> u32 {
        self.spans().map(|span| u32::from(span.end.min(to).saturating_sub(span.start.max(from)))).sum()
    }

    /// Where the span that holds `position` starts.
    pub fn since(self, position: u16) -> u16 {
        let spans = self.spans().take_while(|span| span.start <= position);
        spans.last().map_or(position, |span| span.start)
    }

    /// The last span.
    pub fn last(self) -> Stretch {
        self.more.last().copied().unwrap_or(self.first)
    }
}

/// The same, to be changed.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) first: Stretch,
    pub(super) more: Vec<Stretch>,
}

impl Spans {
    /// Adds a stretch.
    pub(super) fn add(&mut self, span: Stretch) {
        // the way of nearly every event: the owner goes on where it stopped
        if self.more.is_empty() && span.start <= self.first.end && span.end >= self.first.start {
            self.first.start = self.first.start.min(span.start);
            self.first.end = self.first.end.max(span.end);
            return;
        }
        let mut spans: Vec<Stretch> = self.cover().spans().collect();
        let from = spans.partition_point(|other| other.end < span.start);
        let to = spans.partition_point(|other| other.start <= span.end);
        let joined = spans[from..to].iter().fold(span, |joined, other| Stretch {
            start: joined.start.min(other.start),
            end: joined.end.max(other.end),
        });
        spans.splice(from..to, [joined]);
        self.first = spans.remove(0);
        self.more = spans;
    }

    fn cover(&self) -> Cover<'_> {
        Cover { first: self.first, more: &self.more }
    }

    /// Takes one position away; returns whether anything is left.
    pub(super) fn remove(&mut self, position: u16) -> bool {
        if self.more.is_empty() {
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
            self.more = vec![Stretch { start: position + 1, end }];
            return true;
        }
        self.remove_among_many(position)
    }

    /// Takes a stretch away that is held as a whole; returns whether anything is left.
    pub(super) fn remove_all(&mut self, span: Stretch) -> bool {
        if self.more.is_empty() && span.end == self.first.end {
            self.first.end = span.start;
            return self.first.end > self.first.start;
        }
        if self.more.is_empty() && span.start == self.first.start {
            self.first.start = span.end;
            return true;
        }
        (span.start..span.end).rev().fold(true, |_, position| self.remove(position))
    }

    /// Takes at most `most` positions of the last span away; returns how many. What is left ends at 0 when nothing is.
    pub(super) fn strip(&mut self, most: u16) -> u16 {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        let taken = most.min(last.end - last.start);
        last.end -= taken;
        if last.start == last.end && self.more.pop().is_none() {
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
            if tail.start < tail.end {
                self.more.insert(0, tail);
            }
            if self.first.start == self.first.end {
                self.first = self.more.remove(0);
            }
        } else {
            let at = self.more.partition_point(|span| span.end <= position);
            if let Some(span) = self.more.get_mut(at).filter(|span| span.start <= position) {
                let tail = Stretch { start: position + 1, end: span.end };
                span.end = position;
                let emptied = span.start == span.end;
                match (emptied, tail.start < tail.end) {
                    (true, true) => self.more[at] = tail,
                    (true, false) => {
                        self.more.remove(at);
                    }
                    (false, true) => self.more.insert(at + 1, tail),
                    (false, false) => {}
                }
            }
        }
        self.tidy();
        true
    }

    fn tidy(&mut self) {
        if self.more.capacity() > 16 && self.more.len() * 4 < self.more.capacity() {
            self.more.shrink_to(self.more.capacity() / 2);
        }
    }
}
