//! `bench query`: prompts that are known to be held, asked for on some connections; every answer is checked.

use std::fmt::Write as _;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use super::connection::{Connection, host};
use super::fleet::{Fleet, MODEL, Plan, instance, mark};
use super::patience::Patience;
use super::progress::Progress;
use super::question::{Heard, Question};
use super::sampler::{Sampler, Watch};
use super::subject::Subject;
use super::{Common, OnTime, Outcome, family, internal, now, number, usage};
use crate::bench::ask::{About, Encoding};
use crate::bench::gate::{self, Gate};
use crate::bench::load::stores;
use crate::bench::mix;
use crate::bench::prompts::{Cell, Prompts};
use crate::bench::report::{CellReport, QueryReport};
use crate::bench::schedule::Schedule;
use crate::bench::times::Times;
use crate::cli::exit::{self, Failure};
use crate::cli::stop::Stop;
use crate::limits::{
    BENCH_CONNECTIONS, BENCH_EVENT_BLOCKS, BENCH_FILL_SECONDS, BENCH_LATE_MS, BENCH_PROMPT_TOKENS,
    BENCH_PUBLISHERS, BENCH_RATE, BENCH_SECONDS, BLOCK_TOKENS,
};
use crate::wire::chain::Chain;
use crate::wire::family::Family;

/// How often it is looked whether the daemon is filled.
const FILL_LOOK: Duration = Duration::from_millis(20);
/// From the end of all preparation until the first question is due.
const LEAD: Duration = Duration::from_millis(20);
/// How long after the end of a schedule its last questions may be answered.
const GRACE: Duration = Duration::from_secs(1);
/// How often it is looked whether all connections are done.
const JOIN_LOOK: Duration = Duration::from_millis(5);

/// Flags of `bench query`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, allow_negative_numbers = true)]
pub(super) struct QueryArgs {
    /// Blocks of a prompt; several depths are measured one after the other
    #[arg(long, value_name = "BLOCKS", default_value = "64,512", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=1 << 20))]
    depth: Vec<u32>,
    /// Percent of a prompt that is held, from its start
    #[arg(long, value_name = "PERCENT", default_value = "100", value_delimiter = ',', value_parser = super::percent)]
    hit: Vec<f64>,
    /// Tokens a block
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = value_parser!(u32).range(1..=i64::from(BLOCK_TOKENS)))]
    block_size: u32,
    /// Instances that hold every prompt, each up to 3 blocks more or less of it
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=i64::from(BENCH_PUBLISHERS)))]
    owners: u32,
    /// Prompts of each depth and hit, asked for in turn
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = value_parser!(u32).range(1..=1 << 20))]
    prompts: u32,
    /// Connections, each a thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=i64::from(BENCH_CONNECTIONS)))]
    connections: u32,
    /// Questions a second, all connections together [default: each connection asks when the answer before is there]
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// How long each line of the report is measured, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = duration)]
    seconds: f64,
    /// Ask in msgpack and in bare tokens too, a line of the report each
    #[arg(long)]
    binary: bool,
    /// Wire version of the events that fill the daemon
    #[arg(long, value_name = "NAME", default_value = "vllm-0.33.0", value_parser = family)]
    family: &'static Family,
    /// Seed of all tokens
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    on_time: OnTime,
    #[command(flatten)]
    pub(super) common: Common,
}

const AFTER_HELP: &str = "\
Real publishers fill the daemon first. An answer is right when it names every instance with exactly the tokens that \
it holds. Without --rate a latency runs from the question's first byte to the answer's last; with it, from when the \
question was due.

Gates: \"generator valid\", questions were sent when they were due, or as soon as their connection was free; \
\"kept up\", all of them were answered; \"answers right\", which --no-gate does not excuse.

Examples:
  kvatlas bench query --depth 64,512,4096 --hit 0,50,100
  kvatlas bench query --connections 16 --rate 5000 --binary --histogram answers.hgrm";

fn rate(text: &str) -> Result<f64, String> {
    number(text, 1e-3, BENCH_RATE)
}

fn duration(text: &str) -> Result<f64, String> {
    number(text, 0.1, BENCH_SECONDS)
}

