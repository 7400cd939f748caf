//! `kvatlas publish`: plays an engine or a pool under a made-up load.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};

use super::client::{Client, Target};
use super::exit::{self, Failure};
use super::faults::{Done, FaultArgs};
use super::output;
use super::query::ask;
use crate::limits::{BLOCK_TOKENS, EVENT_TOKENS};
use crate::wire::cache::{Cache, Load};
use crate::wire::family::FAMILIES;
use crate::wire::feed::{Feed, POOL};
use crate::wire::publisher::{PublishError, Publisher, PublisherOptions};

/// How often the progress line changes.
const PROGRESS: Duration = Duration::from_millis(250);
/// How long `--wait-subscriber` waits.
const SUBSCRIBER_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a publisher that restarts is away.
const DOWNTIME: Duration = Duration::from_millis(200);

/// Flags of `publish`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PublishArgs {
    /// Endpoint to publish on; port 0 is any free one
    #[arg(long, value_name = "ENDPOINT", default_value = "tcp://127.0.0.1:5557")]
    bind: String,
    /// Endpoint to answer replay requests on
    #[arg(long, value_name = "ENDPOINT")]
    replay: Option<String>,
    /// Wire version of the events: an engine's, or mooncake-master
    #[arg(long, value_name = "NAME", default_value = "vllm-0.33.0", value_parser = family)]
    family: String,
    /// Batches a second; 0 is as fast as possible
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = rate)]
    rate: f64,
    /// Batches to publish; 0 goes on until the process is stopped
    #[arg(long, value_name = "N", default_value_t = 100)]
    batches: u64,
    /// Blocks that an event stores
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    blocks_per_event: u32,
    /// Tokens a block
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_TOKENS)))]
    block_size: u32,
    /// Seed of all tokens and hashes: the same seed publishes the same again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prefixes that prompts share; 0 is none
    #[arg(long, value_name = "P", default_value_t = 8)]
    prefixes: u32,
    /// Hold at most this many blocks, and announce what is evicted
    #[arg(long, value_name = "N")]
    evict_after: Option<u32>,
    /// Medium of the blocks [default: GPU, cpu for a pool]
    #[arg(long)]
    medium: Option<String>,
    /// Data-parallel rank of the batches
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: u32,
    /// First frame of every message
    #[arg(long, default_value = "")]
    topic: String,
    /// Batches that can be replayed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    buffer_steps: u32,
    /// Send high-water mark of the replay socket; 0 is unlimited, engines leave 1000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    replay_hwm: i32,
    /// Publish only once somebody has subscribed
    #[arg(long)]
    wait_subscriber: bool,
    /// Go on answering replay requests afterwards, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    stay: u64,
    /// Register with this daemon first: http://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL", requires = "model")]
    register: Option<Target>,
    /// Instance to register as
    #[arg(long, value_name = "NAME", default_value = "publish-0")]
    instance: String,
    /// Model to register for
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write the tokens of the last prompt to this file, for query --tokens-file; - is standard output
    #[arg(long, value_name = "FILE")]
    print_prompt: Option<PathBuf>,
    #[command(flatten)]
    faults: FaultArgs,
}

const AFTER_HELP: &str = "\
One JSON line at the start tells the endpoints, one at the end the totals.

Example, beside a running kvatlas serve:
  kvatlas publish --register http://127.0.0.1:13333 --model m --rate 0 --wait-subscriber \\
                  --print-prompt prompt.json --stay 60
  kvatlas query --model m --block-size 16 --tokens-file prompt.json

A rehearsal: batch 20 is lost and comes back by replay, batch 40 never comes, and /services says so:
  kvatlas publish --register http://127.0.0.1:13333 --model m --replay tcp://127.0.0.1:0 \\
                  --wait-subscriber --lose 20 --hole 40 --stay 60";

/// What was published.
#[derive(Default)]
struct Totals {
    steps: u64,
    batches: u64,
    stored: u64,
    removed: u64,
    faults: Done,
}

/// Who publishes: an engine or a pool, and what it holds. A restart makes another one.
struct Source {
    feed: Feed,
    cache: Cache,
}

/// Publishes.
pub fn run(args: &PublishArgs) -> Result<(), Failure> {
    let tokens = u64::from(args.block_size) * u64::from(args.blocks_per_event);
    if tokens > EVENT_TOKENS as u64 {
        let reason = format!("--block-size × --blocks-per-event is more than {EVENT_TOKENS} tokens");
        return Err(Failure::new(exit::USAGE, reason));
    }
    args.faults.check()?;
    let mut source = args.source(args.seed)?;
    let publisher = Publisher::bind(PublisherOptions {
        replay: args.replay.clone(),
        topic: args.topic.clone().into_bytes(),
        replay_shape: source.feed.replay_shape(),
        replay_manner: args.faults.manner(),
        buffer_steps: args.buffer_steps as usize,
        replay_hwm: args.replay_hwm,
        first_seq: source.feed.first_seq(),
        ..PublisherOptions::new(&args.bind)
    })
    .map_err(|error| Failure::new(exit::UNAVAILABLE, error.to_string()))?;
    let endpoints = json!({"endpoint": publisher.endpoint(), "replay_endpoint": publisher.replay_endpoint(),
        "family": args.family, "block_size": args.block_size, "rank": args.rank});
    output::line(endpoints)?;
    args.register(&publisher, &source.feed)?;
    args.await_subscriber(&publisher)?;
    let started = Instant::now();
    let totals = args.publish(&publisher, &mut source)?;
    // one command behind all that were queued: when it is answered, they are sent
    let next_seq = publisher.hole(0).map_err(|error| internal(&error))?;
    let seconds = started.elapsed().as_secs_f64();
    let prompt = source.cache.last_prompt();
    output::line(
        json!({"batches": totals.batches, "blocks_stored": totals.stored, "blocks_removed": totals.removed,
        "blocks_held": source.cache.blocks(), "next_seq": next_seq, "seconds": seconds,
        "prompt_tokens": prompt.len(), "faults": args.faults.report(&totals.faults)}),
    )?;
    args.write_prompt(&prompt)?;
    std::thread::sleep(Duration::from_secs(args.stay));
    Ok(())
}

