//! kvatlas beside its peers, on the same work in one process run.

mod clock;
mod counting;
mod growth;
mod measure;
mod oracle;
mod queries;
mod record;
mod report;
mod service;
mod structures;
mod texts;
mod trace;
mod workload;

use clap::{Parser, Subcommand};
use record::Origin;
use report::Row;
use std::path::PathBuf;
use std::process::ExitCode;
use structures::Kind;
use texts::Names;
use trace::Load;
use workload::Size;

#[derive(Parser)]
#[command(about = "kvatlas beside its peers, on the same work in one process run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Our shard and the peer's structures: queries, stores, removals, bytes, answers
    Structures(Structures),
    /// Our daemon and the peer's service as processes: ingest over ZMQ, queries over HTTP
    EndToEnd(EndToEnd),
}

/// How figures are taken and kept.
#[derive(clap::Args)]
struct Taking {
    /// Measurements of each figure; medians are told
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Append the figures to a CSV of the day in this folder
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

impl Taking {
    /// Prints the table and appends to the record.
    fn tell(&self, name: &str, origin: &Origin, names: &[&str], rows: &[Row]) -> Result<(), String> {
        let Origin { date, commit, machine, load } = origin;
        println!("{date}, commit {commit}, {machine}, load {load}, medians of {}\n", self.rounds);
        print!("{}", report::table(names, rows));
        if let Some(folder) = &self.record {
            let figures: Vec<_> = rows.iter().flat_map(|row| row.figures(names)).collect();
            record::append(folder, name, origin, &figures).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

#[derive(clap::Args)]
struct EndToEnd {
    /// Our binary
    #[arg(long, value_name = "PATH")]
    kvatlas: PathBuf,
    /// The peer's, built with the feature `service` [default: peer-service beside this binary]
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Threads of the peer that apply events
    #[arg(long, default_value_t = 2)]
    peer_threads: usize,
    /// Also ask us with binary tokens
    #[arg(long)]
    binary: bool,
    /// Only these parts
    #[arg(long, value_delimiter = ',', default_value = "ingest,memory,queries")]
    only: Vec<String>,
    #[command(flatten)]
    taking: Taking,
}

#[derive(clap::Args)]
struct Structures {
    /// Conversation trace in Mooncake's format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Requests of the trace
    #[arg(long, default_value_t = 3000)]
    requests: usize,
    /// Blocks that all caches of the trace's fleet can hold together
    #[arg(long, default_value_t = 1 << 19)]
    capacity: usize,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', default_value = "troubles,synthetic,query,trace")]
    only: Vec<String>,
    /// Only the questions of the workload `query` in whose name one of these stands, for a profile [default: all]
    #[arg(long, value_delimiter = ';', value_name = "TEXTS")]
    cases: Vec<String>,
    /// What engines call the blocks of the synthetic fleet and of the trace
    #[arg(long, value_enum, default_value_t)]
    names: Names,
    /// Blocks that the workload `growth` stores; ours alone, and only when named
    #[arg(long, default_value_t = 50_000_000)]
    grow_to: usize,
    /// Only these structures beside ours; a name that is none leaves ours alone, for a profile [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    beside: Vec<String>,
    #[command(flatten)]
    taking: Taking,
}

impl Structures {
    /// Whether a structure takes part; ours always does, the positional index only where it can.
    fn beside(&self, kind: Kind) -> bool {
        if kind == Kind::Positional && self.names == Names::Own {
            return false;
        }
        kind == Kind::Ours || self.beside.is_empty() || self.beside.iter().any(|name| name == kind.name())
    }
}

fn structures(arguments: &Structures) -> Result<(), String> {
    let origin = Origin::here();
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| arguments.beside(*kind)).collect();
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let taking = &arguments.taking;
    let wanted = |name: &str| arguments.only.iter().any(|only| only == name);
    let mut rows: Vec<Row> = Vec::new();
    if wanted("troubles") {
        rows.extend(measure::troubles(&kinds, taking.seed));
    }
    if wanted("synthetic") {
        rows.extend(measure::synthetic(&kinds, taking.rounds, taking.seed, Size::FULL, arguments.names));
    }
    if wanted("query") {
        rows.extend(queries::queries(&kinds, taking.rounds, taking.seed, &arguments.cases));
    }
    if let Some(file) = arguments.trace.as_ref().filter(|_| wanted("trace")) {
        for workers in [16, 64] {
            let capacity = arguments.capacity / workers;
            let load = Load { workers, capacity, requests: arguments.requests, seed: taking.seed };
            rows.extend(measure::traced(&kinds, taking.rounds, file, load, arguments.names)?);
        }
    }
    if wanted("growth") {
        let rows = growth::growth(taking.seed, arguments.grow_to);
        taking.tell("growth", &origin, &[Kind::Ours.name()], &rows)?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    taking.tell("structures", &origin, &names, &rows)
}

fn end_to_end(arguments: &EndToEnd) -> Result<(), String> {
    let origin = Origin::here();
    let beside = || std::env::current_exe().map(|own| own.with_file_name("peer-service"));
    let peer = match &arguments.peer {
        Some(peer) => peer.clone(),
        None => beside().map_err(|error| error.to_string())?,
    };
    let Taking { rounds, seed, .. } = arguments.taking;
    let ours = arguments.kvatlas.clone();
    let binaries = service::Binaries { ours, peer, peer_threads: arguments.peer_threads };
    let only = arguments.only.clone();
    let plan = service::Plan { binaries, rounds, seed, binary: arguments.binary, only };
    let rows = service::end_to_end(&plan)?;
    arguments.taking.tell("end-to-end", &origin, &service::NAMES, &rows)
}

fn main() -> ExitCode {
    // as the daemon does, whose small index has none
    kvatlas::rt::sys::allow_huge_pages(false);
    kvatlas::rt::allocator::give_back_early();
    let outcome = match Arguments::parse().command {
        Command::Structures(arguments) => structures(&arguments),
        Command::EndToEnd(arguments) => end_to_end(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kvatlas-perf: {error}");
            ExitCode::FAILURE
        }
    }
}
