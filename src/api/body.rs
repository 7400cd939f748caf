//! Request bodies of the contract: every spelling in, one meaning or an error that names the field out.
//!
//! Unknown members are ignored, `null` is as good as absent, and where one thing has several spellings
//! (`modelname`, `model_name`, `model`) those that are given must agree.

mod binary;
mod query;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use self::binary::Encoding;
pub use self::query::{Lora, Prompt, QueryBody, parse_query, read_query};
use crate::http::object::{Invalid, Members};
use crate::limits;

/// Tenant of whoever names none.
pub const DEFAULT_TENANT: &str = "default";

/// Why a body is refused (400).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest {
    /// The field, as the body spells it; empty when the body is no JSON object.
    pub field: Cow<'static, str>,
    /// What is expected of it.
    pub message: String,
}

impl std::fmt::Display for BadRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(formatter, "{}: ", self.field)?;
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for BadRequest {}

impl From<Invalid> for BadRequest {
    fn from(invalid: Invalid) -> Self {
        Self::new("", invalid.to_string())
    }
}

impl BadRequest {
    /// An error of `field`.
    pub fn new(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// How the blocks of a publisher are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hashing {
    /// By the engine's own hashes; tokens decide.
    #[default]
    #[serde(skip_deserializing)]
    Engine,
    /// By the standard rolling hashes, also where tokens are missing.
    Standard,
}

/// What a removal of a pool publisher ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemovalScope {
    /// The copy on the medium it names.
    Medium,
    /// The object, on every medium.
    Object,
}

/// `POST /register`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterBody {
    /// ZMQ endpoint of the event stream, not empty, otherwise unchecked.
    pub endpoint: String,
    /// ZMQ endpoint of the replay socket.
    pub replay_endpoint: Option<String>,
    /// `type`: `vLLM`, `SGLang`, `Mooncake` or any other string.
    pub kind: String,
    /// `modelname`, not empty.
    pub model: String,
    /// LoRA adapter; none is the base model.
    pub lora_name: Option<String>,
    /// Tenant, `default` when not given.
    pub tenant_id: String,
    /// Instance that a router can address, not empty.
    pub instance_id: String,
    /// Tokens in a block, 1 to [`limits::BLOCK_TOKENS`].
    pub block_size: u32,
    /// Data-parallel rank.
    pub dp_rank: u32,
    /// Namespace of the hashes.
    pub additional_salt: Option<String>,
    /// `hashing`.
    pub hashing: Hashing,
    /// Tensor-parallel ranks that must all hold a pool block, at least 1.
    pub tp_size: Option<u32>,
    /// `removal_scope`; none lets the events decide.
    pub removal_scope: Option<RemovalScope>,
}

/// `POST /unregister`: which publishers go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnregisterBody {
    /// `type`; none is any.
    pub kind: Option<String>,
    /// Tenant, `default` when not given.
    pub tenant_id: String,
    /// Instance, not empty.
    pub instance_id: String,
    /// Data-parallel rank; none is all.
    pub dp_rank: Option<u32>,
}

impl RegisterBody {
    /// Reads the body of `POST /register`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let mut members = Members::new(body)?;
        let mut who = Publisher::default();
        let (mut endpoint, mut replay) = (Slot::<String>::default(), Slot::<String>::default());
        let mut salt = Slot::<String>::default();
        let mut hashing = Slot::<Hashing>::default();
        let mut tp_size = Slot::<u32>::default();
        let mut scope = Slot::<RemovalScope>::default();
        while let Some(key) = members.key()? {
            match &*key {
                "endpoint" => endpoint.read(&key, &mut members)?,
                "replay_endpoint" => replay.read(&key, &mut members)?,
                "additionalsalt" | "additional_salt" => salt.read(&key, &mut members)?,
                "hashing" => hashing.read(&key, &mut members)?,
                "tp_size" => tp_size.read(&key, &mut members)?,
                "removal_scope" => scope.read(&key, &mut members)?,
                _ => who.read(&key, &mut members)?,
            }
        }
        if tp_size.0 == Some(0) {
            return Err(BadRequest::new("tp_size", "expected at least 1"));
        }
        Ok(Self {
            endpoint: endpoint.named("endpoint")?,
            replay_endpoint: replay.filled(),
            kind: who.kind.required("type")?,
            model: who.model.named("modelname")?,
            lora_name: who.lora_name.filled(),
            tenant_id: who.tenant_id.tenant(),
            instance_id: who.instance_id.named("instance_id")?,
            block_size: who.block_size.block_size()?,
            dp_rank: who.dp_rank.required("dp_rank")?,
            additional_salt: salt.filled(),
            hashing: hashing.0.unwrap_or_default(),
            tp_size: tp_size.0,
            removal_scope: scope.0,
        })
    }
}

