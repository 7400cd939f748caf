//! Set-up: a publisher that is only simulated, with lives, a ring, losses, holes, repeats, reconnects, relays
//! and a replay that is late, cut, silent or dead; between it and the tracker, messages in flight. Claim: when
//! everything has settled, the batches applied are the history of the present life, each once and in order,
//! or the stream says that it is partial; where nothing was lost for good it says live; and requests for
//! replays stay in proportion to what happened; and in the end, where the publisher still remembers everything, a
//! stream that rests says live. The same holds when a connection has come back, perhaps to
//! another life, and the replay has been compared, though no message came since.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kvatlas::limits::MEND_MAX_SECONDS;
use kvatlas::stream::sequence::Tracker;
use kvatlas::stream::trust::{Action, Numbered, Reason, Trust};
use proptest::prelude::*;

const IDLE: Duration = Duration::from_secs(2);

/// A batch: its number, its content, and whether it clears everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    sequence: u64,
    content: u64,
    clear: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wire {
    Message(Batch),
    Reconnected,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Batch(Batch),
    End,
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
    /// The replies twice.
    Twice,
}

#[derive(Clone, Debug)]
enum Step {
    Publish {
        lose: bool,
        clear: bool,
    },
    Burst {
        count: u16,
        lose: bool,
    },
    Hole(u8),
    Repeat(u8),
    Deliver(u8),
    Serve(Fault),
    Answer(u8),
    Blip {
        lost: u8,
    },
    Restart {
        lost: u8,
        first: u8,
    },
    Relay,
    /// At rest the connection comes back; nobody heard so many batches before, of another life or the same.
    Idle {
        unheard: u8,
        restart: bool,
    },
    /// Nothing comes for so many seconds, while which something that is missing may be asked for again.
    Wait {
        seconds: u16,
    },
    Settle,
}

/// Which faults a run has.
#[derive(Clone, Copy, Debug)]
struct World {
    replay: bool,
    ring: usize,
    first: u64,
}

struct Simulation {
    world: World,
    tracker: Tracker<Batch>,
    now: Instant,
    life: u64,
    next: u64,
    history: Vec<Batch>,
    /// Those of the history that were not lost.
    sent: Vec<Batch>,
    ring: VecDeque<Batch>,
    flight: VecDeque<Wire>,
    request: Option<(u64, u64)>,
    answer: Option<(u64, VecDeque<Reply>)>,
    /// What the tracker's caller has.
    applied: Vec<Batch>,
    trust: Trust,
    delivered: u64,
    lives: u64,
    applications: u64,
    /// Nothing that a replay cannot repair has happened.
    clean: bool,
    /// The present life left numbers out.
    holes: bool,
}

impl Simulation {
    fn new(world: World) -> Self {
        let mut simulation = Self {
            world,
            tracker: Tracker::new(world.replay.then_some(IDLE)),
            now: Instant::now(),
            life: 0,
            next: world.first,
            history: Vec::new(),
            sent: Vec::new(),
            ring: VecDeque::new(),
            flight: VecDeque::new(),
            request: None,
            answer: None,
            applied: Vec::new(),
            trust: Trust::Connecting,
            delivered: 0,
            lives: 1,
            applications: 0,
            clean: true,
            holes: false,
        };
        let mut out = Vec::new();
        simulation.tracker.begin(simulation.now, &mut out);
        simulation.obey(out);
        simulation
    }

