//! Connections that lie idle between requests.

use std::io;
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::target::Server;
use crate::limits::{COURIER_IDLE_CONNECTIONS, COURIER_IDLE_MILLIS, COURIER_IDLE_PER_SERVER};

/// Open connections to any server, oldest first.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    server: Server,
    stream: TcpStream,
    since: Instant,
}

impl Pool {
    /// The freshest connection to `server` that its peer has not closed.
    pub(super) fn take(&self, server: &Server) -> Option<TcpStream> {
        let mut idle = self.lock();
        sweep(&mut idle);
        while let Some(at) = idle.iter().rposition(|one| one.server == *server) {
            let one = idle.remove(at);
            if is_silent(&one.stream).unwrap_or(false) {
                return Some(one.stream);
            }
        }
        None
    }

    /// Keeps a connection on which nothing is under way. The oldest go when there are too many.
    pub(super) fn put(&self, server: Server, stream: TcpStream) {
        let mut idle = self.lock();
        sweep(&mut idle);
        let same = |one: &Idle| one.server == server;
        if idle.iter().filter(|one| same(one)).count() >= COURIER_IDLE_PER_SERVER
            && let Some(at) = idle.iter().position(same)
        {
            idle.remove(at);
        }
        if idle.len() >= COURIER_IDLE_CONNECTIONS {
            idle.remove(0);
        }
        idle.push(Idle { server, stream, since: Instant::now() });
    }

    /// Closes those that are too old to be used again.
    pub(super) fn sweep(&self) {
        sweep(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sweep(idle: &mut Vec<Idle>) {
    let old = Duration::from_millis(COURIER_IDLE_MILLIS);
    idle.retain(|one| one.since.elapsed() < old);
}

/// Whether nothing has come on a connection: an end, an error or bytes that nobody asked for make it useless.
fn is_silent(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let silent = match stream.peek(&mut [0]) {
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        Ok(_) => false,
    };
    stream.set_nonblocking(false)?;
    Ok(silent)
}

/// Whether an answer, or the end, is there to be read.
pub(super) fn has_news(stream: &TcpStream) -> bool {
    !is_silent(stream).unwrap_or(false)
}
