//! What stands between stream and index, as the daemon has it, without sockets: a message goes to the topics,
//! and what they decide is carried out in the shard. It can be broken on purpose.
#![allow(unreachable_pub)] // a part of one test

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvatlas::event::{self, Batch, Event};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash::{DEFAULT_SEED, Path};
use kvatlas::index::publisher::{Class, Registration};
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::index::walk::Filter;
use kvatlas::metrics::PublisherStats;
use kvatlas::stream::topics::Topics;
use kvatlas::stream::trust::{Action, Numbered, Place, Trust};
use xxhash_rust::xxh3::xxh3_64;

use super::engine::{BLOCK, Message};

/// Blocks applied at a time: small, so that batches are interrupted.
const STEP: usize = 2;

/// What is wrong with a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    None,
    /// What came from the old life stays.
    KeepsOldLife,
    /// What is to be dropped is applied.
    AppliesRepeats,
    /// The connection is lost and comes back, and nobody says so.
    DeafToReconnects,
    /// A clear is applied, and the stream is not told.
    KeepsClearsToItself,
    /// Batches that only a replay has are thrown away.
    LosesReplays,
}

pub struct Driver {
    flaw: Flaw,
    pub topics: Topics<Rc<Message>>,
    shard: Shard,
    registration: Arc<Registration>,
    stats: Arc<PublisherStats>,
    number: u32,
    fed: HashSet<usize>,
    batch: Batch,
    /// Requests to send: ticket, first number wanted.
    pub requests: Vec<(u64, u64)>,
    /// Latest life and number applied since the last restart.
    pub latest: Option<(usize, u64)>,
}

impl Driver {
    pub fn new(flaw: Flaw, replay: Option<Duration>, now: Instant) -> Self {
        let registration = Arc::new(Registration {
            tenant: "default".into(),
            instance: "engine".into(),
            rank: 0,
            class: Class::Engine,
            model: "model".into(),
            lora_name: String::new(),
            block_size: BLOCK as u32,
            additional_salt: String::new(),
            standard_hashes: false,
            tp_size: None,
            removal_scope: None,
        });
        let (mut shard, stats) = (Shard::new(DEFAULT_SEED), Arc::new(PublisherStats::default()));
        let number = shard.add_publisher(registration.clone(), stats.clone()).expect("there is room");
        let mut driver = Self {
            flaw,
            topics: Topics::new(replay),
            shard,
            registration,
            stats,
            number,
            fed: HashSet::new(),
            batch: Batch::default(),
            requests: Vec::new(),
            latest: None,
        };
        let mut actions = Vec::new();
        driver.topics.begin(now, &mut actions);
        driver.carry_out(None, actions);
        driver
    }

    /// A message of the subscription.
    pub fn live(&mut self, message: &Rc<Message>, now: Instant) {
        let content = xxh3_64(&message.payload);
        if let Some((stream, place)) = self.topics.advance(&message.topic, message.sequence, content) {
            self.apply(stream, place, message);
            return;
        }
        let mut actions = Vec::new();
        let stream = self.topics.live(&message.topic, numbered(message), now, &mut actions);
        self.carry_out(stream, actions);
    }

    /// A reply; whether more of its answer is wanted.
    pub fn replayed(&mut self, ticket: u64, message: &Rc<Message>, topic: bool, now: Instant) -> bool {
        let mut actions = Vec::new();
        let topic = topic.then_some(&*message.topic);
        let stream = self.topics.replayed(ticket, topic, numbered(message), now, &mut actions);
        if self.flaw == Flaw::LosesReplays {
            actions.retain(|action| !matches!(action, Action::Apply(..)));
        }
        self.carry_out(stream, actions);
        stream.is_some()
    }

    pub fn replay_end(&mut self, ticket: u64, now: Instant) {
        let mut actions = Vec::new();
        let stream = self.topics.replay_end(ticket, now, &mut actions);
        self.carry_out(stream, actions);
    }

