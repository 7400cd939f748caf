//! `POST /query` and `POST /query_by_hash`: the prompt goes straight into vectors that are used again.

use serde::Deserialize;
use serde_json::Value;

use super::binary::{self, Encoding};
use super::{BadRequest, Body, Field, Reads, STRING_JSON_BYTES, Slot};
use crate::http::object::Members;
use crate::http::tokens::{self, What};
pub use crate::index::context::Lora;
use crate::limits;

/// Which vector holds the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids.
    Tokens,
    /// Token ids where they are: so many bytes from this one of the body on, little-endian.
    Packed {
        /// First byte.
        at: usize,
        /// Bytes, four a token.
        bytes: usize,
    },
    /// Rolling sequence hashes, one a block.
    Hashes,
}

/// A query but for its prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryBody {
    /// Model, not empty.
    pub model: String,
    /// Adapter.
    pub lora: Lora,
    /// Tenant, `default` when not given.
    pub tenant: String,
    /// The one instance to answer for; none is all of the tenant. Empty text is a name like any other.
    pub instance_id: Option<String>,
    /// Tokens in a block, 1 to [`limits::BLOCK_TOKENS`].
    pub block_size: u32,
    /// Salt of either namespace, see the semantics of a query.
    pub cache_salt: Option<String>,
    /// Namespace of the hashes.
    pub additional_salt: Option<String>,
    /// Media to consider, as the client spells them; none is all.
    pub media: Option<Vec<String>>,
    /// The client wants the long answer.
    pub detail: bool,
    /// Extra keys of each block.
    pub extra_keys: Option<Value>,
    /// Where the prompt is.
    pub prompt: Prompt,
}

/// Reads a query. Its tokens go into `tokens`, its hashes into `hashes`; both are cleared before.
///
/// `by_hash` says which of the two the path requires.
pub fn parse_query(
    body: &[u8],
    by_hash: bool,
    tokens: &mut Vec<u32>,
    hashes: &mut Vec<u64>,
) -> Result<QueryBody, BadRequest> {
    tokens.clear();
    hashes.clear();
    let mut members = Members::new(body)?;
    let mut draft = Draft::default();
    while let Some(key) = members.key()? {
        match &*key {
            "token_ids" => {
                let expected = "an unsigned 32-bit integer";
                array(&key, &mut members, &mut draft.has_tokens, expected, |json| {
                    tokens::parse(json, tokens)
                })?;
            }
            "seq_hashes" | "block_hash" | "block_hashes" => {
                let expected = "a 64-bit integer or a string of one";
                array(&key, &mut members, &mut draft.has_hashes, expected, |json| {
                    tokens::parse_hashes(json, hashes)
                })?;
            }
            _ => draft.read_member(&key, &mut members)?,
        }
    }
    draft.finish(by_hash)
}

/// [`parse_query`] for a body in any of the encodings; tokens that come as little-endian bytes stay where they are.
/// `parameters` is the query part of the target, which only [`Encoding::Bytes`] looks at.
pub fn read_query(
    encoding: Encoding,
    parameters: Option<&str>,
    body: &[u8],
    by_hash: bool,
    tokens: &mut Vec<u32>,
    hashes: &mut Vec<u64>,
) -> Result<QueryBody, BadRequest> {
    tokens.clear();
    hashes.clear();
    let parts = match encoding {
        Encoding::Json => return parse_query(body, by_hash, tokens, hashes),
        Encoding::Msgpack => binary::of_msgpack(body, &mut Draft::default(), tokens, hashes)?,
        Encoding::Bytes => binary::of_bytes(body, parameters.unwrap_or(""), by_hash, hashes)?,
    };
    let binary::Parts { has_tokens, has_hashes, packed, .. } = parts;
    let mut draft = Draft { has_tokens, has_hashes, packed, ..Draft::default() };
    let small = Value::Object(parts.small).to_string();
    let mut members = Members::new(small.as_bytes())?;
    while let Some(key) = members.key()? {
        draft.read_member(&key, &mut members)?;
    }
    draft.finish(by_hash)
}

/// `medium`: one name or a list.
#[derive(Deserialize, PartialEq)]
#[serde(untagged)]
enum Media {
    One(String),
    Many(Vec<String>),
}

impl Field for Media {
    const EXPECTED: &'static str = "expected a string or a list of strings";
    const JSON_BYTES: usize = STRING_JSON_BYTES;

