//! Batches and events of an engine into msgpack, as one family writes them.
//!
//! A field that a family does not have is dropped, as an engine of that age would never have sent it.

use super::family::{Family, Field, Shape};
use super::msgpack::Msgpack;

/// A map with more declared fields than this takes the three-byte header, however many are written.
const SHORT_MAP: usize = 15;

/// A block hash as an engine spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// 64 bits, unsigned.
    Unsigned(u64),
    /// The same 64 bits, signed.
    Signed(i64),
    /// A whole digest.
    Digest([u8; 32]),
}

/// When a batch was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stamp {
    /// Seconds.
    Seconds(f64),
    /// An integer.
    Integer(u64),
}

/// One batch: what an engine did in one step.
#[derive(Clone, Copy, Debug)]
pub struct EngineBatch<'a> {
    /// When it was made.
    pub stamp: Stamp,
    /// In order.
    pub events: &'a [EngineEvent<'a>],
    /// Data-parallel rank.
    pub rank: Option<u32>,
}

/// One event of a batch.
#[derive(Clone, Copy, Debug)]
pub enum EngineEvent<'a> {
    /// `BlockStored`.
    Stored(Stored<'a>),
    /// `BlockRemoved`.
    Removed(Removed<'a>),
    /// `AllBlocksCleared`, of one medium where the family can say so.
    Cleared(Option<&'a str>),
}

/// Token ids of an event.
#[derive(Clone, Copy, Debug)]
pub enum Tokens<'a> {
    /// One a position.
    Flat(&'a [u32]),
    /// Each with its successor, as SGLang sends them when it speculates.
    Bigrams(&'a [[u32; 2]]),
}

/// What beside its tokens identifies a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraKey {
    /// A salt, an adapter or an image.
    Text(String),
    /// An image and where it starts in the block.
    At(String, i64),
}

/// `BlockStored`.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// One a block.
    pub hashes: &'a [Hash],
    /// The block before the first one; `None` at the root.
    pub parent: Option<Hash>,
    /// Tokens of all blocks.
    pub tokens: Tokens<'a>,
    /// Tokens a block.
    pub block_size: u32,
    /// Adapter by number.
    pub lora_id: Option<i64>,
    /// Adapter by name.
    pub lora_name: Option<&'a str>,
    /// Where the blocks lie.
    pub medium: Option<&'a str>,
    /// One a block.
    pub extra_keys: Option<&'a [Option<Vec<ExtraKey>>]>,
    /// KV cache group.
    pub group_idx: Option<u32>,
    /// Attention kind of the group.
    pub spec_kind: Option<&'a str>,
    /// Window of the group, tokens.
    pub sliding_window: Option<u32>,
    /// Whose the blocks are.
    pub locality: Option<&'a str>,
    /// Who may evict the blocks.
    pub ownership: Option<&'a str>,
    /// Request that stored the blocks.
    pub session_id: Option<&'a str>,
    /// Tokens behind each block that take part in its hash.
    pub lookahead: Option<&'a [Vec<u32>]>,
    /// Salt of the request.
    pub cache_salt: Option<&'a str>,
    /// First token's position.
    pub token_offset: Option<u32>,
}

/// `BlockRemoved`.
#[derive(Clone, Copy, Debug)]
pub struct Removed<'a> {
    /// One a block.
    pub hashes: &'a [Hash],
    /// Where the blocks lay.
    pub medium: Option<&'a str>,
    /// KV cache group.
    pub group_idx: Option<u32>,
    /// Whose the blocks were.
    pub locality: Option<&'a str>,
    /// Who evicted the blocks.
    pub ownership: Option<&'a str>,
}

