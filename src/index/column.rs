//! What the dialects call the blocks of a run: one column of engine hashes each.
//!
//! Where a dialect calls blocks by their rolling hashes, as RFC #1527 has it, the column says only how many of the
//! first ones, and keeps no name twice.

use super::dialect::UNLABELLED;

/// What one dialect calls the blocks of a run.
#[derive(Debug, Default)]
struct Column {
    /// The dialect.
    dialect: u32,
    /// So many first positions are called by their rolling hashes.
    standard: u16,
    /// Its name of each position behind those, or [`UNLABELLED`]; positions beyond the end are unlabelled.
    labels: Vec<u64>,
}

impl Column {
    fn len(&self) -> usize {
        usize::from(self.standard) + self.labels.len()
    }

    /// The names beside the rolling hashes of the same positions.
    fn of<'a>(&'a self, hashes: &'a [u64]) -> Labels<'a> {
        Labels { standard: &hashes[..usize::from(self.standard)], behind: &self.labels }
    }

    /// The last position has a name: a dialect without names has no columns.
    fn trim(&mut self) {
        while self.labels.last() == Some(&UNLABELLED) {
            self.labels.pop();
        }
    }

    /// Names the positions from one on; returns by how many bytes the heap grew.
    fn set(&mut self, mut at: usize, mut names: &[u64], hashes: &[u64], room: usize) -> usize {
        if self.labels.is_empty() && at == usize::from(self.standard) {
            let same = hashes[at..].iter().zip(names).take_while(|(hash, name)| hash == name).count();
            self.standard += same as u16;
            at += same;
            names = &names[same..];
            if names.is_empty() {
                return 0;
            }
        }
        let standard = usize::from(self.standard);
        let (at, room, labels) = (at - standard, room.saturating_sub(standard), &mut self.labels);
        let (before, end) = (labels.capacity(), at + names.len());
        if end > labels.len() {
            if end > before {
                labels.reserve_exact(room.max(end) - labels.len());
            }
            labels.resize(at.max(labels.len()), UNLABELLED);
        }
        let known = labels.len().min(end) - at;
        labels[at..at + known].copy_from_slice(&names[..known]);
        labels.extend_from_slice(&names[known..]);
        (labels.capacity() - before) * size_of::<u64>()
    }

    /// Cuts everything from a position on, which stays this dialect's column of what was cut.
    fn cut(&mut self, from: usize) -> Self {
        let standard = usize::from(self.standard);
        let labels = self.labels.split_off(from.saturating_sub(standard));
        self.standard = standard.min(from) as u16;
        self.trim();
        let left = self.labels.len();
        self.labels.shrink_to(left + left / 8);
        Self { dialect: self.dialect, standard: standard.saturating_sub(from) as u16, labels }
    }
}

/// A dialect's names of the positions of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a> {
    /// Those of the first positions.
    standard: &'a [u64],
    /// Those behind them, or [`UNLABELLED`].
    behind: &'a [u64],
}

impl<'a> Labels<'a> {
    /// Positions up to the last one that has a name.
    pub fn len(self) -> usize {
        self.standard.len() + self.behind.len()
    }

    /// Whether no position has a name.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The name of a position, or [`UNLABELLED`].
    pub fn get(self, at: usize) -> u64 {
        let label = match at.checked_sub(self.standard.len()) {
            None => self.standard.get(at),
            Some(behind) => self.behind.get(behind),
        };
        label.copied().unwrap_or(UNLABELLED)
    }

    /// How many of these names stand in a row from a position on.
    pub fn equal(self, names: &[u64], from: usize) -> usize {
        let standard = self.standard.get(from..).unwrap_or_default();
        let behind = self.behind.get(from.saturating_sub(self.standard.len())..).unwrap_or_default();
        let same = |(label, name): &(&u64, &u64)| label == name && **name != UNLABELLED;
        let equal = standard.iter().zip(names).take_while(same).count();
        if equal < standard.len() {
            return equal;
        }
        equal + behind.iter().zip(&names[equal..]).take_while(same).count()
    }

    /// All of them, the unlabelled ones in between, too.
    pub fn all(self) -> impl Iterator<Item = u64> + 'a {
        self.standard.iter().chain(self.behind).copied()
    }
}

