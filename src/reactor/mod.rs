//! How a core spends its turn.
//!
//! A reactor is one thread. Its tasks: one *accept* a listener, one *connection* a client, the *pump* for the
//! mesh and fair yields, the *sweep* for silent connections, and whatever its [`Service`] starts.
//!
//! | File | What stands there |
//! |---|---|
//! | [`mod@start`] | threads, cores, start-up and the handle of the control thread |
//! | `listen`, `accept` | sockets to accept on, and accepting |
//! | `connection`, `connections` | one client; all clients of a reactor, their deadlines |
//! | `pump` | messages from other reactors, yields, the end of a turn |
//! | `shutdown` | the way down |

mod accept;
mod connection;
mod connections;
mod listen;
mod pump;
mod shutdown;
pub mod start;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::http;
use crate::limits;
use crate::mesh::Port;
use crate::metrics::Counter;
use crate::rt::{Driver, Signal, Turn, Wake};

pub use self::start::{Reactors, StartError, start};

/// What a reactor does with requests and messages. One stands on every reactor and never leaves it.
pub trait Service: Sized + 'static {
    /// What reactors say to each other; small, payloads go by reference count.
    type Message: Send + 'static;

    /// Answers one request by appending a whole response to `out`. May wait for other reactors, and spends
    /// its [`Seat::turn`] where it works long. The answers before it on the same connection may stand in
    /// `out` already.
    fn answer(self: Rc<Self>, request: &http::Request<'_>, out: &mut Vec<u8>) -> impl Future<Output = ()>;

    /// Writes the answer to what is no whole request; the connection is closed after it.
    fn refuse(status: u16, message: &str, out: &mut Vec<u8>) {
        http::response::error(out, status, message, false, false);
    }

    /// Takes a message from reactor `from` ([`Seat::control`] is the control thread). Must not block; longer
    /// work belongs into a task.
    fn message(self: &Rc<Self>, from: usize, message: Self::Message);

    /// Called once on the reactor before the first request.
    fn started(self: &Rc<Self>) {}

    /// Whether an answer is owed that connections must stay open for even after the drain time: what was asked for
    /// is certain to be done, and its client must hear of it. Must become false by itself.
    fn owes(&self) -> bool {
        false
    }

    /// Ends the tasks that the service started. Called when no reactor has a request in flight any more.
    fn stop(self: Rc<Self>) -> impl Future<Output = ()> {
        async {}
    }
}

/// A reactor's place among the others, handed to its service.
pub struct Seat<M> {
    /// Number of this reactor, from 0: its shard.
    pub id: usize,
    /// How many reactors there are.
    pub reactors: usize,
    /// To and from the other reactors. The pump flushes it.
    pub port: Rc<Port<M>>,
    /// The budget of answering requests.
    pub turn: Rc<Turn>,
    /// The budget of events and other work in the background.
    pub ingest: Rc<Turn>,
    /// This reactor's numbers.
    pub counters: Arc<Counters>,
    /// Set when the daemon stops: requests in flight are still answered.
    pub stopping: Rc<Signal>,
}

impl<M> Clone for Seat<M> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            reactors: self.reactors,
            port: self.port.clone(),
            turn: self.turn.clone(),
            ingest: self.ingest.clone(),
            counters: self.counters.clone(),
            stopping: self.stopping.clone(),
        }
    }
}

impl<M> Seat<M> {
    /// The number under which the control thread sends and is sent messages.
    pub fn control(&self) -> usize {
        self.reactors
    }
}

/// Where to accept connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A TCP address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

/// How the reactors are to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What their threads are called, before their number.
    pub name: &'static str,
    /// How many, 1 to [`limits::REACTORS`].
    pub reactors: usize,
    /// How they wait for the kernel.
    pub driver: Driver,
    /// Whether each gets a core of its own, where there are enough.
    pub pin: bool,
    /// Where all of them accept.
    pub listen: Vec<Listen>,
    /// Largest request head and body.
    pub http: http::Limits,
    /// Most open connections of one reactor.
    pub connections: usize,
    /// How long a connection may stay silent within a request or an answer, and before its first request.
    pub idle: Duration,
    /// How long a connection may stay silent between two requests.
    pub keep_alive: Duration,
    /// Longest time from the first byte of a request to the end of its head.
    pub head: Duration,
    /// Longest time from the first byte of a request to its last.
    pub request: Duration,
    /// Most bytes of unfinished requests that all connections of one reactor hold.
    pub held: usize,
    /// How long stopping waits for answers in flight.
    pub drain: Duration,
    /// How long a pump looks for further messages before it sleeps, microseconds; not with as many reactors
    /// as cores or more.
    pub busy_poll_us: u32,
    /// How far they stand back behind other threads on the same core, 0 to 19, as `nice(1)` counts it.
    pub nice: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "reactor",
            reactors: 1,
            driver: Driver::Auto,
            pin: true,
            listen: Vec::new(),
            http: http::Limits::default(),
            connections: limits::HTTP_CONNECTIONS,
            idle: Duration::from_secs(limits::HTTP_IDLE_SECONDS),
            keep_alive: Duration::from_secs(limits::HTTP_IDLE_SECONDS),
            head: Duration::from_secs(limits::HTTP_HEAD_SECONDS),
            request: Duration::from_secs(limits::HTTP_REQUEST_SECONDS),
            held: limits::HTTP_HELD_BYTES,
            drain: Duration::from_secs(limits::SHUTDOWN_SECONDS),
            busy_poll_us: 0,
            nice: 0,
        }
    }
}

/// The numbers of one reactor: it writes, anybody reads.
#[derive(Default, Debug)]
pub struct Counters {
    /// Connections open now.
    pub connections_open: Counter,
    /// Connections accepted.
    pub connections_accepted: Counter,
    /// Connections turned away because too many were open.
    pub connections_refused: Counter,
    /// Connections ended because they were silent or too slow.
    pub connections_expired: Counter,
    /// Failures to accept: no descriptors or memory.
    pub accept_errors: Counter,
    /// Requests answered.
    pub requests: Counter,
    /// Requests refused by the HTTP codec.
    pub requests_refused: Counter,
    /// Bytes read from clients.
    pub bytes_in: Counter,
    /// Bytes written to clients.
    pub bytes_out: Counter,
    /// Turns.
    pub turns: Counter,
    /// Times a task found its turn used up.
    pub yields: Counter,
    /// Polls longer than [`limits::STALL_MICROS`].
    pub stalls: Counter,
    /// Messages sent to other reactors.
    pub mesh_sent: Counter,
    /// Messages that found ring and backlog full.
    pub mesh_full: Counter,
    /// Bells of sleeping reactors rung.
    pub mesh_rung: Counter,
    /// Messages received from other reactors.
    pub mesh_received: Counter,
    /// Times the pump was woken by its bell.
    pub wakeups: Counter,
}

/// What the threads of all reactors share.
struct Shared {
    stop: AtomicBool,
    /// Reactors without a connection left.
    drained: AtomicUsize,
    wakes: Vec<Arc<Wake>>,
}

impl Shared {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.notify_all();
    }

    fn notify_all(&self) {
        self.wakes.iter().for_each(|wake| wake.notify());
    }
}

/// What the tasks of one reactor share.
struct Room<S: Service> {
    service: Rc<S>,
    seat: Seat<S::Message>,
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    connections: Rc<connections::Connections>,
    /// Set when the pump and the sweep may end.
    done: Signal,
}
