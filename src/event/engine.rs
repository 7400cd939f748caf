//! Events as engines send them: `BlockStored`, `BlockRemoved`, `AllBlocksCleared`, positional or keyed by
//! `type`.

use super::fault::Trouble;
use super::fields::{FIELD_DEPTH, Fields, Op, tag, text};
use super::key::Key;
use super::msgpack::{Cursor, Head};
use super::{Batch, Clear, Event, Remove, Skip, Slice, Span, Store};
use crate::limits::BLOCK_TOKENS;

/// Where `BlockStored` carries the adapter name (vLLM) or a map with the salt (SGLang 0.5.18).
const ADAPTER_OR_SALT: usize = 7;
/// From here on engines disagree: vLLM's next field is `locality`, ATOM has put a token offset there.
const STORED_LOCALITY: usize = 12;
/// The same place of `BlockRemoved`.
const REMOVED_LOCALITY: usize = 4;

/// The fields of a positional `BlockStored` behind its tag; what follows them is not known.
const STORED: [Key; 12] = [
    Key::BlockHashes,
    Key::ParentBlockHash,
    Key::TokenIds,
    Key::BlockSize,
    Key::LoraId,
    Key::Medium,
    Key::LoraName,
    Key::ExtraKeys,
    Key::GroupIdx,
    Key::SpecKind,
    Key::SlidingWindow,
    Key::Locality,
];
/// The fields of a positional `BlockRemoved` behind its tag.
const REMOVED: [Key; 4] = [Key::BlockHashes, Key::Medium, Key::GroupIdx, Key::Locality];
/// The fields of a positional `AllBlocksCleared` behind its tag.
const CLEARED: [Key; 1] = [Key::Medium];

/// What an engine's tag says.
pub(super) fn op(tag: &[u8]) -> Option<Op> {
    match tag {
        b"BlockStored" => Some(Op::Store),
        b"BlockRemoved" => Some(Op::Remove),
        b"AllBlocksCleared" => Some(Op::Clear),
        _ => None,
    }
}

/// Reads a positional event of `len` elements.
pub(super) fn positional(
    cursor: &mut Cursor<'_>,
    len: usize,
    index: u32,
    batch: &mut Batch,
) -> Result<Event, Trouble> {
    if len == 0 {
        return Err(Trouble::Bad(Skip::NotAnEvent));
    }
    let mut fields = Fields::new(index);
    let op = tag(cursor, op)?.ok_or(Trouble::Bad(Skip::BadTag))?;
    fields.op = Some(op);
    let order: &[Key] = match op {
        Op::Store => &STORED,
        Op::Remove => &REMOVED,
        Op::Clear => &CLEARED,
    };
    for place in 1..len {
        match order.get(place - 1) {
            Some(Key::LoraName) if opens_map(cursor) => fields.store.cache_salt = salt_map(cursor)?,
            Some(Key::Locality) if !opens_str(cursor) => cursor.skip(FIELD_DEPTH)?,
            Some(&key) => fields.read(key, cursor, batch)?,
            None => {
                batch.unknown_fields += 1;
                cursor.skip(FIELD_DEPTH)?;
            }
        }
    }
    fields.finish(cursor.bytes(), batch)
}

const _: () = assert!(matches!(STORED[ADAPTER_OR_SALT - 1], Key::LoraName));
const _: () = assert!(matches!(STORED[STORED_LOCALITY - 1], Key::Locality));
const _: () = assert!(matches!(REMOVED[REMOVED_LOCALITY - 1], Key::Locality));

/// Makes the event of an engine's fields.
pub(super) fn finish(op: Op, fields: Fields, payload: &[u8]) -> Result<Event, Trouble> {
    if op == Op::Clear {
        return Ok(Event::Clear(clear(&fields, None)));
    }
    let hashes = fields.block_hashes.ok_or(Trouble::Bad(Skip::MissingField))?;
    if op == Op::Remove {
        return Ok(Event::Remove(remove(&fields, hashes, None)));
    }
    if fields.store.block_size.is_none() {
        return Err(Trouble::Bad(Skip::MissingField));
    }
    Ok(Event::Store(store(fields, hashes, None, payload)))
}

/// A `Store` of these hashes, its fields checked against each other.
pub(super) fn store(fields: Fields, hashes: Slice, envelope: Option<u32>, payload: &[u8]) -> Store {
    let mut store = fields.store;
    let tokens = store.tokens.map_or(0, |tokens| tokens.len);
    let sound = match store.block_size {
        // a block of no tokens is an off-load placeholder, and carries none
        Some(0) => tokens == 0,
        size => size.is_none_or(|size| size <= BLOCK_TOKENS),
    };
    let sound = sound
        && has_one_a_block(store.extra_keys, hashes, payload)
        && has_one_a_block(store.mm_infos, hashes, payload);
    store.fault = (!sound).then_some(Skip::BadField);
    store.hashes = hashes;
    store.envelope = envelope;
    store
}

/// A `Remove` of these hashes.
pub(super) fn remove(fields: &Fields, hashes: Slice, envelope: Option<u32>) -> Remove {
    let sound = fields.remaining.is_none_or(|counts| counts.len == hashes.len);
    let store = &fields.store;
    Remove {
        index: store.index,
        hashes,
        remaining: fields.remaining,
        medium: store.medium,
        group_idx: store.group_idx,
        spec_kind: store.spec_kind,
        locality: store.locality,
        envelope,
        fault: (!sound).then_some(Skip::BadField),
    }
}

/// A `Clear`.
pub(super) fn clear(fields: &Fields, envelope: Option<u32>) -> Clear {
    Clear { index: fields.store.index, medium: fields.store.medium, envelope }
}

/// Whether a raw value is an array with one element a hash, or absent.
fn has_one_a_block(span: Span, hashes: Slice, payload: &[u8]) -> bool {
    let Some(bytes) = span.bytes(payload) else { return true };
    matches!(Cursor::new(bytes, 0).head(), Ok(Head::Array(len)) if len == hashes.len as usize)
}

/// SGLang 0.5.18: `{"cache_salt": …}` where others put the adapter's name.
fn salt_map(cursor: &mut Cursor<'_>) -> Result<Span, Trouble> {
    let Head::Map(len) = cursor.head()? else { return Ok(Span::NONE) };
    let mut salt = Span::NONE;
    for _ in 0..len {
        if cursor.key(FIELD_DEPTH + 1)? == Some(b"cache_salt") {
            salt = text(cursor)?;
        } else {
            cursor.skip(FIELD_DEPTH + 1)?;
        }
    }
    Ok(salt)
}

fn opens_map(cursor: &Cursor<'_>) -> bool {
    use rmp::Marker;
    matches!(cursor.peek(), Ok(Marker::FixMap(_) | Marker::Map16 | Marker::Map32))
}

fn opens_str(cursor: &Cursor<'_>) -> bool {
    use rmp::Marker;
    matches!(cursor.peek(), Ok(Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32))
}
