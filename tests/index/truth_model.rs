//! Set-up: an engine that is only simulated (a prefix cache that evicts, lives, a ring, batches lost, repeated
//! and left out, reconnects, replays that are late, cut, partial or never come) drives the stream's decisions,
//! the decoder and the index together, as the daemon does; drivers that are broken in one way each go the
//! same course.
//! Claim: whenever the stream says that it is live, the index answers for every prefix exactly what the engine
//! had cached at the latest batch that is known of, and holds nothing else; what was lost for a while is had in
//! the end, and the stream says so; a clear makes any stream live again. Each broken driver is found out.

mod driver;
mod engine;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use driver::{Driver, Flaw};
use engine::{DEPTH, Engine, LEAVES, Message, Nature};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};

const IDLE: Duration = Duration::from_secs(2);

/// What comes on the subscription.
#[derive(Clone, Debug)]
enum Wire {
    Message(Rc<Message>),
    /// The word that the connection was lost, or is there again.
    Notice,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Silent,
    NoEnd,
    /// Cut after so many replies.
    Cut(usize),
    /// A socket that queued only the first so many, and dropped as many behind.
    Dropped(usize),
    Twice,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Run { leaf: u8, blocks: u8, lose: bool },
    Burst { count: u16, lose: bool },
    Clear,
    Hole(u8),
    Repeat(u8),
    Deliver(u8),
    Serve(Fault),
    Answer { which: u8, count: u8 },
    Wait { ms: u16 },
    Blip { lost: u8, early: u8, late: bool },
    Restart { lost: u8, first: u8, early: u8, late: bool },
    Relay,
    Purge(u8),
    Settle,
}

#[derive(Clone, Copy, Debug)]
struct World {
    nature: Nature,
    replay: bool,
    /// Replies name their topic.
    named: bool,
}

/// An answer on its way: `None` is its end.
struct Answer {
    ticket: u64,
    /// Who gave it.
    life: usize,
    replies: VecDeque<Option<Rc<Message>>>,
}

struct Simulation {
    world: World,
    engine: Engine,
    driver: Driver,
    now: Instant,
    sent: Vec<Rc<Message>>,
    flight: VecDeque<Wire>,
    answers: VecDeque<Answer>,
    /// Latest life and number heard.
    heard: Option<(usize, u64)>,
    /// Latest life of which a whole answer came: perhaps it has published nothing.
    ended: usize,
    /// The connection is another one, and no message came since the word of it.
    unannounced: bool,
    /// Nothing that a replay cannot repair has happened.
    clean: bool,
    questions: Vec<Vec<u64>>,
    asked: usize,
}

impl Simulation {
    fn new(world: World, flaw: Flaw) -> Self {
        let now = Instant::now();
        Self {
            world,
            engine: Engine::new(world.nature),
            driver: Driver::new(flaw, world.replay.then_some(IDLE), now),
            now,
            sent: Vec::new(),
            flight: VecDeque::new(),
            answers: VecDeque::new(),
            heard: None,
            ended: 0,
            unannounced: false,
            clean: true,
            questions: (0..LEAVES).map(engine::question).collect(),
            asked: 0,
        }
    }

    fn step(&mut self, step: Step) -> TestCaseResult {
        self.now += Duration::from_millis(1);
        match step {
            Step::Run { leaf, blocks, lose } => self.run(leaf.into(), blocks.into(), lose),
            Step::Burst { count, lose } => {
                for number in 0..usize::from(count) {
                    self.run(number * 11 % LEAVES, 1 + number % DEPTH, lose);
                }
            }
            Step::Clear => {
                let message = self.engine.clear();
                self.publish(message, false);
            }
            Step::Hole(count) => {
                if !self.must_arrive() {
                    self.engine.hole(count.into());
                    self.clean = false;
                }
            }
            Step::Repeat(back) => {
                let at = self.sent.len().checked_sub(1 + usize::from(back));
                let again = at.map(|at| Wire::Message(self.sent[at].clone()));
                self.flight.extend(again);
            }
            Step::Deliver(count) => (0..count).try_for_each(|_| self.deliver())?,
            Step::Serve(fault) => self.serve(fault),
            Step::Answer { which, count } => (0..count).try_for_each(|_| self.reply(which.into()))?,
            Step::Wait { ms } => {
                self.wait(Duration::from_millis(ms.into()));
                self.check(1)?;
            }
            Step::Blip { lost, early, late } => self.reconnect(lost, early, late, None)?,
            Step::Restart { lost, first, early, late } => self.reconnect(lost, early, late, Some(first))?,
            Step::Relay => {
                // one path for everything: what was before arrives before
                self.arrive()?;
                self.begin_life();
                self.run(0, DEPTH, false);
            }
            Step::Purge(budget) => {
                self.driver.purge(budget.into());
                self.check(1)?;
            }
            Step::Settle => self.settle()?,
        }
        Ok(())
    }

