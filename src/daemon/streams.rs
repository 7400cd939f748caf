//! Subscriptions of one reactor: one socket an endpoint, however many publishers name it.

use super::Daemon;
use super::directory::{Directory, Listing};
use super::ingest;
use super::local::{self, Local};
use crate::event::Batch;
use crate::limits::{
    CANCELLED_REGISTRATIONS, STREAM_BATCH_KEPT, STREAM_REVIVE_MAX_SECONDS, STREAM_REVIVE_SECONDS,
};
use crate::rt::{Signal, Task};
use crate::stream::contexts::Contexts;
use crate::stream::subscription::{Link, Settings, Subscription, Watch};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One subscription and whom it feeds.
pub struct Socket {
    publishers: RefCell<Rc<[Rc<Local>]>>,
    close: RefCell<Rc<Signal>>,
    tasks: RefCell<Vec<Task<()>>>,
    /// Ranks of the engines that are registered with the endpoint on any reactor, as of a version of the directory.
    ranks: RefCell<(u64, Vec<u32>)>,
    /// When it was opened, and how long it may be without a connection before it is opened anew.
    opened: Cell<(Instant, Duration)>,
}

impl Socket {
    /// The publishers as they are now.
    pub fn publishers(&self) -> Rc<[Rc<Local>]> {
        self.publishers.borrow().clone()
    }

    /// Whether an engine is registered with the endpoint under this rank, here or on another reactor.
    pub fn is_ranked(&self, directory: &Directory, rank: Option<u32>) -> bool {
        let publishers = self.publishers.borrow();
        let (Some(rank), Some(first)) = (rank, publishers.first()) else { return false };
        if publishers.iter().any(|local| local.is_ranked(rank)) {
            return true;
        }
        let mut known = self.ranks.borrow_mut();
        let version = directory.version();
        if known.0 != version {
            let books = directory.books();
            *known = (version, books.ranks(first.listing.endpoint.as_str()).to_vec());
        }
        known.1.contains(&rank)
    }
}

/// All subscriptions of a reactor.
pub struct Streams {
    /// libzmq.
    pub contexts: Arc<Contexts>,
    /// Bounds of every receiving socket.
    pub settings: Settings,
    /// How long a replay may stay silent.
    pub replay_idle: Duration,
    /// How long a publisher may be away before its entries are dropped; zero is for ever.
    pub ttl: Duration,
    sockets: RefCell<HashMap<String, Rc<Socket>>>,
    publishers: RefCell<HashMap<u64, Rc<Local>>>,
    /// Registrations that ended before they arrived here.
    cancelled: RefCell<HashSet<u64>>,
    batches: RefCell<Vec<Batch>>,
    /// Events seen.
    pub events: Cell<u64>,
}

impl Streams {
    /// No subscription yet.
    pub fn new(contexts: Arc<Contexts>, settings: Settings, replay_idle: Duration, ttl: Duration) -> Self {
        Self {
            contexts,
            settings,
            replay_idle,
            ttl,
            sockets: RefCell::default(),
            publishers: RefCell::default(),
            cancelled: RefCell::default(),
            batches: RefCell::default(),
            events: Cell::new(0),
        }
    }

    /// Publishers of an instance, as registered.
    pub fn of_instance(&self, instance: &str) -> Vec<Arc<Listing>> {
        let publishers = self.publishers.borrow();
        let mut found: Vec<Arc<Listing>> = publishers
            .values()
            .filter(|local| local.listing.key.instance == instance)
            .map(|local| local.listing.clone())
            .collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found
    }

    /// All publishers of this reactor.
    pub fn locals(&self) -> Vec<Rc<Local>> {
        self.publishers.borrow().values().cloned().collect()
    }

    /// The subscription that feeds a publisher.
    pub fn socket(&self, local: &Local) -> Option<Rc<Socket>> {
        self.sockets.borrow().get(local.listing.endpoint.as_str()).cloned()
    }

    /// Closes every socket on its own thread.
    pub async fn close_all(&self) {
        for local in self.locals() {
            local.gone.set();
        }
        let sockets: Vec<Rc<Socket>> = self.sockets.borrow_mut().drain().map(|(_, socket)| socket).collect();
        for socket in &sockets {
            socket.close.borrow().set();
        }
        for socket in sockets {
            let tasks = std::mem::take(&mut *socket.tasks.borrow_mut());
            for task in tasks {
                task.await;
            }
        }
    }

