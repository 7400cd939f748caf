//! An engine's event publisher on the wire.
//!
//! A PUB socket sends `topic, sequence (8 bytes, big-endian), payload`. A ROUTER socket, where asked for,
//! answers replay requests `"", first sequence` from a ring of the last batches and ends with sequence −1 and
//! an empty payload. As in the engines, one thread does everything: a replay is served between two sends, or
//! within 100 ms when nothing is sent.
//!
//! What engines do by accident can be done on purpose here: a batch that is only in the ring (lost), a number
//! that is nowhere (a hole), a batch sent twice, a life that ends and begins again, and replays that are slow,
//! silent or never end ([`Manner`]).

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::family::ReplayShape;
use super::replay::{Answers, Manner, Step};
use crate::limits::PUBLISHER_QUEUE;

/// How long an idle publisher leaves a replay request waiting.
const IDLE: Duration = Duration::from_millis(100);
/// How long the last messages may take to leave when a publisher stops, milliseconds.
const LINGER_MS: i32 = 1000;
/// How often and for how long a restart tries to get its old address back.
const REBIND: (u32, Duration) = (50, Duration::from_millis(50));

/// What a publisher is and where it listens.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    /// Endpoint of the PUB socket; port 0 or `*` is any free one.
    pub bind: String,
    /// Endpoint of the ROUTER socket; `None` for a publisher without replay.
    pub replay: Option<String>,
    /// First frame of every message.
    pub topic: Vec<u8>,
    /// Frames of a replay answer.
    pub replay_shape: ReplayShape,
    /// What is wrong with replay answers.
    pub replay_manner: Manner,
    /// Batches that can be replayed.
    pub buffer_steps: usize,
    /// Send high-water mark of the PUB socket, messages.
    pub send_hwm: i32,
    /// Send high-water mark of the ROUTER socket, messages; 0 is unlimited. Engines leave libzmq's 1000, and
    /// lose what a longer replay has beyond it.
    pub replay_hwm: i32,
    /// Number of the first batch.
    pub first_seq: u64,
}

/// Why a publisher cannot do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// libzmq refused.
    #[error("{what}: {source}")]
    Zmq {
        /// What was tried.
        what: String,
        /// What libzmq said.
        source: zmq::Error,
    },
    /// The system has no thread left.
    #[error("cannot start the publisher's thread: {0}")]
    Thread(String),
    /// The batch is not in the ring.
    #[error("batch {0} is not in the ring")]
    NotBuffered(u64),
    /// The thread is gone.
    #[error("the publisher has stopped")]
    Stopped,
}

/// A publisher that is running. Dropping it stops it, after its last messages have left.
#[derive(Debug)]
pub struct Publisher {
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<()>>,
    endpoint: String,
    replay_endpoint: Option<String>,
}

type Answer = Sender<Result<u64, PublishError>>;

enum Command {
    Publish { payload: Vec<u8>, lose: bool, answer: Option<Answer> },
    Hole { count: u64, answer: Answer },
    Repeat { seq: u64, answer: Answer },
    Raw { frames: Vec<Vec<u8>>, answer: Answer },
    Renumber { seq: u64, answer: Answer },
    Restart { downtime: Duration, seq: u64, answer: Answer },
    Subscriptions { answer: Answer },
    Stop,
}

impl PublisherOptions {
    /// An engine at `bind`, without replay, as engines are set up.
    pub fn new(bind: impl Into<String>) -> Self {
        Self {
            bind: bind.into(),
            replay: None,
            topic: Vec::new(),
            replay_shape: ReplayShape::ThreeFrames,
            replay_manner: Manner::default(),
            buffer_steps: 10_000,
            send_hwm: 100_000,
            replay_hwm: 0,
            first_seq: 0,
        }
    }
}

impl Publisher {
    /// Binds the sockets and starts the thread.
    pub fn bind(options: PublisherOptions) -> Result<Self, PublishError> {
        let engine = Engine::open(options)?;
        let endpoint = engine.sockets.endpoint.clone();
        let replay_endpoint = engine.sockets.replay_endpoint.clone();
        let (commands, inbox) = mpsc::sync_channel(PUBLISHER_QUEUE);
        let thread = std::thread::Builder::new()
            .name("publisher".into())
            .spawn(move || engine.run(&inbox))
            .map_err(|error| PublishError::Thread(error.to_string()))?;
        Ok(Self { commands, thread: Some(thread), endpoint, replay_endpoint })
    }

    /// Where the PUB socket listens, with its real port.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Where the ROUTER socket listens, with its real port.
    pub fn replay_endpoint(&self) -> Option<&str> {
        self.replay_endpoint.as_deref()
    }

    /// Sends a batch and returns its number.
    pub fn send(&self, payload: Vec<u8>) -> Result<u64, PublishError> {
        self.ask(|answer| Command::Publish { payload, lose: false, answer: Some(answer) })
    }

