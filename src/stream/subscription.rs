//! One SUB socket and how it is drained.
//!
//! libzmq's descriptor is edge-triggered: it becomes readable when something *may* have changed, and stays
//! silent about what was there before. So: receive until nothing is left, look at the socket's events once,
//! and only then wait.

use std::fmt;
use std::io;

use super::contexts::{Contexts, PooledSocket};
use super::endpoint::Endpoint;
use crate::limits;
use crate::rt::{Readable, Signal, Turn};

/// Frames of an overlong message that are thrown away before others have their turn.
const SKIP_BURST: usize = 256;

/// Bounds of a subscription's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Messages that wait in libzmq; the publisher drops beyond.
    pub receive_hwm: i32,
    /// Largest frame, bytes; libzmq ends the connection of a publisher that sends more.
    pub message_bytes: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { receive_hwm: limits::ZMQ_RECEIVE_HWM, message_bytes: limits::ZMQ_MESSAGE_BYTES }
    }
}

/// What a subscription has seen.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Received {
    /// Messages.
    pub messages: u64,
    /// Bytes of their kept frames.
    pub bytes: u64,
    /// Frames thrown away because a message had more than [`limits::ZMQ_FRAMES`].
    pub frames_dropped: u64,
}

/// A subscription to everything that one endpoint publishes. Stays on its reactor.
pub struct Subscription {
    inbox: Inbox,
}

impl Subscription {
    /// Connects in the background, for as long as it takes, again and again.
    pub fn open(contexts: &Contexts, endpoint: &Endpoint, settings: Settings) -> io::Result<Self> {
        Self::connect(contexts.socket(zmq::SUB)?, endpoint, settings)
    }

    fn connect(socket: PooledSocket, endpoint: &Endpoint, settings: Settings) -> io::Result<Self> {
        configure(&socket, settings)?;
        socket.set_subscribe(b"")?;
        socket.connect(endpoint.as_str())?;
        Ok(Self { inbox: Inbox::new(socket)? })
    }

    /// [`Self::open`], and a watch over its connection.
    pub fn open_watched(
        contexts: &Contexts,
        endpoint: &Endpoint,
        settings: Settings,
    ) -> io::Result<(Self, Watch)> {
        let events = EVENTS.iter().fold(0, |all, event| all | event.to_raw());
        let (socket, watch) = contexts.watched(zmq::SUB, i32::from(events))?;
        let watch = Watch { inbox: Inbox::new(watch)?, hearing: Hearing::default() };
        match Self::connect(socket, endpoint, settings) {
            Ok(subscription) => Ok((subscription, watch)),
            Err(error) => {
                watch.outlive();
                Err(error)
            }
        }
    }

    /// What it has seen.
    pub fn received(&self) -> Received {
        self.inbox.received
    }

    /// See [`Inbox::drain`].
    pub async fn drain(
        &mut self,
        turn: &Turn,
        close: &Signal,
        on: impl AsyncFnMut(&[zmq::Message]),
    ) -> io::Result<()> {
        self.inbox.drain(turn, close, on).await
    }
}

const UP: zmq::SocketEvent = zmq::SocketEvent::HANDSHAKE_SUCCEEDED;
const DOWN: zmq::SocketEvent = zmq::SocketEvent::DISCONNECTED;
const OVER: zmq::SocketEvent = zmq::SocketEvent::MONITOR_STOPPED;
const RETRIED: zmq::SocketEvent = zmq::SocketEvent::CONNECT_RETRIED;
const BROKEN_OFF: zmq::SocketEvent = zmq::SocketEvent::HANDSHAKE_FAILED_NO_DETAIL;
const MISSPOKEN: zmq::SocketEvent = zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL;
const REJECTED: zmq::SocketEvent = zmq::SocketEvent::HANDSHAKE_FAILED_AUTH;
/// What a watch hears of.
const EVENTS: [zmq::SocketEvent; 7] = [UP, DOWN, OVER, RETRIED, BROKEN_OFF, MISSPOKEN, REJECTED];
/// How long a watch that nobody runs waits for the end of its subscription, milliseconds.
const OUTLIVE_MILLIS: i32 = 1000;

