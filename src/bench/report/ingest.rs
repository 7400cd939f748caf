//! What `bench ingest` found.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Ending, Measured, count, gates_text, line, percentiles_text, short};
use crate::bench::gate::Gate;
use crate::bench::times::Percentiles;

/// Sent, or applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Batches.
    pub batches: u64,
    /// Events.
    pub events: u64,
    /// Blocks stored.
    pub blocks_stored: u64,
    /// Blocks removed.
    pub blocks_removed: u64,
    /// Blocks held afterwards.
    pub blocks_held: u64,
}

/// One figure of them.
type Part = fn(&Counts) -> u64;

/// One reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reactor {
    /// Streams that it listens to.
    pub streams: u64,
    /// ZMQ messages.
    pub messages: u64,
    /// Batches applied.
    pub batches: u64,
    /// Blocks stored and removed.
    pub blocks: u64,
    /// Turns.
    pub turns: u64,
    /// Polls of more than a millisecond.
    pub stalls: u64,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct IngestReport {
    /// How it came to its end.
    #[serde(flatten)]
    pub ending: Ending,
    /// Publishers.
    pub publishers: u32,
    /// Batches a second of each; `None` is as fast as possible.
    pub rate: Option<f64>,
    /// Store events a batch.
    pub events_per_batch: u32,
    /// Blocks an event.
    pub blocks_per_event: u32,
    /// Tokens a block.
    pub tokens_per_block: u32,
    /// From the start until the last batch was sent, seconds.
    pub sent_seconds: f64,
    /// From the start until all was applied, or was given up, seconds.
    pub applied_seconds: f64,
    /// The daemon.
    pub daemon: Measured,
    /// What was sent.
    pub sent: Counts,
    /// What was applied.
    pub applied: Counts,
    /// Jumps of a sequence number.
    pub gaps: u64,
    /// Batches that never came.
    pub missed: u64,
    /// Events skipped and payloads refused.
    pub skipped: u64,
    /// From when a batch was due until it was seen to be applied.
    pub lag: Percentiles,
    /// Between two looks at what is applied: by so much the lag may be overrated.
    pub looks: Percentiles,
    /// How late batches were sent.
    pub lateness: Option<Percentiles>,
    /// By reactor.
    pub per_reactor: Vec<Reactor>,
    /// Gates.
    pub gates: Vec<Gate>,
}

impl IngestReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.ending.text(&mut out);
        let rate =
            self.rate.map_or("as fast as possible".to_owned(), |rate| format!("{rate} batches/s each"));
        let _ = writeln!(
            out,
            "ingest: {} publishers, {rate}; {} store events a batch, {} blocks an event, {} tokens a block; {:.1} s",
            self.publishers,
            self.events_per_batch,
            self.blocks_per_event,
            self.tokens_per_block,
            self.sent_seconds
        );
        line(&mut out, "daemon", &self.daemon.text());
        if let Some(cpu) = self.daemon.cpu_seconds {
            let blocks = self.applied.blocks_stored + self.applied.blocks_removed;
            let micros = cpu * 1e6 / blocks.max(1) as f64;
            line(
                &mut out,
                "CPU a block",
                &format!("{micros:.2} µs, stored or removed, answering the looks included"),
            );
        }
        let _ = writeln!(out, "\n  {:<16}{:>16}{:>16}{:>18}", "", "sent", "applied", "applied a second");
        let rows: [(&str, Part); 4] = [
            ("batches", |counts| counts.batches),
            ("events", |counts| counts.events),
            ("blocks stored", |counts| counts.blocks_stored),
            ("blocks removed", |counts| counts.blocks_removed),
        ];
        for (name, of) in rows {
            let a_second = of(&self.applied) as f64 / self.applied_seconds.max(1e-9);
            let (sent, applied) = (count(of(&self.sent)), count(of(&self.applied)));
            let _ =
                writeln!(out, "  {name:<16}{sent:>16}{applied:>16}{:>18}", count(a_second.round() as u64));
        }
        let (sent, applied) = (count(self.sent.blocks_held), count(self.applied.blocks_held));
        let _ = writeln!(out, "  {:<16}{sent:>16}{applied:>16}", "blocks held");
        let _ = writeln!(
            out,
            "\n  {:<16}{} batches that never came, in {} gaps; {} events skipped or payloads refused",
            "lost",
            count(self.missed),
            count(self.gaps),
            count(self.skipped)
        );
        line(&mut out, "lag", &percentiles_text(&self.lag));
        let (usual, worst) = (short(self.looks.p50_us), short(self.looks.max_us));
        let told = format!(
            "from when a batch was due until it was seen applied; looked every {usual}, at worst {worst}"
        );
        line(&mut out, "", &told);
        if let Some(lateness) = &self.lateness {
            line(&mut out, "sent late by", &percentiles_text(lateness));
        }
        self.reactors_text(&mut out);
        gates_text(&self.gates, &mut out);
        out
    }

    fn reactors_text(&self, out: &mut String) {
        let names = ["streams", "messages", "batches", "blocks", "turns", "stalls"];
        let _ = write!(out, "\n  {:<16}", "reactor");
        for name in names {
            let _ = write!(out, "{name:>13}");
        }
        out.push('\n');
        for (number, reactor) in self.per_reactor.iter().enumerate() {
            let Reactor { streams, messages, batches, blocks, turns, stalls } = *reactor;
            let _ = write!(out, "  {number:<16}");
            for figure in [streams, messages, batches, blocks, turns, stalls] {
                let _ = write!(out, "{:>13}", count(figure));
            }
            out.push('\n');
        }
        out.push('\n');
    }
}
