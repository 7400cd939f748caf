//! The playing of a trace: each request is asked, checked, routed, computed and published.

use std::time::Instant;

use super::connection::{Connection, host};
use super::fleet::{Fleet, MODEL, instance};
use super::patience::Patience;
use super::sampler::Watch;
use super::subject::Subject;
use super::trace::{Route, TraceArgs};
use super::{internal, now};
use crate::bench::ask::About;
use crate::bench::load::{payload, removal, stores};
use crate::bench::mix;
use crate::bench::report::Checked;
use crate::bench::schedule::Punctuality;
use crate::bench::times::Times;
use crate::bench::trace::Request;
use crate::bench::worker::Worker;
use crate::cli::exit::{self, Failure};
use crate::cli::stop::Stop;
use crate::limits::{BENCH_ASKED_AGAIN, BENCH_EVENT_BLOCKS, BENCH_TRACE_LATE_MS};
use crate::wire::chain::Chain;

/// A request as it is asked and stored.
struct Text {
    /// Tokens of the prompt, then of the answer where those are stored.
    tokens: Vec<u32>,
    /// Of those, the prompt's.
    prompt: usize,
    /// Chained hashes of all whole blocks.
    blocks: Vec<u64>,
    /// Of those, the prompt's.
    asked: usize,
}

/// A worker and its way out.
struct Player {
    worker: Worker,
    /// Its own names for blocks are these, scrambled.
    secret: u64,
    requests: u64,
    next: u64,
}

/// The run so far.
pub(super) struct Play<'a> {
    args: &'a TraceArgs,
    fleet: &'a Fleet,
    watch: &'a Watch,
    stop: &'a Stop,
    patience: &'a Patience,
    connection: Connection,
    about: About,
    players: Vec<Player>,
    pub(super) tally: Tally,
}

/// What was counted.
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) answers: Checked,
    pub(super) latency: Times,
    pub(super) punctuality: Punctuality,
    pub(super) prompt_tokens: u64,
    pub(super) hit_answered: u64,
    pub(super) hit_true: u64,
    pub(super) stored: u64,
    pub(super) evicted: u64,
    pub(super) last: Instant,
}

impl Text {
    fn of(args: &TraceArgs, number: u64, request: &Request) -> Self {
        let size = args.block_size as usize;
        let mut tokens = request.prompt(args.seed);
        let prompt = tokens.len();
        if args.outputs {
            tokens.extend(request.output(args.seed, number));
        }
        let blocks = Chain::new(mix(args.seed)).extend(None, &tokens, size);
        Self { asked: prompt / size, prompt, blocks, tokens }
    }
}

impl<'a> Play<'a> {
    /// Empty workers.
    pub(super) fn new(
        args: &'a TraceArgs,
        fleet: &'a Fleet,
        watch: &'a Watch,
        (stop, patience): (&'a Stop, &'a Patience),
        subject: &Subject,
    ) -> Result<Self, Failure> {
        let about = About {
            host: host(&subject.target),
            model: MODEL.to_owned(),
            tenant: fleet.tenant.clone(),
            block_size: args.block_size,
        };
        let player = |number| Player {
            worker: Worker::new(args.capacity as usize),
            secret: mix(!args.seed ^ mix(number)),
            requests: 0,
            next: 0,
        };
        let tally = Tally {
            requests: 0,
            answers: Checked::default(),
            latency: Times::new(),
            punctuality: Punctuality::new(args.on_time.late(BENCH_TRACE_LATE_MS)),
            prompt_tokens: 0,
            hit_answered: 0,
            hit_true: 0,
            stored: 0,
            evicted: 0,
            last: watch.start,
        };
        let players = (0..u64::from(args.workers)).map(player).collect();
        let connection = Connection::open(&subject.target, patience)?;
        Ok(Self { args, fleet, watch, stop, patience, connection, about, players, tally })
    }

    /// Asks, routes, computes and publishes; `false` when the run ends before that.
    pub(super) fn request(&mut self, number: u64, request: &Request, first: f64) -> Result<bool, Failure> {
        // made before it is due
        let text = Text::of(self.args, number, request);
        let question = self.args.encoding().request(&self.about, &text.tokens[..text.prompt]);
        let due = self.watch.start + self.args.due(request, first);
        if !self.stop.sleep_until(due) || self.patience.excuse(self.watch.check())?.is_none() {
            return Ok(false);
        }
        for (stream, player) in self.players.iter_mut().enumerate() {
            if let Some(seen) = self.watch.seen(stream) {
                player.worker.confirmed(seen);
            }
        }
        let sent = Instant::now();
        let Some(body) = self.patience.excuse(self.connection.ask(&question))? else { return Ok(false) };
        self.tally.requests += 1;
        self.tally.punctuality.note(sent - due);
        self.tally.latency.record(sent.elapsed());
        let answered = self.answered(&body)?;
        for (player, tokens) in self.players.iter().zip(&answered) {
            self.tally.answers.note(
                &player.worker,
                &text.blocks[..text.asked],
                *tokens,
                self.args.block_size,
            );
        }
        let chosen = self.choose(number, &answered);
        self.tally.prompt_tokens += text.prompt as u64;
        self.tally.hit_answered += answered[chosen];
        self.compute(chosen, &text).map(|()| true)
    }

