//! How long batches took to be applied, and whether that grew over the run.

use std::time::Duration;

use super::times::Times;

/// Parts of a run whose lags are compared.
const PARTS: usize = 4;

/// The lags of a run.
#[derive(Clone, Debug)]
pub struct Lags {
    all: Times,
    parts: [Times; PARTS],
    span: Duration,
}

impl Lags {
    /// None yet, of a run that sends for `span`.
    pub fn new(span: Duration) -> Self {
        Self { all: Times::new(), parts: std::array::from_fn(|_| Times::new()), span }
    }

    /// A batch due at `due` was found applied at `at`, both counted from the start.
    pub fn note(&mut self, due: Duration, at: Duration) {
        let lag = at.saturating_sub(due);
        self.all.record(lag);
        let part = due.as_secs_f64() / self.span.as_secs_f64() * PARTS as f64;
        self.parts[(part as usize).min(PARTS - 1)].record(lag);
    }

    /// All lags.
    pub fn all(&self) -> &Times {
        &self.all
    }

    /// By how much the median of the last quarter is longer than that of the first; zero where it is not, or
    /// where one of them has no batch.
    pub fn growth(&self) -> Duration {
        let (first, last) = (&self.parts[0], &self.parts[PARTS - 1]);
        if first.count() == 0 || last.count() == 0 {
            return Duration::ZERO;
        }
        last.at(0.5).saturating_sub(first.at(0.5))
    }
}
