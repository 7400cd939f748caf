//! Subscriptions of one reactor, and the way of a message into the shard.
//!
//! One socket an endpoint and reactor, however many publishers name it. A batch goes to every pool publisher of
//! the endpoint and to the engine publishers whose registered rank is the batch's, or to all of them when there
//! is none.

use super::Daemon;
use super::directory::Listing;
use crate::event::{self, Batch};
use crate::index::apply::Cursor;
use crate::index::publisher::Class;
use crate::limits::{COST_BLOCK, STREAM_BATCH_KEPT};
use crate::rt::{Signal, Task};
use crate::stream::contexts::Contexts;
use crate::stream::stats::now_ms;
use crate::stream::subscription::{Settings, Subscription};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Blocks applied before others have their turn.
const APPLY_STEP: usize = 64;
/// Sequence number that ends a replay; on the PUB socket it means nothing.
const END_OF_REPLAY: u64 = u64::MAX;

/// A publisher registered on this reactor.
struct Local {
    listing: Arc<Listing>,
    /// Number in the shard.
    number: u32,
    /// Its registration ended: what is still queued must not count.
    gone: Cell<bool>,
}

/// One subscription and whom it feeds.
struct Socket {
    publishers: RefCell<Vec<Rc<Local>>>,
    close: Rc<Signal>,
    task: RefCell<Option<Task<()>>>,
}

/// All subscriptions of a reactor.
pub struct Streams {
    contexts: Arc<Contexts>,
    settings: Settings,
    sockets: RefCell<HashMap<String, Rc<Socket>>>,
    publishers: RefCell<HashMap<u64, (String, Rc<Local>)>>,
    /// Registrations that ended before they arrived here.
    cancelled: RefCell<HashSet<u64>>,
    batches: RefCell<Vec<Batch>>,
    /// Events seen.
    pub events: Cell<u64>,
}

