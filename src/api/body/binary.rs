//! Queries without text, for routers that count microseconds: msgpack, or bare numbers with the small fields in
//! the query part of the target.
//!
//! | Content type | Body | Small fields |
//! |---|---|---|
//! | `application/msgpack` | a map with the members of the JSON body; the prompt as an array, or as a byte string of little-endian numbers | in the map |
//! | `application/octet-stream` | the prompt: little-endian, 4 bytes a token, 8 bytes a hash | parameters of the target, named as the members |

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value};

use super::{BadRequest, Body};
use crate::event::extra::hex;
use crate::event::msgpack::{self, Head};
use crate::http::response::JSON;

/// The member whose values are those of an engine's event.
const EXTRA_KEYS: &str = "extra_keys";

/// How a request or an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// JSON; whatever is not named otherwise.
    Json,
    /// msgpack.
    Msgpack,
    /// Bare numbers.
    Bytes,
}

impl Encoding {
    /// What a `content-type` names.
    pub fn of_content(content_type: &str) -> Self {
        if content_type == JSON {
            return Self::Json;
        }
        let media = content_type.split(';').next().unwrap_or("").trim();
        if is_msgpack(media) {
            Self::Msgpack
        } else if media.eq_ignore_ascii_case("application/octet-stream") {
            Self::Bytes
        } else {
            Self::Json
        }
    }

    /// What an `accept` asks for: msgpack where it is named, otherwise JSON.
    pub fn of_accept(accept: &str) -> Self {
        if matches!(accept, "" | "*/*" | JSON) {
            return Self::Json;
        }
        let named = |part: &str| {
            let mut pieces = part.split(';').map(str::trim);
            is_msgpack(pieces.next().unwrap_or("")) && !pieces.any(|piece| matches!(piece, "q=0" | "q=0.0"))
        };
        if accept.split(',').any(named) { Self::Msgpack } else { Self::Json }
    }
}

fn is_msgpack(media: &str) -> bool {
    let known = ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"];
    known.iter().any(|known| media.eq_ignore_ascii_case(known))
}

/// What a binary body brought beside its prompt, as members of a JSON object, and which prompt came.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) small: Map<String, Value>,
    pub(super) has_tokens: bool,
    pub(super) has_hashes: bool,
    /// First byte and number of the tokens that stay in the body.
    pub(super) packed: Option<(usize, usize)>,
}

impl Parts {
    fn put(&mut self, key: &str, value: Value) -> Result<(), BadRequest> {
        match self.small.get(key) {
            Some(before) if *before != value => {
                Err(BadRequest::new(key.to_owned(), "given twice with different values"))
            }
            _ => {
                self.small.insert(key.to_owned(), value);
                Ok(())
            }
        }
    }
}

/// Reads a msgpack body with a prompt.
pub(super) fn of_msgpack(
    body: &[u8],
    fields: &mut impl Body,
    tokens: &mut Vec<u32>,
    hashes: &mut Vec<u64>,
) -> Result<Parts, BadRequest> {
    let mut parts = Parts::default();
    each_member(body, |cursor, key| {
        let given = match key {
            "token_ids" => {
                let expected = "an unsigned 32-bit integer";
                let stay = |bytes: &[u8], _: &mut Vec<u32>| {
                    whole::<{ size_of::<u32>() }>(key, bytes)?;
                    parts.packed = Some((bytes.as_ptr().addr() - body.as_ptr().addr(), bytes.len()));
                    Ok(())
                };
                numbers(cursor, key, tokens, parts.has_tokens, expected, u32_of, stay)?
            }
            "seq_hashes" | "block_hash" | "block_hashes" => {
                let expected = "a 64-bit integer";
                let fill = |bytes: &[u8], to: &mut Vec<u64>| fill(key, bytes, to);
                numbers(cursor, key, hashes, parts.has_hashes, expected, u64_of, fill)?
            }
            _ => return small(cursor, key, fields, &mut parts),
        };
        *(if key == "token_ids" { &mut parts.has_tokens } else { &mut parts.has_hashes }) |= given;
        Ok(())
    })?;
    Ok(parts)
}

