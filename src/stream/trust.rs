//! What a tracker tells its caller: what to do, how far the stream can be trusted, and what happened so far.

/// A message with its number. `content` is the XXH3-64 of its payload, `bytes` what holding it costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbered<M> {
    /// Its sequence number.
    pub sequence: u64,
    /// Hash of its payload.
    pub content: u64,
    /// Bytes that it takes while it is held.
    pub bytes: usize,
    /// The message itself.
    pub message: M,
}

/// Where in a stream a batch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Lives of the publisher before this one, as far as seen.
    pub life: u64,
    /// Its sequence number.
    pub sequence: u64,
}

/// What to do next; lists of these are in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<M> {
    /// Apply the batch now. When it cleared everything, tell [`super::sequence::Tracker::cleared`] its place.
    Apply(Place, M),
    /// The message was a repeat, or of a life that is over.
    Drop(M),
    /// The publisher began anew: everything that came from it before this goes.
    Restart,
    /// Everything that came goes and comes again, so that what is missing comes too.
    StartOver,
    /// Ask the replay endpoint for everything from a number on. An earlier answer is no longer wanted.
    AskReplay {
        /// First number wanted.
        from: u64,
        /// Names this request among those of its stream or table.
        ticket: u64,
    },
    /// The stream is now trusted so far.
    Trust(Trust),
}

/// How far a stream can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trust {
    /// Nothing came yet.
    Connecting,
    /// What is missing has been asked for.
    Replaying,
    /// Nothing is known to be missing.
    Live,
    /// Something is known to be missing.
    Partial(Reason),
}

impl Trust {
    /// The name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Replaying => "replaying",
            Self::Live => "live",
            Self::Partial(_) => "partial",
        }
    }
}

/// Why a stream is partial.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The first number was above 1 and there is no replay endpoint.
    JoinedLate,
    /// Numbers were left out and there is no replay endpoint.
    Gap,
    /// The replay did not have the numbers.
    NotReplayed,
    /// The replay failed or fell silent.
    ReplayFailed,
    /// More waited behind a gap than may be held.
    HoldFull,
    /// After a reconnect the replay could not show that it is the same life.
    Unverified,
    /// Messages and replays of one number differ again and again.
    Contradiction,
    /// The first messages of a new life looked like repeats of the old one, and were dropped.
    TakenForRepeats,
    /// The replay knows of numbers, or may know of some, that have not come yet.
    Behind,
    /// A payload or an event could not be read: it may have been a removal, so too much may be there.
    Unread,
    /// Blocks were announced that could not be entered, or were dropped at a bound: too little is there.
    NotEntered,
    /// Another topic of the publisher began anew, and took what this one had brought.
    Swept,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::JoinedLate,
        Self::Gap,
        Self::NotReplayed,
        Self::ReplayFailed,
        Self::HoldFull,
        Self::Unverified,
        Self::Contradiction,
        Self::TakenForRepeats,
        Self::Behind,
        Self::Unread,
        Self::NotEntered,
        Self::Swept,
    ];

    /// The name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::JoinedLate => "joined_late",
            Self::Gap => "gap",
            Self::NotReplayed => "not_replayed",
            Self::ReplayFailed => "replay_failed",
            Self::HoldFull => "hold_full",
            Self::Unverified => "unverified",
            Self::Contradiction => "contradiction",
            Self::TakenForRepeats => "taken_for_repeats",
            Self::Behind => "behind",
            Self::Unread => "unread",
            Self::NotEntered => "not_entered",
            Self::Swept => "swept",
        }
    }

    /// Whether reading everything again may put it right.
    pub fn is_mended_by_replay(self) -> bool {
        !matches!(self, Self::Unread | Self::NotEntered)
    }

    /// A sentence for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::JoinedLate => "joined late without a replay endpoint",
            Self::Gap => "sequence numbers were left out and there is no replay endpoint",
            Self::NotReplayed => "the replay did not have all numbers",
            Self::ReplayFailed => "the replay failed or fell silent",
            Self::HoldFull => "too much waited for a replay",
            Self::Unverified => "after a reconnect the replay could not show that the publisher is the same",
            Self::Contradiction => "replays differ from what was published",
            Self::TakenForRepeats => "the first batches of a new life looked like repeats",
            Self::Behind => "the replay ended before the stream did",
            Self::Unread => "a payload or an event could not be read",
            Self::NotEntered => "announced blocks could not be entered",
            Self::Swept => "another topic began anew and took what this one had brought",
        }
    }
}

/// What happened to a stream so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Batches applied.
    pub applied: u64,
    /// Messages dropped as repeats.
    pub repeats: u64,
    /// Lives that ended.
    pub restarts: u64,
    /// Jumps of the number of live messages.
    pub gaps: u64,
    /// Numbers that never came.
    pub missed: u64,
    /// Batches that only a replay brought.
    pub replayed: u64,
    /// Replies that said nothing new, were out of order or came unasked.
    pub surplus: u64,
    /// Times that everything was read again because something was missing.
    pub rereads: u64,
    /// Requests to the replay endpoint.
    pub asks: u64,
    /// Requests that failed or fell silent.
    pub failed: u64,
    /// Times that too much was held.
    pub overflows: u64,
    /// Held messages that a replay showed to be of an older life.
    pub outlived: u64,
}
