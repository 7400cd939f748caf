//! The field names of event maps.

/// A field that the decoder knows. From [`Key::EventId`] on they are RFC #1527's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Key {
    Type,
    EventType,
    BlockHashes,
    ParentBlockHash,
    TokenIds,
    BlockSize,
    LoraId,
    LoraName,
    Medium,
    ExtraKeys,
    MmInfos,
    CacheSalt,
    GroupIdx,
    SpecKind,
    SlidingWindow,
    Locality,
    Ownership,
    SessionId,
    Lookahead,
    BlockOffsets,
    RemainingCounts,
    EventId,
    SeqHashes,
    ParentHash,
    ModelName,
    AdditionalSalt,
    TenantId,
    BackendId,
    GroupId,
    DpRank,
    Object,
    ConnectorHash,
    BaseBlockIdx,
    TpRank,
    HeadOrTpRank,
    Timestamp,
    CachePrefix,
    PcpRank,
    DcpRank,
    PpRank,
    LayerId,
}

impl Key {
    /// The key of a name. Lengths first: they tell most names apart, and cost one jump.
    #[inline]
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        match name.len() {
            4 => one(name, b"type", Self::Type),
            6 => one(name, b"medium", Self::Medium),
            7 => one(name, b"lora_id", Self::LoraId)
                .or_else(|| one(name, b"dp_rank", Self::DpRank))
                .or_else(|| one(name, b"tp_rank", Self::TpRank))
                .or_else(|| one(name, b"pp_rank", Self::PpRank)),
            8 => one(name, b"locality", Self::Locality)
                .or_else(|| one(name, b"event_id", Self::EventId))
                .or_else(|| one(name, b"group_id", Self::GroupId))
                .or_else(|| one(name, b"pcp_rank", Self::PcpRank))
                .or_else(|| one(name, b"dcp_rank", Self::DcpRank))
                .or_else(|| one(name, b"layer_id", Self::LayerId)),
            9 => one(name, b"token_ids", Self::TokenIds)
                .or_else(|| one(name, b"lora_name", Self::LoraName))
                .or_else(|| one(name, b"group_idx", Self::GroupIdx))
                .or_else(|| one(name, b"ownership", Self::Ownership))
                .or_else(|| one(name, b"tenant_id", Self::TenantId))
                .or_else(|| one(name, b"timestamp", Self::Timestamp)),
            10 => Self::of_ten(name),
            11 => one(name, b"parent_hash", Self::ParentHash),
            12 => one(name, b"block_hashes", Self::BlockHashes)
                .or_else(|| one(name, b"cache_prefix", Self::CachePrefix)),
            13 => one(name, b"block_offsets", Self::BlockOffsets),
            14 => one(name, b"base_block_idx", Self::BaseBlockIdx)
                .or_else(|| one(name, b"block_mm_infos", Self::MmInfos)),
            15 => one(name, b"additional_salt", Self::AdditionalSalt)
                .or_else(|| one(name, b"head_or_tp_rank", Self::HeadOrTpRank)),
            17 => one(name, b"parent_block_hash", Self::ParentBlockHash),
            18 => one(name, b"kv_cache_spec_kind", Self::SpecKind),
            19 => one(name, b"lookahead_token_ids", Self::Lookahead),
            20 => one(name, b"connector_block_hash", Self::ConnectorHash),
            21 => one(name, b"remaining_copy_counts", Self::RemainingCounts),
            28 => one(name, b"kv_cache_spec_sliding_window", Self::SlidingWindow),
            _ => None,
        }
    }

    fn of_ten(name: &[u8]) -> Option<Self> {
        one(name, b"block_size", Self::BlockSize)
            .or_else(|| one(name, b"extra_keys", Self::ExtraKeys))
            .or_else(|| one(name, b"cache_salt", Self::CacheSalt))
            .or_else(|| one(name, b"session_id", Self::SessionId))
            .or_else(|| one(name, b"event_type", Self::EventType))
            .or_else(|| one(name, b"seq_hashes", Self::SeqHashes))
            .or_else(|| one(name, b"model_name", Self::ModelName))
            .or_else(|| one(name, b"backend_id", Self::BackendId))
            .or_else(|| one(name, b"object_key", Self::Object))
    }

    /// Whether only RFC #1527 events have this field; in others the name is unknown.
    pub(super) const fn is_rfc(self) -> bool {
        self as u8 >= Self::EventId as u8
    }

    /// One bit a key, to find one that stands twice.
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

const _: () = assert!((Key::LayerId as u8) < u64::BITS as u8);

#[inline]
fn one<const N: usize>(name: &[u8], known: &[u8; N], key: Key) -> Option<Key> {
    (name == known).then_some(key)
}