/// Reads a msgpack body without a prompt; what is known of it, as JSON.
pub(super) fn json_of_msgpack(body: &[u8], fields: &mut impl Body) -> Result<Vec<u8>, BadRequest> {
    let mut parts = Parts::default();
    each_member(body, |cursor, key| small(cursor, key, fields, &mut parts))?;
    Ok(Value::Object(parts.small).to_string().into_bytes())
}

fn broken(at: usize) -> BadRequest {
    BadRequest::new("", format!("invalid msgpack at byte {at}"))
}

/// Lets `read` read the value of each member whose key is text, and steps over the others.
fn each_member<'a>(
    body: &'a [u8],
    mut read: impl FnMut(&mut msgpack::Cursor<'a>, &'a str) -> Result<(), BadRequest>,
) -> Result<(), BadRequest> {
    let mut cursor = msgpack::Cursor::new(body, 0);
    let Ok(Head::Map(members)) = cursor.head() else {
        return Err(BadRequest::new("", "expected a msgpack map"));
    };
    for _ in 0..members {
        let at = cursor.at();
        let key = cursor.key(1).map_err(|_| broken(at))?;
        match key.and_then(|key| std::str::from_utf8(key).ok()) {
            Some(key) => read(&mut cursor, key)?,
            None => step_over(&mut cursor)?,
        }
    }
    if cursor.rest().is_empty() { Ok(()) } else { Err(broken(cursor.at())) }
}

fn step_over(cursor: &mut msgpack::Cursor<'_>) -> Result<(), BadRequest> {
    cursor.skip(1).map_err(|_| broken(cursor.at()))
}

/// Reads the value of a member that is no prompt. An unknown one may be anything.
fn small(
    cursor: &mut msgpack::Cursor<'_>,
    key: &str,
    fields: &mut impl Body,
    parts: &mut Parts,
) -> Result<(), BadRequest> {
    let at = cursor.at();
    step_over(cursor)?;
    let Some(kind) = fields.field(key).map(|field| field.kind()) else { return Ok(()) };
    if cursor.at() - at > kind.coded_bytes {
        return Err(kind.too_long(key));
    }
    cursor.rewind(at);
    // engines' digests are byte strings, of which the digits are what JSON has
    let as_digits = key == EXTRA_KEYS;
    let expected =
        if as_digits { "expected values that JSON has too, or byte strings" } else { kind.expected };
    match json_value(cursor, as_digits) {
        Some(Value::Null) => Ok(()),
        Some(value) => parts.put(key, value),
        None => Err(BadRequest::new(key.to_owned(), expected)),
    }
}

/// The next value, which is known to be sound and not too deep; none when JSON has nothing like it.
fn json_value(cursor: &mut msgpack::Cursor<'_>, as_digits: bool) -> Option<Value> {
    Some(match cursor.head().ok()? {
        Head::Nil => Value::Null,
        Head::Bool(value) => value.into(),
        Head::Uint(value) => value.into(),
        Head::Negative(value) => value.into(),
        Head::Float(value) => Value::Number(Number::from_f64(value)?),
        Head::Str(text) => std::str::from_utf8(text).ok()?.into(),
        Head::Bin(bytes) if as_digits => Value::String(hex(bytes).collect()),
        Head::Bin(_) | Head::Ext(..) => return None,
        Head::Array(length) => {
            (0..length).map(|_| json_value(cursor, as_digits)).collect::<Option<Vec<_>>>()?.into()
        }
        Head::Map(length) => {
            let mut map = Map::new();
            for _ in 0..length {
                let Head::Str(key) = cursor.head().ok()? else { return None };
                let key = std::str::from_utf8(key).ok()?;
                map.insert(key.to_owned(), json_value(cursor, as_digits)?);
            }
            Value::Object(map)
        }
    })
}