    /// Memory for a batch.
    pub fn take_batch(&self) -> Batch {
        self.batches.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the memory for the next batch, unless it grew too large.
    pub fn give_batch(&self, batch: Batch) {
        let kept = batch.hashes.capacity() + batch.tokens.capacity() + batch.events.capacity();
        if kept <= STREAM_BATCH_KEPT {
            self.batches.borrow_mut().push(batch);
        }
    }
}

/// A publisher joins this reactor: it gets a place in the shard, and a socket if its endpoint has none.
pub fn add(daemon: &Rc<Daemon>, listing: &Arc<Listing>) -> Result<(), String> {
    let streams = &daemon.streams;
    if streams.cancelled.borrow_mut().remove(&listing.id) {
        return Ok(());
    }
    let endpoint = listing.endpoint.as_str().to_owned();
    let known = streams.sockets.borrow().get(&endpoint).cloned();
    let opened = match known {
        Some(_) => None,
        None => Some(
            Subscription::open_watched(&streams.contexts, &listing.endpoint, streams.settings)
                .map_err(|error| format!("endpoint: cannot subscribe to {endpoint}: {error}"))?,
        ),
    };
    let number = daemon
        .shard
        .borrow_mut()
        .add_publisher(listing.registration.clone(), listing.stats.publisher.clone())
        .map_err(|_| "there are too many contexts".to_owned())?;
    let local = Local::new(listing.clone(), number, streams.replay_idle);
    streams.publishers.borrow_mut().insert(listing.id, local.clone());
    let socket = known.unwrap_or_else(|| {
        let socket = Rc::new(Socket {
            publishers: RefCell::new(Rc::from([])),
            ranks: RefCell::default(),
            close: RefCell::default(),
            tasks: RefCell::default(),
            opened: Cell::new((Instant::now(), Duration::from_secs(STREAM_REVIVE_SECONDS))),
        });
        streams.sockets.borrow_mut().insert(endpoint, socket.clone());
        socket
    });
    let all: Vec<Rc<Local>> = socket.publishers().iter().cloned().chain([local.clone()]).collect();
    *socket.publishers.borrow_mut() = all.into();
    if let Some((subscription, watch)) = opened {
        attend(daemon, &socket, subscription, watch);
    }
    daemon.seat.ingest.spawn(local::begin(daemon.clone(), local));
    Ok(())
}

/// Starts the tasks of a subscription.
fn attend(daemon: &Rc<Daemon>, socket: &Rc<Socket>, subscription: Subscription, watch: Watch) {
    let close = Signal::new();
    *socket.close.borrow_mut() = close.clone();
    let turn = &daemon.seat.ingest;
    let tasks = [
        turn.spawn(listen(daemon.clone(), socket.clone(), close.clone(), subscription)),
        turn.spawn(look(daemon.clone(), socket.clone(), close, watch)),
    ];
    // those of a subscription before end by themselves
    *socket.tasks.borrow_mut() = tasks.into();
}

/// Opens subscriptions anew that have been without a connection for long: libzmq gives a connection up for good
/// when the other side breaks the protocol once, be it with one message that is too large.
pub fn revive(daemon: &Rc<Daemon>) {
    let sockets: Vec<(String, Rc<Socket>)> =
        daemon.streams.sockets.borrow().iter().map(|(at, socket)| (at.clone(), socket.clone())).collect();
    for (endpoint, socket) in sockets {
        let publishers = socket.publishers();
        let Some(local) = publishers.first() else { continue };
        let (opened, patience) = socket.opened.get();
        if local.away() < patience || opened.elapsed() < patience {
            continue;
        }
        let longer = (patience * 2).min(Duration::from_secs(STREAM_REVIVE_MAX_SECONDS));
        socket.opened.set((Instant::now(), longer));
        let streams = &daemon.streams;
        match Subscription::open_watched(&streams.contexts, &local.listing.endpoint, streams.settings) {
            Ok((subscription, watch)) => {
                tracing::warn!(endpoint, "no connection for long: subscribing anew");
                socket.close.borrow().set();
                attend(daemon, &socket, subscription, watch);
            }
            Err(error) => local.listing.stats.fail(format!("cannot subscribe anew: {error}")),
        }
    }
}

/// A publisher leaves; the caller purges.
pub fn remove(daemon: &Rc<Daemon>, id: u64) {
    let streams = &daemon.streams;
    let Some(local) = streams.publishers.borrow_mut().remove(&id) else {
        let mut cancelled = streams.cancelled.borrow_mut();
        // an addition that failed never comes to take its mark away
        if cancelled.len() >= CANCELLED_REGISTRATIONS {
            cancelled.clear();
        }
        cancelled.insert(id);
        return;
    };
    local.gone.set();
    daemon.shard.borrow_mut().remove_publisher(local.number.get());
    let endpoint = local.listing.endpoint.as_str();
    let mut sockets = streams.sockets.borrow_mut();
    if let Some(socket) = sockets.get(endpoint) {
        let left: Vec<Rc<Local>> =
            socket.publishers().iter().filter(|other| !other.gone.is_set()).cloned().collect();
        if left.is_empty() {
            socket.close.borrow().set();
            sockets.remove(endpoint);
        } else {
            *socket.publishers.borrow_mut() = left.into();
        }
    }
}

async fn listen(daemon: Rc<Daemon>, socket: Rc<Socket>, close: Rc<Signal>, mut subscription: Subscription) {
    let turn = daemon.seat.ingest.clone();
    let handle = async |frames: &[zmq::Message]| ingest::take(&daemon, &socket, frames).await;
    if let Err(error) = subscription.drain(&turn, &close, handle).await {
        for local in socket.publishers().iter() {
            local.listing.stats.fail(format!("the subscription failed: {error}"));
        }
        tracing::error!(reactor = daemon.seat.id, %error, "a subscription failed");
    }
}

async fn look(daemon: Rc<Daemon>, socket: Rc<Socket>, close: Rc<Signal>, mut watch: Watch) {
    let turn = daemon.seat.ingest.clone();
    let linked = |link| {
        // closing is no loss of the connection
        if close.is_set() {
            return;
        }
        if link == Link::Up {
            socket.opened.set((Instant::now(), Duration::from_secs(STREAM_REVIVE_SECONDS)));
        }
        for local in socket.publishers().iter() {
            local.linked(link);
            if link == Link::Up {
                // a publisher that came late, or is another one, may have published before, and may stay silent now
                daemon.seat.ingest.spawn(local::begin(daemon.clone(), local.clone()));
            }
        }
    };
    if let Err(error) = watch.run(&turn, linked).await {
        // a subscription must not outlive its watch
        close.set();
        tracing::error!(reactor = daemon.seat.id, %error, "a connection can no longer be watched");
    }
}
