//! Threads, cores, start-up, and the handle that the control thread holds.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::panic;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::connections::Connections;
use super::listen::{self, Listener};
use super::{Counters, Listen, Room, Seat, Service, Settings, Shared, accept, pump, shutdown};
use crate::limits::REACTORS;
use crate::mesh::{self, Port};
use crate::rt::pin::{self, Cpus};
use crate::rt::wake::Pulse;
use crate::rt::{Chosen, DriverError, Line, Signal, Turn, Wake, run, sleep, sys};

/// Why the reactors could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is out of range.
    #[error("reactors must be 1 to {REACTORS}, not {0}")]
    Reactors(usize),
    /// A socket could not be bound.
    #[error("cannot listen on {at}: {error}")]
    Listen {
        /// Where.
        at: String,
        /// Why.
        error: io::Error,
    },
    /// The demanded driver cannot be used.
    #[error("reactor {id}: {error}")]
    Driver {
        /// Which reactor.
        id: usize,
        /// Why.
        error: DriverError,
    },
    /// A thread or descriptor could not be had.
    #[error("cannot start a reactor: {0}")]
    System(#[from] io::Error),
}

/// The running reactors, seen from the control thread.
pub struct Reactors<M> {
    /// The TCP addresses that are listened on, in the order of the settings.
    pub addresses: Vec<SocketAddr>,
    /// The driver of each reactor, and why it is not io_uring where that was tried.
    pub drivers: Vec<Chosen>,
    /// The numbers of each reactor.
    pub counters: Vec<Arc<Counters>>,
    /// The control thread's end of the mesh: after sending, flush; what is sent to it rings [`Self::wake`].
    pub port: Port<M>,
    /// The control thread's bell.
    pub wake: Arc<Wake>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

/// Ends all reactors, from any thread.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Begins the way down; returns at once.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl<M> Reactors<M> {
    /// Begins the way down; returns at once.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Whether the way down has begun, be it because a reactor died.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping()
    }

    /// A handle that can only stop, for another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
    }

    /// Waits until all reactors have ended. The error names the reactor that died.
    pub fn join(mut self) -> Result<(), String> {
        let threads = std::mem::take(&mut self.threads).into_iter();
        let dead: Vec<String> = threads
            .enumerate()
            .filter_map(|(id, thread)| thread.join().is_err().then(|| format!("reactor {id} panicked")))
            .collect();
        if dead.is_empty() { Ok(()) } else { Err(dead.join(", ")) }
    }
}

impl<M> Drop for Reactors<M> {
    /// Stops and waits, and removes the socket files.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for path in &self.sockets {
            let _ = fs::remove_file(path);
        }
    }
}

/// What a reactor's thread takes along.
struct Luggage<M> {
    id: usize,
    port: Port<M>,
    listeners: Vec<Listener>,
    counters: Arc<Counters>,
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    cpu: Option<usize>,
}

/// Starts the reactors. `make` builds the service of each, on its own thread. ZMQ contexts must exist before:
/// their threads inherit the CPU mask of the thread that makes them.
pub fn start<S: Service>(
    mut settings: Settings,
    make: impl Fn(Seat<S::Message>) -> Rc<S> + Send + Sync + 'static,
) -> Result<Reactors<S::Message>, StartError> {
    let count = settings.reactors;
    if count == 0 || count > REACTORS {
        return Err(StartError::Reactors(count));
    }
    name_the_dead();
    let cpus = Cpus::of_this_thread()?;
    if count >= cpus.count() {
        settings.busy_poll_us = 0;
    }
    let (addresses, sockets, mut listeners) = bind(&settings)?;
    let settings = Arc::new(settings);
    let wakes = (0..=count).map(|_| Wake::new()).collect::<io::Result<Vec<_>>>()?;
    let mut ports = mesh::connect(wakes.clone());
    let shared = Arc::new(Shared { stop: AtomicBool::new(false), drained: AtomicUsize::new(0), wakes });
    let mut reactors = Reactors {
        addresses,
        drivers: Vec::new(),
        counters: (0..count).map(|_| Arc::default()).collect(),
        wake: shared.wakes[count].clone(),
        port: ports.remove(count),
        shared: shared.clone(),
        threads: Vec::new(),
        sockets,
    };
    let make = Arc::new(make);
    let (ready, started) = mpsc::channel();
    for (id, port) in ports.into_iter().enumerate() {
        let luggage = Luggage {
            id,
            port,
            listeners: listeners.remove(0),
            counters: reactors.counters[id].clone(),
            settings: settings.clone(),
            shared: shared.clone(),
            cpu: if settings.pin { cpus.seat(id, count) } else { None },
        };
        let (make, ready) = (make.clone(), ready.clone());
        let thread = thread::Builder::new().name(format!("{}-{id}", settings.name));
        reactors.threads.push(thread.spawn(move || live(luggage, &*make, &ready))?);
    }
    drop(ready);
    // A thread that fails or dies drops its sender; dropping `reactors` on the way out stops the others.
    let mut drivers: Vec<Option<Chosen>> = vec![None; count];
    for _ in 0..count {
        match started.recv() {
            Ok((id, Ok(chosen))) => drivers[id] = Some(chosen),
            Ok((id, Err(error))) => return Err(StartError::Driver { id, error }),
            Err(_) => return Err(io::Error::other("it died while it started").into()),
        }
    }
    reactors.drivers = drivers.into_iter().flatten().collect();
    Ok(reactors)
}