impl UnregisterBody {
    /// Reads the body of `POST /unregister`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let mut members = Members::new(body)?;
        let mut who = Publisher::default();
        while let Some(key) = members.key()? {
            who.read(&key, &mut members)?;
        }
        Ok(Self {
            kind: who.kind.filled(),
            tenant_id: who.tenant_id.tenant(),
            instance_id: who.instance_id.named("instance_id")?,
            dp_rank: who.dp_rank.0,
        })
    }
}

/// The members that `/register` and `/unregister` share.
#[derive(Default)]
struct Publisher {
    kind: Slot<String>,
    model: Slot<String>,
    lora_name: Slot<String>,
    tenant_id: Slot<String>,
    instance_id: Slot<String>,
    block_size: Slot<u32>,
    dp_rank: Slot<u32>,
}

impl Publisher {
    fn read(&mut self, key: &str, members: &mut Members<'_>) -> Result<(), BadRequest> {
        match key {
            "type" => self.kind.read(key, members),
            "modelname" | "model_name" | "model" => self.model.read(key, members),
            "lora_name" => self.lora_name.read(key, members),
            "tenant_id" => self.tenant_id.read(key, members),
            "instance_id" => self.instance_id.read(key, members),
            "block_size" => self.block_size.read(key, members),
            "dp_rank" => self.dp_rank.read(key, members),
            _ => Ok(members.value().map(drop)?),
        }
    }
}

/// A field on its way in; empty while absent or `null`.
struct Slot<T>(Option<T>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A kind of field.
trait Field: DeserializeOwned + PartialEq {
    /// What the client is told to send.
    const EXPECTED: &'static str;
    /// Longest JSON, bytes.
    const BYTES: usize = limits::BODY_FIELD_BYTES;
}

impl Field for String {
    const EXPECTED: &'static str = "expected a string";
}

impl Field for u32 {
    const EXPECTED: &'static str = "expected an unsigned 32-bit integer";
}

impl Field for i64 {
    const EXPECTED: &'static str = "expected an integer";
}

impl Field for bool {
    const EXPECTED: &'static str = "expected true or false";
}

impl Field for Hashing {
    const EXPECTED: &'static str = "expected \"standard\"";
}

impl Field for RemovalScope {
    const EXPECTED: &'static str = "expected \"medium\" or \"object\"";
}

impl<T: Field> Slot<T> {
    /// Reads the value of `key`.
    fn read(&mut self, key: &str, members: &mut Members<'_>) -> Result<(), BadRequest> {
        let json = members.value()?;
        let error = |message: String| BadRequest::new(key.to_owned(), message);
        if json.len() > T::BYTES {
            return Err(error(format!("expected at most {} bytes", T::BYTES)));
        }
        let value: Option<T> = serde_json::from_slice(json).map_err(|_| error(T::EXPECTED.to_owned()))?;
        match (&self.0, value) {
            (_, None) => {}
            (Some(before), Some(value)) if *before != value => {
                return Err(error("given twice with different values".to_owned()));
            }
            (_, value) => self.0 = value,
        }
        Ok(())
    }
}

impl<T> Slot<T> {
    fn required(self, field: &'static str) -> Result<T, BadRequest> {
        self.0.ok_or_else(|| BadRequest::new(field, "required"))
    }
}

impl Slot<String> {
    /// The value, unless it is empty.
    fn filled(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty())
    }

    /// The value, which must be there and not empty.
    fn named(self, field: &'static str) -> Result<String, BadRequest> {
        let text = self.required(field)?;
        if text.is_empty() { Err(BadRequest::new(field, "must not be empty")) } else { Ok(text) }
    }

    fn tenant(self) -> String {
        self.filled().unwrap_or_else(|| DEFAULT_TENANT.to_owned())
    }
}

impl Slot<u32> {
    fn block_size(self) -> Result<u32, BadRequest> {
        let size = self.required("block_size")?;
        if (1..=limits::BLOCK_TOKENS).contains(&size) {
            return Ok(size);
        }
        Err(BadRequest::new("block_size", format!("expected 1 to {}", limits::BLOCK_TOKENS)))
    }
}
