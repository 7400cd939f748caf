//! The canonical bytes of a value, from msgpack or from JSON.
//!
//! Every value is a type byte and then its own length or width, so that no two values share a spelling and no
//! value is the beginning of another one. Nesting is kept on a bounded stack, never on the call stack.

use serde_json::Value;

use super::super::Skip;
use super::super::msgpack::{Cursor, Head};
use super::hex;
use crate::limits::MSGPACK_DEPTH;

/// Before each extra key of a block.
const KEY: u8 = b'k';
/// Before the multimodal description of a block.
const MM_INFO: u8 = b'o';

/// One value as it came, sound and bounded.
#[derive(Clone, Copy)]
pub(super) enum Entry<'a> {
    /// The bytes of one msgpack value.
    Msgpack(&'a [u8]),
    /// A JSON value.
    Json(&'a Value),
}

impl<'a> Entry<'a> {
    /// The keys of a block: none for nil, the elements of an array, else the value itself.
    pub(super) fn items(self) -> Vec<Entry<'a>> {
        match self {
            Entry::Json(Value::Null) => Vec::new(),
            Entry::Json(Value::Array(list)) => list.iter().map(Entry::Json).collect(),
            Entry::Json(_) => vec![self],
            Entry::Msgpack(bytes) => {
                let mut cursor = Cursor::new(bytes, 0);
                match cursor.head() {
                    Ok(Head::Nil) => Vec::new(),
                    Ok(Head::Array(len)) => super::split(&mut cursor, len).unwrap_or_default(),
                    _ => vec![self],
                }
            }
        }
    }

    pub(super) fn is_nil(self) -> bool {
        match self {
            Entry::Json(value) => value.is_null(),
            Entry::Msgpack(bytes) => matches!(Cursor::new(bytes, 0).head(), Ok(Head::Nil)),
        }
    }

    /// The text of a bare string.
    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Entry::Json(value) => value.as_str(),
            Entry::Msgpack(bytes) => match Cursor::new(bytes, 0).head() {
                Ok(Head::Str(text)) => std::str::from_utf8(text).ok(),
                _ => None,
            },
        }
    }

    /// The salt of a map `{"type": "CacheSaltKey", "salt": …}`.
    pub(super) fn typed_salt(self) -> Option<&'a str> {
        (self.field("type")?.text() == Some("CacheSaltKey")).then_some(())?;
        self.field("salt")?.text()
    }

    fn field(self, name: &str) -> Option<Entry<'a>> {
        match self {
            Entry::Json(value) => value.as_object()?.get(name).map(Entry::Json),
            Entry::Msgpack(bytes) => {
                let mut cursor = Cursor::new(bytes, 0);
                let Head::Map(len) = cursor.head().ok()? else { return None };
                for _ in 0..len {
                    let key = cursor.key(0).ok()?;
                    let start = cursor.at();
                    cursor.skip(0).ok()?;
                    if key == Some(name.as_bytes()) {
                        return Some(Entry::Msgpack(&bytes[start..cursor.at()]));
                    }
                }
                None
            }
        }
    }
}

/// Writes canonical bytes.
#[derive(Default)]
pub(super) struct Canon {
    out: Vec<u8>,
    open: Vec<Frame>,
}

/// A container whose elements are being written.
struct Frame {
    /// Values still to come.
    left: usize,
    /// Where each pair of a map starts; unused for arrays.
    pairs: Vec<usize>,
    is_map: bool,
}

