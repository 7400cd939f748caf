//! Requests to MP servers: blocking, on threads of their own, answers by callback.
//!
//! Each [`Class`] has threads and a queue of its own, so none waits for another; within a class one server that
//! hangs has at most half of the threads. An order is carried out at most once: a request is never sent again
//! once a byte of it was written. Nothing is ever dialled but `http://ip:port/cache/…`.

mod connection;
mod exchange;
mod pool;
mod target;
mod threads;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::threads::Shared;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
}

/// Whose threads carry an order out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// DELETEs of evictions.
    Dispatch,
    /// Requests that a client waits for.
    Relay,
    /// Listings at the start.
    Resync,
}

/// A request to one server.
#[derive(Clone, Debug)]
pub struct Order {
    /// What the outcome is handed back with.
    pub ticket: u64,
    /// Method.
    pub method: Method,
    /// IP address (IPv6 with or without brackets) or host name.
    pub ip: String,
    /// Port.
    pub port: u16,
    /// Parts of the path below `/cache/`, not encoded: each is one part on the wire, whatever is in it. None may
    /// be empty.
    pub segments: Vec<String>,
    /// Names and values of the query, not encoded.
    pub query: Vec<(String, String)>,
    /// JSON.
    pub body: Option<Vec<u8>>,
    /// Whose threads.
    pub class: Class,
    /// Most time from [`Courier::send`] to the last byte of the answer.
    pub total: Duration,
}

/// What a server answered, whatever the status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Status code; redirects are not followed.
    pub status: u16,
    /// `content-type`, empty without one.
    pub content_type: String,
    /// Body, without transfer coding.
    pub body: Vec<u8>,
}

/// Why there is no answer, for a human.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// What became of an order.
pub type Outcome = Result<Reply, Failure>;

/// Too many orders wait already, or the courier has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many requests to MP servers are under way")]
pub struct Busy;

/// Carries requests to MP servers. Dropping it is [`Courier::close`].
pub struct Courier {
    shared: Arc<Shared>,
}

impl Courier {
    /// A courier that hands each outcome to `post`, with its ticket, from a thread of its own. Threads are
    /// started as they are needed and end when they are not.
    pub fn start(post: impl Fn(u64, Outcome) + Send + Sync + 'static) -> Self {
        Self { shared: Shared::new(Box::new(post)) }
    }

    /// Takes an order; exactly one outcome follows, unless it is refused. Never waits.
    pub fn send(&self, order: Order) -> Result<(), Busy> {
        Shared::send(&self.shared, order)
    }

    /// Orders of a class that were taken and have no outcome yet.
    pub fn under_way(&self, class: Class) -> usize {
        self.shared.under_way(class)
    }

    /// Takes no more orders. Those taken are carried out.
    pub fn close(&self) {
        self.shared.close();
    }

    /// [`Courier::close`], then waits at most `grace` for the orders taken; whether all were carried out. The
    /// others are given up: those that wait fail, those under way are left to their threads.
    pub fn stop(&self, grace: Duration) -> bool {
        self.shared.stop(grace)
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Courier")
    }
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
