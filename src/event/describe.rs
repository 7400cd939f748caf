//! What a payload says, as one JSON object: for people, and for tests.

use serde_json::{Map, Value, json};

use super::extra::hex;
use super::medium::{Medium, canonical};
use super::msgpack::{Cursor, Head};
use super::{Batch, Clear, Envelope, Event, Remove, Skip, Slice, Span, Store, Timestamp, decode};

/// Decodes a payload and says what it means.
///
/// `batch` is `accept`, `accept_skip_bad_events` or `reject`; hashes are decimal strings; a field that the
/// event does not carry is missing, but for the ones that every event of its kind has.
pub fn describe(payload: &[u8]) -> Value {
    let mut batch = Batch::default();
    if let Err(refusal) = decode(payload, &mut batch) {
        return json!({ "batch": "reject", "reason": refusal.name() });
    }
    let teller = Teller { payload, batch: &batch };
    let skip = |index: u32, reason: Skip| json!({ "index": index, "reason": reason.name() });
    let mut skipped: Vec<Value> =
        batch.skipped.iter().map(|skipped| skip(skipped.index, skipped.reason)).collect();
    // whoever applies the batch will skip these
    skipped.extend(batch.events.iter().filter_map(|event| Some(skip(event.index(), event.fault()?))));
    skipped.sort_by_key(|skipped| skipped["index"].as_u64());
    let sound = batch.events.iter().filter(|event| event.fault().is_none());
    json!({
        "batch": if skipped.is_empty() { "accept" } else { "accept_skip_bad_events" },
        "ts": timestamp(batch.ts),
        "dp_rank": batch.dp_rank,
        "events": sound.map(|event| teller.event(event)).collect::<Vec<_>>(),
        "skipped": skipped,
    })
}

struct Teller<'a> {
    payload: &'a [u8],
    batch: &'a Batch,
}

impl Teller<'_> {
    fn event(&self, event: &Event) -> Value {
        Value::Object(match event {
            Event::Store(store) => self.store(store),
            Event::Remove(remove) => self.remove(remove),
            Event::Clear(clear) => self.clear(clear),
        })
    }

    fn store(&self, store: &Store) -> Map<String, Value> {
        let mut out = self.opening("store", store.index, store.medium, store.envelope);
        out.insert("hashes".into(), self.hashes(store.hashes));
        out.insert("parent".into(), store.parent.map_or(Value::Null, |hash| json!(hash.to_string())));
        let tokens = store.tokens.map_or(Value::Null, |tokens| json!(tokens.of(&self.batch.tokens)));
        out.insert("token_ids".into(), tokens);
        out.insert("block_size".into(), json!(store.block_size));
        put(&mut out, "lora_id", store.lora_id);
        put(&mut out, "group_idx", store.group_idx);
        put(&mut out, "kv_cache_spec_sliding_window", store.sliding_window);
        for (name, span) in [
            ("lora_name", store.lora_name),
            ("cache_salt", store.cache_salt),
            ("kv_cache_spec_kind", store.spec_kind),
            ("locality", store.locality),
            ("ownership", store.ownership),
            ("session_id", store.session_id),
        ] {
            put(&mut out, name, span.text(self.payload));
        }
        for (name, span) in [
            ("extra_keys", store.extra_keys),
            ("block_mm_infos", store.mm_infos),
            ("lookahead_token_ids", store.lookahead),
            ("block_offsets", store.block_offsets),
        ] {
            put(&mut out, name, span.bytes(self.payload).and_then(json_of));
        }
        out
    }

    fn remove(&self, remove: &Remove) -> Map<String, Value> {
        let mut out = self.opening("remove", remove.index, remove.medium, remove.envelope);
        out.insert("hashes".into(), self.hashes(remove.hashes));
        put(&mut out, "remaining_copy_counts", remove.remaining.map(|counts| counts.of(&self.batch.counts)));
        put(&mut out, "group_idx", remove.group_idx);
        put(&mut out, "kv_cache_spec_kind", remove.spec_kind.text(self.payload));
        put(&mut out, "locality", remove.locality.text(self.payload));
        out
    }

    fn clear(&self, clear: &Clear) -> Map<String, Value> {
        self.opening("clear", clear.index, clear.medium, clear.envelope)
    }

    /// What every event has. A clear that names no medium means all of them.
    fn opening(&self, op: &str, index: u32, medium: Span, envelope: Option<u32>) -> Map<String, Value> {
        let envelope = envelope.and_then(|place| self.batch.envelopes.get(place as usize));
        let wire = medium.text(self.payload);
        let mut out = Map::new();
        out.insert("op".into(), json!(op));
        out.insert("index".into(), json!(index));
        out.insert("medium_wire".into(), json!(wire));
        if op != "clear" || wire.is_some() {
            let medium = canonical(wire, envelope.is_some());
            out.insert("medium_class".into(), json!(wire.map_or("unspecified", |_| class(&medium))));
            out.insert("medium".into(), json!(medium.name()));
        }
        if let Some(envelope) = envelope {
            self.envelope(envelope, &mut out);
        }
        out
    }

    fn envelope(&self, envelope: &Envelope, out: &mut Map<String, Value>) {
        for (name, span) in [
            ("model_name", envelope.model_name),
            ("additional_salt", envelope.additional_salt),
            ("lora_name", envelope.lora_name),
            ("tenant_id", envelope.tenant_id),
            ("backend_id", envelope.backend_id),
            ("group_id", envelope.group_id),
            ("object_key", envelope.object_key),
        ] {
            out.insert(name.into(), json!(span.text(self.payload)));
        }
        out.insert("event_id".into(), json!(envelope.event_id));
        out.insert("block_size".into(), json!(envelope.block_size));
        out.insert("event_dp_rank".into(), json!(envelope.dp_rank));
        out.insert("base_block_idx".into(), json!(envelope.base_block_idx));
        put(out, "connector_block_hash", envelope.connector_hash.text(self.payload));
        put(out, "tp_rank", envelope.tp_rank);
    }

    fn hashes(&self, hashes: Slice) -> Value {
        hashes.of(&self.batch.hashes).iter().map(u64::to_string).collect()
    }
}