    /// Nothing tells of a new life when its beginning is lost and there is neither replay nor epoch.
    fn must_arrive(&self) -> bool {
        self.engine.is_new() && !self.world.replay && !self.world.nature.epoch
    }

    fn begin_life(&mut self) {
        self.engine.begin_life();
        self.sent.clear();
        self.clean = true;
    }

    fn run(&mut self, leaf: usize, blocks: usize, lose: bool) {
        let lose = lose && !self.must_arrive();
        let message = self.engine.run(leaf, blocks);
        self.publish(message, lose);
    }

    fn publish(&mut self, message: Rc<Message>, lose: bool) {
        let past = message.sequence - self.world.nature.first;
        self.clean &= past < self.world.nature.ring as u64 && (self.world.replay || !lose);
        if !lose {
            self.sent.push(message.clone());
            self.flight.push_back(Wire::Message(message));
        }
    }

    /// The connection broke, with messages in it, and is there again, perhaps to another life whose first batches
    /// nobody heard. The word of it is heard around the messages: too early, and perhaps again too late.
    fn reconnect(&mut self, lost: u8, early: u8, late: bool, restart: Option<u8>) -> TestCaseResult {
        for _ in 0..lost {
            let Some(Wire::Message(last)) = self.flight.back() else { break };
            let first = last.sequence == self.world.nature.first;
            if first && !self.world.replay && !self.world.nature.epoch {
                break;
            }
            let number = last.sequence;
            self.clean &= self.world.replay;
            self.flight.pop_back();
            self.sent.retain(|message| message.sequence != number);
        }
        let early = self.flight.len().saturating_sub(early.into());
        self.flight.insert(early, Wire::Notice);
        self.cut_answers();
        if let Some(unheard) = restart {
            self.begin_life();
            (0..unheard).for_each(|number| self.run(number.into(), DEPTH, true));
        }
        if late {
            // a first message of the new connection is there before the word of it is
            self.run(LEAVES / 2, DEPTH, false);
            self.flight.push_back(Wire::Notice);
            while self.flight.len() > 2 {
                self.deliver()?;
            }
            self.unannounced = true;
            self.deliver()?;
        } else {
            self.flight.push_back(Wire::Notice);
        }
        Ok(())
    }

    /// Time passes; a replay that is not heard of for so long is given up.
    fn wait(&mut self, time: Duration) {
        self.now += time;
        let before = self.driver.failed();
        self.driver.tick(self.now);
        self.clean &= self.driver.failed() == before;
    }

    fn cut_answers(&mut self) {
        self.clean &= self.driver.requests.is_empty() && self.answers.is_empty();
        for answer in &mut self.answers {
            answer.replies.truncate(answer.replies.len() / 2);
        }
        let (life, lost) = (self.engine.life(), self.driver.requests.drain(..));
        self.answers.extend(lost.map(|(ticket, _)| Answer { ticket, life, replies: VecDeque::new() }));
    }

