//! Positions of a run that stay although nobody may hold them: a removed name still denotes them, or another run
//! goes on behind them.

/// Position → how many keep it; sorted, without zeros. Most runs have none.
// boxed twice over on purpose: a run fits two cache lines
#[derive(Debug, Default)]
#[allow(clippy::box_collection)]
pub struct Pins(Option<Box<Vec<(u16, u32)>>>);

impl Pins {
    /// Nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn all(&self) -> &[(u16, u32)] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// First position behind everything kept.
    pub fn end(&self) -> u16 {
        self.all().last().map_or(0, |(at, _)| at + 1)
    }

    /// Those of the positions `from..to` that are kept, ascending, and how many keep each.
    pub fn between(&self, from: usize, to: usize) -> &[(u16, u32)] {
        let all = self.all();
        let before = |at: usize| all.partition_point(|(pinned, _)| usize::from(*pinned) < at);
        &all[before(from)..before(to).max(before(from))]
    }

    /// Keeps a position once more.
    pub fn add(&mut self, at: u16) {
        let pins = self.0.get_or_insert_default();
        match pins.binary_search_by_key(&at, |(pinned, _)| *pinned) {
            Ok(known) => pins[known].1 += 1,
            Err(new) => {
                if pins.len() == pins.capacity() {
                    pins.reserve_exact((pins.len() / 2).max(1));
                }
                pins.insert(new, (at, 1));
            }
        }
    }

    /// Keeps it once less.
    pub fn remove(&mut self, at: u16) {
        let Some(pins) = &mut self.0 else { return };
        let Ok(known) = pins.binary_search_by_key(&at, |(pinned, _)| *pinned) else { return };
        pins[known].1 -= 1;
        if pins[known].1 > 0 {
            return;
        }
        pins.remove(known);
        if pins.is_empty() {
            self.0 = None;
        } else if pins.len() * 4 < pins.capacity() {
            pins.shrink_to(pins.len() * 2);
        }
    }

    /// Heap bytes taken.
    pub fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |pins| size_of_val(&**pins) + pins.capacity() * size_of::<(u16, u32)>())
    }
}
