//! One client: requests in, answers out, in order.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connections::Place;
use super::{Room, Service};
use crate::http::{Decoder, Step, response};
use crate::limits::{
    BYTES_PER_COST, COST_REQUEST, HTTP_KEEP_BYTES, HTTP_KEPT_BYTES, HTTP_WRITE_BYTES, LINGER_BYTES,
    LINGER_MILLIS,
};
use crate::rt::Stream;
use crate::rt::sys::{self, Half};

/// What follows once the answers so far are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Further requests are in the buffer.
    Answer,
    /// More must come.
    Read,
    /// Nothing more is answered here.
    Close,
}

struct Connection<S: Service> {
    // Before the stream, so that it is dropped first.
    place: Place,
    stream: Stream,
    room: Rc<Room<S>>,
    decoder: Decoder,
    out: Vec<u8>,
    /// When the first byte of the request came that is not whole.
    begun: Option<Instant>,
    /// A request has been answered.
    answered: bool,
    /// The last read filled its room: the rest is likely to be there already.
    filled: bool,
}

/// Serves a connection to its end.
pub(super) async fn serve<S: Service>(room: Rc<Room<S>>, place: Place, stream: Stream) {
    let mut connection = Connection::new(room, place, stream);
    let mut next = Next::Read;
    loop {
        match next {
            Next::Close => return connection.linger().await,
            Next::Read if connection.read().await.is_err() => return,
            Next::Read | Next::Answer => {}
        }
        next = connection.answer().await;
        if connection.write().await.is_err() {
            return;
        }
        // whoever reads waits anyway, and yields with what came
        if next == Next::Answer {
            connection.room.seat.turn.spend(0).await;
        }
        if next == Next::Read && connection.room.shared.stopping() && connection.decoder.is_idle() {
            next = Next::Close;
        }
    }
}

/// Tells a client that too many are connected.
pub(super) async fn refuse<S: Service>(room: Rc<Room<S>>, place: Place, stream: Stream) {
    let mut connection = Connection::new(room, place, stream);
    S::refuse(503, "too many connections", &mut connection.out);
    if connection.write().await.is_ok() {
        connection.linger().await;
    }
}

impl<S: Service> Connection<S> {
    fn new(room: Rc<Room<S>>, place: Place, stream: Stream) -> Self {
        let decoder = Decoder::new(room.settings.http);
        Self { place, stream, room, decoder, out: Vec::new(), begun: None, answered: false, filled: false }
    }

    /// Reads once. The end of the stream is an error like any other.
    async fn read(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let idle = self.decoder.is_idle();
        let mut deadline = now + self.room.settings.idle;
        if idle {
            self.begun = None;
            if self.answered {
                deadline = now + self.room.settings.keep_alive;
            }
        } else {
            let begun = *self.begun.get_or_insert(now);
            deadline = deadline.min(begun + self.room.settings.request);
            if self.decoder.is_in_head() {
                deadline = deadline.min(begun + self.room.settings.head);
            }
        }
        let mut buffer = self.decoder.take_buffer();
        let at_once = if self.filled { self.read_now(&mut buffer) } else { None };
        let result = if let Some(result) = at_once {
            result
        } else {
            self.place.wait(deadline, idle);
            let (result, back) = self.stream.read(buffer).await;
            self.place.work();
            buffer = back;
            result
        };
        self.filled = buffer.len() == buffer.capacity();
        self.decoder.give_back(buffer);
        self.place.hold(self.decoder.held());
        let read = result?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.room.seat.counters.bytes_in.add(read as u64);
        self.room.seat.turn.spend((read / BYTES_PER_COST) as u32).await;
        Ok(())
    }

    /// Reads what is there already, if anything is: the rest of a request, of which as much came before as there was
    /// room for, costs no round through the kernel's queues then.
    fn read_now(&self, buffer: &mut Vec<u8>) -> Option<io::Result<usize>> {
        match sys::receive_now(self.stream.as_raw_fd(), buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            came => Some(came),
        }
    }

    /// Answers the whole requests in the buffer, as far as one write should carry.
    async fn answer(&mut self) -> Next {
        let counters = &self.room.seat.counters;
        while self.out.len() < HTTP_WRITE_BYTES {
            match self.decoder.next() {
                Step::NeedMore => {
                    if !self.holds_too_much() {
                        return Next::Read;
                    }
                    counters.requests_refused.add(1);
                    S::refuse(503, "too many bytes of requests are under way", &mut self.out);
                    self.decoder = Decoder::new(self.room.settings.http);
                    self.place.hold(0);
                    return Next::Close;
                }
                Step::Continue => self.out.extend_from_slice(response::CONTINUE),
                Step::Refuse(refusal) => {
                    counters.requests_refused.add(1);
                    S::refuse(refusal.status, refusal.message, &mut self.out);
                    return Next::Close;
                }
                Step::Request(mut request) => {
                    self.begun = None;
                    // A reactor that stops says so with its last answers.
                    request.keep_alive &= !self.room.shared.stopping();
                    self.room.service.clone().answer(&request, &mut self.out).await;
                    let last = !request.keep_alive;
                    self.answered = true;
                    counters.requests.add(1);
                    let over = self.room.seat.turn.charge(COST_REQUEST);
                    if last {
                        return Next::Close;
                    }
                    // others have their turn once this answer is on its way
                    if over {
                        return Next::Answer;
                    }
                }
            }
        }
        Next::Answer
    }

    /// Whether this is one of those that wait for the rest of a long request while all hold too much.
    fn holds_too_much(&self) -> bool {
        self.decoder.held() > HTTP_KEPT_BYTES && self.room.connections.held() > self.room.settings.held
    }

    /// Writes some of what has been answered. An answer nearly always fits into the socket's buffer: written at
    /// once it leaves before the events of this turn, and costs no round through the kernel's queues.
    async fn write_some(&mut self, from: usize) -> io::Result<usize> {
        match sys::send_now(self.stream.as_raw_fd(), &self.out[from..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return sent,
        }
        self.place.wait(Instant::now() + self.room.settings.idle, false);
        let (result, out) = self.stream.write(std::mem::take(&mut self.out), from).await;
        self.out = out;
        self.place.work();
        result
    }

    /// Writes what has been answered; every step must be taken by the client within the idle time.
    async fn write(&mut self) -> io::Result<()> {
        let mut from = 0;
        while from < self.out.len() {
            let written = self.write_some(from).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            from += written;
            self.room.seat.counters.bytes_out.add(written as u64);
            self.room.seat.turn.charge((written / BYTES_PER_COST) as u32);
        }
        self.out.clear();
        if self.out.capacity() > HTTP_KEEP_BYTES {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Ends writing and lets the client read the last answer: closing over bytes that it still sends would
    /// reset the connection and lose the answer.
    async fn linger(&mut self) {
        sys::shutdown(self.stream.as_raw_fd(), Half::Write);
        let deadline = Instant::now() + Duration::from_millis(LINGER_MILLIS);
        let mut buffer = Vec::with_capacity(4096);
        let mut heard = 0;
        while heard < LINGER_BYTES && Instant::now() < deadline {
            self.place.wait(deadline, false);
            buffer.clear();
            let (result, back) = self.stream.read(buffer).await;
            buffer = back;
            match result {
                Ok(0) | Err(_) => return,
                Ok(read) => heard += read,
            }
            self.room.seat.turn.spend(COST_REQUEST).await;
        }
    }
}
