//! The daemon's part on each reactor: its shard, its streams, and its answers.
//!
//! | File | What stands there |
//! |---|---|
//! | [`directory`], [`view`] | who is registered where; a reactor's copy of it for queries |
//! | [`message`] | what reactors say to each other |
//! | [`question`], [`answer`], [`part`] | a query, how its answer is written, and this reactor's part of it |
//! | [`streams`], [`local`] | subscriptions; one publisher, and how far its stream got |
//! | [`ingest`] | the way of a message into the shard |
//!
//! The HTTP contract stands on top of it.

pub mod answer;
pub mod directory;
pub mod ingest;
pub mod local;
pub mod message;
pub mod part;
pub mod question;
pub mod streams;
pub mod view;

use crate::index::resolve::{Found, Want};
use crate::index::shard::Shard;
use crate::limits::{COST_BLOCK, HUGE_PAGES_FROM, LEARNED_FAMILIES, MENDS_AT_ONCE};
use crate::mesh::tickets::{Pending, Tickets};
use crate::reactor::Seat;
use crate::rt;
use crate::stream::contexts::Contexts;
use crate::stream::subscription;
use directory::{Directory, Family};
use message::{Message, Reply};
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use view::View;

/// Names purged in one step after a publisher left.
const PURGE_STEP: usize = 256;
/// Blocks made findable by hash in one step.
const FOUND_STEP: usize = 256;
/// How often a reactor takes stock of itself.
const STOCK: Duration = Duration::from_secs(1);

/// What the daemon's parts are started with.
#[derive(Clone)]
pub struct Setup {
    /// Hash seed of the contract.
    pub seed: u64,
    /// Who is registered.
    pub directory: Arc<Directory>,
    /// libzmq.
    pub contexts: Arc<Contexts>,
    /// Bounds of a subscription.
    pub subscription: subscription::Settings,
    /// How long a replay may stay silent.
    pub replay_idle: Duration,
    /// How long a publisher may be away before its entries are dropped; zero is for ever.
    pub stream_ttl: Duration,
}

/// Vectors of a query, used again.
#[derive(Default)]
pub struct Scratch {
    /// Token ids of the prompt.
    pub tokens: Vec<u32>,
    /// Rolling hashes of the prompt.
    pub hashes: Vec<u64>,
}

/// Capacity, in elements, that a scratch vector keeps between queries.
const SCRATCH_KEPT: usize = 1 << 17;

/// The daemon on one reactor.
pub struct Daemon {
    /// Its place among the others.
    pub seat: Seat<Message>,
    /// Who is registered.
    pub directory: Arc<Directory>,
    /// Its share of the index.
    pub shard: RefCell<Shard>,
    /// Its subscriptions.
    pub streams: Streams,
    /// Requests to other reactors that wait for a reply.
    pub tickets: Rc<Tickets<Reply>>,
    view: RefCell<Rc<View>>,
    scratch: RefCell<Vec<Scratch>>,
    purging: Cell<bool>,
    /// Families that the directory was told of, at this version.
    families: RefCell<(u64, HashSet<Family>)>,
    /// Mail that found no room.
    unsent: RefCell<VecDeque<(usize, Message)>>,
}

impl Daemon {
    /// The daemon's part on the reactor of `seat`.
    pub fn new(seat: Seat<Message>, setup: &Setup) -> Rc<Self> {
        Rc::new(Self {
            seat,
            directory: setup.directory.clone(),
            shard: RefCell::new(Shard::new(setup.seed)),
            streams: Streams::new(
                setup.contexts.clone(),
                setup.subscription,
                setup.replay_idle,
                setup.stream_ttl,
            ),
            tickets: Tickets::new(),
            view: RefCell::default(),
            scratch: RefCell::default(),
            purging: Cell::new(false),
            families: RefCell::default(),
            unsent: RefCell::default(),
        })
    }

    /// The directory as queries need it.
    pub fn view(&self) -> Rc<View> {
        let mut view = self.view.borrow_mut();
        if view.is_stale(&self.directory) {
            *view = Rc::new(View::of(&self.directory, &self.shard.borrow()));
        }
        view.clone()
    }

