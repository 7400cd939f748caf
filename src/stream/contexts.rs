//! libzmq contexts. Each carries only so many sockets, so they are pooled; and each has a thread that does
//! the network work, which must not share a pinned reactor's core.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::limits::ZMQ_SOCKETS_PER_CONTEXT;
use crate::rt::pin::Cpus;

/// A context and the number of its sockets.
struct Pooled {
    context: zmq::Context,
    used: Arc<AtomicUsize>,
}

/// All contexts of the process, for all reactors.
pub struct Contexts {
    pool: Mutex<Vec<Pooled>>,
    cpus: Cpus,
    limit: usize,
}

/// A socket of a pooled context; closed, without lingering, when dropped.
pub struct PooledSocket {
    socket: zmq::Socket,
    used: Arc<AtomicUsize>,
    places: usize,
}

impl Contexts {
    /// One context to begin with. Call it before reactors are pinned.
    pub fn new() -> io::Result<Arc<Self>> {
        Self::with_limit(ZMQ_SOCKETS_PER_CONTEXT)
    }

    /// [`Self::new`] with at most `limit` sockets a context, at least 3.
    pub fn with_limit(limit: usize) -> io::Result<Arc<Self>> {
        let cpus = Cpus::of_this_thread()?;
        let first = create(&cpus)?;
        Ok(Arc::new(Self { pool: Mutex::new(vec![first]), cpus, limit: limit.max(3) }))
    }

    /// How many contexts there are.
    pub fn count(&self) -> usize {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A new socket; a further context is made when all are full.
    pub fn socket(&self, kind: zmq::SocketType) -> io::Result<PooledSocket> {
        self.place(1, |pooled| Ok(pooled.take(pooled.context.socket(kind)?, 1)))
    }

    /// A new socket and one that hears what happens to its connections: two frames an event, the first of
    /// them the event number and its value. Takes three places: libzmq has an end of its own.
    pub fn watched(&self, kind: zmq::SocketType, events: i32) -> io::Result<(PooledSocket, PooledSocket)> {
        static NAME: AtomicUsize = AtomicUsize::new(0);
        self.place(3, |pooled| {
            let socket = pooled.take(pooled.context.socket(kind)?, 2);
            let name = format!("inproc://watch-{}", NAME.fetch_add(1, Ordering::Relaxed));
            socket.monitor(&name, events)?;
            let watch = pooled.take(pooled.context.socket(zmq::PAIR)?, 1);
            watch.connect(&name)?;
            Ok((socket, watch))
        })
    }

    /// Runs `make` on the first context with room for so many sockets.
    fn place<T>(&self, places: usize, make: impl Fn(&Pooled) -> Result<T, zmq::Error>) -> io::Result<T> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        for pooled in pool.iter().filter(|pooled| pooled.used.load(Ordering::Acquire) + places <= self.limit)
        {
            match make(pooled) {
                // Sockets closed lately may still stand in libzmq's table.
                Err(zmq::Error::EMFILE) => {}
                result => return Ok(result?),
            }
        }
        let pooled = create(&self.cpus)?;
        let made = make(&pooled)?;
        pool.push(pooled);
        Ok(made)
    }
}

impl Pooled {
    fn take(&self, socket: zmq::Socket, places: usize) -> PooledSocket {
        self.used.fetch_add(places, Ordering::AcqRel);
        PooledSocket { socket, used: self.used.clone(), places }
    }
}

/// Makes a context on a thread that may run anywhere: libzmq starts its own threads with the first socket,
/// and they inherit the CPU mask of the thread that makes it.
fn create(cpus: &Cpus) -> io::Result<Pooled> {
    let cpus = cpus.clone();
    let maker = thread::Builder::new().name("zmq-context".into()).spawn(move || {
        cpus.spread()?;
        let context = zmq::Context::new();
        context.socket(zmq::SUB)?.set_linger(0)?;
        Ok(Pooled { context, used: Arc::default() })
    })?;
    maker.join().unwrap_or_else(|_| Err(io::Error::other("libzmq could not start")))
}

impl Deref for PooledSocket {
    type Target = zmq::Socket;

    fn deref(&self) -> &zmq::Socket {
        &self.socket
    }
}

impl Drop for PooledSocket {
    fn drop(&mut self) {
        // A context is never left waiting for what nobody reads.
        let _ = self.socket.set_linger(0);
        self.used.fetch_sub(self.places, Ordering::AcqRel);
    }
}
