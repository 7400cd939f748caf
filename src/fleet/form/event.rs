//! One event of a report: what happened to which stored object.

use super::fault::{Fault, Faults, Input, Part};
use super::fields::Fields;
use super::json::Kind as Json;
use super::lax::{self, Bounds, Choice};
use super::value::Value;
use crate::fleet::key::{self, ChunkHash, Key};
use crate::limits::KEY_TEXT_BYTES;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It was stored.
    Store,
    /// It was looked up, and found.
    Lookup,
    /// It was deleted.
    Delete,
}

/// Something that happened to one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// What happened.
    pub kind: Kind,
    /// To which object.
    pub key: Key<'a>,
    /// Size of the object, bytes; meaningful for a store.
    pub bytes: u64,
}

const KINDS: Choice<Kind> = Choice {
    names: &[("store", Kind::Store), ("lookup", Kind::Lookup), ("delete", Kind::Delete)],
    listed: "'store', 'lookup' or 'delete'",
};

/// What the text of a `type` stands for.
pub(super) fn kind_of(text: &str) -> Option<Kind> {
    KINDS.of_text(text).ok()
}

/// Reads an event, and notes all that is wrong with it.
pub(super) fn event<'a>(faults: &mut Faults, value: Value<'_, 'a>) -> Option<Event<'a>> {
    if value.kind() != Json::Object {
        faults.add(&Fault::NotAnObject, Input::Value(value));
        return None;
    }
    let [kind, key, bytes] = value.slots(&["type", "key", "bytes"]);
    let mut fields = Fields { faults, owner: value };
    let kind = fields.required("type", kind, |value| KINDS.of(value));
    let is_key = |value: Value<'_, 'a>| value.kind() == Json::Object;
    let key =
        fields.required("key", key, |value| if is_key(value) { Ok(value) } else { Err(Fault::NotAKey) });
    let key = key.and_then(|key| {
        fields.faults.enter(Part::Name("key"));
        let key = read_key(fields.faults, key);
        fields.faults.leave();
        key
    });
    let bytes = fields.required("bytes", bytes, |value| lax::integer(value, Bounds::from(0)));
    Some(Event { kind: kind?, key: key?, bytes: bytes? as u64 })
}

fn read_key<'a>(faults: &mut Faults, value: Value<'_, 'a>) -> Option<Key<'a>> {
    let [hash, model, kv_rank, group, salt] =
        value.slots(&["chunk_hash_hex", "model_name", "kv_rank", "object_group_id", "cache_salt"]);
    let mut fields = Fields { faults, owner: value };
    let hash = fields.required("chunk_hash_hex", hash, |value| {
        let text = lax::string(value)?;
        ChunkHash::of_hex(&text).ok_or_else(|| {
            let most = if text.len() > 2 * KEY_TEXT_BYTES {
                format!(", at most {KEY_TEXT_BYTES} of them")
            } else {
                String::new()
            };
            Fault::Value(format!("chunk_hash_hex must be pairs of hexadecimal digits{most}"))
        })
    });
    let model = fields.required("model_name", model, |value| {
        let model = lax::string(value)?;
        key::check_model(&model).map_err(|fault| Fault::Value(fault.to_string()))?;
        Ok(model)
    });
    let kv_rank = fields.required("kv_rank", kv_rank, |value| lax::integer(value, Bounds::ANY));
    let group =
        fields.optional("object_group_id", group, 0, |value| match lax::integer(value, Bounds::ANY)? {
            group @ 0.. => Ok(group as u64),
            group => Err(Fault::Value(format!("object_group_id must be >= 0 (got {group})"))),
        });
    let salt = fields.optional("cache_salt", salt, "".into(), |value| {
        let salt = lax::string(value)?;
        key::check_salt(&salt).map_err(|fault| Fault::Value(fault.to_string()))?;
        Ok(salt)
    });
    Some(Key { hash: hash?, model: model?, kv_rank: kv_rank?, group: group?, salt: salt? })
}
