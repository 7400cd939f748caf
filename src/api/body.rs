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
        Self::read(Encoding::Json, body)
    }

    /// The same in any of the encodings but bare numbers.
    pub fn read(encoding: Encoding, body: &[u8]) -> Result<Self, BadRequest> {
        let Registering { who, endpoint, replay, salt, hashing, tp_size, scope } = members(encoding, body)?;
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
        Self::read(Encoding::Json, body)
    }

    /// The same in any of the encodings but bare numbers.
    pub fn read(encoding: Encoding, body: &[u8]) -> Result<Self, BadRequest> {
        let who: Publisher = members(encoding, body)?;
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

impl Body for Publisher {
    fn field(&mut self, key: &str) -> Option<&mut dyn Reads> {
        Some(match key {
            "type" => &mut self.kind,
            "modelname" | "model_name" | "model" => &mut self.model,
            "lora_name" => &mut self.lora_name,
            "tenant_id" => &mut self.tenant_id,
            "instance_id" => &mut self.instance_id,
            "block_size" => &mut self.block_size,
            "dp_rank" => &mut self.dp_rank,
            _ => return None,
        })
    }
}

/// The members of `/register`.
#[derive(Default)]
struct Registering {
    who: Publisher,
    endpoint: Slot<String>,
    replay: Slot<String>,
    salt: Slot<String>,
    hashing: Slot<Hashing>,
    tp_size: Slot<u32>,
    scope: Slot<RemovalScope>,
}

impl Body for Registering {
    fn field(&mut self, key: &str) -> Option<&mut dyn Reads> {
        Some(match key {
            "endpoint" => &mut self.endpoint,
            "replay_endpoint" => &mut self.replay,
            "additionalsalt" | "additional_salt" => &mut self.salt,
            "hashing" => &mut self.hashing,
            "tp_size" => &mut self.tp_size,
            "removal_scope" => &mut self.scope,
            _ => return self.who.field(key),
        })
    }
}

/// A body whose members are being read.
trait Body: Default {
    /// Where the value of a member goes; none for an unknown one.
    fn field(&mut self, key: &str) -> Option<&mut dyn Reads>;

    /// Reads the value of a member in JSON.
    fn read_member(&mut self, key: &str, members: &mut Members<'_>) -> Result<(), BadRequest> {
        match self.field(key) {
            Some(field) => field.read(key, members),
            None => Ok(members.value().map(drop)?),
        }
    }
}

/// Reads all members of a body without a prompt.
fn members<B: Body>(encoding: Encoding, body: &[u8]) -> Result<B, BadRequest> {
    let mut read = B::default();
    let json = match encoding {
        Encoding::Msgpack => Cow::Owned(binary::json_of_msgpack(body, &mut read)?),
        Encoding::Json | Encoding::Bytes => Cow::Borrowed(body),
    };
    let mut members = Members::new(&json)?;
    while let Some(key) = members.key()? {
        read.read_member(&key, &mut members)?;
    }
    Ok(read)
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
    /// Most bytes: of the text, where it is text, else of its JSON.
    const BYTES: usize = limits::BODY_FIELD_BYTES;
    /// Longest JSON, bytes.
    const JSON_BYTES: usize = Self::BYTES;

    /// Bytes of the text.
    fn bytes(&self) -> usize {
        0
    }
}

/// Longest JSON of a string: each byte may be spelled `\u00xx`.
const STRING_JSON_BYTES: usize = 6 * limits::BODY_FIELD_BYTES + 2;

impl Field for String {
    const EXPECTED: &'static str = "expected a string";
    const JSON_BYTES: usize = STRING_JSON_BYTES;

    fn bytes(&self) -> usize {
        self.len()
    }
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

/// What a field takes.
struct Kind {
    /// What the client is told to send.
    expected: &'static str,
    /// Most bytes.
    bytes: usize,
    /// Longest value as it comes, bytes.
    coded_bytes: usize,
}

impl Kind {
    fn too_long(&self, key: &str) -> BadRequest {
        BadRequest::new(key.to_owned(), format!("expected at most {} bytes", self.bytes))
    }
}

/// A [`Slot`], whatever it is for.
trait Reads {
    /// What it takes.
    fn kind(&self) -> Kind;
    /// Reads the value of `key`.
    fn read(&mut self, key: &str, members: &mut Members<'_>) -> Result<(), BadRequest>;
}

impl<T: Field> Reads for Slot<T> {
    fn kind(&self) -> Kind {
        Kind { expected: T::EXPECTED, bytes: T::BYTES, coded_bytes: T::JSON_BYTES }
    }

    fn read(&mut self, key: &str, members: &mut Members<'_>) -> Result<(), BadRequest> {
        let json = members.value()?;
        let error = |message: String| BadRequest::new(key.to_owned(), message);
        if json.len() > T::JSON_BYTES {
            return Err(self.kind().too_long(key));
        }
        let value: Option<T> = serde_json::from_slice(json).map_err(|_| error(T::EXPECTED.to_owned()))?;
        if value.as_ref().is_some_and(|value| value.bytes() > T::BYTES) {
            return Err(self.kind().too_long(key));
        }
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
