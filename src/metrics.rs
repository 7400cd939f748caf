//! Counters: one writer each (a reactor), any reader, no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only its own reactor writes and anybody reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this: it is a plain load and store.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value (for gauges). Only the owning thread may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value as last written.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
