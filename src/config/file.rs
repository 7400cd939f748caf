//! The Conductor's `conductor_config.json`: a port and static publishers.
//!
//! ```json
//! {"http_server_port": 13333,
//!  "kvevent_instance": {"prefill-0": {"endpoint": "tcp://10.0.0.1:5557", "replay_endpoint": "tcp://10.0.0.1:5558",
//!    "type": "vLLM", "modelname": "qwen", "block_size": 128, "dp_rank": 0, "tenant_id": "default"}}}
//! ```
//!
//! A file that is no JSON object is refused. A publisher that lacks something is left out with a message
//! that names it and the field; the others stand. An entry's `instance_id` wins over its name, so that two
//! ranks of one instance can have two entries.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::limits::{BLOCK_TOKENS, CONFIG_FILE_BYTES, CONFIG_PUBLISHERS};

type Object = Map<String, Value>;

/// What a settings file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// Port for all interfaces; `None` where the file has no such key.
    pub http_server_port: Option<u16>,
    /// The good entries of `kvevent_instance`, by name.
    pub publishers: Vec<StaticPublisher>,
    /// Entries that were left out: `kvevent_instance.NAME.FIELD: reason`.
    pub skipped: Vec<String>,
    /// Keys that mean nothing here.
    pub unknown: Vec<String>,
}

/// One publisher of the file. Serialised it is a body for `POST /register`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaticPublisher {
    /// Name of the entry.
    #[serde(skip)]
    pub name: String,
    /// ZMQ PUB endpoint.
    pub endpoint: String,
    /// ZMQ ROUTER endpoint for replay; may be empty.
    pub replay_endpoint: String,
    /// `vLLM`, `SGLang`, `Mooncake`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Model name.
    pub modelname: String,
    /// LoRA adapter; empty is the base model.
    pub lora_name: String,
    /// Tenant; never empty.
    pub tenant_id: String,
    /// Routable instance; the entry's name where it has none of its own.
    pub instance_id: String,
    /// Tokens a block.
    pub block_size: u32,
    /// Data-parallel rank.
    pub dp_rank: u32,
    /// Namespace of the deployment; may be empty.
    pub additionalsalt: String,
    /// Tensor-parallel ranks that make a pool block whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tp_size: Option<u32>,
    /// `medium` or `object`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal_scope: Option<String>,
    /// `standard` where the engine's own hashes are the standard ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashing: Option<String>,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file that was asked for is not there or cannot be read.
    #[error("cannot read the settings file {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than any settings are.
    #[error("the settings file {path} is larger than {CONFIG_FILE_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is no JSON.
    #[error("{path}:{line}:{column}: not valid JSON: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was expected.
        reason: String,
    },
    /// The JSON is not of the file's shape.
    #[error("{path}: {field}: {reason}")]
    Field {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ConfigFile {
    /// Reads and parses `path`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.into(), source };
        let mut text = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(CONFIG_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > CONFIG_FILE_BYTES {
            return Err(ConfigError::TooLarge { path: path.into() });
        }
        Self::parse(&text, path)
    }

    /// Parses the text of a settings file; `path` is only for messages.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ConfigError> {
        let bad_field = |field: &str, reason: &str| ConfigError::Field {
            path: path.into(),
            field: field.into(),
            reason: reason.into(),
        };
        let root: Value = serde_json::from_slice(text).map_err(|error| ConfigError::Json {
            path: path.into(),
            line: error.line(),
            column: error.column(),
            reason: reason_alone(&error),
        })?;
        let Value::Object(root) = root else { return Err(bad_field("(file)", "must be a JSON object")) };
        let mut file = Self::default();
        for (key, value) in &root {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("http_server_port", value) => {
                    let port = value.as_u64().and_then(|port| u16::try_from(port).ok());
                    file.http_server_port =
                        Some(port.ok_or_else(|| bad_field(key, "must be a number from 0 to 65535"))?);
                }
                ("kvevent_instance", Value::Object(entries)) => file.take_entries(entries),
                ("kvevent_instance", _) => {
                    return Err(bad_field(key, "must be an object of publishers by name"));
                }
                _ => file.unknown.push(key.clone()),
            }
        }
        Ok(file)
    }

    fn take_entries(&mut self, entries: &Object) {
        for (name, entry) in entries {
            let at = format!("kvevent_instance.{name}");
            if self.publishers.len() == CONFIG_PUBLISHERS {
                self.skipped.push(format!("{at}: more than {CONFIG_PUBLISHERS} publishers"));
                continue;
            }
            let Value::Object(entry) = entry else {
                self.skipped.push(format!("{at}: must be an object"));
                continue;
            };
            match StaticPublisher::from_entry(name, entry) {
                Ok(publisher) => self.publishers.push(publisher),
                Err(bad) => self.skipped.push(format!("{at}.{}: {}", bad.field, bad.reason)),
            }
            let unknown = entry.keys().filter(|key| !KNOWN.contains(&key.as_str()));
            self.unknown.extend(unknown.map(|key| format!("{at}.{key}")));
        }
    }
}