    fn step(&mut self, step: &Step) {
        self.now += Duration::from_millis(1);
        match *step {
            Step::Publish { lose, clear } => self.publish(lose && !self.must_arrive(), clear),
            Step::Burst { count, lose } => {
                for _ in 0..count {
                    self.publish(lose && !self.must_arrive(), false);
                }
            }
            Step::Hole(count) => {
                // A life is known by its first number; what it skips must not come from the life before instead.
                if !self.must_arrive() && !self.is_mixed() && count > 0 {
                    self.next += u64::from(count);
                    (self.clean, self.holes) = (false, true);
                }
            }
            Step::Repeat(back) => {
                let at = self.sent.len().checked_sub(1 + usize::from(back));
                if let Some(&batch) = at.and_then(|at| self.sent.get(at)) {
                    self.flight.push_back(Wire::Message(batch));
                }
            }
            Step::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            Step::Serve(fault) => self.serve(fault),
            Step::Answer(count) => (0..count).for_each(|_| self.reply()),
            Step::Blip { lost } => {
                self.lose_flight(lost);
                self.flight.push_back(Wire::Reconnected);
                self.cut_replay();
            }
            Step::Restart { lost, first } => {
                self.lose_flight(lost);
                self.flight.push_back(Wire::Reconnected);
                self.cut_replay();
                self.begin_life();
                if self.world.replay {
                    (0..first).for_each(|_| self.publish(true, false));
                }
            }
            Step::Relay => {
                // One path for everything: what was before arrives before.
                while !self.flight.is_empty() {
                    self.deliver();
                }
                self.begin_life();
                self.publish(false, false);
            }
            Step::Idle { unheard, restart } => self.idle(unheard, restart),
            Step::Wait { seconds } => self.wait(u64::from(seconds)),
            Step::Settle => self.settle(),
        }
    }

    fn wait(&mut self, seconds: u64) {
        // an answer that is under way would have ended long ago
        if self.tracker.asking() {
            return;
        }
        self.tick();
        self.now += Duration::from_secs(seconds);
        self.tick();
    }

    fn tick(&mut self) {
        let mut out = Vec::new();
        self.tracker.tick(self.now, &mut out);
        self.obey(out);
    }

    fn idle(&mut self, unheard: u8, restart: bool) {
        if !self.world.replay {
            return;
        }
        self.arrive();
        // what was not settled before may need a message
        let settled = self.trust == Trust::Live;
        if restart {
            self.begin_life();
        }
        (0..unheard).for_each(|_| self.publish(true, false));
        self.flight.push_back(Wire::Reconnected);
        self.arrive();
        // where there is nothing to compare, or more than comes without a message
        let far = self.trust == Trust::Partial(Reason::Behind);
        self.check(!settled || self.ring.is_empty() || far);
    }

    /// Nothing tells of a new life when its beginning is lost and there is no replay to ask.
    fn must_arrive(&self) -> bool {
        self.history.is_empty() && (!self.world.replay || self.life == 0)
    }

    /// Batches of a life that is over are still on their way.
    fn is_mixed(&self) -> bool {
        let of_life = |wire: &Wire| matches!(wire, Wire::Message(batch) if batch.content >> 32 == self.life);
        self.flight.iter().any(|wire| matches!(wire, Wire::Message(_)) && !of_life(wire))
    }

    fn begin_life(&mut self) {
        self.life += 1;
        self.lives += 1;
        self.next = self.world.first;
        self.history.clear();
        self.ring.clear();
        self.sent.clear();
        self.holes = false;
        // an answer of the life before that is under way may cost this one its replay
        self.clean = self.request.is_none() && self.answer.is_none();
    }

    fn publish(&mut self, lose: bool, clear: bool) {
        let batch = Batch { sequence: self.next, content: self.life << 32 | self.next, clear };
        self.next += 1;
        self.history.push(batch);
        self.ring.push_back(batch);
        if self.ring.len() > self.world.ring {
            self.ring.pop_front();
            self.clean = false;
        }
        if !lose {
            self.flight.push_back(Wire::Message(batch));
            self.sent.push(batch);
        } else if !self.world.replay {
            self.clean = false;
        }
    }

    /// The connection broke with messages in it.
    fn lose_flight(&mut self, count: u8) {
        if !self.world.replay {
            return;
        }
        for _ in 0..count {
            let Some(&Wire::Message(lost)) = self.flight.back() else { return };
            self.flight.pop_back();
            self.sent.retain(|&batch| batch != lost);
        }
    }

    fn cut_replay(&mut self) {
        self.clean &= self.request.is_none() && self.answer.is_none();
        if let Some((ticket, _)) = self.request.take() {
            self.answer = Some((ticket, VecDeque::new()));
        } else if let Some((_, replies)) = &mut self.answer {
            replies.truncate(replies.len() / 2);
        }
    }