fn put<T: serde::Serialize>(out: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        out.insert(name.into(), json!(value));
    }
}

fn class(medium: &Medium) -> &'static str {
    match medium {
        Medium::Gpu => "gpu",
        Medium::Cpu => "cpu",
        Medium::Disk => "disk",
        Medium::External => "external",
        Medium::Other(_) => "unknown",
    }
}

fn timestamp(ts: Timestamp) -> Value {
    match ts {
        Timestamp::Absent => Value::Null,
        Timestamp::Int(value) => json!(value),
        Timestamp::Uint(value) => json!(value),
        Timestamp::Float(value) if value.is_nan() => json!("nan"),
        Timestamp::Float(value) if value.is_infinite() => json!(if value > 0.0 { "inf" } else { "-inf" }),
        Timestamp::Float(value) => json!(value),
    }
}

/// A container whose elements are being collected.
enum Open {
    Array(Vec<Value>, usize),
    Map(Map<String, Value>, Option<String>, usize),
}

impl Open {
    /// Takes one value; gives the container back once it is complete.
    fn take(mut self, value: Value) -> Result<Value, Open> {
        let left = match &mut self {
            Open::Array(list, left) => {
                list.push(value);
                left
            }
            Open::Map(map, key, left) => {
                match key.take() {
                    Some(key) => drop(map.insert(key, value)),
                    None => *key = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
                }
                left
            }
        };
        *left -= 1;
        match self {
            Open::Array(list, 0) => Ok(Value::Array(list)),
            Open::Map(map, _, 0) => Ok(Value::Object(map)),
            open => Err(open),
        }
    }
}

/// A msgpack value as JSON, byte strings as hexadecimal. `None` when it is broken or ends too soon.
fn json_of(bytes: &[u8]) -> Option<Value> {
    let mut cursor = Cursor::new(bytes, 0);
    // no deeper than a payload may nest: the decoder has walked this value
    let mut open: Vec<Open> = Vec::new();
    loop {
        let mut value = match cursor.head().ok()? {
            Head::Array(len) if len > 0 => {
                open.push(Open::Array(Vec::new(), len));
                continue;
            }
            Head::Map(len) if len > 0 => {
                open.push(Open::Map(Map::new(), None, 2 * len));
                continue;
            }
            scalar => scalar_json(&scalar),
        };
        loop {
            let Some(container) = open.pop() else { return Some(value) };
            match container.take(value) {
                Ok(complete) => value = complete,
                Err(container) => {
                    open.push(container);
                    break;
                }
            }
        }
    }
}

fn scalar_json(head: &Head<'_>) -> Value {
    match *head {
        Head::Nil => Value::Null,
        Head::Bool(value) => json!(value),
        Head::Uint(value) => json!(value),
        Head::Negative(value) => json!(value),
        Head::Float(value) => json!(value),
        Head::Str(text) => json!(String::from_utf8_lossy(text)),
        Head::Bin(bytes) | Head::Ext(_, bytes) => {
            json!(hex(bytes).collect::<String>())
        }
        Head::Array(_) => json!([]),
        Head::Map(_) => json!({}),
    }
}
