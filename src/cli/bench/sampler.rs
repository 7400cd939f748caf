//! Looks at `/services` every few milliseconds: what is applied by now, and how long it took.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::fleet::{Fleet, instance};
use super::internal;
use super::patience::Patience;
use crate::bench::lag::Lags;
use crate::bench::log::SendLog;
use crate::bench::seen::{Service, services};
use crate::bench::times::Times;
use crate::cli::client::Target;
use crate::cli::exit::{self, Failure};
use crate::limits::BENCH_STUCK_MILLIS;

/// Everything that is known of what was sent and applied.
pub(super) struct Watch {
    /// When the clock of the run began.
    pub(super) start: Instant,
    logs: Vec<Mutex<SendLog>>,
    /// One more than the last number seen of each stream.
    seen: Vec<AtomicU64>,
    looked: Mutex<Looked>,
}

/// What the looks found.
struct Looked {
    lags: Lags,
    gaps: Times,
    last: Vec<Option<Service>>,
    failure: Option<Failure>,
}

/// The thread that looks; it ends when this is dropped.
pub(super) struct Sampler {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A lock that nobody leaves in a bad state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Over so many streams, in a run that begins at `start` and sends for `span`.
    pub(super) fn new(streams: usize, start: Instant, span: Duration) -> Arc<Self> {
        let looked =
            Looked { lags: Lags::new(span), gaps: Times::new(), last: vec![None; streams], failure: None };
        Arc::new(Self {
            start,
            logs: (0..streams).map(|_| Mutex::default()).collect(),
            seen: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            looked: Mutex::new(looked),
        })
    }

    /// The batches of a stream that are under way.
    pub(super) fn log(&self, stream: usize) -> MutexGuard<'_, SendLog> {
        lock(&self.logs[stream])
    }

    /// Batches of all streams under way.
    pub(super) fn under_way(&self) -> usize {
        (0..self.logs.len()).map(|stream| self.log(stream).under_way()).sum()
    }

    /// Last number seen of a stream.
    pub(super) fn seen(&self, stream: usize) -> Option<u64> {
        self.seen[stream].load(Ordering::Acquire).checked_sub(1)
    }

    /// The lags, and the times between two looks.
    pub(super) fn lags(&self) -> (Lags, Times) {
        let looked = lock(&self.looked);
        (looked.lags.clone(), looked.gaps.clone())
    }

    /// What the last look found, one a stream that was found.
    pub(super) fn services(&self) -> Vec<Option<Service>> {
        lock(&self.looked).last.clone()
    }

    /// A failure once the looks have failed.
    pub(super) fn check(&self) -> Result<(), Failure> {
        lock(&self.looked).failure.take().map_or(Ok(()), Err)
    }

    /// Waits until these numbers were seen, for so long at most, and less when nothing moves or the run was stopped;
    /// when that was.
    pub(super) fn until_seen(
        &self,
        numbers: &[u64],
        most: Duration,
        patience: &Patience,
    ) -> Result<Option<Instant>, Failure> {
        let begun = Instant::now();
        let (mut moved, mut before) = (begun, Vec::new());
        loop {
            if patience.excuse(self.check())?.is_none() || patience.is_silent() {
                return Ok(None);
            }
            let seen: Vec<_> = (0..numbers.len()).map(|stream| self.seen(stream)).collect();
            let now = Instant::now();
            if seen.iter().zip(numbers).all(|(seen, number)| *seen >= Some(*number)) {
                return Ok(Some(now));
            }
            if seen != before {
                (moved, before) = (now, seen);
            }
            if patience.is_exhausted()
                || now - begun > most
                || now - moved > Duration::from_millis(BENCH_STUCK_MILLIS)
            {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Enters what a look found at `at`, counted from the start.
    fn enter(&self, found: Vec<Service>, numbers: &HashMap<String, usize>, at: Duration) {
        let mut looked = lock(&self.looked);
        for service in found {
            let Some(&stream) = numbers.get(&service.instance) else { continue };
            let progress = service.stream.progress();
            self.log(stream).applied(progress, |due| looked.lags.note(due, at));
            if let Some(last) = progress.last {
                self.seen[stream].store(last + 1, Ordering::Release);
            }
            looked.last[stream] = Some(service);
        }
    }
}

impl Sampler {
    /// Looks every `period` on the average.
    pub(super) fn start(
        target: &Target,
        fleet: &Fleet,
        watch: &Arc<Watch>,
        (period, patience): (Duration, &Patience),
    ) -> Result<Self, Failure> {
        let mut connection = Connection::open(target, patience)?;
        let done = Arc::new(AtomicBool::new(false));
        let (tenant, ended, watch) = (fleet.tenant.clone(), done.clone(), watch.clone());
        let names: HashMap<String, usize> =
            (0..fleet.publishers.len()).map(|number| (instance(number), number)).collect();
        // what is wrong with the daemon is known before anything is sent
        look(&mut connection, &tenant).map(|found| watch.enter(found, &names, Duration::ZERO))?;
        let run = move || {
            let (mut due, mut before) = (Instant::now(), None);
            while !ended.load(Ordering::Relaxed) {
                let found = look(&mut connection, &tenant);
                let at = Instant::now();
                match found {
                    Ok(found) => watch.enter(found, &names, at.saturating_duration_since(watch.start)),
                    Err(failure) => {
                        lock(&watch.looked).failure = Some(failure);
                        return;
                    }
                }
                if let Some(before) = before.replace(at) {
                    lock(&watch.looked).gaps.record(at - before);
                }
                // uneven, so that looks do not fall in step with batches; what is over already is left out
                due += period.mul_f64(0.5 + fastrand::f64());
                due = due.max(at);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(run);
        Ok(Self { done, thread: Some(thread.map_err(|error| internal(&error))?) })
    }
}

fn look(connection: &mut Connection, tenant: &str) -> Result<Vec<Service>, Failure> {
    let page = connection.get("/services")?;
    services(&page, tenant).map_err(|reason| {
        Failure::new(exit::DATA, format!("/services is not that of a kvatlas of this version: {reason}"))
    })
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
