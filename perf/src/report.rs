//! The table: figures of all structures side by side, the ratio to the best peer, and the goal.

use crate::record::Figure;
use std::fmt::Write as _;

/// Which way a figure is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Times, bytes.
    Less,
    /// Rates.
    More,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// So many times better than the best peer.
    Ratio(f64),
    /// So many times better than the structure of this name.
    RatioTo(&'static str, f64),
    /// Below this figure.
    Below(f64),
    /// Nothing at all.
    Zero,
}

/// One line of the table.
pub struct Row {
    workload: String,
    case: String,
    unit: &'static str,
    better: Better,
    figures: Vec<f64>,
    wrong: Option<Vec<(usize, usize)>>,
    goal: Option<Goal>,
}

impl Row {
    /// A line with one figure a structure.
    pub fn new(workload: &str, case: &str, unit: &'static str, better: Better, figures: Vec<f64>) -> Self {
        Self { workload: workload.into(), case: case.into(), unit, better, figures, wrong: None, goal: None }
    }

    /// With (wrong, all) answers, one a structure.
    #[must_use]
    pub fn with_wrong(mut self, wrong: Vec<(usize, usize)>) -> Self {
        self.wrong = Some(wrong);
        self
    }

    /// With a goal.
    #[must_use]
    pub fn with_goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// How many times better ours is than `theirs`.
    fn times(&self, theirs: f64) -> f64 {
        match self.better {
            Better::Less => theirs / self.figures[0],
            Better::More => self.figures[0] / theirs,
        }
    }

    /// How many times better ours is than the best peer.
    fn ratio(&self) -> Option<f64> {
        self.figures[1..].iter().map(|theirs| self.times(*theirs)).min_by(f64::total_cmp)
    }

    /// What of the goal is written, and whether it is met.
    fn judged(&self, names: &[&str]) -> (String, Option<bool>) {
        match self.goal {
            None => (String::new(), None),
            Some(Goal::Ratio(goal)) => (format!("{goal}x"), self.ratio().map(|ratio| ratio >= goal)),
            Some(Goal::RatioTo(peer, goal)) => {
                let at = names.iter().position(|name| *name == peer);
                (format!("{goal}x of that"), at.map(|at| self.times(self.figures[at]) >= goal))
            }
            Some(Goal::Zero) => ("0".into(), Some(self.figures[0] <= 0.0)),
            Some(Goal::Below(most)) => (format!("< {most}"), Some(self.figures[0] < most)),
        }
    }

    /// As records, one a structure.
    pub fn figures(&self, names: &[&str]) -> Vec<Figure> {
        let each = names.iter().zip(&self.figures).enumerate();
        each.map(|(at, (name, value))| Figure {
            workload: self.workload.clone(),
            case: self.case.clone(),
            whose: (*name).into(),
            value: *value,
            unit: self.unit,
            wrong: self.wrong.as_ref().map(|wrong| wrong[at]),
        })
        .collect()
    }
}

/// A figure with three digits that say something.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Cells as a table in Markdown, columns aligned.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            for width in &widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// The whole table.
pub fn table(names: &[&str], rows: &[Row]) -> String {
    let heads = ["workload", "case", "unit"].into_iter().map(String::from);
    let whose = names.iter().map(|name| (*name).to_owned());
    let tails = ["times better", "goal", "met"].into_iter().map(String::from);
    let mut cells = vec![heads.chain(whose).chain(tails).collect::<Vec<_>>()];
    for row in rows {
        let figure = |(at, value): (usize, &f64)| match &row.wrong {
            Some(wrong) if wrong[at].0 > 0 => {
                format!("{} ({}/{} wrong)", short(*value), wrong[at].0, wrong[at].1)
            }
            _ => short(*value),
        };
        let (goal, met) = row.judged(names);
        let ratio = row.ratio().filter(|ratio| ratio.is_finite()).map_or(String::new(), short);
        let met = met.map_or("", |met| if met { "yes" } else { "NO" });
        let mut line = vec![row.workload.clone(), row.case.clone(), row.unit.to_owned()];
        line.extend(row.figures.iter().enumerate().map(figure));
        line.extend([ratio, goal, met.to_owned()]);
        cells.push(line);
    }
    aligned(&cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_decides_and_wrong_answers_are_told() {
        let names = ["ours", "one", "other"];
        let faster = Row::new("w", "c", "us", Better::Less, vec![2.0, 30.0, 20.0]);
        assert_eq!(faster.ratio(), Some(10.0));
        let more = Row::new("w", "c", "M", Better::More, vec![6.0, 3.0, 1.0]).with_goal(Goal::Ratio(5.0));
        assert_eq!(more.ratio(), Some(2.0));
        assert_eq!(more.judged(&names).1, Some(false));
        let against = Row::new("w", "c", "B", Better::Less, vec![10.0, 20.0, 70.0]);
        let against = against.with_goal(Goal::RatioTo("other", 6.0));
        assert_eq!(against.judged(&names).1, Some(true));
        let wrong = faster.with_wrong(vec![(0, 9), (4, 9), (0, 9)]);
        let text = table(&names, &[wrong]);
        assert!(text.contains("30.0 (4/9 wrong)") && text.contains("| 2.00 "), "{text}");
    }
}