    /// Queues a batch without waiting for it to be sent; waits only while the queue is full.
    pub fn post(&self, payload: Vec<u8>) -> Result<(), PublishError> {
        let command = Command::Publish { payload, lose: false, answer: None };
        self.commands.send(command).map_err(|_| PublishError::Stopped)
    }

    /// Puts a batch into the ring without sending it: a loss that a replay repairs. Returns its number.
    pub fn lose(&self, payload: Vec<u8>) -> Result<u64, PublishError> {
        self.ask(|answer| Command::Publish { payload, lose: true, answer: Some(answer) })
    }

    /// Uses up `count` numbers for nothing: a loss that nothing repairs. Returns the next number.
    pub fn hole(&self, count: u64) -> Result<u64, PublishError> {
        self.ask(|answer| Command::Hole { count, answer })
    }

    /// Sends a batch of the ring again, under its old number.
    pub fn repeat(&self, seq: u64) -> Result<u64, PublishError> {
        self.ask(|answer| Command::Repeat { seq, answer })
    }

    /// Sends frames as they are, outside numbering and ring.
    pub fn raw(&self, frames: Vec<Vec<u8>>) -> Result<(), PublishError> {
        self.ask(|answer| Command::Raw { frames, answer }).map(drop)
    }

    /// Starts a new life at `seq` with an empty ring, on the same connections: an engine behind a relay.
    pub fn renumber(&self, seq: u64) -> Result<(), PublishError> {
        self.ask(|answer| Command::Renumber { seq, answer }).map(drop)
    }

    /// Starts a new life at `seq` with an empty ring and new sockets on the old addresses, `downtime` later.
    pub fn restart(&self, downtime: Duration, seq: u64) -> Result<(), PublishError> {
        self.ask(|answer| Command::Restart { downtime, seq, answer }).map(drop)
    }

