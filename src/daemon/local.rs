//! One publisher on its reactor: its place in the shard, and how far its stream got.
//!
//! Every publisher tracks its endpoint's numbers for itself, so that one registered later on a live socket gets
//! its own first replay and nobody else's state is touched. What the tracker decides is carried out in order:
//! the [`Gate`] lets the subscription and a replay take turns.

use super::Daemon;
use super::directory::Listing;
use super::ingest;
use crate::index::publisher::Class;
use crate::rt::{Gate, Signal};
use crate::stream::replay::{Ended, Replay};
use crate::stream::stats::State;
use crate::stream::subscription::Link;
use crate::stream::topics::Topics;
use crate::stream::trust::{Action, Counts, Numbered, Place, Reason, Trust};
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// A payload that waits for its turn.
pub type Held = Vec<u8>;

/// What a stream brought to a publisher.
#[derive(Clone, Copy, Default)]
struct Brought {
    /// The last number applied in the present life.
    last: Option<u64>,
    /// Some of it was for this publisher.
    fed: bool,
}

/// A publisher registered on this reactor.
pub struct Local {
    /// Its registration.
    pub listing: Arc<Listing>,
    /// Number in the shard; another one after a restart.
    pub number: Cell<u32>,
    /// Its registration ended: what is still queued must not count.
    pub gone: Rc<Signal>,
    /// Carries out one decision after the other.
    pub gate: Rc<Gate>,
    /// The numbers of its endpoint.
    pub topics: RefCell<Topics<Held>>,
    /// What each stream of its endpoint brought it.
    brought: RefCell<Vec<Brought>>,
    /// What was unread and not entered when that was last looked at, and the troubles then.
    lost_before: Cell<(u64, u64)>,
    troubles: Cell<u64>,
    /// When it was registered.
    since: Instant,
    /// Whether the endpoint is connected, once it ever was.
    link: Cell<Option<Link>>,
    /// When it was lost.
    lost: Cell<Option<Instant>>,
    /// Its entries were dropped because it stayed away too long.
    stale: Cell<bool>,
}

impl Local {
    /// A publisher of which nothing came yet. With a replay endpoint, `replay_idle` is how long it may be silent.
    pub fn new(listing: Arc<Listing>, number: u32, replay_idle: Duration) -> Rc<Self> {
        let replay = listing.replay.is_some().then_some(replay_idle);
        Rc::new(Self {
            listing,
            number: Cell::new(number),
            gone: Signal::new(),
            gate: Gate::new(),
            topics: RefCell::new(Topics::new(replay)),
            brought: RefCell::default(),
            lost_before: Cell::default(),
            troubles: Cell::default(),
            since: Instant::now(),
            link: Cell::new(None),
            lost: Cell::new(None),
            stale: Cell::new(false),
        })
    }

    /// Whether a batch of this rank is for this publisher; `ranked` is whether some engine of the endpoint is
    /// registered under the rank, on whatever reactor.
    pub fn takes(&self, rank: Option<u32>, ranked: bool) -> bool {
        self.listing.key.class == Class::Pool || !ranked || rank == Some(self.listing.key.rank)
    }

    /// Whether this is an engine registered under the rank.
    pub fn is_ranked(&self, rank: u32) -> bool {
        self.listing.key.class == Class::Engine && rank == self.listing.key.rank
    }

    /// A batch at this number of a stream is for this publisher.
    pub fn feed(&self, stream: usize) {
        self.brings(stream).fed = true;
    }

    /// Whatever the batch at this number of a stream meant for this publisher has been applied.
    pub fn applied(&self, stream: usize, sequence: u64) {
        self.brings(stream).last = Some(sequence);
        let highest = self.brought.borrow().iter().filter_map(|brought| brought.last).max();
        self.listing.stats.applied(highest.unwrap_or(sequence));
    }

