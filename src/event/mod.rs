//! What publishers send: one msgpack payload decoded into one [`Batch`].
//!
//! Decoding goes by shape, never by the registered type, and makes one pass: token ids and hashes land as
//! plain integers in two flat vectors, strings stay where they are in the payload. A [`Batch`] is scratch:
//! it keeps its capacity from payload to payload and holds no reference into them.
//!
//! Invariants worth naming:
//! - a batch is refused as a whole only when its frame is not a batch; a bad event is skipped alone;
//! - strings are checked UTF-8 when decoded, so [`Span::text`] cannot fail on the payload it came from;
//! - nothing here knows registrations, contexts or groups: those are checked when an event is applied.

mod arrays;
mod batch;
mod describe;
mod engine;
mod envelope;
pub mod extra;
mod fault;
mod fields;
mod key;
pub mod medium;
pub mod msgpack;

pub use batch::decode;
pub use describe::describe;

/// Where a string or a raw msgpack value stands in the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// No value: the field was nil or missing.
    pub const NONE: Span = Span { start: 0, len: u32::MAX };

    /// The bytes `start..start + len` of the payload.
    pub const fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, len: len as u32 }
    }

    /// Whether the field had a value.
    pub const fn is_some(self) -> bool {
        self.len != u32::MAX
    }

    /// The raw bytes, `None` for nil or missing.
    pub fn bytes(self, payload: &[u8]) -> Option<&[u8]> {
        if self.is_some() { payload.get(self.start as usize..)?.get(..self.len as usize) } else { None }
    }

    /// The string, `None` for nil or missing.
    pub fn text(self, payload: &[u8]) -> Option<&str> {
        std::str::from_utf8(self.bytes(payload)?).ok()
    }

    /// The string, `None` for nil, missing or empty.
    pub fn non_empty(self, payload: &[u8]) -> Option<&str> {
        self.text(payload).filter(|text| !text.is_empty())
    }
}

impl Default for Span {
    fn default() -> Self {
        Self::NONE
    }
}

/// A stretch of [`Batch::hashes`] or [`Batch::tokens`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    /// First element.
    pub start: u32,
    /// Number of elements.
    pub len: u32,
}

