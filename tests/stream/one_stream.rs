//! One tracker and what its caller has, over plain numbers: what the rules of a numbered stream are tried on.

use std::time::{Duration, Instant};

use kvatlas::stream::sequence::Tracker;
use kvatlas::stream::trust::{Action, Numbered, Place, Reason, Trust};

pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// A tracker and what its caller has: contents, which are 100 times the life plus the number.
pub(crate) struct Stream {
    pub(crate) tracker: Tracker<u64>,
    pub(crate) now: Instant,
    pub(crate) applied: Vec<u64>,
    pub(crate) asked: Vec<u64>,
    pub(crate) places: Vec<Place>,
}

impl Stream {
    pub(crate) fn new(replay: bool) -> Self {
        let tracker = Tracker::new(replay.then_some(IDLE));
        let (now, applied, asked) = (Instant::now(), Vec::new(), Vec::new());
        let mut stream = Self { tracker, now, applied, asked, places: Vec::new() };
        stream.with(Tracker::begin);
        stream
    }

    /// With a replay endpoint that had nothing when it was first asked.
    pub(crate) fn asked_in_vain() -> Self {
        let mut stream = Self::new(true);
        stream.end();
        stream
    }

    pub(crate) fn with<T>(
        &mut self,
        what: impl FnOnce(&mut Tracker<u64>, Instant, &mut Vec<Action<u64>>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let result = what(&mut self.tracker, self.now, &mut out);
        for action in out {
            match action {
                Action::Apply(place, content) => {
                    self.applied.push(content);
                    self.places.push(place);
                }
                Action::Restart | Action::StartOver => self.applied.clear(),
                Action::AskReplay { from, .. } => self.asked.push(from),
                Action::Drop(_) | Action::Trust(_) => {}
            }
        }
        result
    }

    pub(crate) fn live(&mut self, contents: impl IntoIterator<Item = u64>) -> &mut Self {
        for content in contents {
            let message = numbered(content);
            if self.tracker.advance(message.sequence, content) {
                self.applied.push(content);
                self.places.push(self.tracker.place(message.sequence));
            } else {
                self.with(|tracker, now, out| tracker.live(message, now, out));
            }
        }
        self
    }

    pub(crate) fn replies(&mut self, contents: impl IntoIterator<Item = u64>) -> &mut Self {
        for content in contents {
            if !self.with(|tracker, now, out| tracker.replayed(numbered(content), now, out)) {
                break;
            }
        }
        self
    }

    pub(crate) fn end(&mut self) -> &mut Self {
        self.with(Tracker::replay_end);
        self
    }

    pub(crate) fn wait(&mut self) -> &mut Self {
        self.now += IDLE;
        self.with(Tracker::tick);
        self
    }

    #[track_caller]
    pub(crate) fn is(&self, trust: Trust, applied: impl IntoIterator<Item = u64>) {
        assert_eq!(self.applied, applied.into_iter().collect::<Vec<_>>());
        assert_eq!(self.tracker.trust(), trust);
    }
}

pub(crate) fn numbered(content: u64) -> Numbered<u64> {
    Numbered { sequence: content % 100, content, bytes: 8, message: content }
}

pub(crate) fn at(sequence: u64) -> Numbered<u64> {
    Numbered { sequence, content: sequence, bytes: 8, message: sequence }
}

pub(crate) const LIVE: Trust = Trust::Live;

pub(crate) fn partial(reason: Reason) -> Trust {
    Trust::Partial(reason)
}

/// Tells a stream that is at rest that its connection came back.
pub(crate) fn back(stream: &mut Stream) -> &mut Stream {
    stream.tracker.reconnected();
    stream.with(Tracker::begin);
    stream
}
