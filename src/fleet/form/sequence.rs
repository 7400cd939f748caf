//! `/cache/pins`, `POST /cache/prefetches`, `POST /cache/delete`: requests that name content by its tokens.

use super::body;
use super::fault::{Fault, Faults, Input, Part, Reject};
use super::fields::{Fields, plain};
use super::lax::{self, Bounds};
use super::prompt::Prompt;
use super::tier::{self, Tier};
use super::value::Value;
use crate::fleet::key::{KeyFault, check_model, check_salt};
use crate::http::response::json_string;
use crate::limits::SEQUENCE_TOKENS;

/// Content, named by the tokens that made it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sequence {
    /// Model.
    pub model_name: String,
    /// Ranks that hold a part of each chunk, at least 1.
    pub world_size: u64,
    /// Tokens of the complete chunks; what follows the last one is dropped.
    pub token_ids: Vec<u32>,
    /// Tenant.
    pub cache_salt: String,
    /// Complete chunks.
    pub chunks: usize,
    /// Tokens that were given.
    pub given: usize,
}

impl Sequence {
    /// Refuses what has the right form and still names no keys: too many tokens, a salt or model that cannot be
    /// part of a key. How many keys it may name is judged where they are resolved.
    pub fn check(&self) -> Result<(), Reject> {
        if self.given > SEQUENCE_TOKENS {
            let given = self.given;
            return Err(Reject::Bad(format!(
                "too many token_ids in a single request (limit={SEQUENCE_TOKENS}, got={given})"
            )));
        }
        let bad = |fault: KeyFault| Reject::Bad(fault.to_string());
        check_salt(&self.cache_salt).map_err(bad)?;
        if self.chunks > 0 { check_model(&self.model_name).map_err(bad) } else { Ok(()) }
    }
}

/// `POST /cache/delete`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheDelete {
    /// The server to delete on.
    pub instance_id: String,
    /// What to delete. Its [`Sequence::check`] comes after the server is known.
    pub sequence: Sequence,
    /// Where to delete.
    pub tier: Tier,
    /// Whether to delete what is pinned, too.
    pub force: bool,
}

/// `POST /cache/prefetches`, to be forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefetch {
    /// The server that shall prefetch.
    pub instance_id: String,
    /// Model.
    pub model_name: String,
    /// Ranks, at least 1.
    pub world_size: u64,
    /// JSON array of integers.
    pub token_ids: String,
    /// Tenant.
    pub cache_salt: String,
}

impl Prefetch {
    /// Writes the body for the server.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.token_ids.len() + self.model_name.len() + self.cache_salt.len() + 96);
        out.extend_from_slice(b"{\"model_name\":");
        json_string(out, &self.model_name);
        out.extend_from_slice(b",\"world_size\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.world_size).as_bytes());
        out.extend_from_slice(b",\"token_ids\":");
        out.extend_from_slice(self.token_ids.as_bytes());
        out.extend_from_slice(b",\"cache_salt\":");
        json_string(out, &self.cache_salt);
        out.push(b'}');
    }
}

/// Reads what to pin or unpin, and checks it ([`Sequence::check`]).
pub fn pins(content_type: &str, body: &[u8], chunk_size: usize) -> Result<Sequence, Reject> {
    body::admit(content_type, body)?;
    let sequence = match Prompt::read(body) {
        Some(prompt) => prompt.sequence(chunk_size),
        None => pins_exact(content_type, body, chunk_size)?,
    };
    sequence.check()?;
    Ok(sequence)
}

/// Reads what to pin or unpin in every spelling, without [`Sequence::check`].
pub fn pins_exact(content_type: &str, body: &[u8], chunk_size: usize) -> Result<Sequence, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let mut faults = Faults::new("body");
    let sequence = read_sequence(&mut Fields { faults: &mut faults, owner }, chunk_size);
    sequence.ok_or(Reject::Unprocessable(faults))
}