/// Reads a prompt in either spelling, a byte string with `of_bytes`; false for nil.
fn numbers<T>(
    cursor: &mut msgpack::Cursor<'_>,
    key: &str,
    to: &mut Vec<T>,
    given: bool,
    expected: &str,
    of_head: fn(Head<'_>) -> Option<T>,
    of_bytes: impl FnOnce(&[u8], &mut Vec<T>) -> Result<(), BadRequest>,
) -> Result<bool, BadRequest> {
    let bad = |field: String, message: String| BadRequest::new(field, message);
    let head = cursor.head().map_err(|_| bad(key.to_owned(), "invalid msgpack".to_owned()))?;
    if given && head != Head::Nil {
        return Err(bad(key.to_owned(), "given twice".to_owned()));
    }
    match head {
        Head::Nil => return Ok(false),
        Head::Bin(bytes) => of_bytes(bytes, to)?,
        Head::Array(length) => {
            // a byte an element at least, so that a length that lies makes no room
            to.reserve(length.min(cursor.rest().len()));
            for index in 0..length {
                if cursor.rest().is_empty() {
                    return Err(bad(key.to_owned(), format!("ends after {index} of {length} elements")));
                }
                let element = cursor.head().ok().and_then(of_head);
                let missing = || bad(format!("{key}[{index}]"), format!("expected {expected}"));
                to.push(element.ok_or_else(missing)?);
            }
        }
        _ => {
            let message = format!("expected an array, each element {expected}, or a byte string");
            return Err(bad(key.to_owned(), message));
        }
    }
    Ok(true)
}

fn u32_of(head: Head<'_>) -> Option<u32> {
    match head {
        Head::Uint(number) => number.try_into().ok(),
        _ => None,
    }
}

fn u64_of(head: Head<'_>) -> Option<u64> {
    match head {
        Head::Uint(number) => Some(number),
        Head::Negative(number) => Some(number as u64),
        _ => None,
    }
}

/// Little-endian hashes, one after the other.
fn fill(field: &str, bytes: &[u8], to: &mut Vec<u64>) -> Result<(), BadRequest> {
    let hashes = whole::<{ size_of::<u64>() }>(field, bytes)?;
    to.extend(hashes.iter().map(|hash| u64::from_le_bytes(*hash)));
    Ok(())
}

/// The numbers of `WIDTH` bytes each that `bytes` consists of.
fn whole<'a, const WIDTH: usize>(field: &str, bytes: &'a [u8]) -> Result<&'a [[u8; WIDTH]], BadRequest> {
    let (numbers, rest) = bytes.as_chunks::<WIDTH>();
    if rest.is_empty() {
        return Ok(numbers);
    }
    let message = format!("expected a multiple of {WIDTH} bytes, not {}", bytes.len());
    Err(BadRequest::new(field.to_owned(), message))
}

/// Reads a body of bare numbers and the parameters of the target.
pub(super) fn of_bytes(
    body: &[u8],
    parameters: &str,
    by_hash: bool,
    hashes: &mut Vec<u64>,
) -> Result<Parts, BadRequest> {
    let mut parts = Parts { has_tokens: !by_hash, has_hashes: by_hash, ..Parts::default() };
    if by_hash {
        fill("seq_hashes", body, hashes)?;
    } else {
        whole::<{ size_of::<u32>() }>("token_ids", body)?;
        parts.packed = Some((0, body.len()));
    }
    for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
        let (key, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, text) = (decode(key), decode(text));
        let plain = || Value::from(text.as_ref());
        let value = match &*key {
            "token_ids" | "seq_hashes" | "block_hash" | "block_hashes" => {
                return Err(BadRequest::new(key.into_owned(), "belongs into the body"));
            }
            "block_size" | "lora_id" => text.parse::<i64>().map_or_else(|_| plain(), Value::from),
            "detail" => match &*text {
                "true" | "1" => Value::from(true),
                "false" | "0" => Value::from(false),
                _ => plain(),
            },
            "medium" => text.split(',').map(str::to_owned).collect(),
            EXTRA_KEYS => serde_json::from_str(&text)
                .map_err(|error| BadRequest::new(EXTRA_KEYS, format!("expected JSON: {error}")))?,
            _ => plain(),
        };
        parts.put(&key, value)?;
    }
    Ok(parts)
}

fn decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
    } else {
        percent_decode_str(text).decode_utf8_lossy()
    }
}
