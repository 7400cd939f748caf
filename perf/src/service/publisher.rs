//! Real publishers: ZMQ sockets that send batches as engines do, as fast as they can or at a rate.

use crate::structures::Payload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What engines call their stream.
const TOPIC: &[u8] = b"kv-events";
/// How long a subscriber may take to come.
const PATIENCE_MS: i32 = 10_000;
/// Pause between two bursts of a paced publisher.
const BURST: Duration = Duration::from_millis(1);

/// One publisher's socket, bound; an XPUB, so that it knows when its subscriber is there.
pub struct Publisher {
    socket: zmq::Socket,
    /// Where it is.
    pub endpoint: String,
    sequence: u64,
}

impl Publisher {
    /// Binds one.
    ///
    /// # Errors
    /// ZMQ cannot.
    pub fn bind(context: &zmq::Context) -> Result<Self, zmq::Error> {
        let socket = context.socket(zmq::XPUB)?;
        // nothing may be lost: what the server does not take waits here
        socket.set_sndhwm(0)?;
        socket.set_linger(0)?;
        socket.set_rcvtimeo(PATIENCE_MS)?;
        socket.bind("tcp://127.0.0.1:*")?;
        let endpoint = socket.get_last_endpoint()?.unwrap_or_default();
        Ok(Self { socket, endpoint: endpoint.trim_end_matches('\0').to_owned(), sequence: 0 })
    }

    /// Waits until somebody has subscribed.
    ///
    /// # Errors
    /// Nobody came.
    pub fn subscribed(&self) -> Result<(), zmq::Error> {
        self.socket.recv_bytes(0).map(drop)
    }

    /// Sends one batch.
    ///
    /// # Errors
    /// ZMQ cannot.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), zmq::Error> {
        let sequence = self.sequence.to_be_bytes();
        self.sequence += 1;
        self.socket.send_multipart([TOPIC, &sequence, payload], 0)
    }
}

/// A publisher that goes on in the background at a rate.
pub struct Paced {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Publisher, String>>>,
}

impl Paced {
    /// Sends these batches round and round, so many a second, by absolute deadlines.
    pub fn start(mut publisher: Publisher, payloads: Arc<Vec<Payload>>, batches_a_second: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut sent = publisher.sequence as usize;
            let first = sent;
            while !seen.load(Relaxed) {
                let due = first + (start.elapsed().as_secs_f64() * batches_a_second as f64) as usize;
                while sent < due {
                    let payload = &payloads[sent % payloads.len()];
                    publisher.send(&payload.bytes).map_err(|error| error.to_string())?;
                    sent += 1;
                }
                std::thread::sleep(BURST);
            }
            Ok(publisher)
        });
        Self { stop, thread: Some(thread) }
    }

    /// Stops; gives the publisher back, and whether it kept its rate is seen from its sequence.
    ///
    /// # Errors
    /// It could not send.
    pub fn stop(mut self) -> Result<Publisher, String> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().ok_or("stopped already")?;
        thread.join().map_err(|_| "a publisher panicked".to_owned())?
    }
}
