//! All connections of a reactor: how many, which are idle, and when each must have moved.
//!
//! An operation in flight is never dropped. A connection that must end gets `shutdown(2)` on its descriptor,
//! and its own task sees the end, leaves the table and closes. So a descriptor in the table is always open.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Counters;
use super::listen::Listener;
use crate::limits::REFUSED_CONNECTIONS;
use crate::rt::sys::{self, Half};
use crate::rt::{Signal, Stream, sleep};

/// How often deadlines are looked at: an eighth of the shortest time within these bounds.
const SWEEP_SHORTEST: Duration = Duration::from_millis(10);
const SWEEP_LONGEST: Duration = Duration::from_millis(250);

#[derive(Clone, Copy)]
struct Entry {
    fd: RawFd,
    /// When it is ended unless it moves; `None` while the service works for it.
    deadline: Option<Instant>,
    /// Nothing of a next request has come.
    idle: bool,
    /// Over the limit: only to be told so.
    refused: bool,
    /// Bytes of its receive buffer.
    held: usize,
}

#[derive(Default)]
struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    open: usize,
    refused: usize,
    /// Bytes of all receive buffers.
    held: usize,
    listeners: Vec<RawFd>,
}

/// The table of one reactor.
pub(super) struct Connections {
    table: RefCell<Table>,
    limit: usize,
    counters: Arc<Counters>,
}

/// A connection's entry; it leaves the table when dropped, which must be before its stream is.
pub(super) struct Place {
    connections: Rc<Connections>,
    key: usize,
}

impl Connections {
    pub(super) fn new(limit: usize, counters: Arc<Counters>) -> Rc<Self> {
        Rc::new(Self { table: RefCell::default(), limit, counters })
    }

    /// Whether another connection may be served.
    pub(super) fn has_room(&self) -> bool {
        self.table.borrow().open < self.limit
    }

    /// Whether another client may be told that there is no room.
    pub(super) fn has_room_for_refusal(&self) -> bool {
        self.table.borrow().refused < REFUSED_CONNECTIONS
    }

    /// Bytes of all receive buffers.
    pub(super) fn held(&self) -> usize {
        self.table.borrow().held
    }

    /// Enters a connection.
    pub(super) fn enter(self: &Rc<Self>, stream: &Stream, refused: bool) -> Place {
        let entry = Entry { fd: stream.as_raw_fd(), deadline: None, idle: false, refused, held: 0 };
        let mut table = self.table.borrow_mut();
        let key = table.free.pop().unwrap_or(table.entries.len());
        if key == table.entries.len() {
            table.entries.push(None);
        }
        table.entries[key] = Some(entry);
        *if refused { &mut table.refused } else { &mut table.open } += 1;
        self.counters.connections_open.set(table.open as u64);
        Place { connections: self.clone(), key }
    }

    /// Remembers a listener, to end its accepting.
    pub(super) fn add_listener(&self, listener: &Listener) {
        self.table.borrow_mut().listeners.push(listener.as_raw_fd());
    }

    /// Forgets a listener before it is closed.
    pub(super) fn forget_listener(&self, listener: &Listener) {
        self.table.borrow_mut().listeners.retain(|&fd| fd != listener.as_raw_fd());
    }

    /// Ends accepting, and reading of the connections that are between requests.
    pub(super) fn end_idle(&self) {
        let table = self.table.borrow();
        for &fd in &table.listeners {
            sys::shutdown(fd, Half::Both);
        }
        for entry in table.entries.iter().flatten().filter(|entry| entry.idle) {
            sys::shutdown(entry.fd, Half::Read);
        }
    }

    /// Ends all connections, whatever they do.
    pub(super) fn end_all(&self) {
        for entry in self.table.borrow().entries.iter().flatten() {
            sys::shutdown(entry.fd, Half::Both);
        }
    }

    /// Whether nobody is connected or accepting.
    pub(super) fn is_empty(&self) -> bool {
        let table = self.table.borrow();
        table.open == 0 && table.refused == 0 && table.listeners.is_empty()
    }

    /// Ends the connections whose deadline has passed.
    fn expire(&self, now: Instant) {
        let mut table = self.table.borrow_mut();
        for entry in table.entries.iter_mut().flatten() {
            if entry.deadline.is_some_and(|deadline| deadline <= now) {
                entry.deadline = None;
                sys::shutdown(entry.fd, Half::Both);
                self.counters.connections_expired.add(1);
            }
        }
    }

    /// Looks for silent connections until the reactor is done.
    pub(super) async fn sweep(self: Rc<Self>, shortest: Duration, done: &Signal) {
        let pause = (shortest / 8).clamp(SWEEP_SHORTEST, SWEEP_LONGEST);
        while !done.is_set() {
            done.wait_at_most(sleep(pause)).await;
            self.expire(Instant::now());
        }
    }
}

impl Place {
    /// Waits for the client, at most until `deadline`; `idle` when between requests.
    pub(super) fn wait(&self, deadline: Instant, idle: bool) {
        self.update(Some(deadline), idle);
    }

    /// Works for the client; no deadline.
    pub(super) fn work(&self) {
        self.update(None, false);
    }

    /// The receive buffer has so many bytes now.
    pub(super) fn hold(&self, bytes: usize) {
        let mut table = self.connections.table.borrow_mut();
        if let Some(entry) = &mut table.entries[self.key] {
            let before = std::mem::replace(&mut entry.held, bytes);
            table.held = table.held - before + bytes;
        }
    }

    fn update(&self, deadline: Option<Instant>, idle: bool) {
        if let Some(entry) = &mut self.connections.table.borrow_mut().entries[self.key] {
            entry.deadline = deadline;
            entry.idle = idle;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.connections.table.borrow_mut();
        if let Some(entry) = table.entries[self.key].take() {
            *if entry.refused { &mut table.refused } else { &mut table.open } -= 1;
            table.held -= entry.held;
        }
        table.free.push(self.key);
        self.connections.counters.connections_open.set(table.open as u64);
    }
}
