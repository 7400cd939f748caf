//! End to end: both daemons as processes, the same publishers over real ZMQ, the same clients over real HTTP.

mod client;
mod publisher;
mod server;

use crate::measure::in_turn;
use crate::report::{Better, Goal, Row};
use crate::structures::{Payload, ours};
use crate::texts::{BLOCK, Node, Texts};
use crate::workload::{self, Op, Size, Synthetic, stores};
use client::{Client, Posted, hammer};
use publisher::{Paced, Publisher};
use server::{Server, Side};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use server::Binaries;

/// Columns of the table.
pub const NAMES: [&str; 2] = ["kvatlas", "dynamo standalone indexer"];
/// Longest wait until all is applied.
const PATIENCE: Duration = Duration::from_mins(2);
/// Pause between two looks whether all is applied.
const LOOK: Duration = Duration::from_millis(20);
/// Texts that all publishers of an ingest run store together; a text has some 36 blocks of its own.
const INGEST_TEXTS: usize = 24 << 10;
/// Parts in which blocks are sent while memory is weighed.
const PORTIONS: usize = 64;
/// Blocks a second while queries are measured under ingest, and blocks a batch.
const BACKGROUND: (usize, usize) = (40_000, workload::STEP);
/// (blocks of the prompt, requests of one measurement, goal of CPU a request).
const PROMPTS: [(usize, usize, f64); 3] = [(64, 1600, 5.0), (512, 480, 6.0), (4096, 160, 7.0)];
/// The longest of them.
const LONGEST: usize = 4096;
/// Workers that hold the prompts.
const HOLDERS: usize = 8;

/// What is run.
pub struct Plan {
    /// Who.
    pub binaries: Binaries,
    /// Measurements of each figure.
    pub rounds: usize,
    /// Everything random follows from it.
    pub seed: u64,
    /// Also ask us in binary.
    pub binary: bool,
    /// Parts that are run: `ingest`, `memory`, `queries`.
    pub only: Vec<String>,
}

impl Plan {
    fn wants(&self, part: &str) -> bool {
        self.only.iter().any(|only| only == part)
    }
}

/// A server with its publishers, all subscribed.
struct Fleet {
    server: Server,
    publishers: Vec<Publisher>,
}

impl Fleet {
    fn start(side: Side, binaries: &Binaries, workers: usize) -> Result<Self, String> {
        let told = |error: zmq::Error| error.to_string();
        let context = zmq::Context::new();
        let server = Server::start(side, binaries)?;
        let mut publishers = Vec::new();
        for worker in 0..workers {
            let publisher = Publisher::bind(&context).map_err(told)?;
            server.register(worker, &publisher.endpoint)?;
            publisher.subscribed().map_err(told)?;
            publishers.push(publisher);
        }
        Ok(Self { server, publishers })
    }

