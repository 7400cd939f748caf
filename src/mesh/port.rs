//! What a reactor holds of the mesh: to and from every reactor a ring of requests and one of replies.
//!
//! Replies have rings of their own so that they always get through, however many requests stand in line. A
//! full ring never makes a sender wait: messages queue at the sender up to a bound, then sending fails.
//!
//! Two flags carry wakes, each by the same handshake: one side stores and fences and looks, the other side
//! stores and fences and looks, so at least one sees the other.
//! - `asleep` of a reactor: senders ring its bell only while it sleeps ([`Port::flush`], [`Port::sleep`]).
//! - `waiting` of a lane: the sender has messages queued, so the reader rings when it has made room.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::ring::{Alone, Reader, Writer, ring};
use crate::limits::{MESH_REPLY_BACKLOG, MESH_REQUEST_BACKLOG, MESH_RING};
use crate::rt::Wake;
use crate::rt::wake::poke;

/// Which ring a message takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Request,
    Reply,
}

/// What all ports know of each reactor.
struct Seat {
    asleep: Alone<AtomicBool>,
    wake: Arc<Wake>,
}

/// The sender's end of one ring.
struct Outgoing<T> {
    writer: Writer<T>,
    backlog: VecDeque<T>,
    bound: usize,
    waiting: Arc<Alone<AtomicBool>>,
}

impl<T: Send> Outgoing<T> {
    fn send(&mut self, message: T) -> Result<(), T> {
        // Order is kept: nothing overtakes the backlog.
        let message = if self.backlog.is_empty() {
            let Err(message) = self.writer.push(message) else { return Ok(()) };
            message
        } else {
            message
        };
        if self.backlog.len() >= self.bound {
            return Err(message);
        }
        self.backlog.push_back(message);
        Ok(())
    }

    /// Moves what waits into the ring; whether some is left.
    fn advance(&mut self) -> bool {
        while let Some(message) = self.backlog.pop_front() {
            if let Err(message) = self.writer.push(message) {
                self.backlog.push_front(message);
                return true;
            }
        }
        false
    }
}

/// The receiver's end of one ring.
struct Incoming<T> {
    from: usize,
    reader: Reader<T>,
    waiting: Arc<Alone<AtomicBool>>,
    taken: bool,
}

/// All rings to one reactor.
struct Destination<T> {
    lanes: [Outgoing<T>; 2],
    dirty: bool,
}

/// What was sent through a port.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Messages handed over, requests and replies.
    pub sent: u64,
    /// Messages refused because ring and backlog were full.
    pub full: u64,
    /// Bells rung for a sleeping reactor.
    pub rung: u64,
}

/// One reactor's end of the mesh.
pub struct Port<T> {
    id: usize,
    seats: Arc<[Seat]>,
    outgoing: RefCell<Vec<Destination<T>>>,
    // Replies of everybody, then requests of everybody.
    incoming: RefCell<[Vec<Incoming<T>>; 2]>,
    next: Cell<usize>,
    traffic: Cell<Traffic>,
}

/// Connects as many reactors as there are bells, each also with itself.
pub fn connect<T: Send>(wakes: Vec<Arc<Wake>>) -> Vec<Port<T>> {
    connect_with(wakes, MESH_RING, [MESH_REQUEST_BACKLOG, MESH_REPLY_BACKLOG])
}

/// [`connect`] with rings of `capacity` messages and backlogs of `[requests, replies]`.
pub fn connect_with<T: Send>(wakes: Vec<Arc<Wake>>, capacity: usize, backlog: [usize; 2]) -> Vec<Port<T>> {
    let count = wakes.len();
    let seats: Arc<[Seat]> = wakes.into_iter().map(|wake| Seat { asleep: Alone::default(), wake }).collect();
    let mut ports: Vec<Port<T>> = (0..count)
        .map(|id| Port {
            id,
            seats: seats.clone(),
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            next: Cell::new(0),
            traffic: Cell::default(),
        })
        .collect();
    for from in 0..count {
        for to in 0..count {
            let lanes = [Kind::Request, Kind::Reply].map(|kind| {
                let (writer, reader) = ring(capacity);
                let waiting = Arc::new(Alone::default());
                let incoming = Incoming { from, reader, waiting: waiting.clone(), taken: false };
                ports[to].incoming.get_mut()[kind as usize].push(incoming);
                Outgoing { writer, backlog: VecDeque::new(), bound: backlog[kind as usize], waiting }
            });
            ports[from].outgoing.get_mut().push(Destination { lanes, dirty: false });
        }
    }
    ports
}