    /// Vectors for a query.
    pub fn take_scratch(&self) -> Scratch {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the vectors for the next query, unless they grew too large.
    pub fn give_scratch(&self, mut scratch: Scratch) {
        scratch.tokens.clear();
        scratch.hashes.clear();
        scratch.tokens.shrink_to(SCRATCH_KEPT);
        scratch.hashes.shrink_to(SCRATCH_KEPT);
        self.scratch.borrow_mut().push(scratch);
    }

    /// Sends a request to another reactor (or handles it here); the reply is awaited by the caller.
    pub fn request(self: &Rc<Self>, to: usize, make: impl FnOnce(u64) -> Message) -> Option<Pending<Reply>> {
        let pending = self.tickets.open();
        let message = make(pending.ticket());
        if to == self.seat.id {
            self.handle(to, message);
            return Some(pending);
        }
        self.seat.port.send(to, message).ok().map(|()| pending)
    }

    fn reply(&self, to: usize, ticket: u64, reply: Reply) {
        if ticket == 0 {
            return;
        }
        if to == self.seat.id {
            self.tickets.redeem(ticket, reply);
        } else if self.seat.port.reply(to, Message::Reply { ticket, reply }).is_err() {
            tracing::warn!(reactor = self.seat.id, to, "a reply found no room");
        }
    }

    pub(crate) fn handle(self: &Rc<Self>, from: usize, message: Message) {
        match message {
            Message::Ask { ticket, job, mut out } => {
                out.clear();
                part::answer_here(self, &job, &mut out);
                // the asker drops the job last, and so frees what it allocated
                drop(job);
                self.reply(from, ticket, Reply::Fragment(out));
            }
            Message::Dump { ticket, limit } => {
                let mut out = Vec::new();
                part::dump_here(&self.shard.borrow(), limit, &mut out);
                self.reply(from, ticket, Reply::Fragment(out));
            }
            Message::Add { ticket, listing } => {
                let reply = match streams::add(self, &listing) {
                    Ok(()) => Reply::Done,
                    Err(reason) => {
                        tracing::error!(instance = listing.key.instance, "not registered: {reason}");
                        let id = listing.id;
                        self.directory.unregister(&listing.key.instance, |other| other.id == id);
                        Reply::Failed(reason.into())
                    }
                };
                self.directory.touch();
                self.reply(from, ticket, reply);
            }
            Message::Remove { ticket, ids } => {
                for id in ids.iter() {
                    streams::remove(self, *id);
                }
                self.purge();
                self.reply(from, ticket, Reply::Done);
            }
            Message::Wants(wants) => {
                let mut shard = self.shard.borrow_mut();
                wants.iter().for_each(|want| shard.want(want.clone(), from));
                drop(shard);
                self.carry_mail();
            }
            Message::Founds(founds) => {
                let daemon = self.clone();
                self.seat.ingest.spawn(async move {
                    for found in founds {
                        while !daemon.shard.borrow_mut().found(&found, FOUND_STEP) {
                            daemon.seat.ingest.spend(FOUND_STEP as u32 * COST_BLOCK).await;
                        }
                        daemon.seat.ingest.spend(COST_BLOCK).await;
                    }
                    daemon.learn_contexts();
                });
            }
            Message::Reply { ticket, reply } => {
                self.tickets.redeem(ticket, reply);
            }
        }
    }

    /// Carries what shards want of each other. What finds no room is carried with the next stock.
    pub fn carry_mail(&self) {
        let mut unsent = self.unsent.borrow_mut();
        if self.shard.borrow().has_mail() {
            let (wants, founds) = self.shard.borrow_mut().take_mail();
            if !wants.is_empty() {
                let wants: Arc<[Want]> = wants.into();
                let others = (0..self.seat.reactors).filter(|reactor| *reactor != self.seat.id);
                unsent.extend(others.map(|reactor| (reactor, Message::Wants(wants.clone()))));
            }
            let mut by_reactor: Vec<Vec<Found>> = vec![Vec::new(); self.seat.reactors];
            for (reactor, found) in founds {
                by_reactor[reactor].push(found);
            }
            let full = by_reactor.into_iter().enumerate().filter(|(_, founds)| !founds.is_empty());
            unsent.extend(full.map(|(reactor, founds)| (reactor, Message::Founds(founds))));
        }
        while let Some((reactor, message)) = unsent.pop_front() {
            if let Err(message) = self.seat.port.send(reactor, message) {
                unsent.push_front((reactor, message));
                return;
            }
        }
    }

    /// Tells the directory of contexts that no registration announced.
    pub fn learn_contexts(&self) {
        let fresh = self.shard.borrow_mut().take_fresh();
        if fresh.is_empty() {
            return;
        }
        // a salt a request makes a context a request: the lock is taken once a family
        let mut families = self.families.borrow_mut();
        let version = self.directory.version();
        if families.0 != version || families.1.len() >= LEARNED_FAMILIES {
            *families = (version, HashSet::new());
        }
        for key in fresh {
            if families.1.insert((key.tenant.clone(), key.model.clone(), key.block_size)) {
                self.directory.learn(self.seat.id, &key);
            }
        }
    }

    /// Takes away what publishers that left hold, a step a turn.
    pub fn purge(self: &Rc<Self>) {
        if self.purging.replace(true) {
            return;
        }
        let daemon = self.clone();
        self.seat.ingest.spawn(async move {
            while !daemon.shard.borrow_mut().purge(PURGE_STEP) {
                daemon.seat.ingest.spend(PURGE_STEP as u32 * COST_BLOCK / 2).await;
            }
            daemon.purging.set(false);
        });
    }

    /// Writes the reactor's gauges, again and again.
    pub(crate) async fn take_stock(self: Rc<Self>) {
        let load = self.directory.loads[self.seat.id].clone();
        let mut before = 0;
        while !self.seat.stopping.is_set() {
            self.weigh(&load);
            if load.bytes.get() >= HUGE_PAGES_FROM {
                rt::sys::allow_huge_pages(true);
            }
            self.carry_mail();
            streams::revive(&self);
            let locals = self.streams.locals();
            let mending = locals.iter().filter(|local| local.is_mending()).count();
            let mut free = MENDS_AT_ONCE.saturating_sub(mending);
            for local in &locals {
                let before = local.is_mending();
                local::tick(&self, local, free > 0, self.streams.ttl).await;
                free = free.saturating_sub(usize::from(!before && local.is_mending()));
            }
            let events = self.streams.events.get();
            load.rate.set(events.saturating_sub(before));
            before = events;
            self.seat.stopping.wait_at_most(rt::sleep(STOCK)).await;
        }
    }
}

impl Daemon {
    fn weigh(&self, load: &directory::Load) {
        let shard = self.shard.borrow();
        let (runs, contexts) = shard.sizes();
        load.bytes.set(shard.owned_bytes() as u64);
        load.runs.set(runs as u64);
        load.contexts.set(contexts as u64);
        load.blocks.set(shard.context_keys().map(|(_, held)| held).sum());
    }
}
