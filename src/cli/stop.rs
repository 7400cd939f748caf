//! Whether somebody asked a command to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::exit::{self, Failure};

/// How long a wait goes on before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// Set by SIGINT, SIGTERM and SIGHUP; also by a command that gives up.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP, so that nothing is left behind. The second of them ends the process
    /// at once.
    pub(super) fn listen() -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // without the handlers the signal ends the process, as it would anyway
            let status = i32::from(exit::INTERNAL);
            let _ = signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&flag));
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        Self(flag)
    }

    /// Whether to end.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks everybody who waits here to end.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Waits a moment.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        std::thread::sleep(LOOK);
        self.check()
    }

    /// A failure once it is set.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_set() { Err(Failure::new(exit::INTERNAL, "stopped by a signal")) } else { Ok(()) }
    }

    /// Sleeps until `due`, in steps so short that a signal is heard; whether it was not stopped.
    pub(super) fn sleep_until(&self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if self.is_set() {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(5 * LOOK));
        }
    }
}
