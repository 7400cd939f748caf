//! Whether somebody asked a command to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::exit::{self, Failure};

/// How long a wait goes on before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// Set by SIGINT, SIGTERM and SIGHUP; also by a command that gives up.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    flag: Arc<AtomicBool>,
    /// The last of these signals; 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP, so that nothing is left behind. The second of them ends the process
    /// at once.
    pub(super) fn listen() -> Self {
        let stop = Self { flag: Arc::default(), signal: Arc::default() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // without the handlers the signal ends the process, as it would anyway; they run in this order
            let status = i32::from(exit::SIGNAL) + signal;
            let _ = signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&stop.flag));
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize);
            let _ = signal_hook::flag::register(signal, Arc::clone(&stop.flag));
        }
        stop
    }

    /// Whether to end.
    pub(super) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The exit code of what a signal has ended; `None` where there was none.
    pub(super) fn signal(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(exit::SIGNAL + signal as u8),
        }
    }

    /// Asks everybody who waits here to end.
    pub(super) fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Waits a moment.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        std::thread::sleep(LOOK);
        self.check()
    }

    /// A failure once it is set.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if !self.is_set() {
            return Ok(());
        }
        Err(Failure::new(self.signal().unwrap_or(exit::INTERNAL), "stopped by a signal"))
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