    pub fn replay_failed(&mut self, ticket: u64, now: Instant) {
        let mut actions = Vec::new();
        let stream = self.topics.replay_failed(ticket, now, &mut actions);
        self.carry_out(stream, actions);
    }

    pub fn tick(&mut self, now: Instant) {
        let mut actions = Vec::new();
        let stream = self.topics.tick(true, now, &mut actions);
        self.carry_out(stream, actions);
    }

    pub fn reconnected(&mut self, now: Instant) {
        if self.flaw != Flaw::DeafToReconnects {
            self.topics.reconnected();
            let mut actions = Vec::new();
            self.topics.begin(now, &mut actions);
            self.carry_out(None, actions);
        }
    }

    /// Takes away a part of what the old lives held; whether nothing of it is left.
    pub fn purge(&mut self, budget: usize) -> bool {
        self.shard.purge(budget)
    }

    pub fn is_live(&self) -> bool {
        self.topics.trust() == Trust::Live
    }

    pub fn asking(&self) -> bool {
        self.topics.streams().any(|(_, tracker)| tracker.asking())
    }

    /// Requests that failed so far.
    pub fn failed(&self) -> u64 {
        self.topics.streams().map(|(_, tracker)| tracker.counts().failed).sum()
    }

    /// Blocks walked.
    pub fn ask(&mut self, hashes: &[u64]) -> usize {
        let context = self.shard.find_context(&base_key(&self.registration)).expect("registered");
        self.shard.query(&[context], &mut Path::of_hashes(hashes), Filter::ALL);
        self.shard.answer().hits().map(|hit| hit.longest as usize).sum()
    }

    /// Blocks held; those of old lives too, until they are purged.
    pub fn held(&self) -> usize {
        self.stats.blocks_held.get() as usize
    }

    fn carry_out(&mut self, stream: Option<usize>, actions: Vec<Action<Rc<Message>>>) {
        for action in actions {
            match action {
                Action::Apply(place, message) => self.apply(stream.unwrap_or(0), place, &message),
                Action::Restart | Action::StartOver => self.restart(stream),
                Action::AskReplay { from, ticket } => self.requests.push((ticket, from)),
                Action::Drop(message) if self.flaw == Flaw::AppliesRepeats => {
                    self.apply_events(stream.unwrap_or(0), &message);
                }
                Action::Drop(_) | Action::Trust(_) => {}
            }
        }
    }

    fn apply(&mut self, stream: usize, place: Place, message: &Rc<Message>) {
        self.latest = self.latest.max(Some((message.life, message.sequence)));
        if self.apply_events(stream, message) && self.flaw != Flaw::KeepsClearsToItself {
            self.topics.cleared(stream, place, &mut Vec::new());
        }
    }

    /// Applies a batch; whether it cleared everything.
    fn apply_events(&mut self, stream: usize, message: &Message) -> bool {
        self.fed.insert(stream);
        event::decode(&message.payload, &mut self.batch).expect("a good payload");
        assert!(self.batch.skipped.is_empty());
        let mut cursor = Cursor::default();
        while !self.shard.apply(self.number, &message.payload, &self.batch, &mut cursor, STEP) {}
        self.batch.events.iter().any(|event| matches!(event, Event::Clear(_)))
    }

    fn restart(&mut self, stream: Option<usize>) {
        let other = !self.fed.is_empty() && stream.is_some_and(|stream| !self.fed.contains(&stream));
        if other || self.flaw == Flaw::KeepsOldLife {
            return;
        }
        self.shard.remove_publisher(self.number);
        let again = self.shard.add_publisher(self.registration.clone(), self.stats.clone());
        self.number = again.expect("there is room");
        self.fed.clear();
        self.latest = None;
    }
}

fn numbered(message: &Rc<Message>) -> Numbered<Rc<Message>> {
    Numbered {
        sequence: message.sequence,
        content: xxh3_64(&message.payload),
        bytes: message.payload.len(),
        message: message.clone(),
    }
}
