//! `kvatlas bench`: real publishers and real queries against a daemon, with figures that say whether they can be
//! trusted.

mod connection;
mod fleet;
mod ingest;
mod patience;
mod play;
mod progress;
mod query;
mod question;
mod sampler;
mod sender;
mod subject;
mod trace;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use serde::Serialize;

use self::patience::Patience;
use super::client::Target;
use super::exit::{self, Failure};
use super::output;
use super::stop::Stop;
use crate::bench::gate::Gate;
use crate::bench::report::{Ending, passed};
use crate::bench::times::Times;
use crate::config::Driver;
use crate::limits::REACTORS;
use crate::wire::family::{FAMILIES, Family};

/// Flags of `bench`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Without --target a daemon is started on a free port, measured and stopped. It shares the machine with the generator, \
so leave cores to both: see the gate \"generator valid\".

Exit codes: 0 measured, 2 a gate failed (the report says which and why), 64 bad command line, 65 the daemon refused \
something, 69 cannot connect or bind, or no answer any more, 70 internal error, 73 cannot write a file, 130 stopped by \
Ctrl-C. What is stopped while it measures still reports on the part before; the second Ctrl-C ends it at once.";

#[derive(Debug, Subcommand)]
enum What {
    /// Publish events on a schedule: rate, lag, loss.
    Ingest(ingest::IngestArgs),
    /// Ask about prompts of which the answer is known: latency, CPU, wrong answers.
    Query(query::QueryArgs),
    /// Play a trace as events and queries: hit rate, wrong answers, latency, lag.
    Trace(trace::TraceArgs),
}

/// Flags that all benches have.
#[derive(Clone, Debug, Args)]
struct Common {
    /// Measure this running daemon instead of starting one: http://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL", help_heading = "Daemon")]
    target: Option<Target>,
    /// Reactors of the daemon that is started [default: one a core]
    #[arg(long, value_name = "N", help_heading = "Daemon", conflicts_with = "target", value_parser = value_parser!(u16).range(1..=REACTORS as i64))]
    reactors: Option<u16>,
    /// How the reactors of the daemon that is started wait for the kernel [default: auto]
    #[arg(long, help_heading = "Daemon", conflicts_with = "target")]
    driver: Option<Driver>,
    /// Process of the daemon at --target, where it runs on this machine: for its CPU and memory
    #[arg(long, value_name = "PID", help_heading = "Daemon", requires = "target")]
    server_pid: Option<u32>,
    /// Interface that the publishers listen on
    #[arg(long, value_name = "HOST", help_heading = "Daemon", default_value = "127.0.0.1")]
    bind: String,
    /// Host under which the daemon reaches the publishers [default: that of --bind]
    #[arg(long, value_name = "HOST", help_heading = "Daemon")]
    advertise: Option<String>,
    /// Port of the first publisher, the others follow; 0 is any free ones
    #[arg(long, value_name = "PORT", help_heading = "Daemon", default_value_t = 0)]
    base_port: u16,
    /// Print the report as JSON
    #[arg(long, help_heading = "Report")]
    json: bool,
    /// Write a percentile distribution (.hgrm, milliseconds) that the plotters of HdrHistogram read
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    histogram: Option<PathBuf>,
    /// Exit with 0 also when a gate failed, unless answers were wrong
    #[arg(long, help_heading = "Report")]
    no_gate: bool,
}

/// Flags of benches with a schedule.
#[derive(Clone, Debug, Args)]
struct OnTime {
    /// Sent later than this after it was due is late [default: 5, for a trace, whose requests come in bursts, 250]
    #[arg(long = "late-ms", value_name = "MS", help_heading = "Gates", value_parser = millis)]
    late: Option<Duration>,
    /// Most that may be late, percent
    #[arg(long, value_name = "PERCENT", help_heading = "Gates", default_value_t = 1.0, value_parser = percent)]
    late_share: f64,
}

/// Flags of benches that publish while they measure.
#[derive(Clone, Debug, Args)]
struct Watching {
    /// How often, on the average, it is looked at what the daemon has applied: a lag is overrated by half of it, on the
    /// average
    #[arg(long = "sample-ms", value_name = "MS", default_value = "10", value_parser = sample)]
    sample: Duration,
    /// Everything is applied so soon after the last batch was sent
    #[arg(long = "settle-ms", value_name = "MS", help_heading = "Gates", default_value = "1000", value_parser = millis)]
    settle: Duration,
    /// Most that the median lag may grow from the first quarter of the run to the last
    #[arg(long = "growth-ms", value_name = "MS", help_heading = "Gates", default_value = "100", value_parser = millis)]
    growth: Duration,
}

