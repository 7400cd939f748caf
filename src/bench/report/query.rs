//! What `bench query` found.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Ending, Measured, count, gates_text, line, short};
use crate::bench::ask::Encoding;
use crate::bench::gate::Gate;
use crate::bench::times::Percentiles;

/// One point of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// Blocks of a prompt.
    pub depth: u32,
    /// Share of them that is held.
    pub hit: f64,
    /// How it was asked.
    pub encoding: Encoding,
    /// Answers.
    pub requests: u64,
    /// Answers that were wrong.
    pub wrong: u64,
    /// Answers a second.
    pub requests_per_second: f64,
    /// How long an answer took: from when its question was due with a rate, else from when it was sent.
    pub latency: Percentiles,
    /// CPU time of the daemon for one answer, microseconds.
    pub cpu_us_per_request: Option<f64>,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    /// How it came to its end.
    #[serde(flatten)]
    pub ending: Ending,
    /// Instances that hold the prompts.
    pub owners: u32,
    /// Prompts a cell.
    pub prompts: u32,
    /// Tokens a block.
    pub tokens_per_block: u32,
    /// Connections.
    pub connections: u32,
    /// Questions a second, all connections together; `None` asks when the answer before is there.
    pub rate: Option<f64>,
    /// How long each cell was measured, seconds.
    pub seconds: f64,
    /// Blocks held while it was asked, counted once an instance.
    pub blocks_held: u64,
    /// The daemon.
    pub daemon: Measured,
    /// Points.
    pub cells: Vec<CellReport>,
    /// Gates.
    pub gates: Vec<Gate>,
}

impl QueryReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.ending.text(&mut out);
        let loop_ = self.rate.map_or_else(
            || "each asks when the answer before is there".to_owned(),
            |rate| format!("{rate} questions/s together"),
        );
        let _ = writeln!(
            out,
            "query: {} connections, {loop_}; {} prompts held by {} instances, {} tokens a block; {} s a line",
            self.connections, self.prompts, self.owners, self.tokens_per_block, self.seconds
        );
        line(&mut out, "daemon", &self.daemon.text());
        line(&mut out, "holds", &format!("{} blocks, counted once an instance", count(self.blocks_held)));
        let names = ["depth", "hit", "as", "answers/s", "p50", "p90", "p99", "p99.9", "max", "CPU", "wrong"];
        out.push('\n');
        row(&mut out, &names.map(str::to_owned));
        for cell in &self.cells {
            let Percentiles { p50_us, p90_us, p99_us, p999_us, max_us, .. } = cell.latency;
            let [p50, p90, p99, p999, max] = [p50_us, p90_us, p99_us, p999_us, max_us].map(short);
            let cpu = cell.cpu_us_per_request.map_or("-".to_owned(), short);
            let (depth, hit) = (cell.depth.to_string(), format!("{:.0} %", cell.hit * 100.0));
            let (asked, wrong) = (count(cell.requests_per_second.round() as u64), count(cell.wrong));
            let encoding = cell.encoding.name().to_owned();
            row(&mut out, &[depth, hit, encoding, asked, p50, p90, p99, p999, max, cpu, wrong]);
        }
        out.push('\n');
        gates_text(&self.gates, &mut out);
        out
    }
}

fn row(out: &mut String, cells: &[String; 11]) {
    for (cell, width) in cells.iter().zip([7, 7, 9, 11, 10, 10, 10, 10, 10, 10, 7]) {
        let _ = write!(out, "{cell:>width$}");
    }
    out.push('\n');
}
