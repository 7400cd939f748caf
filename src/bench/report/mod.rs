//! The outcome of a bench: one value, as JSON for programs and as text for people.

mod ingest;
mod query;
mod trace;

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::gate::Gate;
use super::seen::Usage;
use super::times::Percentiles;

pub use ingest::{Counts, IngestReport, Reactor};
pub use query::{CellReport, QueryReport};
pub use trace::{Checked, TraceReport};

/// How a run came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// A signal stopped it: its figures are of the part before.
    pub stopped: bool,
    /// The daemon did not answer any more: its figures end with its last answer.
    pub unanswered: bool,
}

/// The daemon that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Its address; `None` for one that the bench started.
    pub target: Option<String>,
    /// Its reactors.
    pub reactors: usize,
    /// How long it was measured, seconds.
    pub seconds: f64,
    /// CPU time that it used meanwhile, seconds; `None` where nobody can tell.
    pub cpu_seconds: Option<f64>,
    /// Its memory before, bytes.
    pub rss_before: Option<u64>,
    /// Its memory afterwards, bytes.
    pub rss_after: Option<u64>,
}

impl Ending {
    /// Lines before all figures, where these need a warning.
    fn text(self, out: &mut String) {
        if self.stopped {
            out.push_str("STOPPED by a signal: the figures are of the part of the run before it\n");
        }
        if self.unanswered {
            out.push_str(
                "NO ANSWER from the daemon any more: what is said of it ends with its last answer, and it may still know the publishers\n",
            );
        }
    }
}

impl Measured {
    /// A daemon between two looks at its process that lie so far apart.
    pub fn new(
        target: Option<String>,
        reactors: usize,
        time: Duration,
        before: Option<Usage>,
        after: Option<Usage>,
    ) -> Self {
        let both = before.zip(after);
        Self {
            target,
            reactors,
            seconds: time.as_secs_f64(),
            cpu_seconds: both.map(|(before, after)| after.cpu.saturating_sub(before.cpu).as_secs_f64()),
            rss_before: both.map(|(before, _)| before.resident),
            rss_after: both.map(|(_, after)| after.resident),
        }
    }

    fn text(&self) -> String {
        let mut text = match &self.target {
            Some(target) => format!("{target}, {} reactors", self.reactors),
            None => format!("started by the bench, {} reactors", self.reactors),
        };
        if let Some(cpu) = self.cpu_seconds {
            let _ = write!(text, "; CPU {cpu:.2} s, {:.0} % of a core", 100.0 * cpu / self.seconds.max(1e-9));
        }
        if let (Some(before), Some(after)) = (self.rss_before, self.rss_after) {
            let _ = write!(text, "; RSS {} before, {} after", mebibytes(before), mebibytes(after));
        }
        text
    }
}

/// Whether every gate was passed.
pub fn passed(gates: &[Gate]) -> bool {
    gates.iter().all(|gate| gate.passed)
}

fn gates_text(gates: &[Gate], out: &mut String) {
    for gate in gates {
        let verdict = if gate.passed { "yes" } else { "NO" };
        let _ = writeln!(out, "  {:<16}{verdict}: {}", gate.name, gate.words);
    }
}

fn percentiles_text(times: &Percentiles) -> String {
    let Percentiles { p50_us, p90_us, p99_us, p999_us, max_us, .. } = *times;
    let [p50, p90, p99, p999, max] = [p50_us, p90_us, p99_us, p999_us, max_us].map(short);
    format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}")
}

/// Microseconds in the unit in which they are short.
fn short(micros: f64) -> String {
    match micros {
        0.0..1e3 => format!("{micros:.0} µs"),
        1e3..1e6 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// A time in milliseconds, in words.
pub(super) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis >= 10.0 || millis.fract() == 0.0 {
        format!("{millis:.0} ms")
    } else {
        format!("{millis:.2} ms")
    }
}

/// A number with commas.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<16}{text}");
}