/// What a bench leaves: how it ended, a report, its histograms by name, its gates.
struct Outcome<R> {
    ending: Ending,
    report: R,
    text: String,
    gates: Vec<Gate>,
    histograms: Vec<(String, Times)>,
}

/// Runs one of the benches.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let stop = Stop::listen();
    let patience = Patience::new(&stop);
    match &args.what {
        What::Ingest(args) => deliver(&args.common, &stop, &ingest::run(args, &stop, &patience)?),
        What::Query(args) => deliver(&args.common, &stop, &query::run(args, &stop, &patience)?),
        What::Trace(args) => deliver(&args.common, &stop, &trace::run(args, &stop, &patience)?),
    }
}

fn deliver<R: Serialize>(common: &Common, stop: &Stop, outcome: &Outcome<R>) -> Result<(), Failure> {
    if let Some(path) = &common.histogram {
        for (name, times) in &outcome.histograms {
            let path = if outcome.histograms.len() == 1 { path.clone() } else { named(path, name) };
            write_histogram(&path, times).map_err(|error| {
                Failure::new(
                    exit::CANNOT_CREATE,
                    format!("--histogram: cannot write {}: {error}", path.display()),
                )
            })?;
        }
    }
    if common.json {
        let text = serde_json::to_string_pretty(&outcome.report)
            .map_err(|error| Failure::new(exit::INTERNAL, format!("cannot print the report: {error}")))?;
        output::line(text)?;
    } else {
        output::print(&outcome.text)?;
    }
    if outcome.ending.stopped {
        return stop.check();
    }
    if outcome.ending.unanswered {
        return Err(Failure::new(exit::UNAVAILABLE, "the daemon did not answer any more"));
    }
    let wrong = outcome.gates.iter().any(|gate| gate.name == "answers right" && !gate.passed);
    if passed(&outcome.gates) || (common.no_gate && !wrong) {
        return Ok(());
    }
    let failed: Vec<_> = outcome.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name).collect();
    Err(Failure::new(exit::GATE, format!("not passed: {}", failed.join(", "))))
}

/// `out.hgrm` as `out.NAME.hgrm`.
fn named(path: &Path, name: &str) -> PathBuf {
    let ending = path.extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    path.with_extension(format!("{name}{ending}"))
}

fn write_histogram(path: &Path, times: &Times) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    times.write(&mut out)?;
    out.flush()
}

impl Common {
    /// What can be wrong with the flags of so many publishers, before anything is started.
    fn check(&self, publishers: u32) -> Result<(), Failure> {
        let advertised = self.advertised();
        if ["0.0.0.0", "*", "[::]", "::"].contains(&advertised) {
            return Err(usage(
                "--advertise",
                &format!("is needed, since {advertised} is no host to connect to"),
            ));
        }
        if self.base_port > 0 && u32::from(self.base_port) + publishers - 1 > u32::from(u16::MAX) {
            return Err(usage("--base-port", &format!("there are no {publishers} ports from it on")));
        }
        let folder = self.histogram.as_deref().and_then(Path::parent);
        match folder {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                let reason = format!("--histogram: there is no folder {}", folder.display());
                Err(Failure::new(exit::CANNOT_CREATE, reason))
            }
            _ => Ok(()),
        }
    }

    /// Host under which the daemon reaches the publishers.
    fn advertised(&self) -> &str {
        self.advertise.as_ref().unwrap_or(&self.bind)
    }
}

impl OnTime {
    /// From when on an item is late.
    fn late(&self, unless_said: u64) -> Duration {
        self.late.unwrap_or(Duration::from_millis(unless_said))
    }

    /// Most that may be late, 0 to 1.
    fn share(&self) -> f64 {
        self.late_share / 100.0
    }
}

/// Since 1970.
fn now() -> Duration {
    super::publish::now()
}

fn usage(flag: &str, reason: &str) -> Failure {
    Failure::new(exit::USAGE, format!("{flag}: {reason}"))
}

fn internal(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(exit::INTERNAL, error.to_string())
}

/// A number within bounds.
fn number(text: &str, from: f64, to: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (from..=to).contains(&number) => Ok(number),
        _ => Err(format!("must be a number from {from} to {to}")),
    }
}

fn millis(text: &str) -> Result<Duration, String> {
    number(text, 0.0, 3_600_000.0).map(|millis| Duration::from_secs_f64(millis / 1e3))
}

fn sample(text: &str) -> Result<Duration, String> {
    number(text, 1.0, 1000.0).map(|millis| Duration::from_secs_f64(millis / 1e3))
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0)
}

fn family(name: &str) -> Result<&'static Family, String> {
    let known = || FAMILIES.iter().map(|family| family.id).collect::<Vec<_>>().join(", ");
    Family::named(name).ok_or_else(|| format!("known are {}", known()))
}