/// One line of the report to be.
struct Point {
    cell: Cell,
    number: u32,
    encoding: Encoding,
}

/// The report to be.
struct Found {
    cells: Vec<CellReport>,
    histograms: Vec<(String, Times)>,
    /// Questions of all schedules.
    due: u64,
    all: Heard,
}

impl Point {
    fn name(&self) -> String {
        format!("{}-{}-{}", self.cell.depth, (self.cell.hit * 100.0).round(), self.encoding.name())
    }
}

/// Measures.
pub(super) fn run(
    args: &QueryArgs,
    stop: &Stop,
    patience: &Patience,
) -> Result<Outcome<QueryReport>, Failure> {
    args.check()?;
    args.common.check(args.owners)?;
    let mut subject = Subject::find(&args.common, stop, patience)?;
    let plan = Plan {
        publishers: args.owners,
        family: args.family,
        block_size: args.block_size,
        // nothing may be lost: what the daemon does not take yet waits
        send_hwm: 0,
        replay: false,
    };
    let fleet = Fleet::start(plan, &subject.target, &args.common, (stop, patience))?;
    let blocks_held = args.fill(&subject, &fleet, (stop, patience))?;
    let reactors = subject.turns()?.turns.len();
    let before = subject.look();
    let about = About {
        host: host(&subject.target),
        model: MODEL.to_owned(),
        tenant: fleet.tenant.clone(),
        block_size: args.block_size,
    };
    let connections = (0..args.connections).map(|_| Connection::open(&subject.target, patience));
    let mut connections = connections.collect::<Result<Vec<_>, _>>()?;
    let points = args.points();
    let mut found = Found {
        cells: Vec::new(),
        histograms: Vec::new(),
        due: 0,
        all: Heard::new(args.on_time.late(BENCH_LATE_MS)),
    };
    let progress = Progress::new("query", points.len() as u64);
    for (at, point) in (0..).zip(&points) {
        progress.at(at, || point.name());
        args.point(point, &mut connections, &about, (&subject, stop, patience), &mut found)?;
        if patience.is_out() {
            break;
        }
    }
    drop(progress);
    let Found { cells, histograms, due, all } = found;
    let gates = args.gates(&all, due);
    let ending = patience.ending();
    let report = QueryReport {
        ending,
        owners: args.owners,
        prompts: args.prompts,
        tokens_per_block: args.block_size,
        connections: args.connections,
        rate: args.rate,
        seconds: args.seconds,
        blocks_held,
        daemon: subject.measured(reactors, before),
        cells,
        gates: gates.clone(),
    };
    let mut text = report.text();
    if let Some(example) = &all.example {
        let _ = writeln!(text, "  the first wrong answer: {example}");
    }
    Ok(Outcome { ending, report, text, gates, histograms })
}

