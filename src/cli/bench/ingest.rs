//! `bench ingest`: publishers on a schedule of absolute deadlines; what the daemon applied of it, and when.

use std::str::FromStr;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use clap::{Args, value_parser};

use super::fleet::{Fleet, MODEL, Plan, mark};
use super::patience::Patience;
use super::progress::Progress;
use super::sampler::{Sampler, Watch};
use super::sender::{Sender, Sent};
use super::subject::{Look, Subject, Turns};
use super::{Common, OnTime, Outcome, Watching, family, internal, now, number, usage};
use crate::bench::gate::{self, Settled};
use crate::bench::load::{Maker, Shape};
use crate::bench::report::{Counts, Ending, IngestReport, Reactor};
use crate::bench::schedule::{Punctuality, Schedule};
use crate::cli::exit::Failure;
use crate::cli::stop::Stop;
use crate::limits::{
    BENCH_BATCH_BLOCKS, BENCH_CAPACITY, BENCH_LATE_MS, BENCH_PUBLISHERS, BENCH_RATE, BENCH_SECONDS,
    BENCH_SETTLE_SECONDS, BENCH_SOCKET_BYTES, BENCH_WINDOW, BLOCK_TOKENS, EVENT_TOKENS,
};
use crate::wire::family::Family;
use crate::wire::publisher::{PublishError, Publisher};

/// From the end of all preparation until the first batch is due.
const LEAD: Duration = Duration::from_millis(50);
/// How often a publisher without schedule looks whether there is room.
const ROOM: Duration = Duration::from_micros(200);
/// What may wait in a socket at least and at most, messages; engines have the latter.
const SOCKET_MESSAGES: (usize, usize) = (1000, 100_000);

/// Flags of `bench ingest`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, allow_negative_numbers = true)]
pub(super) struct IngestArgs {
    /// Publishers, each a ZMQ socket and a thread
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..=i64::from(BENCH_PUBLISHERS)))]
    publishers: u32,
    /// Batches a second of each publisher, or max: as fast as the daemon applies them
    #[arg(long, value_name = "N", default_value = "200")]
    rate: Rate,
    /// How long batches are due, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = duration)]
    seconds: f64,
    /// Store events a batch
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u32).range(1..=4096))]
    events: u32,
    /// Blocks a store event
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=4096))]
    blocks: u32,
    /// Tokens a block
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=i64::from(BLOCK_TOKENS)))]
    tokens: u32,
    /// Blocks that a publisher holds: once they are there, every store evicts as many; 0 never evicts
    #[arg(long, value_name = "BLOCKS", default_value_t = 0, value_parser = value_parser!(u32).range(..=i64::from(BENCH_CAPACITY)))]
    capacity: u32,
    /// Prefixes that the prompts of a publisher share; 0 is none
    #[arg(long, value_name = "N", default_value_t = 8)]
    prefixes: u32,
    /// Wire version of the events
    #[arg(long, value_name = "NAME", default_value = "vllm-0.33.0", value_parser = family)]
    family: &'static Family,
    /// Publishers answer replay requests, so that what is lost comes back
    #[arg(long)]
    replay: bool,
    /// Seed of all tokens
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    on_time: OnTime,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    pub(super) common: Common,
}

const AFTER_HELP: &str = "\
Batch k of a publisher is due at start + k / rate, and a late one moves none of the others. The lag of a batch runs \
from when it was due until the daemon is seen to have applied it; looking costs the daemon CPU as well (--sample-ms). \
With --rate max a publisher waits while 2048 of its batches are unapplied, and lag runs from when a \
batch was handed over.

Gates: \"generator valid\", the batches were sent on time (--late-ms, --late-share); \"kept up\", nothing was lost, the \
daemon was done soon after the last batch (--settle-ms) and did not fall behind on the way (--growth-ms).

Examples:
  kvatlas bench ingest --publishers 8 --rate 500 --seconds 30
  kvatlas bench ingest --rate max --events 1 --capacity 20000
  kvatlas bench ingest --target http://10.0.0.9:13333 --bind 0.0.0.0 --advertise 10.0.0.3 --json";