impl PublishArgs {
    fn register(&self, publisher: &Publisher, feed: &Feed) -> Result<(), Failure> {
        let (Some(target), Some(model)) = (&self.register, &self.model) else { return Ok(()) };
        let client = Client::new(target.clone(), Duration::from_secs(5));
        let body = registration(publisher, feed.kind(), &self.instance, model, self.block_size, self.rank);
        ask(&client, "/register", &body).map(drop)
    }

    fn source(&self, seed: u64) -> Result<Source, Failure> {
        let feed = Feed::named(&self.family, self.medium.clone(), self.rank);
        let feed = feed
            .ok_or_else(|| Failure::new(exit::USAGE, format!("--family: no such family: {}", self.family)))?;
        let cache = Cache::new(Load {
            seed,
            block_size: self.block_size as usize,
            blocks_per_step: self.blocks_per_event as usize,
            prefixes: self.prefixes as usize,
            capacity: self.evict_after.map(|blocks| blocks as usize),
        });
        Ok(Source { feed, cache })
    }

    fn await_subscriber(&self, publisher: &Publisher) -> Result<(), Failure> {
        if self.wait_subscriber
            && !publisher.wait_subscriber(SUBSCRIBER_TIMEOUT).map_err(|error| internal(&error))?
        {
            let waited = SUBSCRIBER_TIMEOUT.as_secs();
            return Err(Failure::new(exit::UNAVAILABLE, format!("nobody subscribed within {waited} s")));
        }
        Ok(())
    }

    /// A new life: nothing is held, and other prompts come.
    fn restart(&self, publisher: &Publisher, source: &mut Source) -> Result<(), Failure> {
        *source = self.source(self.seed.wrapping_add(1))?;
        publisher.restart(DOWNTIME, source.feed.first_seq()).map_err(|error| internal(&error))?;
        self.await_subscriber(publisher)
    }

    fn publish(&self, publisher: &Publisher, source: &mut Source) -> Result<Totals, Failure> {
        let mut totals = Totals::default();
        let started = Instant::now();
        let mut shown = started;
        let progress = io::stderr().is_terminal();
        while self.batches == 0 || totals.steps < self.batches {
            if self.rate > 0.0 {
                // absolute deadlines: a late batch does not push the others back
                let due = started + Duration::from_secs_f64(totals.steps as f64 / self.rate);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if self.faults.restarts(totals.batches, &totals.faults) {
                totals.faults.restarted(totals.batches);
                self.restart(publisher, source)?;
            }
            let Source { feed, cache } = &mut *source;
            let step = cache.step();
            totals.steps += 1;
            totals.stored += step.hashes.len() as u64;
            totals.removed += step.evicted.len() as u64;
            for payload in feed.payloads(&step, cache, now()) {
                let sent = totals.faults.publish(&self.faults, publisher, totals.batches, payload);
                sent.map_err(|error| internal(&error))?;
                totals.batches += 1;
            }
            if progress && shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                eprint!("\r{} batches, {} blocks held ", totals.batches, cache.blocks());
            }
        }
        if progress {
            eprintln!("\r{} batches, {} blocks held ", totals.batches, source.cache.blocks());
        }
        Ok(totals)
    }

    fn write_prompt(&self, tokens: &[u32]) -> Result<(), Failure> {
        let Some(path) = &self.print_prompt else { return Ok(()) };
        let text = json!(tokens).to_string();
        if path.as_os_str() == "-" {
            return output::line(text);
        }
        fs::write(path, text).map_err(|error| {
            Failure::new(exit::CANNOT_CREATE, format!("cannot write {}: {error}", path.display()))
        })
    }
}

/// The body that registers `publisher`.
pub fn registration(
    publisher: &Publisher,
    kind: &str,
    instance: &str,
    model: &str,
    block_size: u32,
    rank: u32,
) -> Value {
    let replay = publisher.replay_endpoint().map(connectable);
    json!({"endpoint": connectable(publisher.endpoint()), "replay_endpoint": replay, "type": kind,
        "modelname": model, "instance_id": instance, "block_size": block_size, "dp_rank": rank})
}

/// An endpoint bound to every interface, as one to connect to on this machine.
fn connectable(endpoint: &str) -> String {
    match endpoint.rsplit_once(':') {
        Some(("tcp://0.0.0.0" | "tcp://[::]" | "tcp://*", port)) => format!("tcp://127.0.0.1:{port}"),
        _ => endpoint.to_owned(),
    }
}

/// Since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn internal(error: &PublishError) -> Failure {
    Failure::new(exit::INTERNAL, error.to_string())
}

fn family(name: &str) -> Result<String, String> {
    let names = FAMILIES.iter().map(|family| family.id).chain([POOL]);
    if names.clone().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    Err(format!("known are {}", names.collect::<Vec<_>>().join(", ")))
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate == 0.0 || (1e-3..=1e6).contains(&rate) => Ok(rate),
        _ => Err("must be 0 or a number from 0.001 to 1000000".into()),
    }
}
