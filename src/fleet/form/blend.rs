//! `/blend/fingerprints` and `/blend/match`: which chunks of tokens are stored somewhere, whatever stands before them.

use super::body;
use super::fault::{Fault, Faults, Input, Reject};
use super::fields::{Fields, plain};
use super::json::Kind;
use super::lax::{self, Bounds};
use super::value::Value;
use crate::limits::BLEND_TEXT_BYTES;

/// Tokens that were stored, chunk by chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlendRange {
    /// Model.
    pub model_scope: String,
    /// The tokens.
    pub tokens: Vec<u64>,
    /// Key of each chunk.
    pub object_keys: Vec<String>,
    /// Position of the first token in what was stored.
    pub old_st_base: u64,
}

/// A prompt to find stored chunks in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlendMatch {
    /// Model.
    pub model_scope: String,
    /// The tokens.
    pub tokens: Vec<u32>,
}

/// Reads what was stored.
pub fn blend_register(content_type: &str, body: &[u8]) -> Result<Vec<BlendRange>, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [ranges] = owner.slots(&["ranges"]);
    let mut faults = Faults::new("body");
    let ranges = Fields { faults: &mut faults, owner }.list("ranges", ranges, read_range);
    ranges.ok_or(Reject::Unprocessable(faults))
}

/// Reads the keys of chunks that are gone.
pub fn blend_remove(content_type: &str, body: &[u8]) -> Result<Vec<String>, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [keys] = owner.slots(&["object_keys"]);
    let mut faults = Faults::new("body");
    let keys = Fields { faults: &mut faults, owner }.list("object_keys", keys, plain(name));
    keys.ok_or(Reject::Unprocessable(faults))
}

/// Reads a prompt to match.
pub fn blend_match(content_type: &str, body: &[u8]) -> Result<BlendMatch, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [scope, tokens] = owner.slots(&["model_scope", "tokens_b64"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let scope = fields.required("model_scope", scope, name);
    let tokens = fields.optional("tokens_b64", tokens, Vec::new(), |value| {
        packed_tokens(&lax::string(value)?).map_err(Fault::Value)
    });
    match (scope, tokens) {
        (Some(model_scope), Some(tokens)) => Ok(BlendMatch { model_scope, tokens }),
        _ => Err(Reject::Unprocessable(faults)),
    }
}

/// A string that is not too long to be looked up at once.
fn name(value: Value<'_, '_>) -> Result<String, Fault> {
    let text = lax::string(value)?;
    if text.len() > BLEND_TEXT_BYTES {
        return Err(Fault::Value(format!("must be at most {BLEND_TEXT_BYTES} bytes (got {})", text.len())));
    }
    Ok(text.into_owned())
}

fn read_range(faults: &mut Faults, owner: Value<'_, '_>) -> Option<BlendRange> {
    if owner.kind() != Kind::Object {
        faults.add(&Fault::NotAnObject, Input::Value(owner));
        return None;
    }
    let [scope, tokens, keys, base] = owner.slots(&["model_scope", "tokens", "object_keys", "old_st_base"]);
    let mut fields = Fields { faults, owner };
    let scope = fields.required("model_scope", scope, name);
    let tokens = fields.list("tokens", tokens, plain(natural));
    let keys = fields.list("object_keys", keys, plain(name));
    let base = fields.required("old_st_base", base, natural);
    Some(BlendRange { model_scope: scope?, tokens: tokens?, object_keys: keys?, old_st_base: base? })
}

fn natural(value: Value<'_, '_>) -> Result<u64, Fault> {
    lax::integer(value, Bounds::from(0)).map(|number| number as u64)
}

/// Tokens as base64 of little-endian words of 32 bits.
fn packed_tokens(text: &str) -> Result<Vec<u32>, String> {
    let bytes = base64(text).map_err(|what| format!("tokens_b64 is not valid base64: {what}"))?;
    let (words, rest) = bytes.as_chunks();
    if rest.is_empty() {
        return Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect());
    }
    let length = bytes.len();
    Err(format!("tokens_b64 byte length {length} is not a multiple of 4 (malformed uint32 token buffer)"))
}

/// Strict base64. More `=` than needed may follow complete groups of four, nothing else.
fn base64(text: &str) -> Result<Vec<u8>, String> {
    let fail = |what: &str| Err(what.to_owned());
    if !text.is_ascii() {
        return fail("string argument should contain only ASCII characters");
    }
    if text.starts_with('=') {
        return fail("Leading padding not allowed");
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut data, mut pads) = (0_u32, 0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'=' {
            pads += 1;
            if data % 4 >= 2 && data % 4 + pads >= 4 {
                if at + 1 < text.len() {
                    return fail("Excess data after padding");
                }
                return Ok(out);
            }
            continue;
        }
        let Some(digit) = base64_digit(byte) else { return fail("Only base64 data is allowed") };
        if pads > 0 {
            return fail("Discontinuous padding not allowed");
        }
        bits = bits << 6 | digit;
        data += 1;
        if data % 4 != 1 {
            // 6, 4 and 2 bits wait for the next digit
            out.push((bits >> (8 - 2 * ((data - 1) % 4 + 1)).clamp(0, 6)) as u8);
        }
    }
    match data % 4 {
        0 => Ok(out),
        1 => Err(format!(
            "Invalid base64-encoded string: number of data characters ({data}) cannot be 1 more than a multiple of 4"
        )),
        _ => fail("Incorrect padding"),
    }
}

fn base64_digit(byte: u8) -> Option<u32> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(digit))
}