impl Slice {
    /// The elements themselves.
    pub fn of<T>(self, all: &[T]) -> &[T] {
        &all[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// When the publisher says it made the batch. Informational only.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Timestamp {
    /// nil.
    #[default]
    Absent,
    /// An integer, usually milliseconds.
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// A float, usually seconds.
    Float(f64),
}

/// One decoded payload. All vectors keep their capacity between payloads.
#[derive(Default, Debug)]
pub struct Batch {
    /// When the batch was made.
    pub ts: Timestamp,
    /// The data-parallel rank of the batch, when it names one.
    pub dp_rank: Option<u32>,
    /// The good events, in wire order.
    pub events: Vec<Event>,
    /// The events that were skipped, and why.
    pub skipped: Vec<Skipped>,
    /// All hashes of all events; events hold [`Slice`]s of it.
    pub hashes: Vec<u64>,
    /// All token ids of all events; events hold [`Slice`]s of it.
    pub tokens: Vec<u32>,
    /// Copy counts of removals that carry them.
    pub counts: Vec<u32>,
    /// RFC #1527 envelopes; events hold an index into it.
    pub envelopes: Vec<Envelope>,
    /// Map entries and array elements that the decoder does not know; they are passed over.
    pub unknown_fields: u32,
}

impl Batch {
    /// Empties everything and keeps the capacity.
    pub fn clear(&mut self) {
        self.ts = Timestamp::Absent;
        self.dp_rank = None;
        self.events.clear();
        self.skipped.clear();
        self.hashes.clear();
        self.tokens.clear();
        self.counts.clear();
        self.envelopes.clear();
        self.unknown_fields = 0;
    }
}

/// SGLang's name for "no parent" (Python's hash of the empty tuple) before it sent nil.
pub const SGLANG_ROOT: u64 = 5_740_354_900_026_072_187;

/// One event of a batch.
#[derive(Clone, Debug)]
pub enum Event {
    /// Blocks were committed to a cache.
    Store(Store),
    /// Blocks were evicted.
    Remove(Remove),
    /// Everything was dropped.
    Clear(Clear),
}

impl Event {
    /// Position in the batch, from 0.
    pub fn index(&self) -> u32 {
        match self {
            Self::Store(store) => store.index,
            Self::Remove(remove) => remove.index,
            Self::Clear(clear) => clear.index,
        }
    }

    /// Why it is skipped when it is applied, as far as its fields tell.
    pub fn fault(&self) -> Option<Skip> {
        match self {
            Self::Store(store) => store.fault,
            Self::Remove(remove) => remove.fault,
            Self::Clear(_) => None,
        }
    }
}

/// `BlockStored` of engines, `stored` of RFC #1527.
#[derive(Clone, Default, Debug)]
pub struct Store {
    /// Position in the batch, from 0.
    pub index: u32,
    /// `block_hashes` of an engine event; `seq_hashes` (else `block_hashes`) of an RFC event.
    pub hashes: Slice,
    /// `parent_block_hash` or `parent_hash`; `None` is nil or missing.
    pub parent: Option<u64>,
    /// Token ids of all blocks; `None` is nil or missing. Bigram pages are reduced to their first tokens.
    pub tokens: Option<Slice>,
    /// Tokens a block; `None` is nil or missing (RFC events only).
    pub block_size: Option<u32>,
    /// Cache medium as the publisher spells it.
    pub medium: Span,
    /// LoRA adapter name.
    pub lora_name: Span,
    /// LoRA adapter number, deprecated on the wire.
    pub lora_id: Option<i64>,
    /// `cache_salt` field (SGLang, TensorRT-LLM), or the map in SGLang 0.5.18's eighth place.
    pub cache_salt: Span,
    /// Raw `extra_keys` array, one element a block.
    pub extra_keys: Span,
    /// Raw `block_mm_infos` array, one element a block.
    pub mm_infos: Span,
    /// Raw `lookahead_token_ids`.
    pub lookahead: Span,
    /// Raw `block_offsets`.
    pub block_offsets: Span,
    /// KV cache group.
    pub group_idx: Option<u32>,
    /// Attention kind of the group.
    pub spec_kind: Span,
    /// Window of a sliding-window group, tokens.
    pub sliding_window: Option<u32>,
    /// Where the blocks are, seen from the publisher; anything but `LOCAL` is not the instance's own.
    pub locality: Span,
    /// Who may evict the blocks.
    pub ownership: Span,
    /// Request that stored the blocks.
    pub session_id: Span,
    /// Index into [`Batch::envelopes`] of an RFC event.
    pub envelope: Option<u32>,
    /// Its fields contradict each other. Told when it is applied: its group, and the kind of that, come first.
    pub fault: Option<Skip>,
}

/// `BlockRemoved` of engines, `removed` of RFC #1527.
#[derive(Clone, Debug)]
pub struct Remove {
    /// Position in the batch, from 0.
    pub index: u32,
    /// `block_hashes` of an engine event; `seq_hashes` (else `block_hashes`) of an RFC event.
    pub hashes: Slice,
    /// `remaining_copy_counts`, one a hash, in [`Batch::counts`].
    pub remaining: Option<Slice>,
    /// Cache medium as the publisher spells it.
    pub medium: Span,
    /// KV cache group.
    pub group_idx: Option<u32>,
    /// Attention kind of the group.
    pub spec_kind: Span,
    /// Where the blocks are, seen from the publisher.
    pub locality: Span,
    /// Index into [`Batch::envelopes`] of an RFC event.
    pub envelope: Option<u32>,
    /// As that of a [`Store`].
    pub fault: Option<Skip>,
}

/// `AllBlocksCleared` of engines, `cleared` of RFC #1527.
#[derive(Clone, Debug)]
pub struct Clear {
    /// Position in the batch, from 0.
    pub index: u32,
    /// Only this medium, when given.
    pub medium: Span,
    /// Index into [`Batch::envelopes`] of an RFC event.
    pub envelope: Option<u32>,
}

/// The fields that an RFC #1527 event carries beside an engine's.
#[derive(Clone, Copy, Default, Debug)]
pub struct Envelope {
    /// `event_id`; observed, never used to drop.
    pub event_id: Option<u64>,
    /// `model_name`.
    pub model_name: Span,
    /// `block_size`, also of removals and clears.
    pub block_size: Option<u32>,
    /// `additional_salt`.
    pub additional_salt: Span,
    /// `lora_name`, also of removals and clears.
    pub lora_name: Span,
    /// `tenant_id`.
    pub tenant_id: Span,
    /// `backend_id`: who owns the blocks.
    pub backend_id: Span,
    /// `group_id` of the pool.
    pub group_id: Span,
    /// `dp_rank` of the event itself.
    pub dp_rank: Option<u32>,
    /// Key of the pool object.
    pub object_key: Span,
    /// Whether the map had an `object_key` entry at all.
    pub has_object_key: bool,
    /// `connector_block_hash`: then the hashes are engine hashes, not standard ones.
    pub connector_hash: Span,
    /// Zero-based depth of the first block.
    pub base_block_idx: Option<u32>,
    /// Tensor-parallel rank of the object.
    pub tp_rank: Option<u32>,
}

/// An event that was not decoded or not applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Position in the batch, from 0.
    pub index: u32,
    /// Why.
    pub reason: Skip,
}

/// Why an event was skipped; each is a metric label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Skip {
    /// Neither array nor map nor bin, or an empty one.
    NotAnEvent,
    /// No tag, or one that is not a string.
    BadTag,
    /// A tag that is not known.
    UnknownTag,
    /// A required field is missing.
    MissingField,
    /// A field has the wrong type or range.
    BadField,
    /// A key stands twice in a map.
    DuplicateKey,
    /// Two spellings of one field disagree.
    Conflict,
    /// More hashes or tokens than an event may carry.
    TooLarge,
    /// A string is not UTF-8.
    NotUtf8,
    /// Nested deeper than a payload may be.
    TooDeep,
    /// Token count is not hashes times block size, or no hashes.
    Length,
    /// Block size differs from the registration's.
    BlockSizeMismatch,
    /// The group carries no prefix.
    Group,
    /// Not local to the publisher.
    Locality,
    /// A block names itself or a descendant as parent, or stands twice in one event.
    Cycle,
    /// Tokens without a parent and without a depth of 0.
    NoPosition,
    /// An off-load placeholder for a block that this publisher never announced.
    UnknownPlaceholder,
    /// A pool object whose key says nothing.
    UnparsedKey,
    /// A bound was hit: media, ranks, backends or contexts of one publisher.
    Bound,
}

/// Why a payload was refused as a whole; each is a metric label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// Ends in the middle of a value.
    Truncated,
    /// Not msgpack, or nested deeper than a payload may be.
    Malformed,
    /// Bytes after the batch.
    Trailing,
    /// Not a batch: wrong outer shape, no events, bad timestamp or rank.
    NotABatch,
}
