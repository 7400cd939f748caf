//! What a stream says about itself: written by its reactor, read by anybody.

use crate::event::{Refusal, Skip};
use crate::metrics::{Counter, PublisherStats};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far a stream can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Nothing came yet.
    Connecting,
    /// Nothing is known to be missing.
    Live,
    /// Something is known to be missing.
    Partial,
}

impl State {
    /// All states, by number.
    pub const ALL: [State; 3] = [State::Connecting, State::Live, State::Partial];

    /// The name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Partial => "partial",
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
    /// Messages of the endpoint, whatever was in them.
    pub messages: Counter,
    /// Bytes of their payloads.
    pub bytes: Counter,
    /// Messages that were not topic, sequence number, payload.
    pub malformed: Counter,
    /// Last sequence number plus one; 0 before the first.
    pub next_sequence: Counter,
    /// Jumps of the sequence number.
    pub gaps: Counter,
    /// Sequence numbers left out by them.
    pub missed: Counter,
    /// Sequence numbers that went backwards.
    pub regressions: Counter,
    /// When the last batch was applied, milliseconds since the epoch; 0 before the first.
    pub last_event_ms: Counter,
    /// What became of the events.
    pub publisher: std::sync::Arc<PublisherStats>,
    /// The last thing that went wrong, and when.
    last_error: Mutex<Option<(u64, String)>>,
}

impl Default for StreamStats {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(State::Connecting as u8),
            since_ms: AtomicU64::new(now_ms()),
            messages: Counter::default(),
            bytes: Counter::default(),
            malformed: Counter::default(),
            next_sequence: Counter::default(),
            gaps: Counter::default(),
            missed: Counter::default(),
            regressions: Counter::default(),
            last_event_ms: Counter::default(),
            publisher: std::sync::Arc::default(),
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

    /// Notes the sequence number of a message.
    pub fn observe(&self, sequence: u64) {
        let next = self.next_sequence.get();
        if next == 0 {
            // 0 and 1 are where publishers begin; anything above was sent before we listened
            self.enter(if sequence > 1 { State::Partial } else { State::Live });
        } else if sequence > next {
            self.gaps.add(1);
            self.missed.add(sequence - next);
            self.fail(format!("sequence numbers {next} to {} never came", sequence - 1));
            self.enter(State::Partial);
        } else if sequence < next {
            self.regressions.add(1);
        }
        self.next_sequence.set(sequence.saturating_add(1));
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