    fn serve(&mut self, fault: Fault) {
        let Some((ticket, from)) = self.request.take() else { return };
        let mut replies: VecDeque<_> = self
            .ring
            .iter()
            .filter(|batch| batch.sequence >= from)
            .map(|&batch| Reply::Batch(batch))
            .collect();
        self.clean &= matches!(fault, Fault::None | Fault::Twice);
        match fault {
            Fault::None => replies.push_back(Reply::End),
            Fault::Silent => replies.clear(),
            Fault::NoEnd => {}
            Fault::Cut(count) => replies.truncate(count),
            Fault::Dropped(count) => {
                let gone = count.min(replies.len())..(2 * count).min(replies.len());
                replies.drain(gone);
                replies.push_back(Reply::End);
            }
            Fault::Twice => {
                replies = replies.iter().flat_map(|&reply| [reply, reply]).collect();
                replies.push_back(Reply::End);
            }
        }
        self.answer = Some((ticket, replies));
    }

    fn deliver(&mut self) {
        match self.flight.pop_front() {
            Some(Wire::Message(batch)) => {
                self.delivered += 1;
                let mut out = Vec::new();
                if self.tracker.advance(batch.sequence, batch.content) {
                    self.apply(batch);
                    let place = self.tracker.place(batch.sequence);
                    if batch.clear {
                        self.tracker.cleared(place, &mut out);
                    }
                } else {
                    self.tracker.live(numbered(batch), self.now, &mut out);
                }
                self.obey(out);
            }
            Some(Wire::Reconnected) => {
                let mut out = Vec::new();
                self.tracker.reconnected();
                self.tracker.begin(self.now, &mut out);
                self.obey(out);
            }
            None => {}
        }
    }

    fn reply(&mut self) {
        let Some((ticket, replies)) = &mut self.answer else { return };
        let ticket = *ticket;
        let mut out = Vec::new();
        match replies.pop_front() {
            Some(Reply::Batch(batch)) => {
                if !self.tracker.replayed(numbered(batch), self.now, &mut out) {
                    self.answer = None;
                }
            }
            Some(Reply::End) => {
                self.answer = None;
                self.tracker.replay_end(self.now, &mut out);
            }
            None => {
                self.answer = None;
                self.now += IDLE;
                self.tracker.tick(self.now, &mut out);
            }
        }
        assert!(ticket <= self.tracker.counts().asks);
        self.obey(out);
    }

    fn obey(&mut self, actions: Vec<Action<Batch>>) {
        let mut more = Vec::new();
        for action in actions {
            match action {
                Action::Apply(place, batch) => {
                    assert_eq!(place.sequence, batch.sequence);
                    self.apply(batch);
                    if batch.clear {
                        self.tracker.cleared(place, &mut more);
                    }
                }
                Action::Drop(_) => {}
                Action::Restart | Action::StartOver => self.applied.clear(),
                Action::AskReplay { from, ticket } => {
                    assert!(self.world.replay);
                    self.answer = None;
                    self.request = Some((ticket, from));
                }
                Action::Trust(trust) => {
                    assert_ne!(trust, self.trust, "said twice");
                    self.trust = trust;
                }
            }
        }
        if !more.is_empty() {
            self.obey(more);
        }
        assert_eq!(self.trust, self.tracker.trust());
        if !self.tracker.asking() {
            (self.request, self.answer) = (None, None);
        }
    }

    fn apply(&mut self, batch: Batch) {
        self.applications += 1;
        if let Some(last) = self.applied.last() {
            assert!(last.sequence < batch.sequence, "{batch:?} after {last:?}");
        }
        self.applied.push(batch);
    }

    /// Lets everything arrive, then one more message: what was lost last shows only then.
    fn settle(&mut self) {
        for more in [false, true, false] {
            if more {
                self.publish(false, false);
            }
            self.arrive();
        }
        self.check(false);
    }