/// How fast.
#[derive(Clone, Copy, Debug)]
enum Rate {
    ASecond(f64),
    Max,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        number(text, 1e-3, BENCH_RATE).map(Self::ASecond).map_err(|reason| format!("{reason}, or max"))
    }
}

fn duration(text: &str) -> Result<f64, String> {
    number(text, 0.1, BENCH_SECONDS)
}

/// Measures.
pub(super) fn run(
    args: &IngestArgs,
    stop: &Stop,
    patience: &Patience,
) -> Result<Outcome<IngestReport>, Failure> {
    args.check()?;
    args.common.check(args.publishers)?;
    let mut subject = Subject::find(&args.common, stop, patience)?;
    let fleet = Fleet::start(args.plan(), &subject.target, &args.common, (stop, patience))?;
    let (turns, before) = (subject.turns()?, subject.look());
    let start = Instant::now() + LEAD;
    let watch = Watch::new(fleet.publishers.len(), start, args.span());
    let sampler = Sampler::start(&subject.target, &fleet, &watch, (args.watching.sample, patience))?;
    let sent = args.publish_all(&fleet, &watch, (stop, patience))?;
    patience.end();
    let marks = fleet.publishers.iter().map(|publisher| mark(publisher, args.family));
    let marks = marks.collect::<Result<Vec<u64>, _>>()?;
    let last = sent.iter().map(|sent| sent.last).max().unwrap_or(start);
    let seen = watch.until_seen(&marks, Duration::from_secs(BENCH_SETTLE_SECONDS), patience)?;
    let ended = Instant::now();
    drop(sampler);
    let turns_then = patience.excuse(subject.turns())?;
    let ending = patience.ending();
    let run = Run { start, last, seen, ended, ending, marks, turns, turns_then, before };
    Ok(args.report(&subject, &watch, &sent, &run))
}

/// When what happened, and what was so before.
struct Run {
    start: Instant,
    last: Instant,
    seen: Option<Instant>,
    ended: Instant,
    ending: Ending,
    marks: Vec<u64>,
    turns: Turns,
    /// Afterwards; `None` when nobody answered.
    turns_then: Option<Turns>,
    before: Look,
}

