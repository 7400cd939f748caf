//! Questions and answers of `/query` as bytes.

use std::collections::HashMap;
use std::fmt::Write as _;

use clap::ValueEnum;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How a question and its answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// JSON both ways.
    Json,
    /// msgpack both ways, the prompt as a byte string.
    Msgpack,
    /// The prompt alone as little-endian u32, the answer as msgpack.
    Octets,
}

/// What a question is about, beside its prompt.
#[derive(Clone, Debug)]
pub struct About {
    /// `host` of the requests.
    pub host: String,
    /// Model.
    pub model: String,
    /// Tenant.
    pub tenant: String,
    /// Tokens a block.
    pub block_size: u32,
}

/// The small fields of a msgpack question.
#[derive(Serialize)]
struct Packed<'a> {
    model: &'a str,
    tenant_id: &'a str,
    block_size: u32,
    #[serde(serialize_with = "bytes")]
    token_ids: &'a [u8],
}

fn bytes<S: serde::Serializer>(bytes: &&[u8], out: S) -> Result<S::Ok, S::Error> {
    out.serialize_bytes(bytes)
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Msgpack, Self::Octets];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
            Self::Octets => "octets",
        }
    }

    /// The whole request that asks for `tokens`.
    pub fn request(self, about: &About, tokens: &[u32]) -> Vec<u8> {
        let (model, tenant, block_size) = (&about.model, &about.tenant, about.block_size);
        let (mut target, mut accept) = ("/query".to_owned(), "application/msgpack");
        let (content, body) = match self {
            Self::Json => {
                accept = "application/json";
                let body = json!({"model": model, "tenant_id": tenant, "block_size": block_size, "token_ids": tokens});
                ("application/json", body.to_string().into_bytes())
            }
            Self::Msgpack => {
                let token_ids = &little(tokens);
                let packed = Packed { model, tenant_id: tenant, block_size, token_ids };
                // strings, a number and bytes into memory
                ("application/msgpack", rmp_serde::to_vec_named(&packed).unwrap_or_default())
            }
            Self::Octets => {
                let escape = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
                let (model, tenant) = (escape(model), escape(tenant));
                let _ = write!(target, "?model={model}&tenant_id={tenant}&block_size={block_size}");
                ("application/octet-stream", little(tokens))
            }
        };
        let (host, len) = (&about.host, body.len());
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {content}\r\naccept: {accept}\r\ncontent-length: {len}\r\n\r\n"
        );
        [head.as_bytes(), &body].concat()
    }

    /// Longest match of every instance of the tenant, tokens; `None` for what is no such answer.
    pub fn answer(self, tenant: &str, body: &[u8]) -> Option<HashMap<String, u64>> {
        let mut answer: HashMap<String, HashMap<String, Hit>> = match self {
            Self::Json => serde_json::from_slice(body).ok()?,
            Self::Msgpack | Self::Octets => rmp_serde::from_slice(body).ok()?,
        };
        let instances = answer.remove(tenant).unwrap_or_default();
        Some(instances.into_iter().map(|(instance, hit)| (instance, hit.longest_matched)).collect())
    }
}

/// What one instance holds.
#[derive(Deserialize)]
struct Hit {
    longest_matched: u64,
}

fn little(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}
