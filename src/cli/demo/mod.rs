//! `kvatlas demo`: a daemon, two engines and a pool on this machine; three prompts; checked answers.

mod fleet;
mod ledger;

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::client::{Client, Target};
use super::daemon::Daemon;
use super::exit::{self, Failure};
use super::output;
use super::publish::registration;
use super::query::ask;
use super::stop::Stop;
use super::table;
use crate::wire::family::Family;
use crate::wire::publisher::{PublishError, Publisher};
use fleet::{BLOCK_SIZE, Engine, Pool, SGLANG, VLLM};
use ledger::Ledger;

/// Model of the demo.
const MODEL: &str = "demo-model";
/// How long subscriptions and answers may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Flags of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every answer was the expected one, 70 one was not, 69 cannot connect.")]
pub struct DemoArgs {
    /// Use this running daemon instead of starting one: http://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL")]
    target: Option<Target>,
}

/// A prompt to ask about.
struct Question {
    title: &'static str,
    tokens: Vec<u32>,
}

/// Plays the whole thing.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let stop = Stop::listen();
    let Some(target) = &args.target else {
        let (_daemon, target) = Daemon::start(&stop, &[])?;
        return play(&Daemon::client(&target), &stop);
    };
    let client = Client::new(target.clone(), Duration::from_secs(5));
    let outcome = play(&client, &stop);
    leave(&client);
    outcome
}

fn play(client: &Client, stop: &Stop) -> Result<(), Failure> {
    let vllm = engine("vllm-0.33.0", VLLM, 1)?;
    let sglang = engine("sglang-0.5.23", SGLANG, 2)?;
    let mut pool = Pool::start().map_err(|error| publishing(&error))?;
    output::line("two engines and a pool publish their events over ZMQ:")?;
    for (publisher, kind, instance) in [
        (&vllm.publisher, vllm.family.engine, VLLM),
        (&sglang.publisher, sglang.family.engine, SGLANG),
        (&pool.publisher, "Mooncake", VLLM),
    ] {
        let body = registration(publisher, kind, instance, MODEL, BLOCK_SIZE as u32, 0);
        ask(client, "/register", &body)?;
        subscribed(publisher, kind, stop)?;
        output::line(format_args!("  {kind:<9} {:<24} registered as {instance}", publisher.endpoint()))?;
    }
    let mut ledger = Ledger::default();
    let first = fleet::prompt(1, 8 * BLOCK_SIZE);
    let second = fleet::prompt(2, 4 * BLOCK_SIZE);
    publish(&mut ledger, &vllm, &sglang, &mut pool, [&first, &second]).map_err(|error| publishing(&error))?;
    output::line(format_args!(
        "\n{VLLM}   computed conversation A, lent 12 blocks of it to the pool, dropped its last 8 from GPU"
    ))?;
    output::line(format_args!("{SGLANG} computed conversation B, moved its last 4 blocks to host memory"))?;
    output::line(format_args!(
        "both conversations start with the same system prompt of {} tokens",
        fleet::SYSTEM_TOKENS
    ))?;
    let nobody = (0..10 * BLOCK_SIZE as u32).map(|place| 90_000 + place).collect();
    let questions = [
        Question { title: "conversation A goes on", tokens: [first, vec![7; 20]].concat() },
        Question { title: "conversation B goes on", tokens: [second, vec![7; 20]].concat() },
        Question { title: "a prompt that nobody has seen", tokens: nobody },
    ];
    for question in &questions {
        question.check(client, &ledger, stop)?;
    }
    output::line(format_args!("\nall {} answers are what the published events say", questions.len()))?;
    Ok(())
}

fn engine(family: &str, instance: &'static str, secret: u64) -> Result<Engine, Failure> {
    let family = Family::named(family)
        .ok_or_else(|| Failure::new(exit::INTERNAL, format!("no such family: {family}")))?;
    Engine::start(family, instance, secret).map_err(|error| publishing(&error))
}

/// What happens on the engines, told to the daemon and to the ledger.
fn publish(
    ledger: &mut Ledger,
    vllm: &Engine,
    sglang: &Engine,
    pool: &mut Pool,
    [first, second]: [&[u32]; 2],
) -> Result<(), PublishError> {
    vllm.store(ledger, first)?;
    pool.store(ledger, &first[..12 * BLOCK_SIZE])?;
    vllm.evict(ledger, first, 8)?;
    sglang.store(ledger, second)?;
    sglang.offload(ledger, second, 8)
}

fn subscribed(publisher: &Publisher, kind: &str, stop: &Stop) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    while !publisher.wait_subscriber(Duration::ZERO).map_err(|error| publishing(&error))? {
        if Instant::now() > end {
            let reason = format!("the daemon has not subscribed to {kind} at {}", publisher.endpoint());
            return Err(Failure::new(exit::INTERNAL, reason));
        }
        stop.pause()?;
    }
    Ok(())
}

impl Question {
    /// Asks until the answer is the expected one, since events take a moment to arrive.
    fn check(&self, client: &Client, ledger: &Ledger, stop: &Stop) -> Result<(), Failure> {
        let body = json!({"model": MODEL, "block_size": BLOCK_SIZE, "token_ids": self.tokens});
        let expected = ledger.answer(&fleet::blocks(&self.tokens), BLOCK_SIZE);
        let end = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = of_the_demo(ask(client, "/query", &body)?);
            if answer == expected || Instant::now() > end {
                break answer;
            }
            stop.pause()?;
        };
        let tokens = self.tokens.len();
        output::line(format_args!("\n{} ({tokens} tokens)", self.title))?;
        output::print(table::render(&table::rows(&answer), tokens as u64))?;
        if answer == expected {
            return Ok(());
        }
        let reason = format!("{}: the answer is {answer}\nbut the events say {expected}", self.title);
        Err(Failure::new(exit::INTERNAL, reason))
    }
}

/// Without the instances of others, where the daemon serves more than the demo.
fn of_the_demo(mut answer: Value) -> Value {
    if let Some(instances) = answer.get_mut("default").and_then(Value::as_object_mut) {
        instances.retain(|instance, _| instance == VLLM || instance == SGLANG);
    }
    answer
}

/// Unregisters from a daemon that goes on without the demo.
fn leave(client: &Client) {
    for instance in [VLLM, SGLANG] {
        // the demo has its outcome already; a daemon that is gone has forgotten it too
        let _ = ask(client, "/unregister", &json!({"instance_id": instance, "tenant_id": "default"}));
    }
}

fn publishing(error: &PublishError) -> Failure {
    Failure::new(exit::INTERNAL, error.to_string())
}
