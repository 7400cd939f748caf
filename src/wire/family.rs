//! The wire versions of the engines: which fields, in which order, in which shape.
//!
//! A *family* is one generation of one engine's publisher. Within an engine the generations only grew, so
//! each one is a length of the engine's longest field list.

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is the wire name, see `Field::name`
pub enum Field {
    BlockHashes,
    ParentBlockHash,
    TokenIds,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    GroupIdx,
    SpecKind,
    SlidingWindow,
    Locality,
    Ownership,
    SessionId,
    LookaheadTokenIds,
    CacheSalt,
    TokenOffset,
}

/// How a batch or an event is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// By position; a missing value is nil.
    Array,
    /// By name; an optional field without value is left out.
    Map,
}

/// Frames of a replay answer, behind the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayShape {
    /// `"", seq, payload`.
    ThreeFrames,
    /// `"", topic, seq, payload`.
    FourFrames,
}

/// One generation of one engine's publisher.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name: engine and version, or engine and the day from which it is sent.
    pub id: &'static str,
    /// Engine, as a registration's `type`.
    pub engine: &'static str,
    /// Layout of a batch.
    pub batch: Shape,
    /// Layout of an event.
    pub event: Shape,
    /// Name of the batch's rank; `None` where batches carry no rank.
    pub rank: Option<&'static str>,
    /// Whether integer hashes are written as `i64`.
    pub signed: bool,
    /// Whether hashes may be byte strings.
    pub bytes: bool,
    /// Frames of a replay answer.
    pub replay: ReplayShape,
    /// Fields of `BlockStored`.
    pub stored: &'static [Field],
    /// Leading fields of `BlockStored` that are always written.
    pub stored_required: usize,
    /// Fields of `BlockRemoved`.
    pub removed: &'static [Field],
    /// Leading fields of `BlockRemoved` that are always written.
    pub removed_required: usize,
    /// Fields of `AllBlocksCleared`.
    pub cleared: &'static [Field],
    /// Whether a salted store carries its salt as a map in the eighth place.
    pub salt_map: bool,
}

use Field::{
    BlockHashes, BlockSize, CacheSalt, ExtraKeys, GroupIdx, Locality, LookaheadTokenIds, LoraId, LoraName,
    Medium, Ownership, ParentBlockHash, SessionId, SlidingWindow, SpecKind, TokenIds, TokenOffset,
};

const VLLM_STORED: &[Field] = &[
    BlockHashes,
    ParentBlockHash,
    TokenIds,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    GroupIdx,
    SpecKind,
    SlidingWindow,
    Locality,
    Ownership,
    SessionId,
    LookaheadTokenIds,
];
const VLLM_REMOVED: &[Field] = &[BlockHashes, Medium, GroupIdx, Locality, Ownership];
const SGLANG_STORED: &[Field] =
    &[BlockHashes, ParentBlockHash, TokenIds, BlockSize, LoraId, Medium, CacheSalt, SessionId, LoraName];
const ATOM_STORED: &[Field] = &[
    BlockHashes,
    ParentBlockHash,
    TokenIds,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    GroupIdx,
    SpecKind,
    SlidingWindow,
    TokenOffset,
];

/// Every family, oldest first within an engine.
pub const FAMILIES: &[Family] = &[
    Family { rank: None, signed: true, bytes: false, ..vllm("vllm-2025-04-30", 5, 1) },
    Family { signed: true, bytes: false, ..vllm("vllm-2025-06-03", 5, 1) },
    Family { signed: true, bytes: false, ..vllm("vllm-2025-09-01", 6, 2) },
    vllm("vllm-2025-09-09", 6, 2),
    vllm("vllm-2025-12-30", 7, 2),
    vllm("vllm-2026-02-20", 8, 2),
    vllm("vllm-2026-04-12", 9, 3),
    vllm("vllm-2026-05-12", 11, 3),
    Family { batch: Shape::Map, event: Shape::Map, ..vllm("vllm-mapbatch", 11, 3) },
    Family { event: Shape::Map, ..vllm("vllm-2026-06-09", 11, 3) },
    Family { event: Shape::Map, replay: ReplayShape::FourFrames, ..vllm("vllm-2026-07-17", 12, 4) },
    Family { event: Shape::Map, replay: ReplayShape::FourFrames, ..vllm("vllm-0.33.0", 15, 5) },
    Family { rank: None, ..sglang("sglang-2025-05-19", 5, 1) },
    sglang("sglang-2025-06-04", 5, 1),
    sglang("sglang-2026-02-09", 6, 2),
    Family { salt_map: true, ..sglang("sglang-0.5.18", 6, 2) },
    Family { event: Shape::Map, ..sglang("sglang-0.5.20", 8, 2) },
    Family { event: Shape::Map, replay: ReplayShape::FourFrames, ..sglang("sglang-0.5.23", 9, 2) },
    Family {
        engine: "TensorRT-LLM",
        event: Shape::Map,
        signed: true,
        bytes: false,
        replay: ReplayShape::FourFrames,
        ..vllm("trtllm-streaming", 12, 4)
    },
    atom("atom-2026-08", 11),
    atom("atom-token-offset", 12),
];

impl Family {
    /// The family of this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.id == id)
    }
}

impl Field {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            BlockHashes => "block_hashes",
            ParentBlockHash => "parent_block_hash",
            TokenIds => "token_ids",
            BlockSize => "block_size",
            LoraId => "lora_id",
            Medium => "medium",
            LoraName => "lora_name",
            ExtraKeys => "extra_keys",
            GroupIdx => "group_idx",
            SpecKind => "kv_cache_spec_kind",
            SlidingWindow => "kv_cache_spec_sliding_window",
            Locality => "locality",
            Ownership => "ownership",
            SessionId => "session_id",
            LookaheadTokenIds => "lookahead_token_ids",
            CacheSalt => "cache_salt",
            TokenOffset => "token_offset",
        }
    }
}

const fn first(fields: &'static [Field], len: usize) -> &'static [Field] {
    fields.split_at(len).0
}

const fn least(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

const fn vllm(id: &'static str, stored: usize, removed: usize) -> Family {
    Family {
        id,
        engine: "vLLM",
        batch: Shape::Array,
        event: Shape::Array,
        rank: Some("data_parallel_rank"),
        signed: false,
        bytes: true,
        replay: ReplayShape::ThreeFrames,
        stored: first(VLLM_STORED, stored),
        stored_required: least(stored, 7),
        removed: first(VLLM_REMOVED, removed),
        removed_required: least(removed, 2),
        cleared: &[],
        salt_map: false,
    }
}

const fn sglang(id: &'static str, stored: usize, removed: usize) -> Family {
    Family {
        engine: "SGLang",
        rank: Some("attn_dp_rank"),
        signed: true,
        bytes: false,
        stored: first(SGLANG_STORED, stored),
        stored_required: 5,
        removed: first(VLLM_REMOVED, removed),
        removed_required: 1,
        ..vllm(id, 5, 1)
    }
}

const fn atom(id: &'static str, stored: usize) -> Family {
    Family {
        engine: "ATOM",
        bytes: false,
        stored: first(ATOM_STORED, stored),
        stored_required: 4,
        removed: first(VLLM_REMOVED, 3),
        removed_required: 1,
        cleared: &[Medium],
        ..vllm(id, 5, 1)
    }
}
