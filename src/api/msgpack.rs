//! Answers for clients that accept msgpack.

use serde_json::Value;

/// `content-type` of such an answer.
pub(super) const CONTENT_TYPE: &str = "application/msgpack";

/// Rewrites the JSON in `out` from byte `start` on.
pub(super) fn of_json(out: &mut Vec<u8>, start: usize) -> Result<(), String> {
    let value: Value = serde_json::from_slice(&out[start..]).map_err(|error| error.to_string())?;
    out.truncate(start);
    rmp_serde::encode::write_named(out, &value).map_err(|error| error.to_string())
}
