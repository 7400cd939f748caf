//! Long prompts in the usual spelling: a million tokens are read as fast as they come.

use super::sequence::{Prefetch, Sequence};
use crate::http::object::Members;
use crate::http::tokens;

/// Most digits of an integer that is certain to fit 64 bits.
const DIGITS: usize = 18;

/// A request that names tokens, each member known, given once and spelled as usual.
#[derive(Debug, Default)]
pub(super) struct Prompt<'a> {
    instance_id: Option<&'a str>,
    model_name: Option<&'a str>,
    world_size: Option<u64>,
    cache_salt: Option<&'a str>,
    token_text: Option<&'a str>,
    tokens: Vec<u32>,
}

impl<'a> Prompt<'a> {
    /// Reads a request; none where anything is unusual or wrong.
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let mut members = Members::new(body).ok()?;
        let mut prompt = Self::default();
        while let Some(key) = members.key().ok()? {
            let repeated = match &*key {
                "instance_id" => prompt.instance_id.replace(string(&mut members)?).is_some(),
                "model_name" => prompt.model_name.replace(string(&mut members)?).is_some(),
                "cache_salt" => prompt.cache_salt.replace(string(&mut members)?).is_some(),
                "world_size" => prompt.world_size.replace(integer(&mut members)?).is_some(),
                "token_ids" => {
                    let rest = members.rest();
                    let length = tokens::parse(rest, &mut prompt.tokens).ok()?;
                    members.skip(length);
                    let text = std::str::from_utf8(&rest[..length]).ok()?;
                    prompt.token_text.replace(text).is_some()
                }
                _ => return None,
            };
            if repeated {
                return None;
            }
        }
        (prompt.model_name.is_some() && prompt.world_size.is_some()).then_some(prompt)
    }

    /// What to pin or unpin.
    pub(super) fn sequence(self, chunk_size: usize) -> Sequence {
        let chunk_size = chunk_size.max(1);
        let (given, chunks) = (self.tokens.len(), self.tokens.len() / chunk_size);
        let mut token_ids = self.tokens;
        token_ids.truncate(chunks * chunk_size);
        Sequence {
            model_name: self.model_name.unwrap_or_default().to_owned(),
            world_size: self.world_size.unwrap_or_default(),
            token_ids,
            cache_salt: self.cache_salt.unwrap_or_default().to_owned(),
            chunks,
            given,
        }
    }

    /// What to prefetch where.
    pub(super) fn prefetch(self) -> Option<Prefetch> {
        Some(Prefetch {
            instance_id: self.instance_id?.to_owned(),
            model_name: self.model_name?.to_owned(),
            world_size: self.world_size?,
            token_ids: self.token_text.unwrap_or("[]").trim().to_owned(),
            cache_salt: self.cache_salt.unwrap_or_default().to_owned(),
        })
    }
}

fn string<'a>(members: &mut Members<'a>) -> Option<&'a str> {
    let text = std::str::from_utf8(members.value().ok()?).ok()?;
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

fn integer(members: &mut Members<'_>) -> Option<u64> {
    let text = std::str::from_utf8(members.value().ok()?).ok()?;
    let usual = text.len() <= DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| usual && *number > 0)
}
