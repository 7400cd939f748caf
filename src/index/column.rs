//! What the dialects call the blocks of a run: one column of engine hashes each.
//!
//! Where a dialect calls blocks by their rolling hashes, as RFC #1527 has it, the column says only how many of the
//! first ones, and keeps no name twice.

use super::dialect::UNLABELLED;

/// What one dialect calls the blocks of a run.
#[derive(Debug)]
struct Column {
    /// The dialect, or [`NOBODY`].
    dialect: u32,
    /// So many first positions are called by their rolling hashes.
    standard: u16,
    /// Its name of each position behind those, or [`UNLABELLED`]; positions beyond the end are unlabelled.
    labels: Vec<u64>,
}

/// No dialect.
const NOBODY: u32 = u32::MAX;

impl Column {
    fn new(dialect: u32) -> Self {
        Self { dialect, standard: 0, labels: Vec::new() }
    }

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

    /// Cuts everything from a position on.
    fn cut(&mut self, from: usize) {
        let standard = usize::from(self.standard);
        self.labels.truncate(from.saturating_sub(standard));
        self.standard = standard.min(from) as u16;
        self.trim();
        let left = self.labels.len();
        self.labels.shrink_to(left + left / 8);
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
        self.slot(at).copied().unwrap_or(UNLABELLED)
    }

    /// Where that stands.
    pub fn slot(self, at: usize) -> Option<&'a u64> {
        match at.checked_sub(self.standard.len()) {
            None => self.standard.get(at),
            Some(behind) => self.behind.get(behind),
        }
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

    /// Those from a position on, the unlabelled ones in between, too.
    pub fn from(self, at: usize) -> impl Iterator<Item = u64> + 'a {
        let behind = self.behind.get(at.saturating_sub(self.standard.len())..);
        self.standard.get(at..).into_iter().chain(behind).flatten().copied()
    }
}

/// All columns of a run, sorted by dialect. Nearly always there is one, which needs no memory elsewhere.
#[derive(Debug)]
pub struct Columns {
    first: Column,
    // boxed twice over on purpose: further ones are rare, and a run fits two cache lines
    #[allow(clippy::box_collection)]
    more: Option<Box<Vec<Column>>>,
}

impl Default for Columns {
    fn default() -> Self {
        Self { first: Column::new(NOBODY), more: None }
    }
}

