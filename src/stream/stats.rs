//! What a stream says about itself: written by its reactor, read by anybody.

use super::trust::{Counts, Reason};
use crate::event::{Refusal, Skip};
use crate::metrics::{Counter, PublisherStats};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far a stream can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nothing came yet.
    Connecting,
    /// What is missing has been asked for.
    Replaying,
    /// Nothing is known to be missing.
    Live,
    /// Something is known to be missing.
    Partial,
    /// The publisher is away.
    Disconnected,
    /// The publisher has been away for so long that its entries were dropped.
    Stale,
}

impl State {
    /// All states, by number.
    pub const ALL: [State; 6] =
        [State::Connecting, State::Replaying, State::Live, State::Partial, State::Disconnected, State::Stale];

    /// The name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Replaying => "replaying",
            Self::Live => "live",
            Self::Partial => "partial",
            Self::Disconnected => "disconnected",
            Self::Stale => "stale",
        }
    }
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// One publisher's stream.
#[derive(Debug)]
pub struct StreamStats {
    state: AtomicU8,
    since_ms: AtomicU64,
    /// One more than the number of the reason in [`Reason::ALL`]; 0 is none.
    reason: AtomicU8,
    begun: AtomicBool,
    /// Messages of the endpoint, whatever was in them.
    pub messages: Counter,
    /// Bytes of their payloads.
    pub bytes: Counter,
    /// Messages that were not topic, sequence number, payload.
    pub malformed: Counter,
    /// One more than the last sequence number applied; 0 before the first.
    applied: AtomicU64,
    /// Batches that are known of and not applied yet. What waits in libzmq's queue is not known.
    pub behind: Counter,
    /// Jumps of the sequence number.
    pub gaps: Counter,
    /// Sequence numbers that never came.
    pub missed: Counter,
    /// Messages dropped as repeats.
    pub repeats: Counter,
    /// Lives of the publisher that ended.
    pub restarts: Counter,
    /// Times that everything was read again because something was missing.
    pub rereads: Counter,
    /// Streams of which something is missing that no replay can bring any more.
    pub beyond_repair: Counter,
    /// Batches that only a replay brought.
    pub replayed: Counter,
    /// Requests to the replay endpoint.
    pub replays: Counter,
    /// Requests that failed or fell silent.
    pub replays_failed: Counter,
    /// Times that more waited behind a gap than may be held.
    pub overflows: Counter,
    /// Messages of topics beyond the bound.
    pub refused_topics: Counter,
    /// Times that the connection was lost.
    pub disconnects: Counter,
    /// Attempts to connect that nobody answered.
    pub connect_failed: Counter,
    /// Handshakes that failed: somebody answered, but no publisher.
    pub handshake_failed: Counter,
    /// Times that the entries were dropped because the publisher stayed away.
    pub expired: Counter,
    /// When the last batch was applied, milliseconds since the epoch; 0 before the first.
    pub last_event_ms: Counter,
    /// What became of the events.
    pub publisher: Arc<PublisherStats>,
    /// The last thing that went wrong, and when.
    last_error: Mutex<Option<(u64, String)>>,
}

impl Default for StreamStats {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(State::Connecting as u8),
            since_ms: AtomicU64::new(now_ms()),
            reason: AtomicU8::new(0),
            begun: AtomicBool::new(false),
            messages: Counter::default(),
            bytes: Counter::default(),
            malformed: Counter::default(),
            applied: AtomicU64::new(0),
            behind: Counter::default(),
            gaps: Counter::default(),
            missed: Counter::default(),
            repeats: Counter::default(),
            restarts: Counter::default(),
            rereads: Counter::default(),
            beyond_repair: Counter::default(),
            replayed: Counter::default(),
            replays: Counter::default(),
            replays_failed: Counter::default(),
            overflows: Counter::default(),
            refused_topics: Counter::default(),
            disconnects: Counter::default(),
            connect_failed: Counter::default(),
            handshake_failed: Counter::default(),
            expired: Counter::default(),
            last_event_ms: Counter::default(),
            publisher: Arc::default(),
            last_error: Mutex::new(None),
        }
    }
}

impl StreamStats {
    /// How far the stream can be trusted, and since when (milliseconds since the epoch).
    pub fn state(&self) -> (State, u64) {
        (State::ALL[usize::from(self.state.load(Relaxed))], self.since_ms.load(Relaxed))
    }

    /// Enters a state; staying in it keeps its time.
    pub fn enter(&self, state: State) {
        if self.state.swap(state as u8, Relaxed) != state as u8 {
            self.since_ms.store(now_ms(), Relaxed);
        }
    }

    /// Notes why something is missing; a reason that is new is the last thing that went wrong.
    pub fn miss(&self, reason: Option<Reason>) {
        let number = reason.map_or(0, |reason| reason as u8 + 1);
        if self.reason.swap(number, Relaxed) != number
            && let Some(reason) = reason
        {
            self.fail(reason.text().to_owned());
        }
    }

    /// Why something is missing, if anything is known to be.
    pub fn reason(&self) -> Option<Reason> {
        let number = usize::from(self.reason.load(Relaxed));
        number.checked_sub(1).map(|at| Reason::ALL[at])
    }

    /// Everything up to this number has been applied, as far as it came.
    pub fn applied(&self, sequence: u64) {
        self.applied.store(sequence.saturating_add(1), Release);
    }

    /// Last sequence number applied: who reads it finds what the batch brought, in the index and in the counters.
    pub fn last_sequence(&self) -> Option<u64> {
        self.applied.load(Acquire).checked_sub(1)
    }

    /// Whether a message that simply follows may change the state.
    pub fn is_settling(&self) -> bool {
        self.state.load(Relaxed) != State::Live as u8
    }

    /// Whether the first replay is over, be it because it failed.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// The first replay is over.
    pub fn begin(&self) {
        self.begun.store(true, Relaxed);
    }

    /// Takes over what the tracker counted.
    pub fn count(&self, counts: &Counts) {
        self.gaps.set(counts.gaps);
        self.missed.set(counts.missed);
        self.repeats.set(counts.repeats);
        self.restarts.set(counts.restarts);
        self.rereads.set(counts.rereads);
        self.replayed.set(counts.replayed);
        self.replays.set(counts.asks);
        self.replays_failed.set(counts.failed);
        self.overflows.set(counts.overflows);
    }

    /// Counts a skipped event.
    pub fn skip(&self, reason: Skip) {
        self.publisher.skipped[reason as usize].add(1);
    }

    /// Counts a refused payload.
    pub fn refuse(&self, reason: Refusal) {
        self.publisher.refused[reason as usize].add(1);
        self.fail(format!("a payload was refused: {}", reason.name()));
    }

    /// Remembers what went wrong. Rare, so a lock will do.
    pub fn fail(&self, what: String) {
        if let Ok(mut last) = self.last_error.lock() {
            *last = Some((now_ms(), what));
        }
    }

    /// The last thing that went wrong, and when.
    pub fn last_error(&self) -> Option<(u64, String)> {
        self.last_error.lock().ok().and_then(|last| last.clone())
    }
}