/// All columns of a run, sorted by dialect.
#[derive(Debug, Default)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// What every dialect that names anything calls these blocks.
    pub fn all<'a>(&'a self, hashes: &'a [u64]) -> impl Iterator<Item = (u32, Labels<'a>)> {
        self.0.iter().map(|column| (column.dialect, column.of(hashes)))
    }

    /// Index of a dialect's column, or where it would stand.
    fn index(&self, dialect: u32) -> Result<usize, usize> {
        // where all dialects have a column, each stands at its number
        let guess = (dialect as usize).min(self.0.len().saturating_sub(1));
        match self.0.get(guess) {
            Some(column) if column.dialect == dialect => Ok(guess),
            _ => self.0.binary_search_by_key(&dialect, |column| column.dialect),
        }
    }

    /// One dialect's names, as far as it has any.
    pub fn of<'a>(&'a self, dialect: u32, hashes: &'a [u64]) -> Labels<'a> {
        self.index(dialect).map_or(Labels::default(), |at| self.0[at].of(hashes))
    }

    /// Names the positions from one on, none of which has a name; `room` positions are to be expected, and `hashes`
    /// are those of the whole run. Returns by how many bytes the heap grew.
    pub fn set(&mut self, dialect: u32, at: u16, names: &[u64], hashes: &[u64], room: usize) -> usize {
        let mut grown = 0;
        let column = match self.index(dialect) {
            Ok(column) => column,
            Err(column) => {
                let before = self.0.capacity();
                if before == self.0.len() {
                    self.0.reserve_exact((before / 4).max(1));
                }
                self.0.insert(column, Column { dialect, standard: 0, labels: Vec::new() });
                grown += (self.0.capacity() - before) * size_of::<Column>();
                column
            }
        };
        grown + self.0[column].set(usize::from(at), names, hashes, room)
    }

    /// Cuts everything from a position on; returns what was cut.
    pub fn cut(&mut self, from: usize) -> Self {
        let long = self.0.iter_mut().filter(|column| column.len() > from);
        let gone = long.map(|column| column.cut(from)).collect();
        self.0.retain(|column| column.len() > 0);
        self.tidy();
        Self(gone)
    }

    /// All of them go.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Cuts the last `most` labels of a dialect's column; returns the first position cut, and the labels.
    pub fn cut_one(&mut self, dialect: u32, hashes: &[u64], most: usize) -> (u16, Vec<u64>) {
        let Ok(index) = self.index(dialect) else { return (0, Vec::new()) };
        let column = &mut self.0[index];
        let from = column.len().saturating_sub(most);
        let gone = column.cut(from);
        if column.len() == 0 {
            self.0.remove(index);
            self.tidy();
        }
        (from as u16, gone.of(&hashes[from..]).all().collect())
    }

    fn tidy(&mut self) {
        if self.0.len() * 2 < self.0.capacity() {
            self.0.shrink_to_fit();
        }
    }

    /// Heap bytes taken.
    pub fn heap(&self) -> usize {
        let labels = self.0.iter().map(|column| column.labels.capacity()).sum::<usize>();
        self.0.capacity() * size_of::<Column>() + labels * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Name of position `at`: its hash, or what a dialect calls it.
    fn name(at: usize, standard: bool) -> u64 {
        if standard { 100 + at as u64 } else { 1000 + at as u64 }
    }

    proptest! {
        /// Stretches named and tails cut at random: the column is what a plain array of names is.
        #[test]
        fn a_column_is_an_array_of_names(
            steps in prop::collection::vec((0_usize..40, 1_usize..9, any::<bool>(), 0_u8..4), 1..60)
        ) {
            let hashes: Vec<u64> = (0..64).map(|at| name(at, true)).collect();
            let (mut columns, mut naive) = (Columns::default(), vec![UNLABELLED; 64]);
            for (at, len, standard, kind) in steps {
                if kind == 0 {
                    let cut = columns.cut(at);
                    let gone: Vec<u64> = (at..64).map(|at| std::mem::replace(&mut naive[at], UNLABELLED)).collect();
                    let labels = cut.of(3, &hashes[at..]);
                    prop_assert!((0..64 - at).all(|behind| labels.get(behind) == gone[behind]));
                    let plain: Vec<u64> = labels.all().collect();
                    prop_assert_eq!(&plain[..], &gone[..plain.len()]);
                } else if kind == 1 && columns.of(3, &hashes).len() >= len {
                    let end = columns.of(3, &hashes).len();
                    let (from, gone) = columns.cut_one(3, &hashes, len);
                    prop_assert_eq!(usize::from(from), end - len);
                    prop_assert_eq!(&gone[..], &naive[end - len..end]);
                    naive[end - len..end].fill(UNLABELLED);
                } else if naive[at..at + len].iter().all(|label| *label == UNLABELLED) {
                    let names: Vec<u64> = (at..at + len).map(|at| name(at, standard)).collect();
                    naive[at..at + len].copy_from_slice(&names);
                    let before = columns.heap();
                    let grown = columns.set(3, at as u16, &names, &hashes, 0);
                    prop_assert_eq!(columns.heap(), before + grown);
                }
                let labels = columns.of(3, &hashes);
                prop_assert!((0..64).all(|at| labels.get(at) == naive[at]));
                let end = naive.iter().rposition(|label| *label != UNLABELLED).map_or(0, |last| last + 1);
                prop_assert_eq!(labels.len(), end);
                let asked: Vec<u64> = (at..at + len).map(|at| name(at, standard)).collect();
                let equal = naive[at..].iter().zip(&asked).take_while(|(label, name)| label == name).count();
                prop_assert_eq!(labels.equal(&asked, at), equal);
            }
            prop_assert_eq!(columns.of(2, &hashes).len(), 0);
        }
    }
}
