//! SIGTERM and SIGINT, and what the control thread does between them: nothing.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;

/// How often the control thread looks whether a reactor died.
const LOOK: Duration = Duration::from_millis(500);

/// The signals that end the process in order.
pub(super) struct Signals(Receiver<i32>);

impl Signals {
    /// From here on they are caught. To be called before anything listens, so that an early signal is an
    /// orderly stop too.
    pub(super) fn watch() -> io::Result<Self> {
        let (told, signals) = mpsc::channel();
        let mut caught = Caught::new([SIGTERM, SIGINT])?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in caught.forever() {
                if told.send(signal).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self(signals))
    }

    /// Waits for a signal, for at most `time`, or until something has `died`; whether it has.
    pub(super) fn wait(&self, time: Option<Duration>, died: impl Fn() -> bool) -> bool {
        let mut left = time;
        loop {
            let step = left.map_or(LOOK, |left| left.min(LOOK));
            match self.0.recv_timeout(step) {
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if died() {
                return true;
            }
            if let Some(rest) = &mut left {
                *rest = rest.saturating_sub(step);
                if rest.is_zero() {
                    return false;
                }
            }
        }
    }
}