    fn brings(&self, stream: usize) -> RefMut<'_, Brought> {
        RefMut::map(self.brought.borrow_mut(), |all| {
            if all.len() <= stream {
                all.resize(stream + 1, Brought::default());
            }
            &mut all[stream]
        })
    }

    /// What became of the batch at `place`: where something of it was lost, the stream is no longer whole.
    pub fn weigh(&self, stream: usize, place: Place) {
        let events = &self.listing.stats.publisher;
        let troubles = events.troubles();
        if self.troubles.replace(troubles) == troubles {
            return;
        }
        let lost = (events.unread(), events.not_entered());
        let before = self.lost_before.replace(lost);
        if lost != before {
            let why = if lost.0 > before.0 { Reason::Unread } else { Reason::NotEntered };
            self.topics.borrow_mut().spoiled(stream, place, why, &mut Vec::new());
            self.tell();
        }
    }

    /// Writes down how far the stream can be trusted.
    pub fn tell(&self) {
        let stats = &self.listing.stats;
        let topics = self.topics.borrow();
        let trust = topics.trust();
        let counts = topics.streams().map(|(_, tracker)| tracker.counts()).fold(Counts::default(), sum);
        stats.count(&counts);
        stats.behind.set(topics.streams().map(|(_, tracker)| tracker.lag()).sum());
        stats.refused_topics.set(topics.refused());
        let lost = topics.streams().filter(|(_, tracker)| tracker.is_beyond_repair()).count();
        stats.beyond_repair.set(lost as u64);
        if trust != Trust::Replaying && counts.asks > 0 {
            stats.begin();
        }
        let trust = match trust {
            Trust::Live if stats.publisher.enters_nothing() => Trust::Partial(Reason::NotEntered),
            trust => trust,
        };
        stats.miss(if let Trust::Partial(reason) = trust { Some(reason) } else { None });
        stats.enter(match (self.link.get(), trust) {
            (Some(Link::Down), _) if self.stale.get() => State::Stale,
            (Some(Link::Down), _) => State::Disconnected,
            (_, Trust::Connecting) => State::Connecting,
            (_, Trust::Replaying) => State::Replaying,
            (_, Trust::Live) => State::Live,
            (_, Trust::Partial(_)) => State::Partial,
        });
    }

    /// The connection came or went, or did not come about.
    pub fn linked(&self, link: Link) {
        let stats = &self.listing.stats;
        match link {
            Link::Unreached => {
                stats.connect_failed.add(1);
                return self.fail_to_link("cannot connect to the endpoint; trying again".to_owned());
            }
            Link::Unagreed(how) => {
                stats.handshake_failed.add(1);
                return self.fail_to_link(format!("connected to the endpoint, but {how}"));
            }
            Link::Up | Link::Down => {}
        }
        if self.link.get().is_some() {
            self.topics.borrow_mut().reconnected();
        }
        self.link.set(Some(link));
        if link == Link::Down {
            self.lost.set(Some(Instant::now()));
            stats.disconnects.add(1);
            stats.fail("the connection was lost".to_owned());
        } else {
            self.lost.set(None);
            self.stale.set(false);
        }
        self.tell();
    }

    /// Another attempt was in vain. Only the first of all is worth a line of the log.
    fn fail_to_link(&self, why: String) {
        let stats = &self.listing.stats;
        if stats.connect_failed.get() + stats.handshake_failed.get() == 1 {
            tracing::warn!(
                instance = self.listing.key.instance,
                rank = self.listing.key.rank,
                endpoint = self.listing.endpoint.as_str(),
                "{why}"
            );
        }
        stats.fail(why);
    }

    /// Whether everything of a stream is being read again.
    pub fn is_mending(&self) -> bool {
        self.topics.borrow().is_mending()
    }

    /// How long the endpoint has been without a connection.
    pub fn away(&self) -> Duration {
        match self.link.get() {
            Some(Link::Up) => Duration::ZERO,
            Some(_) => self.lost.get().map_or(Duration::ZERO, |lost| lost.elapsed()),
            None => self.since.elapsed(),
        }
    }

    /// Whether it has been away for longer than `ttl`, for the first time.
    fn grows_stale(&self, ttl: Duration) -> bool {
        let away = self.lost.get().is_some_and(|lost| lost.elapsed() >= ttl);
        away && !self.stale.replace(away)
    }
}

