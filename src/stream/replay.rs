//! One request to a replay endpoint, and its answer.
//!
//! Every request has a socket of its own: nothing that an earlier one still sends can be mistaken for its
//! answer, and no publisher keeps a connection that is hardly ever used.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::contexts::Contexts;
use super::endpoint::Endpoint;
use super::subscription::{Inbox, Settings, configure};
use crate::rt::{Signal, Turn, sleep};

/// The number behind the last batch.
const END: u64 = u64::MAX;

/// One message of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// A batch of the publisher's memory.
    Batch {
        /// Its topic, where the publisher says it.
        topic: Option<&'a [u8]>,
        /// Its number.
        sequence: u64,
        /// Its payload.
        payload: &'a [u8],
    },
    /// The answer is complete.
    End,
}

/// How an answer ended.
#[derive(Debug)]
pub enum Ended {
    /// With its end.
    Complete,
    /// Nothing came for too long.
    Silent,
    /// The caller wanted no more of it.
    Enough,
    /// The caller closed it.
    Closed,
    /// The socket failed.
    Failed(io::Error),
}

/// Reads a reply, by position from the end: engines put the topic before the number, or leave it out.
pub fn parse<F: Deref<Target = [u8]>>(frames: &[F]) -> Option<Reply<'_>> {
    let (empty, topic, sequence, payload) = match frames {
        [empty, sequence, payload] => (empty, None, sequence, payload),
        [empty, topic, sequence, payload] => (empty, Some(&**topic), sequence, payload),
        _ => return None,
    };
    let sequence = u64::from_be_bytes((**sequence).try_into().ok()?);
    match (empty.is_empty(), sequence) {
        (false, _) => None,
        (true, END) => payload.is_empty().then_some(Reply::End),
        (true, _) => Some(Reply::Batch { topic, sequence, payload }),
    }
}

/// A request that was sent. Stays on its reactor.
pub struct Replay {
    inbox: Inbox,
    malformed: u64,
}

impl Replay {
    /// Asks for all batches from a number on; connecting goes on in the background.
    pub fn ask(contexts: &Contexts, endpoint: &Endpoint, settings: Settings, from: u64) -> io::Result<Self> {
        let socket = contexts.socket(zmq::DEALER)?;
        configure(&socket, settings)?;
        socket.connect(endpoint.as_str())?;
        socket.send_multipart([&b""[..], &from.to_be_bytes()], zmq::DONTWAIT)?;
        Ok(Self { inbox: Inbox::new(socket)?, malformed: 0 })
    }

    /// Messages that were no replies.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Calls `on` for every batch of the answer until it returns `false`, the answer ends, nothing comes for
    /// `idle`, or `close` is set. Each message costs the turn what one of a subscription costs.
    pub async fn answer(
        &mut self,
        turn: &Turn,
        close: &Signal,
        idle: Duration,
        mut on: impl AsyncFnMut(Option<&[u8]>, u64, &[u8]) -> bool,
    ) -> Ended {
        let done = Signal::new();
        let ended = Cell::new(None);
        let end = |how| {
            ended.set(Some(how));
            done.set();
        };
        let latest = Cell::new(Instant::now());
        let malformed = &mut self.malformed;
        let receive = async {
            let each = async |frames: &[zmq::Message]| match parse(frames) {
                _ if done.is_set() => {}
                Some(Reply::Batch { topic, sequence, payload }) => {
                    if !on(topic, sequence, payload).await {
                        end(Ended::Enough);
                    }
                    latest.set(Instant::now());
                }
                Some(Reply::End) => end(Ended::Complete),
                None => *malformed += 1,
            };
            if let Err(error) = self.inbox.drain(turn, &done, each).await {
                end(Ended::Failed(error));
            }
        };
        let watch = async {
            while !done.is_set() {
                let left = idle.saturating_sub(latest.get().elapsed());
                if left.is_zero() {
                    end(Ended::Silent);
                } else if close.wait_at_most(done.wait_at_most(sleep(left))).await.is_none() {
                    end(Ended::Closed);
                }
            }
        };
        both(receive, watch).await;
        ended.take().unwrap_or(Ended::Closed)
    }
}

/// Runs two futures of one task until both are over.
async fn both(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut first_over, mut second_over) = (false, false);
    poll_fn(|context| {
        first_over = first_over || first.as_mut().poll(context).is_ready();
        second_over = second_over || second.as_mut().poll(context).is_ready();
        if first_over && second_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
