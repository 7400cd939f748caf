//! The one thread that writes.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::file::{File, Refusal};
use super::{Busy, Change, Failure};
use crate::limits::{VAULT_BATCH, VAULT_QUEUE, VAULT_QUEUE_BYTES};

/// Hands outcomes back.
pub(super) type Post = Box<dyn Fn(u64, Result<(), Failure>) + Send>;

/// What the writer and those who ask it share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// There is something to write, or nothing will come any more.
    work: Condvar,
    /// The writer has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, Change)>,
    /// Bytes that those hold on to.
    bytes: usize,
    closed: bool,
    ended: bool,
}

impl Shared {
    /// Starts the writer of a file.
    pub(super) fn start(file: File, post: Post) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Self::default());
        let writer = shared.clone();
        thread::Builder::new().name("vault".to_owned()).spawn(move || writer.write(file, &post))?;
        Ok(shared)
    }

    pub(super) fn send(&self, ticket: u64, change: Change) -> Result<(), Busy> {
        let mut state = self.lock();
        let bytes = change.size();
        let full = state.waiting.len() >= VAULT_QUEUE
            || (!state.waiting.is_empty() && state.bytes.saturating_add(bytes) > VAULT_QUEUE_BYTES);
        if state.closed || full {
            return Err(Busy);
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.waiting.push_back((ticket, change));
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    pub(super) fn stop(&self, grace: Duration) -> bool {
        self.close();
        let begun = Instant::now();
        let mut state = self.lock();
        while !state.ended {
            let left = grace.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn write(&self, mut file: File, post: &Post) {
        while let Some(batch) = self.next() {
            write_batch(&mut file, batch, post);
        }
        // closed in good order before anybody hears of it
        drop(file);
        self.lock().ended = true;
        self.ended.notify_all();
    }

    /// The changes that wait, as many as may share an fsync; none when none will come any more.
    fn next(&self) -> Option<Vec<(u64, Change)>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.waiting.len().min(VAULT_BATCH);
        let batch: Vec<_> = state.waiting.drain(..count).collect();
        let bytes = batch.iter().fold(0, |sum: usize, (_, change)| sum.saturating_add(change.size()));
        state.bytes = state.bytes.saturating_sub(bytes);
        Some(batch)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies changes one by one, makes them safe together, and says what became of each.
fn write_batch(file: &mut File, batch: Vec<(u64, Change)>, post: &Post) {
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut broken = file.reopen().err();
    for (ticket, change) in batch {
        let outcome = match &broken {
            Some(failure) => Err(failure.clone()),
            None => match file.apply(change) {
                Ok(()) => Ok(()),
                Err(Refusal::Change(failure)) => Err(failure),
                Err(Refusal::File(failure)) => {
                    broken = Some(failure.clone());
                    Err(failure)
                }
            },
        };
        outcomes.push((ticket, outcome));
    }
    if broken.is_none()
        && let Err(Refusal::File(failure) | Refusal::Change(failure)) = file.sync()
    {
        broken = Some(failure);
    }
    if let Some(failure) = broken {
        tracing::error!(%failure, "quotas and pins cannot be written");
        file.abandon();
        // what was applied before is not safe either
        for (_, outcome) in &mut outcomes {
            *outcome = mem::replace(outcome, Ok(())).and(Err(failure.clone()));
        }
    }
    for (ticket, outcome) in outcomes {
        post(ticket, outcome);
    }
}