    /// Tokens of the longest match of every worker; one that is not named has none.
    fn answered(&self, body: &[u8]) -> Result<Vec<u64>, Failure> {
        let answer = self.args.encoding().answer(&self.about.tenant, body);
        let answer = answer.ok_or_else(|| Failure::new(exit::DATA, "an answer cannot be read"))?;
        Ok((0..self.players.len())
            .map(|worker| answer.get(&instance(worker)).copied().unwrap_or(0))
            .collect())
    }

    fn choose(&self, number: u64, answered: &[u64]) -> usize {
        let workers = 0..self.players.len();
        match self.args.route {
            Route::RoundRobin => (number % self.players.len() as u64) as usize,
            Route::Best => workers
                .min_by_key(|&worker| (u64::MAX - answered[worker], self.players[worker].requests))
                .unwrap_or_default(),
        }
    }

    fn compute(&mut self, chosen: usize, text: &Text) -> Result<(), Failure> {
        let (args, size) = (self.args, self.args.block_size as usize);
        let player = &mut self.players[chosen];
        player.requests += 1;
        self.tally.hit_true += (player.worker.holds(&text.blocks[..text.asked]) * size) as u64;
        let step = player.worker.compute(&text.blocks);
        self.tally.stored += (step.has - step.had) as u64;
        self.tally.evicted += step.evicted.len() as u64;
        let name = |block: &u64| block ^ player.secret;
        let mut batches = Vec::new();
        if !step.evicted.is_empty() {
            let names: Vec<u64> = step.evicted.iter().map(name).collect();
            batches.push(removal(args.family, &names, now()));
        }
        let names: Vec<u64> = text.blocks[step.had..step.has].iter().map(name).collect();
        let parent = step.had.checked_sub(1).map(|at| name(&text.blocks[at]));
        let part = (&names[..], &text.tokens[step.had * size..step.has * size]);
        let most = (BENCH_EVENT_BLOCKS * 16 / size).clamp(1, BENCH_EVENT_BLOCKS);
        batches.extend(stores(args.family, parent, part, size, most, now()));
        if batches.is_empty() {
            return Ok(());
        }
        let touched = [&step.evicted[..], &text.blocks[step.had..step.has]].concat();
        self.publish(chosen, batches, touched)
    }

    /// Sends what a worker did, and the mark behind it.
    fn publish(&mut self, worker: usize, batches: Vec<Vec<u8>>, touched: Vec<u64>) -> Result<(), Failure> {
        let (publisher, player) = (&self.fleet.publishers[worker], &mut self.players[worker]);
        let mark = player.next + batches.len() as u64;
        player.next = mark + 1;
        player.worker.sent(mark, touched);
        let at = self.watch.start.elapsed();
        if !self.watch.log(worker).send(mark, at, 0) {
            return Err(Failure::new(exit::UNAVAILABLE, "the daemon applies nothing any more"));
        }
        let failed = |error: crate::wire::publisher::PublishError| internal(&error);
        for batch in batches {
            publisher.post(batch).map_err(failed)?;
        }
        let sent = publisher.send(payload(self.args.family, &[], now())).map_err(failed)?;
        self.tally.last = Instant::now();
        if sent == mark { Ok(()) } else { Err(internal(&format!("batch {sent} should be batch {mark}"))) }
    }

    /// The last numbers of all workers; those that did nothing send an empty batch, so that they have one.
    pub(super) fn marks(&mut self) -> Result<Vec<u64>, Failure> {
        for worker in 0..self.players.len() {
            if self.players[worker].next == 0 {
                self.publish(worker, Vec::new(), Vec::new())?;
            }
        }
        Ok(self.players.iter().map(|player| player.next - 1).collect())
    }

    /// Asks for the last requests once more, now that everything is applied.
    pub(super) fn ask_again(&mut self, requests: &[Request]) -> Result<(), Failure> {
        let from = requests.len().saturating_sub(BENCH_ASKED_AGAIN);
        for (number, request) in (0..).zip(requests).skip(from) {
            if self.stop.is_set() {
                break;
            }
            let text = Text::of(self.args, number, request);
            let question = self.args.encoding().request(&self.about, &text.tokens[..text.prompt]);
            let Some(body) = self.patience.excuse(self.connection.ask(&question))? else { break };
            for (player, tokens) in self.players.iter().zip(self.answered(&body)?) {
                let held =
                    player.worker.holds(&text.blocks[..text.asked]) as u64 * u64::from(self.args.block_size);
                let answers = &mut self.tally.answers;
                *(if tokens == held { &mut answers.quiet_exact } else { &mut answers.quiet_wrong }) += 1;
            }
        }
        Ok(())
    }
}