/// Reads what to delete where.
pub fn cache_delete(content_type: &str, body: &[u8], chunk_size: usize) -> Result<CacheDelete, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [instance_id, tier, force] = owner.slots(&["instance_id", "tier", "force"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let instance_id = fields.required("instance_id", instance_id, owned);
    let sequence = read_sequence(&mut fields, chunk_size);
    let tier = tier::field(&mut fields, tier, Tier::All);
    let force = fields.optional("force", force, false, lax::boolean);
    match (instance_id, sequence, tier, force) {
        (Some(instance_id), Some(sequence), Some(tier), Some(force)) => {
            Ok(CacheDelete { instance_id, sequence, tier, force })
        }
        _ => Err(Reject::Unprocessable(faults)),
    }
}

/// Reads what to prefetch; tokens may be any integers of 64 bits.
pub fn prefetch(content_type: &str, body: &[u8]) -> Result<Prefetch, Reject> {
    body::admit(content_type, body)?;
    match Prompt::read(body).and_then(Prompt::prefetch) {
        Some(prefetch) => Ok(prefetch),
        None => prefetch_exact(content_type, body),
    }
}

/// [`prefetch`] without its short way: the twin that the short way is tested against.
pub fn prefetch_exact(content_type: &str, body: &[u8]) -> Result<Prefetch, Reject> {
    let document = body::read(content_type, body)?;
    let owner = Value::root(&document);
    let [instance_id, model, world_size, tokens, salt] =
        owner.slots(&["instance_id", "model_name", "world_size", "token_ids", "cache_salt"]);
    let mut faults = Faults::new("body");
    let mut fields = Fields { faults: &mut faults, owner };
    let instance_id = fields.required("instance_id", instance_id, owned);
    let model = fields.required("model_name", model, owned);
    let world_size = fields.required("world_size", world_size, |value| lax::integer(value, Bounds::from(1)));
    let mut text = String::from("[");
    let read = |value| {
        let token = lax::integer(value, Bounds::ANY)?;
        text.push_str(itoa::Buffer::new().format(token));
        text.push(',');
        Ok(())
    };
    let tokens = fields.list("token_ids", tokens, plain(read));
    let salt = fields.optional("cache_salt", salt, String::new(), owned);
    if text.len() > 1 {
        text.pop();
    }
    text.push(']');
    match (instance_id, model, world_size, tokens, salt) {
        (Some(instance_id), Some(model_name), Some(world_size), Some(_), Some(cache_salt)) => {
            let world_size = world_size as u64;
            Ok(Prefetch { instance_id, model_name, world_size, token_ids: text, cache_salt })
        }
        _ => Err(Reject::Unprocessable(faults)),
    }
}

fn owned(value: Value<'_, '_>) -> Result<String, Fault> {
    lax::string(value).map(std::borrow::Cow::into_owned)
}

/// Reads the fields of a sequence. Tokens after the last complete chunk may be any integers of 64 bits.
fn read_sequence(fields: &mut Fields<'_, '_, '_>, chunk_size: usize) -> Option<Sequence> {
    const TOKEN: Bounds = Bounds::within(0, u32::MAX as i128);
    let [model, world_size, tokens, salt] =
        fields.owner.slots(&["model_name", "world_size", "token_ids", "cache_salt"]);
    let model = fields.required("model_name", model, owned);
    let world_size = fields.required("world_size", world_size, |value| lax::integer(value, Bounds::from(1)));
    let mut foreign = Vec::new();
    let mut index = 0;
    let tokens = fields.list("token_ids", tokens, |faults, value| {
        let token = lax::integer(value, TOKEN).or_else(|fault| match lax::integer(value, Bounds::ANY) {
            // whether it matters is known when all are counted
            Ok(_) => {
                foreign.push((index, value, fault));
                Ok(0)
            }
            Err(fault) => Err(fault),
        });
        index += 1;
        token.map_err(|fault| faults.add(&fault, Input::Value(value))).ok().map(|token| token as u32)
    });
    let tokens = tokens.and_then(|mut tokens| {
        let (given, chunks) = (tokens.len(), tokens.len() / chunk_size.max(1));
        tokens.truncate(chunks * chunk_size.max(1));
        let before = fields.faults.count();
        fields.faults.enter(Part::Name("token_ids"));
        for (index, value, fault) in foreign.iter().take_while(|(index, ..)| *index < tokens.len()) {
            fields.faults.add_at(Part::Index(*index), fault, Input::Value(*value));
        }
        fields.faults.leave();
        (fields.faults.count() == before).then_some((tokens, given, chunks))
    });
    let salt = fields.optional("cache_salt", salt, String::new(), owned);
    let (token_ids, given, chunks) = tokens?;
    Some(Sequence {
        model_name: model?,
        world_size: world_size? as u64,
        token_ids,
        cache_salt: salt?,
        chunks,
        given,
    })
}
