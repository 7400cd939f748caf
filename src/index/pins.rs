//! Positions of a run that stay although nobody may hold them: a removed name still denotes them, or another run
//! goes on behind them.

/// Position → how many keep it; sorted, without zeros.
#[derive(Debug, Default)]
pub struct Pins(Vec<(u16, u32)>);

impl Pins {
    /// Nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// First position behind everything kept.
    pub fn end(&self) -> u16 {
        self.0.last().map_or(0, |(at, _)| at + 1)
    }

    /// Those of the positions `from..to` that are kept, ascending, and how many keep each.
    pub fn between(&self, from: usize, to: usize) -> &[(u16, u32)] {
        let before = |at: usize| self.0.partition_point(|(pinned, _)| usize::from(*pinned) < at);
        &self.0[before(from)..before(to).max(before(from))]
    }

    /// Keeps a position once more.
    pub fn add(&mut self, at: u16) {
        match self.0.binary_search_by_key(&at, |(pinned, _)| *pinned) {
            Ok(known) => self.0[known].1 += 1,
            Err(new) => {
                if self.0.len() == self.0.capacity() {
                    self.0.reserve_exact((self.0.len() / 2).max(1));
                }
                self.0.insert(new, (at, 1));
            }
        }
    }

    /// Keeps it once less.
    pub fn remove(&mut self, at: u16) {
        let Ok(known) = self.0.binary_search_by_key(&at, |(pinned, _)| *pinned) else { return };
        self.0[known].1 -= 1;
        if self.0[known].1 == 0 {
            self.0.remove(known);
            if self.0.len() * 4 < self.0.capacity() {
                self.0.shrink_to(self.0.len() * 2);
            }
        }
    }

    /// Heap bytes taken.
    pub fn heap(&self) -> usize {
        self.0.capacity() * size_of::<(u16, u32)>()
    }
}