impl<T: Send> Port<T> {
    /// This reactor's number.
    pub fn id(&self) -> usize {
        self.id
    }

    /// How many ports the mesh has.
    pub fn count(&self) -> usize {
        self.seats.len()
    }

    /// Sends a request; it leaves with the next [`Port::flush`]. Gives it back when too many wait already:
    /// the answer to that is 503.
    pub fn send(&self, to: usize, message: T) -> Result<(), T> {
        self.put(to, Kind::Request, message)
    }

    /// Sends a reply, which no request holds up. Fails only when the bound on replies is reached.
    pub fn reply(&self, to: usize, message: T) -> Result<(), T> {
        self.put(to, Kind::Reply, message)
    }

    fn put(&self, to: usize, kind: Kind, message: T) -> Result<(), T> {
        let mut outgoing = self.outgoing.borrow_mut();
        let Some(destination) = outgoing.get_mut(to) else { return Err(message) };
        let mut traffic = self.traffic.get();
        let result = destination.lanes[kind as usize].send(message);
        match result {
            Ok(()) => traffic.sent += 1,
            Err(_) => traffic.full += 1,
        }
        self.traffic.set(traffic);
        destination.dirty = true;
        poke();
        result
    }

    /// Makes everything sent so far known: once a turn. Rings the bells of those that sleep.
    pub fn flush(&self) {
        let mut outgoing = self.outgoing.borrow_mut();
        if !outgoing.iter().any(|destination| destination.dirty) {
            return;
        }
        for lane in outgoing.iter_mut().filter(|to| to.dirty).flat_map(|to| &mut to.lanes) {
            if lane.advance() {
                lane.waiting.0.store(true, Ordering::Relaxed);
            }
        }
        fence(Ordering::SeqCst);
        for (destination, seat) in outgoing.iter_mut().zip(self.seats.iter()) {
            if !destination.dirty {
                continue;
            }
            // Room made before the reader could see `waiting` is used now; later room rings our bell.
            let mut left = false;
            for lane in &mut destination.lanes {
                left |= lane.advance();
            }
            destination.dirty = left;
            if seat.asleep.0.load(Ordering::Relaxed) && seat.asleep.0.swap(false, Ordering::AcqRel) {
                seat.wake.notify();
                let traffic = self.traffic.get();
                self.traffic.set(Traffic { rung: traffic.rung + 1, ..traffic });
            }
        }
    }

    /// Hands at most `budget` messages to `handle(from, message)`, replies first, and says how many.
    /// `handle` may send.
    pub fn drain(&self, budget: usize, mut handle: impl FnMut(usize, T)) -> usize {
        let mut incoming = self.incoming.borrow_mut();
        let [requests, replies] = &mut *incoming;
        let count = requests.len();
        // Who comes first changes from pass to pass, so nobody is last for ever.
        let first = self.next.get();
        self.next.set((first + 1) % count.max(1));
        let mut taken = 0;
        for lane in [replies, requests] {
            for step in 0..count {
                let from = &mut lane[(first + step) % count];
                while taken < budget
                    && let Some(message) = from.reader.pop()
                {
                    taken += 1;
                    from.taken = true;
                    handle(from.from, message);
                }
            }
        }
        if taken > 0 {
            self.tell_of_room(&mut incoming);
        }
        taken
    }

    fn tell_of_room(&self, incoming: &mut [Vec<Incoming<T>>; 2]) {
        fence(Ordering::SeqCst);
        for lane in incoming.iter_mut().flatten().filter(|lane| lane.taken) {
            lane.taken = false;
            if lane.waiting.0.load(Ordering::Relaxed) && lane.waiting.0.swap(false, Ordering::AcqRel) {
                self.seats[lane.from].wake.notify();
            }
        }
    }

    /// Announces that this reactor waits for its bell. Returns false, and stays awake, when a message came
    /// first.
    pub fn sleep(&self) -> bool {
        self.seats[self.id].asleep.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    /// Announces that this reactor looks at its rings before it sleeps again.
    pub fn awake(&self) {
        self.seats[self.id].asleep.0.store(false, Ordering::Relaxed);
    }

    /// Whether no message waits for this reactor.
    pub fn is_empty(&self) -> bool {
        self.incoming.borrow_mut().iter_mut().flatten().all(|lane| lane.reader.is_empty())
    }

    /// What was sent so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}