/// What became of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// The publisher is there and speaks ZMTP; what it sends arrives as soon as it has read the subscription.
    Up,
    /// It has gone; libzmq tries again.
    Down,
    /// Nobody answered at the endpoint, or its name could not be resolved; libzmq tries again, and says no more.
    Unreached,
    /// Somebody answered, but no publisher.
    Unagreed(Handshake),
}

/// How a handshake failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// The other side closed the connection, or said nothing for too long: the error number of the system.
    BrokenOff(i32),
    /// It does not speak ZMTP: libzmq's number of what was wrong.
    Misspoken(u32),
    /// It lets nobody in: the status of its authentication.
    Rejected(u32),
}

impl fmt::Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BrokenOff(0) => f.write_str("the handshake was broken off"),
            Self::BrokenOff(number) => {
                write!(f, "the handshake was broken off: {}", io::Error::from_raw_os_error(number))
            }
            Self::Misspoken(number) => write!(f, "the other side does not speak ZMTP ({number:#x})"),
            Self::Rejected(status) => write!(f, "the other side refused the connection (status {status})"),
        }
    }
}

/// Reads one event after the other.
#[derive(Default)]
struct Hearing {
    up: bool,
    /// The next attempt is the first one after a connection, not one after a failure.
    resuming: bool,
}

impl Hearing {
    fn read(&mut self, event: u16, value: u32) -> Option<Link> {
        let of = |known: zmq::SocketEvent| event == known.to_raw();
        if of(UP) {
            self.up = true;
            return Some(Link::Up);
        }
        if of(DOWN) {
            self.resuming = true;
            // what was never up was told as a failed handshake
            return std::mem::take(&mut self.up).then_some(Link::Down);
        }
        if of(RETRIED) {
            return (!std::mem::take(&mut self.resuming)).then_some(Link::Unreached);
        }
        let how = match value {
            number if of(BROKEN_OFF) => Handshake::BrokenOff(number.cast_signed()),
            number if of(MISSPOKEN) => Handshake::Misspoken(number),
            number if of(REJECTED) => Handshake::Rejected(number),
            _ => return None,
        };
        Some(Link::Unagreed(how))
    }
}

/// Hears of a subscription's connection. Stays on its reactor.
///
/// It must outlive its subscription: libzmq tells it the end from its own thread, which would wait for ever,
/// and every other socket with it, if nobody were there to hear.
pub struct Watch {
    inbox: Inbox,
    hearing: Hearing,
}

impl Watch {
    /// Calls `on` for every change, until the subscription is closed. A change may be heard before or after
    /// messages that came around it.
    pub async fn run(&mut self, turn: &Turn, mut on: impl FnMut(Link)) -> io::Result<()> {
        let over = Signal::new();
        let hearing = &mut self.hearing;
        let hear = async |frames: &[zmq::Message]| match event(frames) {
            Some((event, _)) if event == OVER.to_raw() => over.set(),
            Some((event, value)) => hearing.read(event, value).into_iter().for_each(&mut on),
            None => {}
        };
        self.inbox.drain(turn, &over, hear).await
    }

    /// Waits, blocking, for the end of a subscription that was never used.
    fn outlive(self) {
        let socket = self.inbox.socket();
        let _ = socket.set_rcvtimeo(OUTLIVE_MILLIS);
        while let Ok(frames) = socket.recv_multipart(0) {
            let number = frames.first().and_then(|frame| frame.get(..2));
            if number.is_some_and(|raw| raw == OVER.to_raw().to_ne_bytes()) {
                return;
            }
        }
    }
}

/// The number of a socket event, and its value.
fn event(frames: &[zmq::Message]) -> Option<(u16, u32)> {
    let (number, value) = frames.first()?.split_first_chunk()?;
    Some((u16::from_ne_bytes(*number), u32::from_ne_bytes(value.try_into().ok()?)))
}

