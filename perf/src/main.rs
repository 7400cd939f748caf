//! kvatlas beside its peers, on the same work in one process run.

mod clock;
mod counting;
mod measure;
mod oracle;
mod queries;
mod record;
mod report;
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
    /// Measurements of each figure; medians are told
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', default_value = "troubles,synthetic,query,trace")]
    only: Vec<String>,
    /// Append the figures to a CSV of the day in this folder
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
}

fn structures(arguments: &Structures) -> Result<(), String> {
    let origin = Origin::here();
    let kinds = Kind::ALL;
    let wanted = |name: &str| arguments.only.iter().any(|only| only == name);
    let mut rows: Vec<Row> = Vec::new();
    if wanted("troubles") {
        rows.extend(measure::troubles(&kinds, arguments.seed));
    }
    if wanted("synthetic") {
        rows.extend(measure::synthetic(&kinds, arguments.rounds, arguments.seed, Size::FULL));
    }
    if wanted("query") {
        rows.extend(queries::queries(&kinds, arguments.rounds, arguments.seed));
    }
    if let Some(file) = arguments.trace.as_ref().filter(|_| wanted("trace")) {
        for workers in [16, 64] {
            let capacity = arguments.capacity / workers;
            let load = Load { workers, capacity, requests: arguments.requests, seed: arguments.seed };
            rows.extend(measure::traced(&kinds, arguments.rounds, file, load)?);
        }
    }
    let Origin { date, commit, machine, load } = &origin;
    println!("{date}, commit {commit}, {machine}, load {load}, medians of {}\n", arguments.rounds);
    print!("{}", report::table(&kinds, &rows));
    if let Some(folder) = &arguments.record {
        let figures: Vec<_> = rows.iter().flat_map(|row| row.figures(&kinds)).collect();
        record::append(folder, "structures", &origin, &figures).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Structures(arguments) => structures(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kvatlas-perf: {error}");
            ExitCode::FAILURE
        }
    }
}