    /// Whether there was at least one subscription before `timeout`. What is sent from then on arrives.
    pub fn wait_subscriber(&self, timeout: Duration) -> Result<bool, PublishError> {
        let end = Instant::now() + timeout;
        loop {
            if self.ask(|answer| Command::Subscriptions { answer })? > 0 {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, command: impl FnOnce(Answer) -> Command) -> Result<u64, PublishError> {
        let (answer, reply) = mpsc::channel();
        self.commands.send(command(answer)).map_err(|_| PublishError::Stopped)?;
        reply.recv().map_err(|_| PublishError::Stopped)?
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // a thread that is gone already has nothing left to stop
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The sockets of one life.
struct Sockets {
    // XPUB is PUB on the wire, and tells who subscribed
    publish: zmq::Socket,
    replay: Option<zmq::Socket>,
    endpoint: String,
    replay_endpoint: Option<String>,
}

/// What the thread owns.
struct Engine {
    sockets: Sockets,
    context: zmq::Context,
    options: PublisherOptions,
    next_seq: u64,
    ring: VecDeque<Step>,
    answers: Answers,
    subscriptions: u64,
}

impl Sockets {
    fn open(context: &zmq::Context, options: &PublisherOptions) -> Result<Self, PublishError> {
        let publish = socket(context, zmq::XPUB, options.send_hwm, &options.bind)?;
        let endpoint = last_endpoint(&publish, &options.bind)?;
        let (mut replay, mut replay_endpoint) = (None, None);
        if let Some(bind) = &options.replay {
            let router = socket(context, zmq::ROUTER, options.replay_hwm, bind)?;
            replay_endpoint = Some(last_endpoint(&router, bind)?);
            replay = Some(router);
        }
        Ok(Self { publish, replay, endpoint, replay_endpoint })
    }

    fn set_linger(&self, milliseconds: i32) {
        for socket in [Some(&self.publish), self.replay.as_ref()].into_iter().flatten() {
            // an option of an open socket; without it the last messages are lost, which is no error
            let _ = socket.set_linger(milliseconds);
        }
    }
}

fn socket(
    context: &zmq::Context,
    kind: zmq::SocketType,
    send_hwm: i32,
    bind: &str,
) -> Result<zmq::Socket, PublishError> {
    let open = || {
        let socket = context.socket(kind)?;
        socket.set_linger(0)?;
        socket.set_sndhwm(send_hwm)?;
        // only where asked for: it would turn the addresses that sockets report into IPv6 ones
        socket.set_ipv6(bind.contains('['))?;
        socket.bind(bind)?;
        Ok(socket)
    };
    open().map_err(|source| PublishError::Zmq { what: format!("cannot listen on {bind}"), source })
}

fn last_endpoint(socket: &zmq::Socket, bind: &str) -> Result<String, PublishError> {
    let endpoint = socket.get_last_endpoint().map_err(zmq_error("cannot tell the port"))?;
    Ok(endpoint.unwrap_or_else(|_| bind.to_owned()))
}

fn zmq_error(what: &str) -> impl FnOnce(zmq::Error) -> PublishError {
    move |source| PublishError::Zmq { what: what.to_owned(), source }
}

impl Engine {
    fn open(options: PublisherOptions) -> Result<Self, PublishError> {
        let context = zmq::Context::new();
        let sockets = Sockets::open(&context, &options)?;
        let next_seq = options.first_seq;
        let (ring, answers) = (VecDeque::new(), Answers::default());
        Ok(Self { sockets, context, options, next_seq, ring, answers, subscriptions: 0 })
    }

    fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            self.note_subscriptions();
            self.serve_replay();
            match inbox.recv_timeout(self.answers.wait(IDLE)) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.sockets.set_linger(LINGER_MS);
    }

    fn obey(&mut self, command: Command) {
        let (outcome, answer) = match command {
            Command::Publish { payload, lose, answer } => (self.publish(payload, lose), answer),
            Command::Hole { count, answer } => {
                self.next_seq = self.next_seq.wrapping_add(count);
                (Ok(self.next_seq), Some(answer))
            }
            Command::Repeat { seq, answer } => (self.repeat(seq), Some(answer)),
            Command::Raw { frames, answer } => (self.transmit(&frames).map(|()| self.next_seq), Some(answer)),
            Command::Renumber { seq, answer } => {
                self.begin_life(seq);
                (Ok(seq), Some(answer))
            }
            Command::Restart { downtime, seq, answer } => (self.restart(downtime, seq), Some(answer)),
            Command::Subscriptions { answer } => {
                self.note_subscriptions();
                (Ok(self.subscriptions), Some(answer))
            }
            Command::Stop => return,
        };
        if let Some(answer) = answer {
            // whoever asked may have gone
            let _ = answer.send(outcome);
        }
    }

    fn publish(&mut self, payload: Vec<u8>, lose: bool) -> Result<u64, PublishError> {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        if !lose {
            self.transmit(&[&self.options.topic[..], &seq.to_be_bytes(), &payload])?;
        }
        self.ring.push_back(Step { seq, payload });
        while self.ring.len() > self.options.buffer_steps {
            self.ring.pop_front();
        }
        Ok(seq)
    }

    fn repeat(&self, seq: u64) -> Result<u64, PublishError> {
        let step = self.ring.iter().find(|step| step.seq == seq).ok_or(PublishError::NotBuffered(seq))?;
        self.transmit(&[&self.options.topic[..], &seq.to_be_bytes(), &step.payload])?;
        Ok(seq)
    }

    fn transmit<T: AsRef<[u8]>>(&self, frames: &[T]) -> Result<(), PublishError> {
        let frames = frames.iter().map(AsRef::as_ref);
        self.sockets.publish.send_multipart(frames, 0).map_err(zmq_error("cannot send a batch"))
    }

    fn begin_life(&mut self, seq: u64) {
        self.next_seq = seq;
        self.ring.clear();
        self.answers.clear();
    }

    fn restart(&mut self, downtime: Duration, seq: u64) -> Result<u64, PublishError> {
        self.options.bind.clone_from(&self.sockets.endpoint);
        self.options.replay.clone_from(&self.sockets.replay_endpoint);
        // the old sockets go first, or their addresses stay taken: a pair bound nowhere takes their place
        self.sockets = self.unbound()?;
        std::thread::sleep(downtime);
        self.begin_life(seq);
        self.subscriptions = 0;
        let (attempts, pause) = REBIND;
        for attempt in 1.. {
            match Sockets::open(&self.context, &self.options) {
                Ok(sockets) => {
                    self.sockets = sockets;
                    break;
                }
                Err(error) if attempt == attempts => return Err(error),
                Err(_) => std::thread::sleep(pause),
            }
        }
        Ok(seq)
    }

    fn unbound(&self) -> Result<Sockets, PublishError> {
        Ok(Sockets {
            publish: self.context.socket(zmq::XPUB).map_err(zmq_error("cannot make a socket"))?,
            replay: None,
            endpoint: self.sockets.endpoint.clone(),
            replay_endpoint: self.sockets.replay_endpoint.clone(),
        })
    }

    /// Reads what subscribers sent: a first byte of 1 subscribes, 0 leaves.
    fn note_subscriptions(&mut self) {
        while let Ok(message) = self.sockets.publish.recv_bytes(zmq::DONTWAIT) {
            match message.first() {
                Some(1) => self.subscriptions += 1,
                Some(0) => self.subscriptions = self.subscriptions.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Answers the waiting requests, as far as their replies are due.
    fn serve_replay(&mut self) {
        let Some(router) = &self.sockets.replay else { return };
        let options = &self.options;
        let shape = (&options.topic[..], options.replay_shape);
        self.answers.serve(router, shape, options.replay_manner, &self.ring, self.next_seq);
    }
}
