//! The fields of one event while it is being read, whatever their order.

use super::fault::{Fault, Trouble};
use super::key::Key;
use super::msgpack::{Cursor, Head};
use super::{Batch, Envelope, Skip, Slice, Span, Store};
use super::{arrays, engine, envelope};
use crate::limits::EVENT_TEXT_BYTES;

/// Containers around a field: the batch, its events, the event.
pub(super) const FIELD_DEPTH: usize = 3;

/// What an event does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Store,
    Remove,
    Clear,
}

/// Everything that an event may carry. Its own fields stand in a [`Store`] until the kind is known.
#[derive(Default)]
pub(super) struct Fields {
    /// From `type`, or the first element.
    pub(super) op: Option<Op>,
    /// From `event_type`.
    pub(super) rfc_op: Option<Op>,
    pub(super) block_hashes: Option<Slice>,
    pub(super) seq_hashes: Option<Slice>,
    pub(super) parent_hash: Option<u64>,
    pub(super) remaining: Option<Slice>,
    pub(super) store: Store,
    pub(super) envelope: Envelope,
    /// What another generation calls the envelope's `tp_rank`.
    pub(super) head_or_tp_rank: Option<u32>,
    /// The first bad field of those that only RFC #1527 knows: no fault of an engine's event.
    pub(super) rfc_fault: Option<Skip>,
    seen: u64,
}

impl Fields {
    pub(super) fn new(index: u32) -> Self {
        Self { store: Store { index, ..Store::default() }, ..Self::default() }
    }

    /// Reads the value of `key`.
    pub(super) fn read(
        &mut self,
        key: Key,
        cursor: &mut Cursor<'_>,
        batch: &mut Batch,
    ) -> Result<(), Trouble> {
        if self.seen & key.bit() != 0 {
            return Err(Trouble::Bad(Skip::DuplicateKey));
        }
        self.seen |= key.bit();
        if !key.is_rfc() {
            return self.read_common(key, cursor, batch);
        }
        let start = cursor.at();
        match self.read_rfc(key, cursor, batch) {
            Err(Trouble::Bad(reason)) => {
                self.rfc_fault.get_or_insert(reason);
                cursor.rewind(start);
                Ok(cursor.skip(FIELD_DEPTH)?)
            }
            other => other,
        }
    }

    /// Makes the event of what was read.
    pub(super) fn finish(self, payload: &[u8], batch: &mut Batch) -> Result<super::Event, Trouble> {
        match (self.op, self.rfc_op) {
            (None, None) => Err(Trouble::Bad(Skip::BadTag)),
            (Some(op), None) => engine::finish(op, self, payload),
            (op, Some(rfc)) if op.is_none_or(|op| op == rfc) => envelope::finish(rfc, self, payload, batch),
            _ => Err(Trouble::Bad(Skip::Conflict)),
        }
    }

    fn read_common(&mut self, key: Key, cursor: &mut Cursor<'_>, batch: &mut Batch) -> Result<(), Trouble> {
        let store = &mut self.store;
        match key {
            Key::Type => self.op = tag(cursor, engine::op)?,
            Key::EventType => self.rfc_op = tag(cursor, envelope::op)?,
            Key::BlockHashes => self.block_hashes = arrays::hashes(cursor, &mut batch.hashes)?,
            Key::ParentBlockHash => store.parent = arrays::optional_hash(cursor)?,
            Key::TokenIds => store.tokens = arrays::tokens(cursor, &mut batch.tokens)?,
            Key::BlockSize => store.block_size = cursor.optional_u32()?,
            Key::LoraId => store.lora_id = cursor.optional_i64()?,
            Key::LoraName => store.lora_name = text(cursor)?,
            Key::Medium => store.medium = text(cursor)?,
            Key::ExtraKeys => store.extra_keys = raw(cursor)?,
            Key::MmInfos => store.mm_infos = raw(cursor)?,
            Key::CacheSalt => store.cache_salt = text(cursor)?,
            Key::GroupIdx => store.group_idx = cursor.optional_u32()?,
            Key::SpecKind => store.spec_kind = text(cursor)?,
            Key::SlidingWindow => store.sliding_window = cursor.optional_u32()?,
            Key::Locality => store.locality = text(cursor)?,
            Key::Ownership => store.ownership = text(cursor)?,
            Key::SessionId => store.session_id = text(cursor)?,
            Key::Lookahead => store.lookahead = raw(cursor)?,
            Key::BlockOffsets => store.block_offsets = raw(cursor)?,
            Key::RemainingCounts => self.remaining = arrays::counts(cursor, &mut batch.counts)?,
            _ => cursor.skip(FIELD_DEPTH)?,
        }
        Ok(())
    }