impl IngestArgs {
    fn check(&self) -> Result<(), Failure> {
        let (events, blocks, tokens) =
            (u64::from(self.events), u64::from(self.blocks), u64::from(self.tokens));
        if events * blocks > BENCH_BATCH_BLOCKS {
            return Err(usage(
                "--events",
                &format!("× --blocks is more than {BENCH_BATCH_BLOCKS} blocks a batch"),
            ));
        }
        if events * blocks * tokens > EVENT_TOKENS as u64 / 2 {
            return Err(usage(
                "--tokens",
                &format!("× --events × --blocks is more than {} tokens a batch", EVENT_TOKENS / 2),
            ));
        }
        if self.capacity > 0 && self.capacity < self.blocks {
            return Err(usage("--capacity", "must be 0, or hold the blocks of an event (--blocks)"));
        }
        Ok(())
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn schedule(&self) -> Option<Schedule> {
        if let Rate::ASecond(rate) = self.rate { Some(Schedule::new(rate)) } else { None }
    }

    fn maker(&self, publisher: usize) -> Maker {
        let (events, blocks, tokens) = (self.events, self.blocks, self.tokens);
        let capacity = (self.capacity > 0).then_some(self.capacity);
        let shape = Shape { events, blocks, tokens, prefixes: self.prefixes, capacity };
        Maker::new(shape, self.family, crate::bench::mix(self.seed).wrapping_add(publisher as u64))
    }

    fn plan(&self) -> Plan {
        let bytes = self.maker(0).make(now()).payload.len().max(1);
        let messages = (BENCH_SOCKET_BYTES / bytes).clamp(SOCKET_MESSAGES.0, SOCKET_MESSAGES.1);
        Plan {
            publishers: self.publishers,
            family: self.family,
            block_size: self.tokens,
            send_hwm: messages as i32,
            replay: self.replay,
        }
    }

    /// Lets all publishers go, and shows how far they are.
    fn publish_all(
        &self,
        fleet: &Fleet,
        watch: &Arc<Watch>,
        (stop, patience): (&Stop, &Patience),
    ) -> Result<Vec<Sent>, Failure> {
        let progress = Progress::new("ingest", self.span().as_millis() as u64);
        std::thread::scope(|scope| {
            let threads = fleet.publishers.iter().enumerate().map(|(number, publisher)| {
                let thread = std::thread::Builder::new().name(format!("{MODEL}-{number}"));
                thread.spawn_scoped(scope, move || self.publish(number, publisher, watch, stop))
            });
            let threads = threads.collect::<Result<Vec<_>, _>>().map_err(|error| {
                // those that run already must not go on alone
                stop.set();
                internal(&error)
            })?;
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(10));
                let words = || format!("{} batches under way", watch.under_way());
                progress.at_time(watch.start.elapsed(), words);
                let heard = patience.excuse(watch.check());
                if !matches!(heard, Ok(Some(()))) {
                    stop.set();
                    heard?;
                }
            }
            let outcomes = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(internal(&"a publisher panicked"))));
            outcomes.collect()
        })
    }

    fn publish(
        &self,
        number: usize,
        publisher: &Publisher,
        watch: &Watch,
        stop: &Stop,
    ) -> Result<Sent, Failure> {
        let mut maker = self.maker(number);
        let mut sender = Sender::new(publisher, watch, number, self.on_time.late(BENCH_LATE_MS));
        let outcome = match self.schedule() {
            Some(schedule) => self.on_schedule(schedule, &mut maker, &mut sender, stop),
            None => self.as_fast_as_possible(&mut maker, &mut sender, stop),
        };
        outcome?;
        sender.flush().map_err(|error| internal(&error))?;
        Ok(sender.sent)
    }

    fn on_schedule(
        &self,
        schedule: Schedule,
        maker: &mut Maker,
        sender: &mut Sender<'_>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let count = schedule.count(self.span());
        // what is later than this is late in any case, and need not be sent
        let over = sender.watch.start + self.span() + self.on_time.late(BENCH_LATE_MS);
        let failed = |error: PublishError| internal(&error);
        let mut made = maker.make(now());
        for number in 0..count {
            let due = schedule.due(number);
            if !stop.sleep_until(sender.watch.start + due) {
                break;
            }
            if Instant::now() > over || !sender.send(made, due).map_err(failed)? {
                break;
            }
            // one that is behind hands over more before it looks how late it was
            if sender.watch.start + schedule.due(number + 1) > Instant::now() {
                sender.flush().map_err(failed)?;
            }
            // made before it is due
            made = maker.make(now());
        }
        Ok(())
    }

    fn as_fast_as_possible(
        &self,
        maker: &mut Maker,
        sender: &mut Sender<'_>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        stop.sleep_until(sender.watch.start);
        let failed = |error: PublishError| internal(&error);
        while sender.watch.start.elapsed() < self.span() && !stop.is_set() {
            if sender.watch.log(sender.number).under_way() as u64 >= BENCH_WINDOW {
                sender.flush().map_err(failed)?;
                std::thread::sleep(ROOM);
                continue;
            }
            let made = maker.make(now());
            let due = sender.watch.start.elapsed();
            sender.send(made, due).map_err(failed)?;
        }
        Ok(())
    }

    fn report(&self, subject: &Subject, watch: &Watch, sent: &[Sent], run: &Run) -> Outcome<IngestReport> {
        let turns = run.turns_then.as_ref().unwrap_or(&run.turns);
        let daemon = subject.measured(turns.turns.len(), run.before);
        let Found { applied, reactors, gaps, missed, skipped } = found(watch, run, turns);
        let mut all = Counts::default();
        let mut punctuality = Punctuality::new(self.on_time.late(BENCH_LATE_MS));
        for sent in sent {
            all = sum(all, sent.counts);
            punctuality.add(&sent.punctuality);
        }
        let (lags, looks) = watch.lags();
        let whole = |schedule: Schedule| schedule.count(self.span()) * u64::from(self.publishers);
        let part = run.ending != Ending::default();
        // of a part, what was sent was due
        let due = self.schedule().map(|schedule| if part { punctuality.sent() } else { whole(schedule) });
        let generator = due.map_or_else(gate::no_schedule, |due| {
            gate::generator(&punctuality, due, self.on_time.share(), "batches")
        });
        let settled = Settled {
            after: run.seen.map(|seen| seen.saturating_duration_since(run.last)),
            bound: self.watching.settle,
            growth: lags.growth(),
            growth_bound: due.map(|_| self.watching.growth),
            // of a part that was not waited for, nobody knows what is still to come
            lost: (missed + skipped).max(if part && run.seen.is_none() { 0 } else { differ(all, applied) }),
            unanswered: run.ending.unanswered,
        };
        let gates = vec![generator, gate::kept_up(&settled)];
        let until = run.seen.unwrap_or(run.ended);
        let report = IngestReport {
            ending: run.ending,
            publishers: self.publishers,
            rate: if let Rate::ASecond(rate) = self.rate { Some(rate) } else { None },
            events_per_batch: self.events,
            blocks_per_event: self.blocks,
            tokens_per_block: self.tokens,
            sent_seconds: (run.last - run.start).as_secs_f64(),
            applied_seconds: (until - run.start).as_secs_f64(),
            daemon,
            sent: all,
            applied,
            gaps,
            missed,
            skipped,
            lag: lags.all().percentiles(),
            looks: looks.percentiles(),
            lateness: due.map(|_| punctuality.times().percentiles()),
            per_reactor: reactors,
            gates: gates.clone(),
        };
        let text = report.text();
        let histograms = vec![("lag".to_owned(), lags.all().clone())];
        Outcome { ending: run.ending, report, text, gates, histograms }
    }
}

