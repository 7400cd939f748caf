//! What `bench trace` found.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Ending, Measured, count, gates_text, line, percentiles_text, short};
use crate::bench::gate::Gate;
use crate::bench::times::Percentiles;
use crate::bench::worker::{Bounds, Worker};

/// Answers of one instance each, compared with what that worker holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Exactly what the worker held, while nothing of the prompt was under way.
    pub exact: u64,
    /// Between what the worker held for certain and what it may have held, while something of the prompt was under way.
    pub under_way: u64,
    /// Neither.
    pub wrong: u64,
    /// Asked again once all was applied: exactly what the worker holds.
    pub quiet_exact: u64,
    /// Asked again once all was applied: something else.
    pub quiet_wrong: u64,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct TraceReport {
    /// How it came to its end.
    #[serde(flatten)]
    pub ending: Ending,
    /// Requests.
    pub requests: u64,
    /// Workers.
    pub workers: u32,
    /// Blocks that each holds at most.
    pub capacity: u32,
    /// Tokens a block.
    pub tokens_per_block: u32,
    /// How much faster than recorded; `None` is as fast as possible.
    pub speed: Option<f64>,
    /// How workers were chosen.
    pub route: &'static str,
    /// From the first request to the last, seconds.
    pub seconds: f64,
    /// The daemon.
    pub daemon: Measured,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens that the chosen workers held, by the answers.
    pub hit_tokens_answered: u64,
    /// Tokens that the chosen workers held.
    pub hit_tokens_true: u64,
    /// Blocks stored by the workers.
    pub blocks_stored: u64,
    /// Blocks evicted by the workers.
    pub blocks_evicted: u64,
    /// Answers.
    pub answers: Checked,
    /// How long answers took, from the question's sending.
    pub latency: Percentiles,
    /// From when a worker's batches were sent until they were seen to be applied.
    pub lag: Percentiles,
    /// Between two looks at what is applied.
    pub looks: Percentiles,
    /// How late questions were sent.
    pub lateness: Option<Percentiles>,
    /// Gates.
    pub gates: Vec<Gate>,
}

impl TraceReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.ending.text(&mut out);
        let speed = self
            .speed
            .map_or("as fast as possible".to_owned(), |speed| format!("{speed} times as fast as recorded"));
        let _ = writeln!(
            out,
            "trace: {} requests in {:.1} s, {speed}; {} workers of {} blocks of {} tokens, {} routing",
            count(self.requests),
            self.seconds,
            self.workers,
            count(self.capacity.into()),
            self.tokens_per_block,
            self.route
        );
        line(&mut out, "daemon", &self.daemon.text());
        let share = |tokens: u64| 100.0 * tokens as f64 / self.prompt_tokens.max(1) as f64;
        let hits = format!(
            "{:.2} % of {} prompt tokens by the answers, {:.2} % in truth",
            share(self.hit_tokens_answered),
            count(self.prompt_tokens),
            share(self.hit_tokens_true)
        );
        line(&mut out, "hit rate", &hits);
        let blocks = format!("{} stored, {} evicted", count(self.blocks_stored), count(self.blocks_evicted));
        line(&mut out, "blocks", &blocks);
        let Checked { exact, under_way, wrong, quiet_exact, quiet_wrong } = self.answers;
        let [exact, under_way, wrong] = [exact, under_way, wrong].map(count);
        let told = format!(
            "{exact} exact, {under_way} right for events under way, {wrong} wrong; one for each worker and request"
        );
        line(&mut out, "answers", &told);
        let told = format!(
            "asked again when all was applied: {} exact, {} wrong",
            count(quiet_exact),
            count(quiet_wrong)
        );
        line(&mut out, "", &told);
        line(&mut out, "latency", &percentiles_text(&self.latency));
        line(&mut out, "lag of events", &percentiles_text(&self.lag));
        let (usual, worst) = (short(self.looks.p50_us), short(self.looks.max_us));
        line(&mut out, "", &format!("looked every {usual}, at worst {worst}"));
        if let Some(lateness) = &self.lateness {
            line(&mut out, "asked late by", &percentiles_text(lateness));
        }
        out.push('\n');
        gates_text(&self.gates, &mut out);
        out
    }
}

impl Checked {
    /// Counts what an answer said of a worker: so many tokens of a prompt of these blocks.
    pub fn note(&mut self, worker: &Worker, prompt: &[u64], tokens: u64, block_size: u32) {
        let Bounds { least, most } = worker.bounds(prompt);
        let of = |blocks: usize| blocks as u64 * u64::from(block_size);
        let whole = tokens.is_multiple_of(block_size.into());
        let place = if !whole || !(of(least)..=of(most)).contains(&tokens) {
            &mut self.wrong
        } else if least == most {
            &mut self.exact
        } else {
            &mut self.under_way
        };
        *place += 1;
    }
}
