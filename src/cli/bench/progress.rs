//! A bar on a terminal, nothing anywhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often it is drawn.
const HERTZ: u8 = 8;

/// A bar on standard error.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar of so many steps of something.
    pub(super) fn new(name: &'static str, steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(HERTZ));
        let style = ProgressStyle::with_template("{prefix:>8} [{bar:32}] {percent:>3} % {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(name);
        Self(bar)
    }

    /// So much is done.
    pub(super) fn at(&self, step: u64, words: impl FnOnce() -> String) {
        if self.0.is_hidden() {
            return;
        }
        self.0.set_message(words());
        self.0.set_position(step);
    }

    /// So much time of a run is over.
    pub(super) fn at_time(&self, time: Duration, words: impl FnOnce() -> String) {
        self.at(time.as_millis() as u64, words);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
