//! What the dialects call the blocks of a run: one column of engine hashes each.

use super::dialect::UNLABELLED;

/// What one dialect calls the blocks of a run.
#[derive(Debug, Default)]
pub struct Column {
    /// The dialect.
    pub dialect: u32,
    /// Its name of each position, or [`UNLABELLED`]; positions beyond the end are unlabelled.
    pub labels: Vec<u64>,
}

impl Column {
    /// The last position has a name: a dialect without names has no columns.
    fn trim(&mut self) {
        while self.labels.last() == Some(&UNLABELLED) {
            self.labels.pop();
        }
    }
}

/// All columns of a run, sorted by dialect.
#[derive(Debug, Default)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// All of them.
    pub fn all(&self) -> &[Column] {
        &self.0
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
    pub fn of(&self, dialect: u32) -> &[u64] {
        self.index(dialect).map_or(&[], |at| self.0[at].labels.as_slice())
    }

    /// A dialect's name of a position.
    pub fn label(&self, dialect: u32, at: u16) -> u64 {
        self.of(dialect).get(usize::from(at)).copied().unwrap_or(UNLABELLED)
    }

    /// Names the positions from one on, none of which has a name; `room` positions are to be expected. Returns by how
    /// many bytes the heap grew.
    pub fn set(&mut self, dialect: u32, at: u16, names: &[u64], room: usize) -> usize {
        let mut grown = 0;
        let column = match self.index(dialect) {
            Ok(column) => column,
            Err(column) => {
                let before = self.0.capacity();
                if before == self.0.len() {
                    self.0.reserve_exact((before / 4).max(1));
                }
                self.0.insert(column, Column { dialect, labels: Vec::new() });
                grown += (self.0.capacity() - before) * size_of::<Column>();
                column
            }
        };
        let labels = &mut self.0[column].labels;
        let (at, end) = (usize::from(at), usize::from(at) + names.len());
        if end > labels.len() {
            let before = labels.capacity();
            if end > before {
                labels.reserve_exact(room.max(end) - labels.len());
            }
            grown += (labels.capacity() - before) * size_of::<u64>();
            labels.resize(at.max(labels.len()), UNLABELLED);
        }
        let known = labels.len().min(end) - at;
        labels[at..at + known].copy_from_slice(&names[..known]);
        labels.extend_from_slice(&names[known..]);
        grown
    }

    /// Cuts everything from a position on; returns what was cut.
    pub fn cut(&mut self, from: usize) -> Vec<Column> {
        let mut gone = Vec::new();
        for column in &mut self.0 {
            if column.labels.len() > from {
                let labels = column.labels.split_off(from);
                column.trim();
                column.labels.shrink_to(from + from / 8);
                gone.push(Column { dialect: column.dialect, labels });
            }
        }
        self.0.retain(|column| !column.labels.is_empty());
        self.tidy();
        gone
    }

    /// All of them go.
    pub fn take(&mut self) -> Vec<Column> {
        std::mem::take(&mut self.0)
    }

    /// Cuts the last `most` labels of a dialect's column; returns the first position cut, and the labels.
    pub fn cut_one(&mut self, dialect: u32, most: usize) -> (u16, Vec<u64>) {
        let Some(column) = self.0.iter_mut().find(|column| column.dialect == dialect) else {
            return (0, Vec::new());
        };
        let from = column.labels.len().saturating_sub(most);
        let labels = column.labels.split_off(from);
        column.trim();
        column.labels.shrink_to_fit();
        if column.labels.is_empty() {
            self.0.retain(|column| column.dialect != dialect);
            self.tidy();
        }
        (from as u16, labels)
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
