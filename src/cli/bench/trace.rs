//! `bench trace`: requests of a trace, one after the other: asked, routed to a simulated worker, and published as what
//! that worker stores and evicts.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};

use super::fleet::{Fleet, Plan};
use super::patience::Patience;
use super::play::{Play, Tally};
use super::progress::Progress;
use super::sampler::{Sampler, Watch};
use super::subject::{Look, Subject};
use super::{Common, OnTime, Outcome, Watching, family, number, usage};
use crate::bench::ask::Encoding;
use crate::bench::gate::{self, Settled};
use crate::bench::report::{Checked, Ending, TraceReport};
use crate::bench::trace::{Request, Requests};
use crate::cli::exit::{self, Failure};
use crate::cli::stop::Stop;
use crate::limits::{
    BENCH_CAPACITY, BENCH_PAUSE_SECONDS, BENCH_PUBLISHERS, BENCH_SECONDS, BENCH_SETTLE_SECONDS,
    BENCH_TRACE_IDS, BENCH_TRACE_REQUESTS, BLOCK_TOKENS,
};
use crate::wire::family::Family;

/// From the end of all preparation until the first request is due.
const LEAD: Duration = Duration::from_millis(50);

/// Flags of `bench trace`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, allow_negative_numbers = true)]
pub(super) struct TraceArgs {
    /// The trace: one JSON object a line, with timestamp (ms), input_length, output_length, hash_ids (one for each 512
    /// tokens)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How much faster than recorded requests come, or max: each as soon as the one before is done
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    speed: Speed,
    /// Play so many requests only, from the first one on
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Simulated workers, each an instance with a publisher
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=i64::from(BENCH_PUBLISHERS)))]
    pub(super) workers: u32,
    /// Blocks that a worker holds; beyond, it evicts what was not used for the longest time
    #[arg(long, value_name = "BLOCKS", default_value_t = 50_000, value_parser = value_parser!(u32).range(1..=i64::from(BENCH_CAPACITY)))]
    pub(super) capacity: u32,
    /// Tokens a block
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = value_parser!(u32).range(1..=i64::from(BLOCK_TOKENS)))]
    pub(super) block_size: u32,
    /// How a request finds its worker
    #[arg(long, value_name = "HOW", default_value = "best")]
    pub(super) route: Route,
    /// Workers also store the blocks that answers fill
    #[arg(long)]
    pub(super) outputs: bool,
    /// Ask in bare tokens instead of JSON
    #[arg(long)]
    pub(super) binary: bool,
    /// Wire version of the events
    #[arg(long, value_name = "NAME", default_value = "vllm-0.33.0", value_parser = family)]
    pub(super) family: &'static Family,
    /// Seed of all tokens
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) on_time: OnTime,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    pub(super) common: Common,
}

const AFTER_HELP: &str = "\
Requests are played one after the other: the daemon is asked, a worker is chosen, and what that worker stores and \
evicts is published, with an empty batch behind it whose number tells when all of it is applied.

What is compared: each answer names every worker, and each of those figures is checked. Blocks that a worker stored or \
removed since the last batch that was known to be applied when the question was sent may count or not; a figure is \
wrong when it is less than what the worker held for certain or more than what it may have held. Once all is applied, \
the last requests are asked again, and every figure must be exactly what the worker holds.

Gates: \"generator valid\", requests were asked on time (--late-ms, --late-share); \"kept up\" as in bench ingest; \
\"answers right\", which --no-gate does not excuse.

Examples:
  kvatlas bench trace conversation_trace.jsonl --speed 100 --workers 16
  kvatlas bench trace conversation_trace.jsonl --speed max --requests 2000 --route round-robin --outputs";

/// How fast.
#[derive(Clone, Copy, Debug)]
enum Speed {
    Factor(f64),
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        number(text, 1e-3, 1e6).map(Self::Factor).map_err(|reason| format!("{reason}, or max"))
    }
}

/// How a request finds its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Route {
    /// The one that holds most of it by the answer; of equals, the one with the fewest requests.
    Best,
    /// Each in its turn.
    RoundRobin,
}

/// Measures.
pub(super) fn run(
    args: &TraceArgs,
    stop: &Stop,
    patience: &Patience,
) -> Result<Outcome<TraceReport>, Failure> {
    args.common.check(args.workers)?;
    let requests = args.read()?;
    let mut subject = Subject::find(&args.common, stop, patience)?;
    let plan = Plan {
        publishers: args.workers,
        family: args.family,
        block_size: args.block_size,
        send_hwm: 100_000,
        replay: false,
    };
    let fleet = Fleet::start(plan, &subject.target, &args.common, (stop, patience))?;
    let reactors = subject.turns()?.turns.len();
    let before = subject.look();
    let start = Instant::now() + LEAD;
    let watch = Watch::new(fleet.publishers.len(), start, args.span(&requests));
    let sampler = Sampler::start(&subject.target, &fleet, &watch, (args.watching.sample, patience))?;
    let mut play = Play::new(args, &fleet, &watch, (stop, patience), &subject)?;
    let progress = Progress::new("trace", requests.len() as u64);
    for (number, request) in (0..).zip(&requests) {
        progress.at(number, || format!("{} batches under way", watch.under_way()));
        if !play.request(number, request, requests[0].timestamp)? {
            break;
        }
    }
    drop(progress);
    patience.end();
    let ended = Instant::now();
    let marks = play.marks()?;
    let seen = watch.until_seen(&marks, Duration::from_secs(BENCH_SETTLE_SECONDS), patience)?;
    if seen.is_some() {
        play.ask_again(&requests)?;
    }
    drop(sampler);
    let run = Run { start, ended, seen, ending: patience.ending(), reactors, before };
    let tally = play.tally;
    Ok(args.report(&subject, &watch, &tally, &run))
}