fn sum(one: Counts, other: Counts) -> Counts {
    Counts {
        applied: one.applied + other.applied,
        repeats: one.repeats + other.repeats,
        restarts: one.restarts + other.restarts,
        gaps: one.gaps + other.gaps,
        missed: one.missed + other.missed,
        replayed: one.replayed + other.replayed,
        rereads: one.rereads + other.rereads,
        surplus: one.surplus + other.surplus,
        asks: one.asks + other.asks,
        failed: one.failed + other.failed,
        overflows: one.overflows + other.overflows,
        outlived: one.outlived + other.outlived,
    }
}

/// Begins the first replay or, after a reconnect, the comparison of the past, where there is a replay endpoint.
pub async fn begin(daemon: Rc<Daemon>, local: Rc<Local>) {
    let _pass = local.gate.enter().await;
    let mut actions = Vec::new();
    local.topics.borrow_mut().begin(Instant::now(), &mut actions);
    carry_out(&daemon, &local, None, actions).await;
}

/// A message that does not simply follow: decides, and carries the decision out.
pub async fn live(
    daemon: &Rc<Daemon>,
    local: &Rc<Local>,
    topic: &[u8],
    sequence: u64,
    content: u64,
    payload: &[u8],
) {
    let mut actions = Vec::new();
    let message = Numbered { sequence, content, bytes: payload.len(), message: payload.to_vec() };
    let stream = local.topics.borrow_mut().live(topic, message, Instant::now(), &mut actions);
    carry_out(daemon, local, stream, actions).await;
}

/// Carries out what the tracker decided, in order.
async fn carry_out(
    daemon: &Rc<Daemon>,
    local: &Rc<Local>,
    stream: Option<usize>,
    actions: Vec<Action<Held>>,
) {
    for action in actions {
        if local.gone.is_set() {
            return;
        }
        match action {
            Action::Apply(place, payload) => {
                let stream = stream.unwrap_or(0);
                if ingest::apply_held(daemon, local, stream, &payload).await {
                    clear(local, stream, place);
                }
                local.applied(stream, place.sequence);
                local.weigh(stream, place);
            }
            Action::Restart => restart(daemon, local, stream, "the publisher restarted"),
            Action::StartOver => {
                restart(daemon, local, stream, "something is missing: everything is read again");
            }
            Action::AskReplay { from, ticket } => ask(daemon, local, from, ticket),
            Action::Trust(trust) => say(local, trust),
            Action::Drop(_) => {}
        }
    }
    local.tell();
}

fn say(local: &Local, trust: Trust) {
    let reason = if let Trust::Partial(reason) = trust { reason.name() } else { "" };
    tracing::debug!(
        instance = local.listing.key.instance,
        rank = local.listing.key.rank,
        state = trust.name(),
        reason,
        "a stream"
    );
}

/// A batch cleared everything: what was missing before it matters no more.
pub fn clear(local: &Local, stream: usize, place: Place) {
    let mut actions = Vec::new();
    local.topics.borrow_mut().cleared(stream, place, &mut actions);
    local.tell();
}

/// Everything that came from the publisher before goes, whatever stream brought it.
fn restart(daemon: &Rc<Daemon>, local: &Rc<Local>, stream: Option<usize>, why: &str) {
    let brought = local.brought.borrow().clone();
    let fed = |stream: usize| brought.get(stream).is_some_and(|brought| brought.fed);
    if let Some(stream) = stream {
        local.brings(stream).last = None;
        // another topic of a shared endpoint may begin anew without this publisher
        if brought.iter().any(|brought| brought.fed) && !fed(stream) {
            return;
        }
    }
    tracing::info!(instance = local.listing.key.instance, rank = local.listing.key.rank, "{why}");
    start_over(daemon, local);
    let mut requests = Vec::new();
    let others = (0..brought.len()).filter(|other| fed(*other) && Some(*other) != stream);
    local.topics.borrow_mut().swept(others, Instant::now(), &mut requests);
    for action in requests {
        if let Action::AskReplay { from, ticket } = action {
            ask(daemon, local, from, ticket);
        }
    }
}

