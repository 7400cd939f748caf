//! The commands: parse the line, run one of them, turn its outcome into an exit code.

pub mod bench;
pub mod client;
pub mod coordinator;
mod daemon;
pub mod decode;
pub mod demo;
pub mod exit;
pub mod faults;
pub mod log;
mod output;
pub mod publish;
pub mod query;
pub mod serve;
mod stop;
pub mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Failure;

use crate::rt;

/// Knows where every reusable KV-cache block of an inference fleet lives.
///
/// Inference engines keep the attention keys and values of prompts they have seen. A request that starts with
/// the same tokens is cheap on an engine that still holds them. kvatlas listens to the events of engines and
/// storage pools and answers, for any prompt, which instance holds how much of it and on which tier.
#[derive(Debug, Parser)]
#[command(version = rt::VERSION, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  kvatlas demo                                    see the whole thing work on this machine
  kvatlas serve                                   answer on 127.0.0.1:13333
  kvatlas coordinator --state-dir state           coordinate LMCache MP servers on 0.0.0.0:9300
  kvatlas query --model M --block-size 16 --tokens-file prompt.json
  kvatlas publish --bind tcp://127.0.0.1:5557     play an engine
  kvatlas bench ingest                            what this machine can take in, and how late

Exit codes: 0 done, 1 coordinator settings out of range, 2 a gate of a bench failed, 64 bad command line or settings, 65 refused input, 66 missing file, \
69 cannot connect or bind, 70 internal error, 73 cannot write a file.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon.
    Serve(Box<serve::ServeArgs>),
    /// Run the coordinator of an LMCache fleet alone.
    Coordinator(Box<coordinator::CoordinatorArgs>),
    /// Show the daemon at work: two engines, one pool, three questions.
    Demo(demo::DemoArgs),
    /// Ask a running daemon who holds a prompt.
    Query(query::QueryArgs),
    /// Play an engine or a pool: publish events over ZMQ.
    Publish(publish::PublishArgs),
    /// Measure a daemon under real events and queries.
    Bench(Box<bench::BenchArgs>),
    /// Say what recorded event payloads mean.
    Decode(decode::DecodeArgs),
}

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // help and version arrive as errors too, and are none
            let code = if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS };
            // nobody is left to tell when the terminal itself is gone
            let _ = error.print();
            return code;
        }
    };
    let outcome = match cli.command {
        Command::Serve(args) => return serve::run(&args),
        Command::Coordinator(args) => return coordinator::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Publish(args) => publish::run(&args),
        Command::Decode(args) => return decode::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    eprintln!("kvatlas: {}", failure.message);
    ExitCode::from(failure.code)
}
