//! How a publisher answers replay requests: as engines do, or badly on purpose.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::family::ReplayShape;
use crate::limits::PUBLISHER_ANSWERS;

/// The sequence number behind the last replayed batch.
const END: u64 = u64::MAX;

/// What is wrong with the answers to replay requests; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Pause behind every reply. What is published meanwhile goes out in time.
    pub pause: Duration,
    /// So many requests are not answered.
    pub mute: u64,
    /// The number that ends an answer never comes.
    pub endless: bool,
}

/// One batch that can be replayed.
pub(super) struct Step {
    pub(super) seq: u64,
    pub(super) payload: Vec<u8>,
}

/// A request, and how much of its answer was given.
struct Answer {
    identity: Vec<u8>,
    next: u64,
    /// Next number of the publisher when it was asked: later batches are no part of the answer.
    until: u64,
}

/// Requests that are being answered, one after the other.
#[derive(Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    /// Requests that were not answered on purpose.
    ignored: u64,
    due: Option<Instant>,
}

impl Answers {
    /// Takes a request: `identity, "", first number`. Others get no answer at all.
    fn take(&mut self, request: &[Vec<u8>], until: u64) {
        if let [identity, empty, first] = request
            && empty.is_empty()
            && let Ok(first) = <[u8; 8]>::try_from(&first[..])
        {
            let next = u64::from_be_bytes(first);
            self.waiting.push_back(Answer { identity: identity.clone(), next, until });
        }
    }

    /// Answers what waits at `router`, as far as it is due, from `ring`, which is in order.
    pub(super) fn serve(
        &mut self,
        router: &zmq::Socket,
        (topic, shape): (&[u8], ReplayShape),
        manner: Manner,
        ring: &VecDeque<Step>,
        next_seq: u64,
    ) {
        loop {
            while self.waiting.len() < PUBLISHER_ANSWERS
                && let Ok(request) = router.recv_multipart(zmq::DONTWAIT)
            {
                if self.ignored < manner.mute {
                    self.ignored += 1;
                } else {
                    self.take(&request, next_seq);
                }
            }
            let Some(answer) = self.waiting.front_mut() else { break };
            if self.due.is_some_and(|due| Instant::now() < due) {
                break;
            }
            let at = ring.partition_point(|step| step.seq < answer.next);
            let step = ring.get(at).filter(|step| step.seq < answer.until);
            let (topic, seq, payload) = step.map_or((&b""[..], END, &b""[..]), |step| {
                answer.next = step.seq.saturating_add(1);
                (topic, step.seq, &step.payload[..])
            });
            let number = seq.to_be_bytes();
            let (identity, topic, number) = (&answer.identity[..], topic, &number[..]);
            let sent = match shape {
                _ if seq == END && manner.endless => Ok(()),
                ReplayShape::ThreeFrames => router.send_multipart([identity, b"", number, payload], 0),
                ReplayShape::FourFrames => router.send_multipart([identity, b"", topic, number, payload], 0),
            };
            if sent.is_err() || seq == END {
                // it is complete, or the one that asked is gone
                self.waiting.pop_front();
            }
            self.due = (!manner.pause.is_zero()).then(|| Instant::now() + manner.pause);
        }
    }

    /// How long to wait, at most `idle`, before the next reply is due.
    pub(super) fn wait(&self, idle: Duration) -> Duration {
        let due = self.due.filter(|_| !self.waiting.is_empty());
        due.map_or(idle, |due| due.saturating_duration_since(Instant::now()).min(idle))
    }

    /// Forgets all requests: the life that they asked about is over.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