    fn serve(&mut self, fault: Fault) {
        if self.driver.requests.is_empty() {
            return;
        }
        let (ticket, from) = self.driver.requests.remove(0);
        let ring = self.engine.ring.iter();
        let mut replies: VecDeque<_> =
            ring.filter(|message| message.sequence >= from).cloned().map(Some).collect();
        self.clean &= matches!(fault, Fault::None | Fault::Twice);
        replies.push_back(None);
        match fault {
            Fault::None => {}
            Fault::Silent => replies.clear(),
            Fault::NoEnd => replies.truncate(replies.len() - 1),
            Fault::Cut(count) => replies.truncate(count),
            Fault::Dropped(count) => {
                let gone = count.min(replies.len() - 1)..(2 * count).min(replies.len() - 1);
                replies.drain(gone);
            }
            Fault::Twice => {
                let twice =
                    replies.iter().flatten().flat_map(|reply| [Some(reply.clone()), Some(reply.clone())]);
                replies = twice.chain([None]).collect();
            }
        }
        self.answers.push_back(Answer { ticket, life: self.engine.life(), replies });
    }

    fn deliver(&mut self) -> TestCaseResult {
        match self.flight.pop_front() {
            Some(Wire::Message(message)) => {
                self.heard = self.heard.max(Some((message.life, message.sequence)));
                self.driver.live(&message, self.now);
                // the first message behind the word makes it compare
                self.unannounced &= self.flight.iter().any(|wire| matches!(wire, Wire::Notice));
                self.check(4)
            }
            Some(Wire::Notice) => {
                self.driver.reconnected(self.now);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn reply(&mut self, which: usize) -> TestCaseResult {
        if self.answers.is_empty() {
            return Ok(());
        }
        let at = which % self.answers.len();
        let answer = &mut self.answers[at];
        let ticket = answer.ticket;
        match answer.replies.pop_front() {
            Some(Some(message)) => {
                if !self.driver.replayed(ticket, &message, self.world.named, self.now) {
                    self.answers.remove(at);
                }
            }
            Some(None) => {
                self.ended = self.ended.max(answer.life);
                self.answers.remove(at);
                self.driver.replay_end(ticket, self.now);
            }
            None => {
                self.answers.remove(at);
                self.wait(IDLE);
                self.driver.replay_failed(ticket, self.now);
            }
        }
        self.check(1)
    }

    /// Lets everything arrive that is on its way, answers too.
    fn arrive(&mut self) -> TestCaseResult {
        while !self.flight.is_empty() {
            self.deliver()?;
        }
        for _ in 0..10_000 {
            if !self.driver.asking() && self.driver.requests.is_empty() && self.answers.is_empty() {
                break;
            }
            self.serve(Fault::None);
            (0..64).try_for_each(|_| self.reply(0))?;
        }
        prop_assert!(!self.driver.asking(), "a replay without end");
        Ok(())
    }

    /// Lets everything arrive, then one more message: what was lost last shows only then.
    fn settle(&mut self) -> TestCaseResult {
        for more in [false, true, false] {
            if more {
                self.run(0, DEPTH, false);
            }
            self.arrive()?;
        }
        let trust = self.driver.topics.trust();
        prop_assert!(self.driver.is_live() || !self.clean, "all was had, and the stream says {trust:?}");
        self.driver.purge(usize::MAX);
        self.check(LEAVES)
    }

    /// Whatever was lost: behind a clear it does not matter.
    fn heal(&mut self) -> TestCaseResult {
        self.settle()?;
        // an old life whose end nobody noticed may have promised higher numbers
        while self.engine.next() <= self.engine.highest() {
            self.run(0, 1, false);
        }
        let message = self.engine.clear();
        self.publish(message, false);
        self.settle()?;
        let trust = self.driver.topics.trust();
        prop_assert!(self.driver.is_live(), "cleared, and the stream says {trust:?}");
        Ok(())
    }

    /// Whether the index is right, as far as the stream says that it is: some questions a time, all in turn.
    fn check(&mut self, questions: usize) -> TestCaseResult {
        if !self.driver.is_live() || self.unannounced {
            return Ok(());
        }
        let mut known = self.heard.max(self.driver.latest);
        if self.driver.asking() && self.driver.latest.map(|(life, _)| life) == known.map(|(life, _)| life) {
            // an old batch heard again, which was not known to be one: it all comes again, from the beginning
            known = self.driver.latest;
        }
        let (life, number) = known.unwrap_or((0, 0));
        let truth = self.engine.cached(life, number);
        let may_be_empty = self.ended > life;
        for _ in 0..questions {
            self.asked = (self.asked + 1) % LEAVES;
            let told = self.driver.ask(&self.questions[self.asked]);
            let cached = engine::longest(&truth, self.asked);
            let right = told == cached || told == 0 && may_be_empty;
            prop_assert!(right, "live and wrong: {told} of {cached} blocks at {known:?}");
        }
        let (held, cached) = (self.driver.held(), engine::held(&truth));
        let right = held == cached || held == 0 && may_be_empty || !self.driver.purge(0);
        prop_assert!(right, "live and wrong: holds {held} of {cached} blocks at {known:?}");
        Ok(())
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Silent),
        1 => Just(Fault::NoEnd),
        1 => (0usize..6).prop_map(Fault::Cut),
        2 => (2usize..8).prop_map(Fault::Dropped),
        1 => Just(Fault::Twice),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let late = || prop::bool::weighted(0.2);
    prop_oneof![
        40 => (0..LEAVES as u8, 1..=DEPTH as u8, prop::bool::weighted(0.2))
            .prop_map(|(leaf, blocks, lose)| Step::Run { leaf, blocks, lose }),
        1 => (1u16..60, prop::bool::weighted(0.3)).prop_map(|(count, lose)| Step::Burst { count, lose }),
        1 => Just(Step::Clear),
        1 => (1u8..4).prop_map(Step::Hole),
        2 => (0u8..20).prop_map(Step::Repeat),
        30 => (1u8..6).prop_map(Step::Deliver),
        3 => Just(Step::Deliver(255)),
        12 => fault().prop_map(Step::Serve),
        18 => (0u8..4, 1u8..6).prop_map(|(which, count)| Step::Answer { which, count }),
        2 => (1u16..3000).prop_map(|ms| Step::Wait { ms }),
        2 => (0u8..4, 0u8..3, late()).prop_map(|(lost, early, late)| Step::Blip { lost, early, late }),
        2 => (0u8..4, 0u8..24, 0u8..3, late())
            .prop_map(|(lost, first, early, late)| Step::Restart { lost, first, early, late }),
        1 => Just(Step::Relay),
        3 => (0u8..40).prop_map(Step::Purge),
        4 => Just(Step::Settle),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let ring = prop_oneof![1 => 1usize..12, 3 => Just(10_000)];
    let nature = (0u64..2, ring, 10usize..40, any::<bool>(), prop::bool::weighted(0.3)).prop_map(
        |(first, ring, capacity, tail_first, epoch)| Nature { first, ring, capacity, tail_first, epoch },
    );
    (nature, prop::bool::weighted(0.75), any::<bool>()).prop_map(|(nature, replay, named)| World {
        nature,
        replay,
        named,
    })
}

fn course(flaw: Flaw, world: World, steps: &[Step]) -> TestCaseResult {
    let mut simulation = Simulation::new(world, flaw);
    steps.iter().try_for_each(|step| simulation.step(*step))?;
    simulation.heal()
}

/// So many cases for each that is asked for by default.
fn config(cases: u32) -> Config {
    let cases = cases * Config::default().cases.div_ceil(256);
    Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn live_is_right(world in world(), steps in prop::collection::vec(step(), 1..160)) {
        course(Flaw::None, world, &steps)?;
    }
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn live_is_right_for_long(world in world(), steps in prop::collection::vec(step(), 2000..4000)) {
        course(Flaw::None, world, &steps)?;
    }
}

#[test]
fn broken_drivers_are_found_out() {
    let flaws = [
        (Flaw::KeepsOldLife, "live and wrong"),
        (Flaw::AppliesRepeats, "live and wrong"),
        (Flaw::DeafToReconnects, "live and wrong"),
        (Flaw::LosesReplays, "live and wrong"),
        (Flaw::KeepsClearsToItself, "cleared, and the stream says"),
    ];
    for (flaw, charge) in flaws {
        let config = Config { max_shrink_iters: 0, ..config(512) };
        let dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, dice);
        let steps = prop::collection::vec(step(), 1..160);
        let outcome = runner.run(&(world(), steps), |(world, steps)| course(flaw, world, &steps));
        let Err(TestError::Fail(why, _)) = outcome else { panic!("{flaw:?} passes: {outcome:?}") };
        assert!(why.to_string().contains(charge), "{flaw:?}: {why}");
    }
}