/// A field's value.
#[derive(Clone, Copy)]
enum Value<'a> {
    Nil,
    Uint(u64),
    Int(i64),
    Text(&'a str),
    Hash(Hash),
    Hashes(&'a [Hash]),
    Tokens(Tokens<'a>),
    ExtraKeys(&'a [Option<Vec<ExtraKey>>]),
    Lists(&'a [Vec<u32>]),
}

impl Hash {
    /// 64 bits as `family` spells them.
    pub const fn of(family: &Family, bits: u64) -> Self {
        if family.signed { Self::Signed(bits as i64) } else { Self::Unsigned(bits) }
    }
}

impl<'a> Stored<'a> {
    /// Blocks of a plain text prompt.
    pub const fn plain(hashes: &'a [Hash], parent: Option<Hash>, tokens: &'a [u32], block_size: u32) -> Self {
        Self {
            hashes,
            parent,
            tokens: Tokens::Flat(tokens),
            block_size,
            lora_id: None,
            lora_name: None,
            medium: None,
            extra_keys: None,
            group_idx: None,
            spec_kind: None,
            sliding_window: None,
            locality: None,
            ownership: None,
            session_id: None,
            lookahead: None,
            cache_salt: None,
            token_offset: None,
        }
    }
}

impl<'a> Removed<'a> {
    /// Blocks that left a medium.
    pub const fn plain(hashes: &'a [Hash], medium: Option<&'a str>) -> Self {
        Self { hashes, medium, group_idx: None, locality: None, ownership: None }
    }
}

/// The batch as `family` writes it.
pub fn encode_batch(family: &Family, batch: &EngineBatch<'_>) -> Vec<u8> {
    let mut out = Msgpack::default();
    let rank = batch.rank.map_or(Value::Nil, |rank| Value::Uint(u64::from(rank)));
    match family.batch {
        Shape::Array => {
            out.array(2 + usize::from(family.rank.is_some()));
            write_stamp(&mut out, batch.stamp);
            write_events(&mut out, family, batch.events);
            if family.rank.is_some() {
                write_value(&mut out, rank);
            }
        }
        Shape::Map => {
            let rank_name = family.rank.filter(|_| batch.rank.is_some());
            out.map(2 + usize::from(rank_name.is_some()));
            out.text("ts");
            write_stamp(&mut out, batch.stamp);
            out.text("events");
            write_events(&mut out, family, batch.events);
            if let Some(name) = rank_name {
                out.text(name);
                write_value(&mut out, rank);
            }
        }
    }
    out.into_vec()
}

fn write_stamp(out: &mut Msgpack, stamp: Stamp) {
    match stamp {
        Stamp::Seconds(seconds) => out.float(seconds),
        Stamp::Integer(integer) => out.uint(integer),
    }
}

fn write_events(out: &mut Msgpack, family: &Family, events: &[EngineEvent<'_>]) {
    out.array(events.len());
    for event in events {
        write_event(out, family, event);
    }
}

fn write_event(out: &mut Msgpack, family: &Family, event: &EngineEvent<'_>) {
    let (tag, fields, required) = match event {
        EngineEvent::Stored(_) => ("BlockStored", family.stored, family.stored_required),
        EngineEvent::Removed(_) => ("BlockRemoved", family.removed, family.removed_required),
        EngineEvent::Cleared(_) => ("AllBlocksCleared", family.cleared, 0),
    };
    match family.event {
        Shape::Array => {
            let salt = event.salt().filter(|_| family.salt_map);
            out.array(1 + fields.len() + usize::from(salt.is_some()));
            out.text(tag);
            for &field in fields {
                write_value(out, event.value(field));
            }
            if let Some(salt) = salt {
                out.map(1);
                out.text(Field::CacheSalt.name());
                out.text(salt);
            }
        }
        Shape::Map => {
            let written = |&(place, &field): &(usize, &Field)| {
                place < required || !matches!(event.value(field), Value::Nil)
            };
            let len = 1 + fields.iter().enumerate().filter(written).count();
            if 1 + fields.len() > SHORT_MAP {
                out.wide_map(len as u16);
            } else {
                out.map(len);
            }
            out.text("type");
            out.text(tag);
            for (_, &field) in fields.iter().enumerate().filter(written) {
                out.text(field.name());
                write_value(out, event.value(field));
            }
        }
    }
}

impl<'a> EngineEvent<'a> {
    fn salt(&self) -> Option<&'a str> {
        if let Self::Stored(stored) = self { stored.cache_salt } else { None }
    }

    fn value(&self, field: Field) -> Value<'a> {
        match self {
            Self::Stored(stored) => stored.value(field),
            Self::Removed(removed) => removed.value(field),
            Self::Cleared(medium) if field == Field::Medium => text(*medium),
            Self::Cleared(_) => Value::Nil,
        }
    }
}

impl<'a> Stored<'a> {
    fn value(&self, field: Field) -> Value<'a> {
        match field {
            Field::BlockHashes => Value::Hashes(self.hashes),
            Field::ParentBlockHash => self.parent.map_or(Value::Nil, Value::Hash),
            Field::TokenIds => Value::Tokens(self.tokens),
            Field::BlockSize => Value::Uint(u64::from(self.block_size)),
            Field::LoraId => self.lora_id.map_or(Value::Nil, Value::Int),
            Field::Medium => text(self.medium),
            Field::LoraName => text(self.lora_name),
            Field::ExtraKeys => self.extra_keys.map_or(Value::Nil, Value::ExtraKeys),
            Field::GroupIdx => uint(self.group_idx),
            Field::SpecKind => text(self.spec_kind),
            Field::SlidingWindow => uint(self.sliding_window),
            Field::Locality => text(self.locality),
            Field::Ownership => text(self.ownership),
            Field::SessionId => text(self.session_id),
            Field::LookaheadTokenIds => self.lookahead.map_or(Value::Nil, Value::Lists),
            Field::CacheSalt => text(self.cache_salt),
            Field::TokenOffset => uint(self.token_offset),
        }
    }
}

impl<'a> Removed<'a> {
    fn value(&self, field: Field) -> Value<'a> {
        match field {
            Field::BlockHashes => Value::Hashes(self.hashes),
            Field::Medium => text(self.medium),
            Field::GroupIdx => uint(self.group_idx),
            Field::Locality => text(self.locality),
            Field::Ownership => text(self.ownership),
            _ => Value::Nil,
        }
    }
}

fn text(value: Option<&str>) -> Value<'_> {
    value.map_or(Value::Nil, Value::Text)
}