/// Binds everything, and deals the sockets out to the reactors.
type Bound = (Vec<SocketAddr>, Vec<PathBuf>, Vec<Vec<Listener>>);

fn bind(settings: &Settings) -> Result<Bound, StartError> {
    let mut dealt: Vec<Vec<Listener>> = (0..settings.reactors).map(|_| Vec::new()).collect();
    let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
    for listen in &settings.listen {
        let bound = match listen {
            Listen::Tcp(address) => listen::tcp(*address, settings.reactors)
                .map(|(bound, listeners)| {
                    addresses.push(bound);
                    listeners
                })
                .map_err(|error| StartError::Listen { at: address.to_string(), error }),
            Listen::Unix(path) => listen::unix(path, settings.reactors)
                .inspect(|_| sockets.push(path.clone()))
                .map_err(|error| StartError::Listen { at: path.display().to_string(), error }),
        };
        for (mine, listener) in dealt.iter_mut().zip(bound?) {
            mine.push(listener);
        }
    }
    Ok((addresses, sockets, dealt))
}

type Ready = mpsc::Sender<(usize, Result<Chosen, DriverError>)>;

/// The life of a reactor's thread.
fn live<S: Service>(luggage: Luggage<S::Message>, make: &dyn Fn(Seat<S::Message>) -> Rc<S>, ready: &Ready) {
    let _guard = StopAll(luggage.shared.clone());
    let (id, driver) = (luggage.id, luggage.settings.driver);
    if luggage.settings.nice > 0
        && let Err(error) = sys::stand_back(luggage.settings.nice)
    {
        tracing::warn!(reactor = id, %error, "cannot lower the priority of the reactor");
    }
    if let Some(cpu) = luggage.cpu
        && let Err(error) = pin::pin(cpu)
    {
        tracing::warn!(reactor = id, cpu, %error, "cannot pin the reactor to its core");
    }
    let result = run(driver, |chosen| react(luggage, make, || drop(ready.send((id, Ok(chosen))))));
    if let Err(error) = result {
        let _ = ready.send((id, Err(error)));
    }
}

/// One reactor from its first to its last task.
async fn react<S: Service>(
    luggage: Luggage<S::Message>,
    make: &dyn Fn(Seat<S::Message>) -> Rc<S>,
    ready: impl FnOnce(),
) {
    let Luggage { id, port, listeners, counters, settings, shared, .. } = luggage;
    let pulse = match Pulse::install(shared.wakes[id].clone()) {
        Ok(pulse) => pulse,
        Err(error) => return tracing::error!(reactor = id, %error, "cannot watch the reactor's bell"),
    };
    let seat = Seat {
        id,
        reactors: settings.reactors,
        port: Rc::new(port),
        turn: Turn::new(Line::Query),
        ingest: Turn::new(Line::Ingest),
        counters: counters.clone(),
        stopping: Signal::new(),
    };
    let connections = Connections::new(settings.connections, counters);
    for listener in &listeners {
        connections.add_listener(listener);
    }
    let shortest = settings.idle.min(settings.keep_alive);
    let service = make(seat.clone());
    let room = Rc::new(Room { service, seat, settings, shared, connections, done: Signal::default() });
    let turn = room.seat.turn.clone();
    room.service.started();
    let pump = turn.spawn(pump::pump(room.clone(), pulse));
    let sweep = turn.spawn({
        let room = room.clone();
        async move { room.connections.clone().sweep(shortest, &room.done).await }
    });
    let accepting: Vec<_> =
        listeners.into_iter().map(|listener| turn.spawn(accept::accept(room.clone(), listener))).collect();
    ready();
    shutdown::wind_down(&room).await;
    room.done.set();
    room.shared.wakes[id].notify();
    for task in accepting {
        task.await;
    }
    sweep.await;
    pump.await;
    // Descriptors are closed by the ring: let it see them.
    sleep(Duration::from_millis(1)).await;
}

/// A reactor that ends takes the others along, even when it panics: answers without its shard are wrong.
struct StopAll(Arc<Shared>);

impl Drop for StopAll {
    fn drop(&mut self) {
        if thread::panicking() {
            // Nobody needs to wait for its connections.
            self.0.drained.fetch_add(1, Ordering::AcqRel);
        }
        self.0.stop();
    }
}

/// Puts the name of the shard before the message of a panic.
fn name_the_dead() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            if let Some(id) = thread.name().and_then(|name| name.strip_prefix("reactor-")) {
                eprintln!("reactor {id} panicked, shard {id} is lost: the daemon ends");
            }
            before(info);
        }));
    });
}