impl Streams {
    /// No subscription yet.
    pub fn new(contexts: Arc<Contexts>, settings: Settings) -> Self {
        Self {
            contexts,
            settings,
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
            .filter(|(_, local)| local.listing.key.instance == instance)
            .map(|(_, local)| local.listing.clone())
            .collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found
    }

    /// Closes every socket on its own thread.
    pub async fn close_all(&self) {
        let sockets: Vec<Rc<Socket>> = self.sockets.borrow_mut().drain().map(|(_, socket)| socket).collect();
        for socket in &sockets {
            socket.close.set();
        }
        for socket in sockets {
            let task = socket.task.borrow_mut().take();
            if let Some(task) = task {
                task.await;
            }
        }
    }

    fn take_batch(&self) -> Batch {
        self.batches.borrow_mut().pop().unwrap_or_default()
    }

    fn give_batch(&self, batch: Batch) {
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
    let subscription = match known {
        Some(_) => None,
        None => Some(
            Subscription::open(&streams.contexts, &listing.endpoint, streams.settings)
                .map_err(|error| format!("endpoint: cannot subscribe to {endpoint}: {error}"))?,
        ),
    };
    let number = daemon
        .shard
        .borrow_mut()
        .add_publisher(listing.registration.clone(), listing.stats.publisher.clone())
        .map_err(|_| "there are too many contexts".to_owned())?;
    let local = Rc::new(Local { listing: listing.clone(), number, gone: Cell::new(false) });
    streams.publishers.borrow_mut().insert(listing.id, (endpoint.clone(), local.clone()));
    let socket = known.unwrap_or_else(|| {
        let socket = Rc::new(Socket {
            publishers: RefCell::default(),
            close: Signal::new(),
            task: RefCell::default(),
        });
        streams.sockets.borrow_mut().insert(endpoint, socket.clone());
        socket
    });
    socket.publishers.borrow_mut().push(local);
    if let Some(subscription) = subscription {
        let task = daemon.seat.ingest.spawn(listen(daemon.clone(), socket.clone(), subscription));
        *socket.task.borrow_mut() = Some(task);
    }
    Ok(())
}

/// A publisher leaves; the caller purges.
pub fn remove(daemon: &Rc<Daemon>, id: u64) {
    let streams = &daemon.streams;
    let Some((endpoint, local)) = streams.publishers.borrow_mut().remove(&id) else {
        streams.cancelled.borrow_mut().insert(id);
        return;
    };
    local.gone.set(true);
    daemon.shard.borrow_mut().remove_publisher(local.number);
    let mut sockets = streams.sockets.borrow_mut();
    if let Some(socket) = sockets.get(&endpoint) {
        socket.publishers.borrow_mut().retain(|other| !other.gone.get());
        if socket.publishers.borrow().is_empty() {
            socket.close.set();
            sockets.remove(&endpoint);
        }
    }
}

async fn listen(daemon: Rc<Daemon>, socket: Rc<Socket>, mut subscription: Subscription) {
    let turn = daemon.seat.ingest.clone();
    let close = socket.close.clone();
    let handle = async |frames: &[zmq::Message]| take(&daemon, &socket, frames).await;
    if let Err(error) = subscription.drain(&turn, &close, handle).await {
        for local in socket.publishers.borrow().iter() {
            local.listing.stats.fail(format!("the subscription failed: {error}"));
        }
        tracing::error!(reactor = daemon.seat.id, %error, "a subscription failed");
    }
}

/// One message of an endpoint.
async fn take(daemon: &Rc<Daemon>, socket: &Socket, frames: &[zmq::Message]) {
    let publishers = socket.publishers.borrow().clone();
    let payload = match frames {
        [_, sequence, payload] if sequence.len() == 8 => {
            let sequence = u64::from_be_bytes(sequence[..].try_into().unwrap_or_default());
            if sequence == END_OF_REPLAY {
                if !payload.is_empty() {
                    for local in &publishers {
                        local.listing.stats.malformed.add(1);
                    }
                }
                return;
            }
            for local in &publishers {
                local.listing.stats.messages.add(1);
                local.listing.stats.bytes.add(payload.len() as u64);
                local.listing.stats.observe(sequence);
            }
            payload
        }
        _ => {
            for local in &publishers {
                local.listing.stats.malformed.add(1);
                local.listing.stats.fail(format!("a message of {} frames is no batch", frames.len()));
            }
            return;
        }
    };
    let mut batch = daemon.streams.take_batch();
    match event::decode(payload, &mut batch) {
        Ok(()) => apply(daemon, &publishers, payload, &batch).await,
        Err(refusal) => publishers.iter().for_each(|local| local.listing.stats.refuse(refusal)),
    }
    daemon.streams.give_batch(batch);
}

async fn apply(daemon: &Rc<Daemon>, publishers: &[Rc<Local>], payload: &[u8], batch: &Batch) {
    daemon.streams.events.set(daemon.streams.events.get() + batch.events.len() as u64);
    let engine = |local: &Local| local.listing.key.class == Class::Engine;
    let of_rank = |local: &Local| batch.dp_rank == Some(local.listing.key.rank);
    let ranked = publishers.iter().any(|local| engine(local) && of_rank(local));
    for local in publishers.iter().filter(|local| !engine(local) || !ranked || of_rank(local)) {
        let stats = &local.listing.stats;
        stats.publisher.batches.add(1);
        stats.last_event_ms.set(now_ms());
        batch.skipped.iter().for_each(|skipped| stats.skip(skipped.reason));
        let mut cursor = Cursor::default();
        // the number may belong to somebody else once this publisher is gone
        while !local.gone.get() {
            let done = daemon.shard.borrow_mut().apply(local.number, payload, batch, &mut cursor, APPLY_STEP);
            daemon.seat.ingest.spend(if done { COST_BLOCK } else { COST_BLOCK * APPLY_STEP as u32 }).await;
            if done {
                break;
            }
        }
    }
    daemon.learn_contexts();
    daemon.carry_mail();
}