/// Keys that an entry may have.
const KNOWN: [&str; 16] = [
    "endpoint",
    "replay_endpoint",
    "type",
    "modelname",
    "model_name",
    "model",
    "lora_name",
    "tenant_id",
    "instance_id",
    "block_size",
    "dp_rank",
    "additionalsalt",
    "additional_salt",
    "tp_size",
    "removal_scope",
    "hashing",
];

/// A field that cannot be used, and why.
struct BadField {
    field: &'static str,
    reason: String,
}

impl StaticPublisher {
    fn from_entry(name: &str, entry: &Object) -> Result<Self, BadField> {
        let non_empty = |text: String| if text.is_empty() { None } else { Some(text) };
        let required = |keys: &[&'static str]| {
            text(entry, keys)?.ok_or_else(|| BadField { field: keys[0], reason: "is required".into() })
        };
        let optional = |keys: &[&'static str]| text(entry, keys).map(Option::unwrap_or_default);
        let block_size = integer(entry, "block_size", 1, BLOCK_TOKENS)?;
        Ok(Self {
            name: name.to_owned(),
            endpoint: required(&["endpoint"])?,
            replay_endpoint: optional(&["replay_endpoint"])?,
            kind: required(&["type"])?,
            modelname: required(&["modelname", "model_name", "model"])?,
            lora_name: optional(&["lora_name"])?,
            tenant_id: non_empty(optional(&["tenant_id"])?).unwrap_or_else(|| "default".to_owned()),
            instance_id: non_empty(optional(&["instance_id"])?).unwrap_or_else(|| name.to_owned()),
            block_size: block_size
                .ok_or_else(|| BadField { field: "block_size", reason: "is required".into() })?,
            dp_rank: integer(entry, "dp_rank", 0, u32::MAX)?.unwrap_or(0),
            additionalsalt: optional(&["additionalsalt", "additional_salt"])?,
            tp_size: integer(entry, "tp_size", 1, u32::MAX)?,
            removal_scope: one_of(entry, "removal_scope", &["medium", "object"])?,
            hashing: one_of(entry, "hashing", &["standard"])?,
        })
    }
}

/// The first of `keys` that has a value; `None` for absent, null and empty.
fn text(entry: &Object, keys: &[&'static str]) -> Result<Option<String>, BadField> {
    for &field in keys {
        match entry.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => return Ok(Some(text.clone())),
            Some(_) => return Err(BadField { field, reason: "must be a string".into() }),
        }
    }
    Ok(None)
}

fn one_of(entry: &Object, field: &'static str, known: &[&str]) -> Result<Option<String>, BadField> {
    match text(entry, &[field])? {
        Some(value) if !known.contains(&value.as_str()) => {
            Err(BadField { field, reason: format!("must be one of: {}", known.join(", ")) })
        }
        value => Ok(value),
    }
}

fn integer(entry: &Object, field: &'static str, least: u32, most: u32) -> Result<Option<u32>, BadField> {
    match entry.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|value| u32::try_from(value).ok())
            .filter(|value| (least..=most).contains(value))
            .map(Some)
            .ok_or_else(|| BadField { field, reason: format!("must be a number from {least} to {most}") }),
    }
}

/// serde_json's message without its own `at line … column …`.
fn reason_alone(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    whole.split(" at line ").next().unwrap_or(&whole).to_owned()
}
