//! Absolute deadlines: item `k` is due at `k / rate`, whatever became of the items before it.

use std::time::Duration;

use super::times::Times;

/// When items are due, counted from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    rate: f64,
}

impl Schedule {
    /// `rate` items a second; more than 0.
    pub const fn new(rate: f64) -> Self {
        Self { rate }
    }

    /// When item `number` is due, counted from 0.
    pub fn due(self, number: u64) -> Duration {
        Duration::try_from_secs_f64(number as f64 / self.rate).unwrap_or(Duration::MAX)
    }

    /// Items due before `end`.
    pub fn count(self, end: Duration) -> u64 {
        let mut count = (end.as_secs_f64() * self.rate) as u64;
        // products round, deadlines decide
        while count > 0 && self.due(count - 1) >= end {
            count -= 1;
        }
        while self.due(count) < end {
            count += 1;
        }
        count
    }
}

/// How well a generator held its schedule.
#[derive(Clone, Debug)]
pub struct Punctuality {
    bound: Duration,
    late: u64,
    times: Times,
}

impl Punctuality {
    /// Nothing sent yet; an item is late when it is sent more than `bound` after it was due.
    pub fn new(bound: Duration) -> Self {
        Self { bound, late: 0, times: Times::new() }
    }

    /// An item was sent so long after it was due.
    pub fn note(&mut self, by: Duration) {
        self.late += u64::from(by > self.bound);
        self.times.record(by);
    }

    /// Adds what another generator of the same bound did.
    pub fn add(&mut self, other: &Self) {
        self.late += other.late;
        self.times.add(&other.times);
    }

    /// Items sent.
    pub fn sent(&self) -> u64 {
        self.times.count()
    }

    /// Items sent late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// From when on an item is late.
    pub fn bound(&self) -> Duration {
        self.bound
    }

    /// How late the items were.
    pub fn times(&self) -> &Times {
        &self.times
    }
}