impl QueryArgs {
    fn check(&self) -> Result<(), Failure> {
        let tokens: u64 = self.depth.iter().map(|depth| u64::from(*depth) * u64::from(self.block_size)).sum();
        let cells = tokens.saturating_mul(self.hit.len() as u64).saturating_mul(self.prompts.into());
        if cells.saturating_mul(self.owners.into()) > BENCH_PROMPT_TOKENS {
            let reason = format!(
                "× --depth × --hit × --block-size × --owners is more than {BENCH_PROMPT_TOKENS} tokens to send"
            );
            return Err(usage("--prompts", &reason));
        }
        Ok(())
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn schedule(&self) -> Option<Schedule> {
        self.rate.map(Schedule::new)
    }

    fn prompts(&self) -> Prompts {
        Prompts { seed: self.seed, block_size: self.block_size, prompts: self.prompts, owners: self.owners }
    }

    fn cells(&self) -> Vec<Cell> {
        let of = |&depth| self.hit.iter().map(move |hit| Cell { depth, hit: hit / 100.0 });
        self.depth.iter().flat_map(of).collect()
    }

    fn points(&self) -> Vec<Point> {
        let encodings = if self.binary { &Encoding::ALL[..] } else { &Encoding::ALL[..1] };
        let cells = self.cells().into_iter().zip(0..);
        cells
            .flat_map(|(cell, number)| {
                encodings.iter().map(move |&encoding| Point { cell, number, encoding })
            })
            .collect()
    }

    /// Has every owner store its part of every prompt; blocks held then.
    fn fill(
        &self,
        subject: &Subject,
        fleet: &Fleet,
        (stop, patience): (&Stop, &Patience),
    ) -> Result<u64, Failure> {
        let prompts = self.prompts();
        let watch = Watch::new(fleet.publishers.len(), Instant::now(), FILL_LOOK);
        let sampler = Sampler::start(&subject.target, fleet, &watch, (FILL_LOOK, patience))?;
        let cells = self.cells();
        let progress = Progress::new("filling", u64::from(self.prompts) * cells.len() as u64);
        for (cell, number) in cells.iter().zip(0..) {
            for prompt in 0..self.prompts {
                stop.check()?;
                let tokens = prompts.tokens(number, cell.depth, prompt);
                for (publisher, owner) in fleet.publishers.iter().zip(0..) {
                    let held = (prompts.held(*cell, prompt, owner) * self.block_size) as usize;
                    let chain = Chain::new(mix(!self.seed ^ u64::from(owner)));
                    let hashes = chain.extend(None, &tokens[..held], self.block_size as usize);
                    let (text, size) = ((&hashes[..], &tokens[..held]), self.block_size as usize);
                    for batch in stores(self.family, None, text, size, self.event_blocks(), now()) {
                        publisher.post(batch).map_err(|error| internal(&error))?;
                    }
                }
                let done = u64::from(number) * u64::from(self.prompts) + u64::from(prompt);
                progress.at(done, String::new);
            }
        }
        let marks = fleet.publishers.iter().map(|publisher| mark(publisher, self.family));
        let marks = marks.collect::<Result<Vec<u64>, _>>()?;
        let filled = watch.until_seen(&marks, Duration::from_secs(BENCH_FILL_SECONDS), patience)?;
        stop.check()?;
        if filled.is_none() {
            return Err(Failure::new(
                exit::UNAVAILABLE,
                "the daemon does not apply what was published to fill it",
            ));
        }
        drop(sampler);
        Ok(watch.services().into_iter().flatten().map(|service| service.stream.blocks_held).sum())
    }

    /// Blocks of an event: as many as an engine computes in one step, fewer where blocks are large.
    fn event_blocks(&self) -> usize {
        (BENCH_EVENT_BLOCKS * 16 / self.block_size as usize).clamp(1, BENCH_EVENT_BLOCKS)
    }

    fn questions(&self, point: &Point, about: &About) -> Vec<Question> {
        let prompts = self.prompts();
        let question = |prompt| {
            let tokens = prompts.tokens(point.number, point.cell.depth, prompt);
            let truth = prompts.truth(point.cell, prompt).into_iter().enumerate();
            Question {
                request: point.encoding.request(about, &tokens),
                truth: truth.map(|(owner, tokens)| (instance(owner), tokens)).collect(),
                known: Vec::new(),
            }
        };
        (0..self.prompts).map(question).collect()
    }

    /// Measures one line of the report.
    fn point(
        &self,
        point: &Point,
        connections: &mut [Connection],
        about: &About,
        (subject, stop, patience): (&Subject, &Stop, &Patience),
        found: &mut Found,
    ) -> Result<(), Failure> {
        let mut questions = self.questions(point, about);
        let warm = self.warm(connections, &mut questions, (about, point.encoding), patience)?;
        let cpu = subject.usage();
        let (heard, seconds) =
            self.measure(connections, &questions, (about, point.encoding), (stop, patience))?;
        let cpu = cpu.zip(subject.usage()).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let requests = heard.times.count();
        found.cells.push(CellReport {
            depth: point.cell.depth,
            hit: point.cell.hit,
            encoding: point.encoding,
            requests,
            // what warmed both ends was no part of the measurement, but must be right as well
            wrong: warm.wrong + heard.wrong,
            requests_per_second: requests as f64 / seconds,
            latency: heard.times.percentiles(),
            cpu_us_per_request: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / requests.max(1) as f64),
        });
        let whole = |schedule: Schedule| schedule.count(self.span());
        // of a part, what was answered was due
        found.due += if patience.is_out() { requests } else { self.schedule().map_or(0, whole) };
        found.histograms.push((point.name(), heard.times.clone()));
        found.all.wrong += warm.wrong;
        found.all.example = found.all.example.take().or(warm.example);
        found.all.add(&heard);
        Ok(())
    }

