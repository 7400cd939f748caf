//! Whether a run is worth its figures: gates, each with the reason in words.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::report::{count, millis};
use super::schedule::Punctuality;

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// What it asks.
    pub name: &'static str,
    /// Whether the run passed.
    pub passed: bool,
    /// Why.
    pub words: String,
}

/// What was found after the last batch of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// From the last batch sent until all was applied; `None` when it was not, in the time there was.
    pub after: Option<Duration>,
    /// Longest such time that passes.
    pub bound: Duration,
    /// By how much the lag grew from the first quarter of the run to the last.
    pub growth: Duration,
    /// Largest growth that passes; `None` where lag has no meaning.
    pub growth_bound: Option<Duration>,
    /// Batches, events or blocks lost, refused or skipped.
    pub lost: u64,
    /// Whether the daemon stopped to answer.
    pub unanswered: bool,
}

/// Whether the generator held its schedule of `due` items: at most `share` (0 to 1) of them late or unsent.
pub fn generator(punctuality: &Punctuality, due: u64, share: f64, what: &str) -> Gate {
    let unsent = due.saturating_sub(punctuality.sent());
    let bad = punctuality.late() + unsent;
    let found = bad as f64 / due.max(1) as f64;
    let mut words = format!(
        "{} % of {} {what} were sent more than {} late",
        percent(found),
        count(due),
        millis(punctuality.bound())
    );
    if unsent > 0 && punctuality.sent() == 0 {
        words = format!("{} {what} were due, and not at all sent", count(due));
        return Gate { name: "generator valid", passed: found <= share, words };
    }
    if unsent > 0 {
        let _ = write!(words, " or, {} of them, not at all", count(unsent));
    }
    let _ =
        write!(words, "; {} % may be; the latest by {}", percent(share), millis(punctuality.times().max()));
    Gate { name: "generator valid", passed: found <= share, words }
}

/// For runs as fast as possible.
pub fn no_schedule() -> Gate {
    Gate { name: "generator valid", passed: true, words: "there was no schedule to hold".to_owned() }
}

/// Whether the daemon applied everything, soon after it was sent, and without falling behind on the way.
pub fn kept_up(settled: &Settled) -> Gate {
    let bound = millis(settled.bound);
    let mut faults = Vec::new();
    if settled.lost > 0 {
        faults.push(format!("{} batches, events or blocks were lost", count(settled.lost)));
    }
    match settled.after {
        None if settled.unanswered => faults.push("the daemon did not answer any more".to_owned()),
        None => faults.push(format!("not everything was applied {bound} after the last batch")),
        Some(after) if after > settled.bound => {
            faults.push(format!("the last batch was applied after {}, {bound} may be", millis(after)));
        }
        Some(_) => {}
    }
    if let Some(most) = settled.growth_bound
        && settled.growth > most
    {
        faults.push(format!(
            "the median lag grew by {} from the first quarter to the last, {} may be",
            millis(settled.growth),
            millis(most)
        ));
    }
    let passed = faults.is_empty();
    let words = if passed {
        let after = settled.after.unwrap_or_default();
        format!(
            "everything was applied, the last of it within {} of being sent ({bound} may be)",
            millis(after)
        )
    } else {
        faults.join("; ")
    };
    Gate { name: "kept up", passed, words }
}

/// Whether the daemon answered `due` questions of a schedule in time.
pub fn answered(due: u64, answered: u64) -> Gate {
    let words = format!("{} of {} questions were answered in time", count(answered), count(due));
    Gate { name: "kept up", passed: answered >= due, words }
}

/// Whether the answers were right.
pub fn answers(checked: u64, wrong: u64) -> Gate {
    let words = match (checked, wrong) {
        (0, _) => "no answer was checked".to_owned(),
        (_, 0) => format!("all {} answers that were checked are right", count(checked)),
        _ => format!("{} of {} answers are wrong", count(wrong), count(checked)),
    };
    Gate { name: "answers right", passed: wrong == 0 && checked > 0, words }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.fract() == 0.0 { format!("{percent:.0}") } else { format!("{percent:.2}") }
}