/// Drops everything that the publisher holds; it goes on under a new number.
fn start_over(daemon: &Rc<Daemon>, local: &Rc<Local>) {
    let mut shard = daemon.shard.borrow_mut();
    shard.remove_publisher(local.number.get());
    let stats = local.listing.stats.publisher.clone();
    match shard.add_publisher(local.listing.registration.clone(), stats) {
        Ok(number) => local.number.set(number),
        Err(_) => local.listing.stats.fail("there are too many contexts".to_owned()),
    }
    drop(shard);
    local.brought.borrow_mut().clear();
    daemon.purge();
}

/// Asks the replay endpoint, in a task of its own.
fn ask(daemon: &Rc<Daemon>, local: &Rc<Local>, from: u64, ticket: u64) {
    tracing::debug!(
        instance = local.listing.key.instance,
        rank = local.listing.key.rank,
        from,
        "asks for a replay"
    );
    let (daemon, local) = (daemon.clone(), local.clone());
    let turn = daemon.seat.ingest.clone();
    turn.spawn(async move {
        let Some(endpoint) = &local.listing.replay else { return };
        let streams = &daemon.streams;
        let ended = match Replay::ask(&streams.contexts, endpoint, streams.settings, from) {
            Err(error) => Ended::Failed(error),
            Ok(mut replay) => {
                let each = async |topic: Option<&[u8]>, sequence: u64, payload: &[u8]| {
                    replayed(&daemon, &local, ticket, topic, sequence, payload).await
                };
                replay.answer(&daemon.seat.ingest, &local.gone, streams.replay_idle, each).await
            }
        };
        let _pass = local.gate.enter().await;
        let mut actions = Vec::new();
        let now = Instant::now();
        let stream = match ended {
            Ended::Complete => local.topics.borrow_mut().replay_end(ticket, now, &mut actions),
            Ended::Enough | Ended::Closed => None,
            Ended::Silent => {
                local.listing.stats.fail("the replay fell silent".to_owned());
                local.topics.borrow_mut().replay_failed(ticket, now, &mut actions)
            }
            Ended::Failed(error) => {
                local.listing.stats.fail(format!("the replay failed: {error}"));
                local.topics.borrow_mut().replay_failed(ticket, now, &mut actions)
            }
        };
        carry_out(&daemon, &local, stream, actions).await;
    });
}

async fn replayed(
    daemon: &Rc<Daemon>,
    local: &Rc<Local>,
    ticket: u64,
    topic: Option<&[u8]>,
    sequence: u64,
    payload: &[u8],
) -> bool {
    let _pass = local.gate.enter().await;
    let mut actions = Vec::new();
    let reply =
        Numbered { sequence, content: xxh3_64(payload), bytes: payload.len(), message: payload.to_vec() };
    let stream = local.topics.borrow_mut().replayed(ticket, topic, reply, Instant::now(), &mut actions);
    carry_out(daemon, local, stream, actions).await;
    stream.is_some()
}

/// Lets time pass: a replay that brings nothing new has failed, what is missing may be asked for once more, a publisher
/// away too long loses its entries. `free` says whether memory may be taken to read everything again.
pub async fn tick(daemon: &Rc<Daemon>, local: &Rc<Local>, free: bool, ttl: Duration) {
    let Some(_pass) = local.gate.try_enter() else { return };
    let mut actions = Vec::new();
    let stream = local.topics.borrow_mut().tick(free, Instant::now(), &mut actions);
    if stream.is_some() {
        carry_out(daemon, local, stream, actions).await;
    }
    // what waits at a bound may be dropped for somebody else
    let latest = local.topics.borrow().latest();
    if let Some((stream, place)) = latest {
        local.weigh(stream, place);
    }
    if !ttl.is_zero() && local.grows_stale(ttl) {
        local.listing.stats.expired.add(1);
        tracing::warn!(
            instance = local.listing.key.instance,
            rank = local.listing.key.rank,
            seconds = ttl.as_secs(),
            "the publisher stayed away too long: its entries are dropped"
        );
        start_over(daemon, local);
        let mut actions = Vec::new();
        local.topics.borrow_mut().forgotten(Instant::now(), &mut actions);
        carry_out(daemon, local, None, actions).await;
    }
}
