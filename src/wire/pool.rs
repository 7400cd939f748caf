//! What `mooncake_master` publishes: one map an object, `[timestamp, [maps], 0]` a batch.
//!
//! The master's sequence and its event ids start at 1. A key that names no hash is still announced when the
//! map carries the key itself; otherwise the object is passed over and takes no event id.

use super::msgpack::Msgpack;

/// First sequence number and first event id of a master's life.
pub const FIRST_SEQUENCE: u64 = 1;

/// What a master stamps on its events, and the two switches of their shape.
#[derive(Clone, Debug)]
pub struct Master {
    /// Owner of the objects.
    pub backend_id: String,
    /// Whether maps also carry the engines' names of the fields.
    pub legacy_compat: bool,
    /// Whether maps carry the object's key.
    pub object_key: bool,
    /// Id of the next event.
    pub next_event_id: u64,
}

/// One object that came or went.
#[derive(Clone, Copy, Debug)]
pub struct PoolEvent<'a> {
    /// Whether it came.
    pub stored: bool,
    /// Its key.
    pub key: &'a str,
    /// `cpu` or `disk`.
    pub medium: Option<&'a str>,
    /// Its tenant; empty is `default`.
    pub tenant: &'a str,
    /// Group of objects, where there is one.
    pub group: Option<&'a str>,
}

impl<'a> PoolEvent<'a> {
    /// An object of the default tenant that was put into memory.
    pub const fn stored(key: &'a str) -> Self {
        Self { stored: true, key, medium: Some("cpu"), tenant: "", group: None }
    }

    /// An object of the default tenant that is gone from every tier.
    pub const fn removed(key: &'a str) -> Self {
        Self { stored: false, ..Self::stored(key) }
    }
}

impl Master {
    /// A master that has just started, with both switches at their defaults.
    pub fn new(backend_id: impl Into<String>) -> Self {
        Self {
            backend_id: backend_id.into(),
            legacy_compat: true,
            object_key: true,
            next_event_id: FIRST_SEQUENCE,
        }
    }

    /// One batch made at `timestamp_ms`; `None` where no event is left to send. At most
    /// [`crate::limits::POOL_BATCH_EVENTS`] events are meant for one batch.
    pub fn encode(&mut self, timestamp_ms: u64, events: &[PoolEvent<'_>]) -> Option<Vec<u8>> {
        let sent: Vec<_> = events
            .iter()
            .map(|event| (event, key_hash(event.key)))
            .filter(|(event, hash)| hash.is_some() || (self.object_key && !event.key.is_empty()))
            .collect();
        if sent.is_empty() {
            return None;
        }
        let mut out = Msgpack::default();
        out.array(3);
        out.uint(timestamp_ms);
        out.array(sent.len());
        for (event, hash) in sent {
            self.write_event(&mut out, timestamp_ms, event, hash);
            self.next_event_id += 1;
        }
        out.uint(0);
        Some(out.into_vec())
    }

    fn write_event(&self, out: &mut Msgpack, timestamp_ms: u64, event: &PoolEvent<'_>, hash: Option<u64>) {
        let optional = if event.stored { 3 } else { 2 } * usize::from(self.legacy_compat);
        out.map(if event.stored { 16 } else { 14 } + optional + usize::from(self.object_key));
        let (rfc, legacy) =
            if event.stored { ("stored", "BlockStored") } else { ("removed", "BlockRemoved") };
        out.text("event_id");
        out.uint(self.next_event_id);
        out.text("timestamp");
        out.uint(timestamp_ms);
        out.text("event_type");
        out.text(rfc);
        if self.legacy_compat {
            out.text("type");
            out.text(legacy);
        }
        for key in ["model_name", "block_size", "additional_salt", "lora_name"] {
            out.text(key);
            out.nil();
        }
        out.text("tenant_id");
        out.text(if event.tenant.is_empty() { "default" } else { event.tenant });
        out.text("backend_id");
        out.text(&self.backend_id);
        for (key, value) in [("group_id", event.group), ("medium", event.medium), ("dp_rank", None)] {
            out.text(key);
            out.text_or_nil(value.filter(|value| !value.is_empty()));
        }
        if self.object_key {
            out.text("object_key");
            out.text(event.key);
        }
        self.write_blocks(out, event.stored, hash);
    }

    fn write_blocks(&self, out: &mut Msgpack, stored: bool, hash: Option<u64>) {
        out.text("seq_hashes");
        out.array(usize::from(hash.is_some()));
        if let Some(hash) = hash {
            out.uint(hash);
        }
        if self.legacy_compat {
            out.text("block_hashes");
            out.array(usize::from(hash.is_some()));
            if let Some(hash) = hash {
                out.int(hash as i64);
            }
        }
        out.text("base_block_idx");
        if !stored {
            return out.nil();
        }
        out.uint(0);
        for key in ["parent_hash", "token_ids"] {
            out.text(key);
            out.nil();
        }
        if self.legacy_compat {
            out.text("parent_block_hash");
            out.nil();
        }
    }
}

/// The hash that an object's key spells: decimal, or hexadecimal behind `0x`, the whole key. The master
/// reads keys with C++ `std::stoull`, whose habits are kept: in front of a decimal key may stand blanks and a
/// sign, and a minus negates modulo 2^64.
pub fn key_hash(key: &str) -> Option<u64> {
    // `from_str_radix` would take a sign of its own, and nothing at all is no number
    let number = |digits: &str, radix| {
        digits.chars().all(|digit| digit.is_digit(radix)).then(|| u64::from_str_radix(digits, radix).ok())?
    };
    if let Some(digits) = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")) {
        return number(digits, 16);
    }
    let text = key.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    match text.strip_prefix('-') {
        Some(digits) => number(digits, 10).map(u64::wrapping_neg),
        None => number(text.strip_prefix('+').unwrap_or(text), 10),
    }
}