    /// Asks every question once: warms both ends, and learns what right answers look like.
    fn warm(
        &self,
        connections: &mut [Connection],
        questions: &mut [Question],
        (about, encoding): (&About, Encoding),
        patience: &Patience,
    ) -> Result<Heard, Failure> {
        let mut heard = Heard::new(self.on_time.late(BENCH_LATE_MS));
        let count = connections.len();
        for (at, question) in questions.iter_mut().enumerate() {
            let answer = patience.excuse(connections[at % count].ask(&question.request))?;
            let Some(answer) = answer else { break };
            if question.check(&answer, about, encoding, &mut heard) {
                question.known = answer;
            }
        }
        Ok(heard)
    }

    /// Asks on all connections; what was heard, and in how many seconds.
    fn measure(
        &self,
        connections: &mut [Connection],
        questions: &[Question],
        (about, encoding): (&About, Encoding),
        (stop, patience): (&Stop, &Patience),
    ) -> Result<(Heard, f64), Failure> {
        let start = Instant::now() + LEAD;
        let step = connections.len() as u64;
        let heard = std::thread::scope(|scope| {
            let one = |(number, connection): (u64, &mut Connection)| {
                let turns = (number..).step_by(step as usize);
                self.listen(connection, questions, (about, encoding), turns, start, (stop, patience))
            };
            let threads: Vec<_> =
                (0..).zip(connections.iter_mut()).map(|each| scope.spawn(move || one(each))).collect();
            // whoever is still waiting when all should be over waits for the last time
            let over = start + self.span() + GRACE;
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                if Instant::now() > over {
                    patience.end();
                }
                std::thread::sleep(JOIN_LOOK);
            }
            patience.go_on();
            let heard = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(internal(&"a connection panicked"))));
            heard.collect::<Result<Vec<_>, _>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let mut all = Heard::new(self.on_time.late(BENCH_LATE_MS));
        for heard in &heard {
            all.add(heard);
        }
        Ok((all, seconds))
    }

    /// Asks on one connection, question after question, in these turns.
    fn listen(
        &self,
        connection: &mut Connection,
        questions: &[Question],
        (about, encoding): (&About, Encoding),
        turns: impl Iterator<Item = u64>,
        start: Instant,
        (stop, patience): (&Stop, &Patience),
    ) -> Result<Heard, Failure> {
        let mut heard = Heard::new(self.on_time.late(BENCH_LATE_MS));
        let mut free = start;
        for turn in turns {
            let due = self.schedule().map(|schedule| schedule.due(turn));
            let over = due.map_or_else(|| start.elapsed() >= self.span(), |due| due >= self.span());
            if over || start.elapsed() > self.span() + GRACE {
                break;
            }
            let due = start + due.unwrap_or_default();
            if !stop.sleep_until(due) {
                break;
            }
            let question = &questions[(turn % questions.len() as u64) as usize];
            let sent = Instant::now();
            // as soon as it was due and the connection free
            heard.punctuality.note(sent - due.max(free).min(sent));
            let Some(answer) = patience.excuse(connection.ask(&question.request))? else { break };
            let since = if self.rate.is_some() { due } else { sent };
            free = Instant::now();
            heard.times.record(free - since);
            question.check(&answer, about, encoding, &mut heard);
        }
        Ok(heard)
    }

    fn gates(&self, all: &Heard, due: u64) -> Vec<Gate> {
        let answers = gate::answers(all.times.count(), all.wrong);
        if self.rate.is_none() {
            return vec![gate::no_schedule(), answers];
        }
        let sent = all.times.count();
        let generator = gate::generator(&all.punctuality, sent, self.on_time.share(), "questions");
        vec![generator, gate::answered(due, sent), answers]
    }
}