    /// Where the publisher still has all that it published, a stream at rest becomes whole by itself.
    fn mend(&mut self) {
        for _ in 0..4 {
            self.wait(2 * MEND_MAX_SECONDS);
            self.arrive();
            self.check(true);
        }
        if self.world.replay && self.ring.len() == self.history.len() && !self.holes {
            assert_eq!(self.trust, Trust::Live, "{:?}", self.tracker);
        }
    }

    /// Lets everything arrive that is on its way, answers too.
    fn arrive(&mut self) {
        while !self.flight.is_empty() {
            self.deliver();
        }
        for _ in 0..10_000 {
            if !self.tracker.asking() {
                break;
            }
            self.serve(Fault::None);
            (0..64).for_each(|_| self.reply());
        }
        assert!(!self.tracker.asking(), "a replay without end");
    }

    /// What is applied must be right, and all that can be had, unless the stream is excused and says so.
    fn check(&self, excused: bool) {
        let since_clear = |batches: &[Batch]| {
            let from = batches.iter().rposition(|batch| batch.clear).unwrap_or(0);
            batches[from..].to_vec()
        };
        match self.trust {
            Trust::Live => {
                let (mut truth, ours) = (since_clear(&self.history), since_clear(&self.applied));
                // Number 1 is a beginning like 0.
                if truth.first().is_some_and(|first| first.sequence == 0) && ours[0].sequence == 1 {
                    truth.remove(0);
                }
                assert!(
                    truth == ours,
                    "says live, but has {} of {}: {:?} {:?}",
                    ours.len(),
                    truth.len(),
                    ours.iter().find(|batch| !truth.contains(batch)),
                    truth.iter().find(|batch| !ours.contains(batch)),
                );
            }
            Trust::Partial(reason) => {
                assert!(excused || !self.clean, "partial without a reason: {reason:?}");
            }
            other => panic!("{other:?} at rest"),
        }
        assert_eq!(self.tracker.held(), 0);
        assert_eq!(self.tracker.held_bytes(), 0);
        let counts = self.tracker.counts();
        assert!(
            counts.asks <= 4 + 4 * (self.delivered + self.lives) + self.applications,
            "{counts:?} after {} messages",
            self.delivered
        );
    }
}

fn numbered(batch: Batch) -> Numbered<Batch> {
    Numbered { sequence: batch.sequence, content: batch.content, bytes: 8, message: batch }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Silent),
        1 => Just(Fault::NoEnd),
        1 => (0usize..6).prop_map(Fault::Cut),
        2 => (0usize..6).prop_map(Fault::Dropped),
        1 => Just(Fault::Twice),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (prop::bool::weighted(0.25), prop::bool::weighted(0.05))
            .prop_map(|(lose, clear)| Step::Publish { lose, clear }),
        1 => (1u16..1500, prop::bool::weighted(0.3)).prop_map(|(count, lose)| Step::Burst { count, lose }),
        1 => (1u8..4).prop_map(Step::Hole),
        1 => (0u8..20).prop_map(Step::Repeat),
        10 => (1u8..6).prop_map(Step::Deliver),
        1 => Just(Step::Deliver(255)),
        4 => fault().prop_map(Step::Serve),
        6 => (1u8..6).prop_map(Step::Answer),
        1 => (0u8..4).prop_map(|lost| Step::Blip { lost }),
        1 => (0u8..4, 0u8..12).prop_map(|(lost, first)| Step::Restart { lost, first }),
        1 => Just(Step::Relay),
        1 => (0u8..12, any::<bool>()).prop_map(|(unheard, restart)| Step::Idle { unheard, restart }),
        1 => (1u16..1400).prop_map(|seconds| Step::Wait { seconds }),
        3 => Just(Step::Settle),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let ring = prop_oneof![Just(1usize), 2usize..12, Just(10_000)];
    (prop::bool::weighted(0.7), ring, 0u64..2).prop_map(|(replay, ring, first)| World { replay, ring, first })
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2048), max_shrink_iters: 20_000, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_applied_is_the_history_or_says_partial(
        world in world(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut simulation = Simulation::new(world);
        for step in &steps {
            simulation.step(step);
        }
        simulation.settle();
        simulation.mend();
    }
}