impl Columns {
    /// What every dialect that names anything calls these blocks.
    pub fn all<'a>(&'a self, hashes: &'a [u64]) -> impl Iterator<Item = (u32, Labels<'a>)> {
        let first = (self.first.dialect != NOBODY).then_some(&self.first);
        first.into_iter().chain(self.rest()).map(|column| (column.dialect, column.of(hashes)))
    }

    fn rest(&self) -> &[Column] {
        self.more.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Index behind the first of a dialect's column, or where it would stand.
    fn index(&self, dialect: u32) -> Result<usize, usize> {
        let rest = self.rest();
        // where all dialects have a column, each stands at its number
        let guess = (dialect as usize).saturating_sub(1).min(rest.len().saturating_sub(1));
        match rest.get(guess) {
            Some(column) if column.dialect == dialect => Ok(guess),
            _ => rest.binary_search_by_key(&dialect, |column| column.dialect),
        }
    }

    /// One dialect's names, as far as it has any.
    pub fn of<'a>(&'a self, dialect: u32, hashes: &'a [u64]) -> Labels<'a> {
        if self.first.dialect == dialect {
            return self.first.of(hashes);
        }
        self.index(dialect).map_or(Labels::default(), |at| self.rest()[at].of(hashes))
    }

    fn get_mut(&mut self, dialect: u32) -> Option<&mut Column> {
        if self.first.dialect == dialect {
            return Some(&mut self.first);
        }
        let at = self.index(dialect).ok()?;
        self.more.as_mut()?.get_mut(at)
    }

    /// A dialect's column, which is not there, without names.
    fn insert(&mut self, dialect: u32) -> &mut Column {
        let mut new = Column::new(dialect);
        // nobody's number is the highest
        if dialect < self.first.dialect {
            std::mem::swap(&mut new, &mut self.first);
            if new.dialect == NOBODY {
                return &mut self.first;
            }
        }
        let at = self.index(new.dialect).unwrap_or_else(|at| at);
        let more = self.more.get_or_insert_default();
        if more.len() == more.capacity() {
            more.reserve_exact((more.len() / 4).max(1));
        }
        more.insert(at, new);
        if self.first.dialect == dialect { &mut self.first } else { &mut more[at] }
    }

    /// Names the positions from one on, none of which has a name; `room` positions are to be expected, and `hashes`
    /// are those of the whole run. Returns by how many bytes the heap grew.
    pub fn set(&mut self, dialect: u32, at: u16, names: &[u64], hashes: &[u64], room: usize) -> usize {
        if let Some(column) = self.get_mut(dialect) {
            return column.set(usize::from(at), names, hashes, room);
        }
        let before = self.heap();
        self.insert(dialect).set(usize::from(at), names, hashes, room);
        self.heap() - before
    }

    /// Cuts everything from a position on.
    pub fn cut(&mut self, from: usize) {
        let more = self.more.as_mut().into_iter().flat_map(|more| more.iter_mut());
        let long = std::iter::once(&mut self.first).chain(more).filter(|column| column.len() > from);
        long.for_each(|column| column.cut(from));
        self.tidy();
    }

    /// Cuts the last `most` labels of a dialect's column; returns the first position cut, and the labels.
    pub fn cut_one(&mut self, dialect: u32, hashes: &[u64], most: usize) -> (u16, Vec<u64>) {
        let Some(column) = self.get_mut(dialect) else { return (0, Vec::new()) };
        let from = column.len().saturating_sub(most);
        let gone = column.of(hashes).from(from).collect();
        column.cut(from);
        self.tidy();
        (from as u16, gone)
    }

    /// Gives back what columns without names take.
    fn tidy(&mut self) {
        if let Some(more) = &mut self.more {
            more.retain(|column| column.len() > 0);
            if self.first.len() == 0 && !more.is_empty() {
                self.first = more.remove(0);
            }
            if more.is_empty() {
                self.more = None;
            } else if more.len() * 2 < more.capacity() {
                more.shrink_to_fit();
            }
        }
        if self.first.len() == 0 {
            self.first = Column::new(NOBODY);
        }
    }

    /// Heap bytes taken.
    pub fn heap(&self) -> usize {
        let labels = |column: &Column| column.labels.capacity() * size_of::<u64>();
        let more = self.more.as_deref().map_or(0, |more| {
            size_of::<Vec<Column>>()
                + more.capacity() * size_of::<Column>()
                + more.iter().map(labels).sum::<usize>()
        });
        labels(&self.first) + more
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
        /// Stretches named and tails cut at random: each column is what a plain array of names is.
        #[test]
        fn columns_are_arrays_of_names(
            steps in prop::collection::vec((0_usize..40, 1_usize..9, any::<bool>(), 0_u8..4, 0_usize..4), 1..90)
        ) {
            let hashes: Vec<u64> = (0..64).map(|at| name(at, true)).collect();
            let (mut columns, mut all) = (Columns::default(), vec![vec![UNLABELLED; 64]; 4]);
            for (at, len, standard, kind, dialect) in steps {
                let speech = dialect as u32;
                if kind == 0 {
                    for (speech, naive) in all.iter_mut().enumerate() {
                        let labels = columns.of(speech as u32, &hashes);
                        let gone: Vec<u64> = labels.from(at).collect();
                        prop_assert_eq!(gone.len(), labels.len().saturating_sub(at));
                        prop_assert_eq!(&gone[..], &naive[at..at + gone.len()]);
                        naive[at..].fill(UNLABELLED);
                    }
                    columns.cut(at);
                }
                let naive = &mut all[dialect];
                if kind == 1 && columns.of(speech, &hashes).len() >= len {
                    let end = columns.of(speech, &hashes).len();
                    let (from, gone) = columns.cut_one(speech, &hashes, len);
                    prop_assert_eq!(usize::from(from), end - len);
                    prop_assert_eq!(&gone[..], &naive[end - len..end]);
                    naive[end - len..end].fill(UNLABELLED);
                } else if kind > 1 && naive[at..at + len].iter().all(|label| *label == UNLABELLED) {
                    let names: Vec<u64> = (at..at + len).map(|at| name(at, standard)).collect();
                    naive[at..at + len].copy_from_slice(&names);
                    let before = columns.heap();
                    let grown = columns.set(speech, at as u16, &names, &hashes, 0);
                    prop_assert_eq!(columns.heap(), before + grown);
                }
                let asked: Vec<u64> = (at..at + len).map(|at| name(at, standard)).collect();
                for (speech, naive) in all.iter().enumerate() {
                    let labels = columns.of(speech as u32, &hashes);
                    prop_assert!((0..64).all(|at| labels.get(at) == naive[at]));
                    let end = naive.iter().rposition(|label| *label != UNLABELLED).map_or(0, |last| last + 1);
                    prop_assert_eq!(labels.len(), end);
                    let same = naive[at..].iter().zip(&asked).take_while(|(label, name)| label == name).count();
                    prop_assert_eq!(labels.equal(&asked, at), same);
                }
                let named = all.iter().zip(0..).filter(|(naive, _)| naive.iter().any(|label| *label != UNLABELLED));
                let speeches: Vec<u32> = named.map(|(_, speech)| speech).collect();
                prop_assert_eq!(columns.all(&hashes).map(|(speech, _)| speech).collect::<Vec<u32>>(), speeches);
            }
            prop_assert_eq!(columns.of(9, &hashes).len(), 0);
        }
    }
}