    fn bytes(&self) -> usize {
        match self {
            Self::One(name) => name.len(),
            Self::Many(names) => names.iter().map(String::len).sum(),
        }
    }
}

impl Field for Value {
    const EXPECTED: &'static str = "expected JSON that is less deep";
    const BYTES: usize = limits::BODY_EXTRA_KEYS_BYTES;
}

/// A query whose members are being read.
#[derive(Default)]
struct Draft {
    model: Slot<String>,
    lora_name: Slot<String>,
    lora_id: Slot<i64>,
    tenant_id: Slot<String>,
    instance_id: Slot<String>,
    block_size: Slot<u32>,
    cache_salt: Slot<String>,
    additional_salt: Slot<String>,
    medium: Slot<Media>,
    detail: Slot<bool>,
    extra_keys: Slot<Value>,
    has_tokens: bool,
    has_hashes: bool,
    /// First byte and number of the tokens that were left in the body.
    packed: Option<(usize, usize)>,
}

impl Body for Draft {
    fn field(&mut self, key: &str) -> Option<&mut dyn Reads> {
        Some(match key {
            "model" | "model_name" | "modelname" => &mut self.model,
            "lora_name" => &mut self.lora_name,
            "lora_id" => &mut self.lora_id,
            "tenant_id" => &mut self.tenant_id,
            "instance_id" => &mut self.instance_id,
            "block_size" => &mut self.block_size,
            "cache_salt" => &mut self.cache_salt,
            "additional_salt" | "additionalsalt" => &mut self.additional_salt,
            "medium" => &mut self.medium,
            "detail" => &mut self.detail,
            "extra_keys" => &mut self.extra_keys,
            _ => return None,
        })
    }
}

impl Draft {
    fn finish(self, by_hash: bool) -> Result<QueryBody, BadRequest> {
        let prompt = match (by_hash, self.has_tokens, self.has_hashes) {
            (_, true, true) => return Err(BadRequest::new("token_ids", "not together with seq_hashes")),
            (false, true, false) => {
                self.packed.map_or(Prompt::Tokens, |(at, bytes)| Prompt::Packed { at, bytes })
            }
            (true, false, true) => Prompt::Hashes,
            (false, false, _) => return Err(BadRequest::new("token_ids", "required")),
            (true, _, false) => return Err(BadRequest::new("seq_hashes", "required")),
        };
        let lora = match (self.lora_name.filled(), self.lora_id.0) {
            (Some(_), Some(_)) => return Err(BadRequest::new("lora_id", "not together with lora_name")),
            (Some(name), None) => Lora::Name(name),
            (None, Some(id)) => Lora::Id(id),
            (None, None) => Lora::Base,
        };
        let media = match self.medium.0 {
            None => Vec::new(),
            Some(Media::One(medium)) => vec![medium],
            Some(Media::Many(media)) => media,
        };
        Ok(QueryBody {
            model: self.model.named("model")?,
            lora,
            tenant: self.tenant_id.tenant(),
            instance_id: self.instance_id.0,
            block_size: self.block_size.block_size()?,
            cache_salt: self.cache_salt.filled(),
            additional_salt: self.additional_salt.filled(),
            // no name at all, or only an empty one, restricts nothing
            media: Some(media).filter(|media| media.iter().any(|medium| !medium.is_empty())),
            detail: self.detail.0.unwrap_or(false),
            extra_keys: self.extra_keys.0,
            prompt,
        })
    }
}

/// Reads the array of `key` with `parse`, unless it is `null`; `given` says whether there was one before.
fn array(
    key: &str,
    members: &mut Members<'_>,
    given: &mut bool,
    expected: &str,
    parse: impl FnOnce(&[u8]) -> Result<usize, tokens::Error>,
) -> Result<(), BadRequest> {
    let json = members.rest();
    if json.starts_with(b"n") {
        members.value()?;
        return Ok(());
    }
    if std::mem::replace(given, true) {
        return Err(BadRequest::new(key.to_owned(), "given twice"));
    }
    let error = match parse(json) {
        Ok(taken) => {
            members.skip(taken);
            return Ok(());
        }
        Err(error) => error,
    };
    Err(match error.what {
        What::NotAnArray => {
            BadRequest::new(key.to_owned(), format!("expected an array, each element {expected}"))
        }
        What::NotAnInteger => {
            BadRequest::new(format!("{key}[{}]", error.index), format!("expected {expected}"))
        }
        What::NoSeparator | What::Unfinished => {
            members.invalid_at(error.offset, "expected `,` or `]`").into()
        }
    })
}