    fn read_rfc(&mut self, key: Key, cursor: &mut Cursor<'_>, batch: &mut Batch) -> Result<(), Trouble> {
        let envelope = &mut self.envelope;
        match key {
            Key::EventId => envelope.event_id = cursor.optional_u64()?,
            Key::SeqHashes => self.seq_hashes = arrays::hashes(cursor, &mut batch.hashes)?,
            Key::ParentHash => self.parent_hash = arrays::optional_hash(cursor)?,
            Key::ModelName => envelope.model_name = text(cursor)?,
            Key::AdditionalSalt => envelope.additional_salt = text(cursor)?,
            Key::TenantId => envelope.tenant_id = text(cursor)?,
            Key::BackendId => envelope.backend_id = text(cursor)?,
            Key::GroupId => envelope.group_id = text(cursor)?,
            Key::DpRank => envelope.dp_rank = cursor.optional_u32()?,
            Key::Object => {
                envelope.has_object_key = true;
                envelope.object_key = text(cursor)?;
            }
            Key::ConnectorHash => envelope.connector_hash = text(cursor)?,
            Key::BaseBlockIdx => envelope.base_block_idx = cursor.optional_u32()?,
            Key::TpRank => envelope.tp_rank = cursor.optional_u32()?,
            Key::HeadOrTpRank => self.head_or_tp_rank = cursor.optional_u32()?,
            // known, and nothing follows from them
            _ => cursor.skip(FIELD_DEPTH)?,
        }
        Ok(())
    }
}

/// The kind that a tag names; `None` for nil.
pub(super) fn tag(cursor: &mut Cursor<'_>, known: fn(&[u8]) -> Option<Op>) -> Result<Option<Op>, Trouble> {
    match cursor.head()? {
        Head::Nil => Ok(None),
        Head::Str(name) => match known(name) {
            Some(op) => Ok(Some(op)),
            None if std::str::from_utf8(name).is_err() => Err(Trouble::Bad(Skip::NotUtf8)),
            None => Err(Trouble::Bad(Skip::UnknownTag)),
        },
        _ => Err(Trouble::Bad(Skip::BadTag)),
    }
}

/// A string, checked to be UTF-8 and of bearable length; [`Span::NONE`] for nil.
pub(super) fn text(cursor: &mut Cursor<'_>) -> Result<Span, Trouble> {
    match cursor.head()? {
        Head::Nil => Ok(Span::NONE),
        Head::Str(bytes) if bytes.len() > EVENT_TEXT_BYTES => Err(Trouble::Bad(Skip::TooLarge)),
        Head::Str(bytes) if std::str::from_utf8(bytes).is_err() => Err(Trouble::Bad(Skip::NotUtf8)),
        Head::Str(bytes) => Ok(Span::new(cursor.at() - bytes.len(), bytes.len())),
        _ => Err(Fault::Type.into()),
    }
}

/// Any value as it stands; [`Span::NONE`] for nil.
fn raw(cursor: &mut Cursor<'_>) -> Result<Span, Trouble> {
    let start = cursor.at();
    let nil = cursor.peek()? == rmp::Marker::Null;
    cursor.skip(FIELD_DEPTH)?;
    Ok(if nil { Span::NONE } else { Span::new(start, cursor.at() - start) })
}
