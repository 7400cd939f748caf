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
#[derive(Clone)]
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
}

impl Contexts {
    /// One context to begin with. Call it before reactors are pinned.
    pub fn new() -> io::Result<Arc<Self>> {
        Self::with_limit(ZMQ_SOCKETS_PER_CONTEXT)
    }

    /// [`Self::new`] with at most `limit` sockets a context.
    pub fn with_limit(limit: usize) -> io::Result<Arc<Self>> {
        let cpus = Cpus::of_this_thread()?;
        let first = create(&cpus)?;
        Ok(Arc::new(Self { pool: Mutex::new(vec![first]), cpus, limit: limit.max(1) }))
    }

    /// How many contexts there are.
    pub fn count(&self) -> usize {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A new socket; a further context is made when all are full.
    pub fn socket(&self, kind: zmq::SocketType) -> io::Result<PooledSocket> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        for pooled in pool.iter().filter(|pooled| pooled.used.load(Ordering::Acquire) < self.limit) {
            match pooled.context.socket(kind) {
                Ok(socket) => return Ok(pooled.take(socket)),
                // Sockets closed lately may still stand in libzmq's table.
                Err(zmq::Error::EMFILE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let pooled = create(&self.cpus)?;
        let socket = pooled.context.socket(kind)?;
        pool.push(pooled.clone());
        Ok(pooled.take(socket))
    }
}

impl Pooled {
    fn take(&self, socket: zmq::Socket) -> PooledSocket {
        self.used.fetch_add(1, Ordering::AcqRel);
        PooledSocket { socket, used: self.used.clone() }
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
        self.used.fetch_sub(1, Ordering::AcqRel);
    }
}