/// What the daemon says in the end.
struct Found {
    applied: Counts,
    reactors: Vec<Reactor>,
    gaps: u64,
    missed: u64,
    skipped: u64,
}

fn found(watch: &Watch, run: &Run, turns: &Turns) -> Found {
    let since = |now: &[u64], before: &[u64], at: usize| {
        let of = |counts: &[u64]| counts.get(at).copied().unwrap_or(0);
        of(now).saturating_sub(of(before))
    };
    let reactor = |at| Reactor {
        turns: since(&turns.turns, &run.turns.turns, at),
        stalls: since(&turns.stalls, &run.turns.stalls, at),
        ..Reactor::default()
    };
    let mut reactors: Vec<Reactor> = (0..turns.turns.len()).map(reactor).collect();
    let mut found =
        Found { applied: Counts::default(), reactors: Vec::new(), gaps: 0, missed: 0, skipped: 0 };
    for (service, mark) in watch.services().into_iter().zip(&run.marks) {
        let Some(service) = service else { continue };
        let stream = &service.stream;
        // the batch that marks the end is none of those that count
        let batches = stream.batches - u64::from(stream.last_sequence >= Some(*mark)).min(stream.batches);
        let counts = Counts {
            batches,
            events: stream.stores + stream.removes,
            blocks_stored: stream.blocks_stored,
            blocks_removed: stream.blocks_removed,
            blocks_held: stream.blocks_held,
        };
        found.applied = sum(found.applied, counts);
        found.gaps += stream.gaps;
        found.missed += stream.missed;
        found.skipped += stream.lost() - stream.missed;
        if let Some(reactor) = reactors.get_mut(service.reactor) {
            reactor.streams += 1;
            reactor.messages += stream.messages;
            reactor.batches += batches;
            reactor.blocks += stream.blocks_stored + stream.blocks_removed;
        }
    }
    found.reactors = reactors;
    found
}

fn sum(one: Counts, other: Counts) -> Counts {
    Counts {
        batches: one.batches + other.batches,
        events: one.events + other.events,
        blocks_stored: one.blocks_stored + other.blocks_stored,
        blocks_removed: one.blocks_removed + other.blocks_removed,
        blocks_held: one.blocks_held + other.blocks_held,
    }
}

/// Largest difference between two counts.
fn differ(one: Counts, other: Counts) -> u64 {
    let parts = |of: Counts| [of.batches, of.events, of.blocks_stored, of.blocks_removed, of.blocks_held];
    let differences = parts(one).into_iter().zip(parts(other)).map(|(one, other)| one.abs_diff(other));
    differences.max().unwrap_or(0)
}