    /// Waits until each of these prompts is found whole at so many instances at least.
    fn applied(&self, prompts: &[(Vec<u32>, usize)]) -> Result<(), String> {
        let since = Instant::now();
        let mut client = Client::connect(self.server.port)?;
        for (prompt, holders) in prompts {
            let body = self.server.question(prompt);
            loop {
                let answer = client.post(&body)?;
                if answer.matched(prompt.len()) >= *holders {
                    break;
                }
                if since.elapsed() > PATIENCE {
                    let side = self.server.side;
                    return Err(format!(
                        "{side:?}: not applied in time: {} {}",
                        answer.status,
                        answer.text()
                    ));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// Batches of each worker.
fn batches(ops: &[Op], texts: &Texts, workers: usize) -> Vec<Vec<Payload>> {
    let mut all: Vec<Vec<Payload>> = (0..workers).map(|_| Vec::new()).collect();
    for op in ops {
        if let Op::Store { worker, .. } | Op::Remove { worker, .. } = op {
            all[*worker].push(Payload { worker: *worker, bytes: ours::encode(op, texts) });
        }
    }
    all
}

/// The prompt that ends with a block.
fn prompt(texts: &Texts, last: Node) -> Vec<u32> {
    let mut text: Vec<Node> = std::iter::successors(Some(last), |node| texts.parent(*node)).collect();
    text.reverse();
    texts.tokens(&text)
}

/// Everything that some publishers send, as fast as they can, until all is applied.
fn ingest(plan: &Plan, workers: usize) -> Result<Vec<Row>, String> {
    let size = Size { workers, prefixes: 256, texts: INGEST_TEXTS / workers };
    let made = workload::synthetic(plan.seed, size);
    let ops = &made.all.ops[..made.removals];
    let batches = batches(ops, &made.all.texts, workers);
    let blocks = made.all.blocks() / 2;
    let ends = ends(ops, &made.all.texts, workers);
    let name = format!("ingest, {workers} publisher{}", if workers == 1 { "" } else { "s" });
    eprintln!("{name}: {blocks} blocks");
    let row = |case: &str, unit, better, figures| Row::new(&name, case, unit, better, figures);
    let mut rows = Vec::new();
    if plan.wants("ingest") {
        let [rate, per_cpu] = in_turn(plan.rounds, &Side::BOTH, |side| {
            let (taken, cpu) = flood(side, plan, &batches, &ends)?;
            let blocks = blocks as f64;
            Ok::<_, String>([blocks / taken.as_secs_f64() / 1e3, blocks / cpu.as_secs_f64() / 1e3])
        })?;
        rows.push(row("until all is applied", "k blocks/s", Better::More, rate));
        let per_cpu = row("blocks a server-CPU-second", "k blocks", Better::More, per_cpu);
        rows.push(per_cpu.with_goal(Goal::Ratio(12.0)));
    }
    if plan.wants("memory") {
        let [resident] = in_turn(plan.rounds, &Side::BOTH, |side| {
            let grown = weigh(side, plan, &made, &batches)?;
            Ok::<_, String>([grown as f64 / blocks as f64])
        })?;
        rows.push(row("RSS a block", "B", Better::Less, resident).with_goal(Goal::Ratio(3.0)));
    }
    Ok(rows)
}

/// Sends all batches at once and waits until all is applied: the time, and the server's CPU time.
fn flood(
    side: Side,
    plan: &Plan,
    batches: &[Vec<Payload>],
    ends: &[Vec<(Vec<u32>, usize)>],
) -> Result<(Duration, Duration), String> {
    let mut fleet = Fleet::start(side, &plan.binaries, batches.len())?;
    let (cpu, start) = (fleet.server.cpu(), Instant::now());
    std::thread::scope(|scope| {
        let publishers = std::mem::take(&mut fleet.publishers);
        let send = |(mut publisher, batches): (Publisher, &Vec<Payload>)| {
            for payload in batches {
                publisher.send(&payload.bytes).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(publisher)
        };
        let threads: Vec<_> =
            publishers.into_iter().zip(batches).map(|one| scope.spawn(move || send(one))).collect();
        // a publisher that goes away takes what it has not sent with it
        for thread in threads {
            fleet.publishers.push(thread.join().map_err(|_| "a publisher panicked".to_owned())??);
        }
        fleet.applied(ends.last().map_or(&[], Vec::as_slice))
    })?;
    Ok((start.elapsed(), fleet.server.cpu().saturating_sub(cpu)))
}

/// What a server's memory grows by when the same comes in small portions, each applied before the next, so that
/// no queue in front of the index is weighed.
fn weigh(side: Side, plan: &Plan, made: &Synthetic, batches: &[Vec<Payload>]) -> Result<u64, String> {
    let mut fleet = Fleet::start(side, &plan.binaries, batches.len())?;
    let before = fleet.server.resident();
    let ends = ends(&made.all.ops[..made.removals], &made.all.texts, batches.len());
    for (portion, ends) in ends.iter().enumerate() {
        for (publisher, batches) in fleet.publishers.iter_mut().zip(batches) {
            let part = |portion: usize| portion * batches.len() / PORTIONS;
            for payload in &batches[part(portion)..part(portion + 1)] {
                publisher.send(&payload.bytes).map_err(|error| error.to_string())?;
            }
        }
        fleet.applied(ends)?;
    }
    Ok(fleet.server.resident().saturating_sub(before))
}

/// For each of [`PORTIONS`] equal parts of the stores, the prompts with which they end, one a worker.
fn ends(ops: &[Op], texts: &Texts, workers: usize) -> Vec<Vec<(Vec<u32>, usize)>> {
    let mut lasts: Vec<Vec<Node>> = vec![Vec::new(); workers];
    for op in ops {
        if let Op::Store { worker, nodes } = op {
            lasts[*worker].extend(nodes.last());
        }
    }
    let end = |portion: usize, lasts: &Vec<Node>| {
        let at = ((portion + 1) * lasts.len() / PORTIONS).checked_sub(1)?;
        Some(prompt(texts, *lasts.get(at)?))
    };
    let portion = |portion: usize| {
        let prompts = lasts.iter().filter_map(|lasts| end(portion, lasts));
        // what several workers share may be held by more of them, so only that somebody holds it is asked
        prompts.map(|prompt| (prompt, 1)).collect()
    };
    (0..PORTIONS).map(portion).collect()
}

/// One server that is asked, its publisher in the background, and its bodies.
struct Asked {
    fleet: Fleet,
    background: Option<Publisher>,
    questions: Vec<Posted>,
    binary: Vec<Posted>,
}

fn asked(side: Side, plan: &Plan, texts: &Texts, held: &[Vec<Node>]) -> Result<Asked, String> {
    let mut fleet = Fleet::start(side, &plan.binaries, HOLDERS + 1)?;
    let background = fleet.publishers.pop();
    for (worker, publisher) in fleet.publishers.iter_mut().enumerate() {
        for op in held.iter().flat_map(|text| stores(worker, text)) {
            publisher.send(&ours::encode(&op, texts)).map_err(|error| error.to_string())?;
        }
    }
    let prompts: Vec<_> = held.iter().map(|text| (texts.tokens(text), HOLDERS)).collect();
    fleet.applied(&prompts)?;
    let questions = prompts.iter().map(|(prompt, _)| fleet.server.question(prompt)).collect();
    let binary = prompts.iter().map(|(prompt, _)| fleet.server.binary_question(prompt)).collect();
    Ok(Asked { fleet, background, questions, binary })
}

fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[at].as_secs_f64() * 1e6
}

/// Queries of some lengths on some connections, idle and while blocks come in.
fn queries(plan: &Plan) -> Result<Vec<Row>, String> {
    let mut texts = Texts::new(plan.seed ^ 1);
    let held: Vec<_> = PROMPTS.iter().map(|(blocks, ..)| texts.fresh(None, *blocks)).collect();
    let churn = workload::synthetic(plan.seed ^ 2, Size { workers: 1, prefixes: 16, texts: 512 });
    let mut background = batches(&churn.all.ops, &churn.all.texts, 1);
    let background = Arc::new(background.remove(0));
    let mut sides = Vec::new();
    for side in Side::BOTH {
        sides.push(asked(side, plan, &texts, &held)?);
    }
    let mut rows = Vec::new();
    for (at, (blocks, requests, goal)) in PROMPTS.into_iter().enumerate() {
        for connections in [1, 16] {
            let mut cell = |busy: bool, binary: bool| {
                in_turn(plan.rounds, &[0, 1], |side: usize| {
                    let asked = &mut sides[side];
                    let publisher = if busy { asked.background.take() } else { None };
                    let rate = BACKGROUND.0 / BACKGROUND.1;
                    let paced = publisher.map(|publisher| Paced::start(publisher, background.clone(), rate));
                    let posted = if binary { &asked.binary[at] } else { &asked.questions[at] };
                    let server = &asked.fleet.server;
                    hammer(server.port, connections, posted, 4)?;
                    let cpu = server.cpu();
                    let mut taken = hammer(server.port, connections, posted, requests / connections)?;
                    let cpu = server.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / taken.len() as f64;
                    if let Some(paced) = paced {
                        asked.background = Some(paced.stop()?);
                    }
                    taken.sort_unstable();
                    Ok::<_, String>([percentile(&taken, 0.5), percentile(&taken, 0.99), cpu])
                })
            };
            let [idle_half, idle_most, idle_cpu] = cell(false, false)?;
            let [busy_half, busy_most, _] = cell(true, false)?;
            let binary = if plan.binary { Some(cell(false, true)?) } else { None };
            let name = format!("/query, {}k tokens, {connections} connections", blocks * BLOCK / 1024);
            let growth = busy_most.iter().zip(&idle_most).map(|(busy, idle)| busy / idle).collect();
            let row = |case: &str, figures| Row::new(&name, case, "us", Better::Less, figures);
            rows.push(row("CPU a request, idle", idle_cpu).with_goal(Goal::Ratio(goal)));
            rows.push(row("p50, idle", idle_half));
            rows.push(row("p99, idle", idle_most));
            rows.push(row("p50, 40 k blocks/s", busy_half));
            rows.push(row("p99, 40 k blocks/s", busy_most));
            if let Some([half, _, cpu]) = binary {
                let cpu = row("CPU a request, idle, binary tokens", cpu);
                rows.push(if blocks == LONGEST { cpu.with_goal(Goal::Ratio(25.0)) } else { cpu });
                rows.push(row("p50, idle, binary tokens", half));
            }
            let growth = Row::new(&name, "p99 busy over p99 idle", "times", Better::Less, growth);
            rows.push(growth.with_goal(Goal::Below(2.0)));
        }
    }
    Ok(rows)
}

/// Everything, both in turn.
///
/// # Errors
/// A server cannot be started, refuses, or does not apply in time.
pub fn end_to_end(plan: &Plan) -> Result<Vec<Row>, String> {
    let mut rows = ingest(plan, 1)?;
    rows.extend(ingest(plan, 4)?);
    if plan.wants("queries") {
        rows.extend(queries(plan)?);
    }
    Ok(rows)
}