fn uint(value: Option<u32>) -> Value<'static> {
    value.map_or(Value::Nil, |value| Value::Uint(u64::from(value)))
}

fn write_value(out: &mut Msgpack, value: Value<'_>) {
    match value {
        Value::Nil => out.nil(),
        Value::Uint(value) => out.uint(value),
        Value::Int(value) => out.int(value),
        Value::Text(value) => out.text(value),
        Value::Hash(hash) => write_hash(out, &hash),
        Value::Hashes(hashes) => {
            out.array(hashes.len());
            for hash in hashes {
                write_hash(out, hash);
            }
        }
        Value::Tokens(Tokens::Flat(tokens)) => write_uints(out, tokens),
        Value::Tokens(Tokens::Bigrams(pairs)) => {
            out.array(pairs.len());
            for pair in pairs {
                write_uints(out, pair);
            }
        }
        Value::ExtraKeys(blocks) => {
            out.array(blocks.len());
            for block in blocks {
                write_extra_keys(out, block.as_deref());
            }
        }
        Value::Lists(lists) => {
            out.array(lists.len());
            for list in lists {
                write_uints(out, list);
            }
        }
    }
}

fn write_hash(out: &mut Msgpack, hash: &Hash) {
    match hash {
        Hash::Unsigned(bits) => out.uint(*bits),
        Hash::Signed(bits) => out.int(*bits),
        Hash::Digest(digest) => out.bytes(digest),
    }
}

fn write_uints(out: &mut Msgpack, values: &[u32]) {
    out.array(values.len());
    for &value in values {
        out.uint(u64::from(value));
    }
}

fn write_extra_keys(out: &mut Msgpack, keys: Option<&[ExtraKey]>) {
    let Some(keys) = keys else { return out.nil() };
    out.array(keys.len());
    for key in keys {
        match key {
            ExtraKey::Text(text) => out.text(text),
            ExtraKey::At(text, offset) => {
                out.array(2);
                out.text(text);
                out.int(*offset);
            }
        }
    }
}
