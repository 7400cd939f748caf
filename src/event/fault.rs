//! What can go wrong while decoding, and how far it reaches.

use super::{Refusal, Skip};

/// Why a msgpack value could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Ends in the middle of a value, or announces more elements than bytes are left.
    Truncated,
    /// The reserved marker byte.
    Reserved,
    /// Nested deeper than a payload may be.
    TooDeep,
    /// A sound value of another type or range.
    Type,
}

/// How far a fault reaches: the whole payload, or one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The payload is no msgpack from here on.
    Broken(Fault),
    /// The event is bad, what stands behind it may be good.
    Bad(Skip),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Type => Trouble::Bad(Skip::BadField),
            broken => Trouble::Broken(broken),
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Truncated => Refusal::Truncated,
            Fault::Reserved | Fault::TooDeep => Refusal::Malformed,
            Fault::Type => Refusal::NotABatch,
        }
    }
}

impl Refusal {
    /// All reasons, by number.
    pub const ALL: [Refusal; 4] =
        [Refusal::Truncated, Refusal::Malformed, Refusal::Trailing, Refusal::NotABatch];

    /// The word for it in answers, logs and metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Truncated => "truncated",
            Refusal::Malformed => "malformed",
            Refusal::Trailing => "trailing",
            Refusal::NotABatch => "not_a_batch",
        }
    }
}

impl Skip {
    /// All reasons, by number.
    pub const ALL: [Skip; 19] = [
        Skip::NotAnEvent,
        Skip::BadTag,
        Skip::UnknownTag,
        Skip::MissingField,
        Skip::BadField,
        Skip::DuplicateKey,
        Skip::Conflict,
        Skip::TooLarge,
        Skip::NotUtf8,
        Skip::TooDeep,
        Skip::Length,
        Skip::BlockSizeMismatch,
        Skip::Group,
        Skip::Locality,
        Skip::Cycle,
        Skip::NoPosition,
        Skip::UnknownPlaceholder,
        Skip::UnparsedKey,
        Skip::Bound,
    ];

    /// The word for it in answers, logs and metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Skip::NotAnEvent => "not_an_event",
            Skip::BadTag => "bad_tag",
            Skip::UnknownTag => "unknown_tag",
            Skip::MissingField => "missing_field",
            Skip::BadField => "bad_field",
            Skip::DuplicateKey => "duplicate_key",
            Skip::Conflict => "conflict",
            Skip::TooLarge => "too_large",
            Skip::NotUtf8 => "not_utf8",
            Skip::TooDeep => "too_deep",
            Skip::Length => "length",
            Skip::BlockSizeMismatch => "block_size_mismatch",
            Skip::Group => "group",
            Skip::Locality => "locality",
            Skip::Cycle => "cycle",
            Skip::NoPosition => "no_position",
            Skip::UnknownPlaceholder => "unknown_placeholder",
            Skip::UnparsedKey => "unparsed_key",
            Skip::Bound => "bound",
        }
    }
}