/// Sets what all receiving sockets have in common.
pub fn configure(socket: &zmq::Socket, settings: Settings) -> io::Result<()> {
    socket.set_linger(0)?;
    socket.set_ipv6(true)?;
    socket.set_rcvhwm(settings.receive_hwm)?;
    socket.set_maxmsgsize(settings.message_bytes)?;
    socket.set_reconnect_ivl(limits::ZMQ_RECONNECT_MILLIS)?;
    socket.set_reconnect_ivl_max(limits::ZMQ_RECONNECT_MAX_MILLIS)?;
    socket.set_heartbeat_ivl(limits::ZMQ_HEARTBEAT_MILLIS)?;
    socket.set_heartbeat_timeout(limits::ZMQ_HEARTBEAT_TIMEOUT_MILLIS)?;
    socket.set_heartbeat_ttl(limits::ZMQ_HEARTBEAT_TIMEOUT_MILLIS)?;
    Ok(())
}

/// Any receiving socket, with its descriptor and the frames of the message at hand.
pub struct Inbox {
    // Before the socket, whose descriptor it copies.
    readable: Readable,
    socket: PooledSocket,
    frames: Vec<zmq::Message>,
    skipping: bool,
    received: Received,
}

impl Inbox {
    /// Takes over a socket that is set up.
    pub fn new(socket: PooledSocket) -> io::Result<Self> {
        let readable = Readable::raw(socket.get_fd()?)?;
        Ok(Self { readable, socket, frames: Vec::new(), skipping: false, received: Received::default() })
    }

    /// The socket itself, to send on.
    pub fn socket(&self) -> &zmq::Socket {
        &self.socket
    }

    /// Calls `on` for every message, in order, until `close` is set: then what already arrived is left. Each
    /// message costs [`limits::COST_EVENT`] of the turn; what its contents cost is for `on` to spend.
    pub async fn drain(
        &mut self,
        turn: &Turn,
        close: &Signal,
        mut on: impl AsyncFnMut(&[zmq::Message]),
    ) -> io::Result<()> {
        while !close.is_set() {
            if let Some(frames) = self.receive()? {
                if frames > 0 {
                    on(&self.frames[..frames]).await;
                }
                turn.spend(limits::COST_EVENT).await;
                continue;
            }
            // A quiet stream keeps no payload.
            self.frames.clear();
            if !self.socket.get_events()?.contains(zmq::POLLIN)
                && let Some(result) = close.wait_at_most(self.readable.wait()).await
            {
                result?;
            }
        }
        Ok(())
    }

    /// Takes the next message without waiting: how many of `self.frames` it fills, 0 while the rest of an
    /// overlong one is thrown away, or `None` when nothing is there.
    fn receive(&mut self) -> io::Result<Option<usize>> {
        if self.skipping {
            return self.skip().map(|()| Some(0));
        }
        let mut filled = 0;
        loop {
            if filled == self.frames.len() {
                self.frames.push(zmq::Message::new());
            }
            let frame = &mut self.frames[filled];
            match self.socket.recv(frame, zmq::DONTWAIT) {
                Ok(()) => {}
                Err(zmq::Error::EINTR) => continue,
                // Frames of a message come together, so this is between messages.
                Err(zmq::Error::EAGAIN) => return Ok((filled > 0).then_some(filled)),
                Err(error) => return Err(error.into()),
            }
            filled += 1;
            self.received.bytes += frame.len() as u64;
            let more = frame.get_more();
            if !more || filled == limits::ZMQ_FRAMES {
                self.received.messages += 1;
                self.skipping = more;
                return Ok(Some(filled));
            }
        }
    }

    fn skip(&mut self) -> io::Result<()> {
        let mut frame = zmq::Message::new();
        for _ in 0..SKIP_BURST {
            match self.socket.recv(&mut frame, zmq::DONTWAIT) {
                Ok(()) => self.received.frames_dropped += 1,
                Err(zmq::Error::EINTR) => continue,
                Err(zmq::Error::EAGAIN) => self.skipping = false,
                Err(error) => return Err(error.into()),
            }
            if !self.skipping || !frame.get_more() {
                self.skipping = false;
                break;
            }
        }
        Ok(())
    }
}