/// When what happened, and what was so before.
struct Run {
    start: Instant,
    /// Nobody looks before; a pause may stand between the last batch and this.
    ended: Instant,
    seen: Option<Instant>,
    ending: Ending,
    reactors: usize,
    before: Look,
}

impl TraceArgs {
    /// The whole trace, so that a bad line is known before anything begins.
    fn read(&self) -> Result<Vec<Request>, Failure> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        let file = File::open(&self.file).map_err(|error| Failure::new(exit::NO_INPUT, named(&error)))?;
        let most =
            self.requests.map_or(usize::MAX, |requests| usize::try_from(requests).unwrap_or(usize::MAX));
        let mut lines = Requests::new(BufReader::new(file));
        let (mut requests, mut ids) = (Vec::<Request>::new(), 0);
        while requests.len() < most {
            let Some(request) = lines.next() else { break };
            let request = request.map_err(|error| Failure::new(exit::DATA, named(&error)))?;
            let before = requests.last().map_or(request.timestamp, |before| before.timestamp);
            if self.due(&request, before).as_secs_f64() > BENCH_PAUSE_SECONDS {
                let (line, now) = (lines.line(), request.timestamp);
                let reason = format!(
                    "line {line}: timestamp {now:?} jumps from {before:?}, that of the line before: at this --speed nothing would happen for more than {BENCH_PAUSE_SECONDS} s"
                );
                return Err(Failure::new(exit::DATA, named(&reason)));
            }
            ids += request.hash_ids.len();
            if requests.len() == BENCH_TRACE_REQUESTS || ids > BENCH_TRACE_IDS {
                let reason = format!(
                    "the trace has more than {BENCH_TRACE_REQUESTS} requests or {BENCH_TRACE_IDS} ids; play fewer"
                );
                return Err(usage("--requests", &reason));
            }
            requests.push(request);
        }
        let (Some(first), Some(last)) = (requests.first(), requests.last()) else {
            return Err(Failure::new(exit::DATA, named(&"there is no request in it")));
        };
        if self.due(last, first.timestamp).as_secs_f64() > BENCH_SECONDS {
            return Err(usage("--speed", &format!("the trace would take more than {BENCH_SECONDS} s")));
        }
        Ok(requests)
    }

    fn factor(&self) -> Option<f64> {
        if let Speed::Factor(factor) = self.speed { Some(factor) } else { None }
    }

    /// When a request is due after the first one; at once where there is no schedule.
    pub(super) fn due(&self, request: &Request, first: f64) -> Duration {
        let seconds = self.factor().map_or(0.0, |factor| (request.timestamp - first) / 1e3 / factor);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How long requests come.
    fn span(&self, requests: &[Request]) -> Duration {
        let ends = requests.first().zip(requests.last());
        let span = ends.map_or(Duration::ZERO, |(first, last)| self.due(last, first.timestamp));
        span.max(Duration::from_secs(1))
    }

    /// How questions are written.
    pub(super) fn encoding(&self) -> Encoding {
        if self.binary { Encoding::Octets } else { Encoding::Json }
    }

    fn report(&self, subject: &Subject, watch: &Watch, tally: &Tally, run: &Run) -> Outcome<TraceReport> {
        let (lags, looks) = watch.lags();
        let services = watch.services();
        let streams = services.iter().flatten().map(|service| &service.stream);
        let lost: u64 = streams.clone().map(crate::bench::seen::Stream::lost).sum();
        let removed: u64 = streams.clone().map(|stream| stream.blocks_removed).sum();
        let stored: u64 = streams.map(|stream| stream.blocks_stored).sum();
        let missing = stored.abs_diff(tally.stored).max(removed.abs_diff(tally.evicted));
        // of a part that was not waited for, nobody knows what is still to come
        let part = run.ending != Ending::default();
        let settled = Settled {
            after: run.seen.map(|seen| seen.saturating_duration_since(tally.last.max(run.ended))),
            bound: self.watching.settle,
            growth: lags.growth(),
            growth_bound: self.factor().map(|_| self.watching.growth),
            lost: lost.max(if part && run.seen.is_none() { 0 } else { missing }),
            unanswered: run.ending.unanswered,
        };
        let generator = self.factor().map_or_else(gate::no_schedule, |_| {
            gate::generator(&tally.punctuality, tally.requests, self.on_time.share(), "requests")
        });
        let Checked { exact, under_way, wrong, quiet_exact, quiet_wrong } = tally.answers;
        let checked = exact + under_way + wrong + quiet_exact + quiet_wrong;
        let gates = vec![generator, gate::kept_up(&settled), gate::answers(checked, wrong + quiet_wrong)];
        let report = TraceReport {
            ending: run.ending,
            requests: tally.requests,
            workers: self.workers,
            capacity: self.capacity,
            tokens_per_block: self.block_size,
            speed: self.factor(),
            route: if self.route == Route::Best { "best" } else { "round-robin" },
            seconds: tally.last.saturating_duration_since(run.start).as_secs_f64(),
            daemon: subject.measured(run.reactors, run.before),
            prompt_tokens: tally.prompt_tokens,
            hit_tokens_answered: tally.hit_answered,
            hit_tokens_true: tally.hit_true,
            blocks_stored: tally.stored,
            blocks_evicted: tally.evicted,
            answers: tally.answers,
            latency: tally.latency.percentiles(),
            lag: lags.all().percentiles(),
            looks: looks.percentiles(),
            lateness: self.factor().map(|_| tally.punctuality.times().percentiles()),
            gates: gates.clone(),
        };
        let text = report.text();
        let histograms = vec![("latency".to_owned(), tally.latency.clone())];
        Outcome { ending: run.ending, report, text, gates, histograms }
    }
}