impl Canon {
    pub(super) fn clear(&mut self) {
        self.out.clear();
        self.open.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Appends one extra key.
    pub(super) fn key(&mut self, entry: &Entry<'_>) -> Result<(), Skip> {
        self.out.push(KEY);
        self.value(*entry)
    }

    /// Appends the multimodal description of a block.
    pub(super) fn mm_info(&mut self, entry: &Entry<'_>) -> Result<(), Skip> {
        self.out.push(MM_INFO);
        self.value(*entry)
    }

    fn value(&mut self, entry: Entry<'_>) -> Result<(), Skip> {
        match entry {
            Entry::Msgpack(bytes) => self.msgpack(bytes),
            Entry::Json(value) => self.json(value),
        }
    }

    fn msgpack(&mut self, bytes: &[u8]) -> Result<(), Skip> {
        let mut cursor = Cursor::new(bytes, 0);
        while !self.step(cursor.head().map_err(|_| Skip::BadField)?)? {}
        Ok(())
    }

    fn json(&mut self, value: &Value) -> Result<(), Skip> {
        enum Next<'a> {
            Value(&'a Value),
            Key(&'a str),
        }
        // what is still to be written, last first
        let mut later = vec![Next::Value(value)];
        while let Some(next) = later.pop() {
            let step = match next {
                Next::Key(name) => Head::Str(name.as_bytes()),
                Next::Value(Value::Null) => Head::Nil,
                Next::Value(Value::Bool(value)) => Head::Bool(*value),
                Next::Value(Value::String(text)) => Head::Str(text.as_bytes()),
                Next::Value(Value::Number(number)) => number_step(number),
                Next::Value(Value::Array(list)) => {
                    later.extend(list.iter().rev().map(Next::Value));
                    Head::Array(list.len())
                }
                Next::Value(Value::Object(map)) => {
                    for (name, value) in map {
                        later.push(Next::Value(value));
                        later.push(Next::Key(name));
                    }
                    Head::Map(map.len())
                }
            };
            self.step(step)?;
        }
        Ok(())
    }

    /// Writes a scalar or the opening of a container; `true` when it ends the value.
    fn step(&mut self, head: Head<'_>) -> Result<bool, Skip> {
        let at = self.out.len();
        if let Some(frame) = self.open.last_mut()
            && frame.is_map
            && frame.left.is_multiple_of(2)
        {
            frame.pairs.push(at);
        }
        match head {
            Head::Nil => self.put(b'n', &[]),
            Head::Bool(value) => self.put(b'b', &[u8::from(value)]),
            Head::Uint(value) => self.put(b'u', &value.to_le_bytes()),
            Head::Negative(value) => self.put(b'i', &value.to_le_bytes()),
            Head::Float(value) => self.put(b'f', &value.to_bits().to_le_bytes()),
            Head::Str(bytes) => {
                self.put(b's', &(bytes.len() as u64).to_le_bytes());
                self.out.extend_from_slice(bytes);
            }
            Head::Bin(bytes) => {
                self.put(b's', &(2 * bytes.len() as u64).to_le_bytes());
                self.out.extend(hex(bytes).map(|digit| digit as u8));
            }
            Head::Ext(kind, bytes) => {
                self.put(b'x', &kind.to_le_bytes());
                self.out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                self.out.extend_from_slice(bytes);
            }
            Head::Array(len) => self.put(b'a', &(len as u64).to_le_bytes()),
            Head::Map(len) => self.put(b'm', &(len as u64).to_le_bytes()),
        }
        self.close(match head {
            Head::Array(len) if len > 0 => Some(Frame { left: len, pairs: Vec::new(), is_map: false }),
            Head::Map(len) if len > 0 => Some(Frame { left: 2 * len, pairs: Vec::new(), is_map: true }),
            _ => None,
        })
    }

    /// Counts a value, or opens a container; `true` when nothing is open any more.
    fn close(&mut self, opened: Option<Frame>) -> Result<bool, Skip> {
        if let Some(frame) = opened {
            if self.open.len() >= MSGPACK_DEPTH {
                return Err(Skip::TooDeep);
            }
            self.open.push(frame);
            return Ok(false);
        }
        while let Some(frame) = self.open.last_mut() {
            frame.left -= 1;
            if frame.left > 0 {
                return Ok(false);
            }
            if let Some(frame) = self.open.pop() {
                self.sort(&frame.pairs);
            }
        }
        Ok(true)
    }

    /// Puts the pairs of a map, the last bytes written, into the order of their bytes.
    fn sort(&mut self, pairs: &[usize]) {
        let Some(&start) = pairs.first() else { return };
        let ends = pairs.iter().skip(1).copied().chain([self.out.len()]);
        let mut sorted: Vec<&[u8]> = pairs.iter().zip(ends).map(|(&from, to)| &self.out[from..to]).collect();
        sorted.sort_unstable();
        let sorted = sorted.concat();
        self.out.truncate(start);
        self.out.extend_from_slice(&sorted);
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(bytes);
    }
}

fn number_step(number: &serde_json::Number) -> Head<'static> {
    if let Some(value) = number.as_u64() {
        Head::Uint(value)
    } else if let Some(value) = number.as_i64() {
        Head::Negative(value)
    } else {
        Head::Float(number.as_f64().unwrap_or(f64::NAN))
    }
}
