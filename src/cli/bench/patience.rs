//! How long answers are waited for, and whether the daemon still gives any.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bench::report::Ending;
use crate::cli::exit::Failure;
use crate::cli::stop::Stop;
use crate::limits::{BENCH_ANSWER_SECONDS, BENCH_SILENCE_SECONDS};

const SILENCE: Duration = Duration::from_secs(BENCH_SILENCE_SECONDS);

/// What all connections of a run have in common: an answer may take [`BENCH_ANSWER_SECONDS`] while it is measured, and
/// [`BENCH_SILENCE_SECONDS`] once the run is over or stopped. After one that did not come nothing more is asked.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    stop: Stop,
    over: Arc<Mutex<Option<Instant>>>,
    silent: Arc<AtomicBool>,
}

impl Patience {
    /// For a run that `stop` ends early.
    pub(super) fn new(stop: &Stop) -> Self {
        Self { stop: stop.clone(), over: Arc::default(), silent: Arc::default() }
    }

    /// The run is over: what is still missing comes soon or not at all.
    pub(super) fn end(&self) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    /// Another part of the run begins.
    pub(super) fn go_on(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is left for an answer that was asked for at `asked`.
    pub(super) fn left(&self, asked: Instant) -> Duration {
        if self.is_silent() {
            return Duration::ZERO;
        }
        let usual = asked + Duration::from_secs(BENCH_ANSWER_SECONDS);
        let until = self.over().map_or(usual, |over| usual.min(asked.max(over) + SILENCE));
        until.saturating_duration_since(Instant::now())
    }

    /// Whether a stopped run has waited for its rest as long as it may.
    pub(super) fn is_exhausted(&self) -> bool {
        self.stop.is_set() && self.over().is_some_and(|over| over.elapsed() > SILENCE)
    }

    fn over(&self) -> Option<Instant> {
        if self.stop.is_set() {
            self.end();
        }
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer did not come: nothing more is asked.
    pub(super) fn give_up(&self) {
        self.silent.store(true, Ordering::Release);
    }

    /// Whether the daemon has stopped to answer.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Acquire)
    }

    /// Whether nothing more is to be sent or asked.
    pub(super) fn is_out(&self) -> bool {
        self.stop.is_set() || self.is_silent()
    }

    /// `None` instead of a failure that comes of silence: the run ends there, and its report says so.
    pub(super) fn excuse<T>(&self, outcome: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.is_silent() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// How the run came to its end.
    pub(super) fn ending(&self) -> Ending {
        Ending { stopped: self.stop.signal().is_some(), unanswered: self.is_silent() }
    }
}
