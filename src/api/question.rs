//! A query as the index sees it.

use super::body::QueryBody;
use crate::event::extra;
use crate::event::medium::Asked;
use crate::index::context::ContextKey;

/// What is asked, but for the prompt.
#[derive(Debug)]
pub struct Question {
    /// The contexts that may answer: two when a lone `cache_salt` can be read both ways.
    pub contexts: Vec<ContextKey>,
    /// Only this instance.
    pub instance: Option<String>,
    /// Only these media.
    pub media: Option<Vec<Asked>>,
    /// The long answer.
    pub detail: bool,
    /// Blocks of the prompt.
    pub blocks: usize,
}

impl Question {
    /// Reads a body; its salts choose the contexts.
    pub fn new(body: QueryBody, blocks: usize) -> Result<Self, String> {
        let mut key = ContextKey {
            tenant: body.tenant,
            model: body.model,
            lora: body.lora,
            block_size: body.block_size,
            additional_salt: body.additional_salt.unwrap_or_default(),
            cache_salt: body.cache_salt.unwrap_or_default(),
        };
        let mut contexts = Vec::with_capacity(2);
        if key.additional_salt.is_empty() && !key.cache_salt.is_empty() {
            let mut reverse = key.clone();
            std::mem::swap(&mut reverse.additional_salt, &mut reverse.cache_salt);
            contexts.push(reverse);
        }
        key.cache_salt.shrink_to_fit();
        contexts.push(key);
        let media = match body.media {
            None => None,
            Some(names) => Some(
                names
                    .iter()
                    .map(|name| {
                        Asked::from_query(name).ok_or_else(|| format!("medium: {name:?} names no medium"))
                    })
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok(Self { contexts, instance: body.instance_id, media, detail: body.detail, blocks })
    }

    /// Tenant asked for.
    pub fn tenant(&self) -> &str {
        &self.contexts[0].tenant
    }

    /// Tokens a block.
    pub fn block_size(&self) -> u32 {
        self.contexts[0].block_size
    }
}

/// One digest a block for the extra keys of a query. `root` is always true: a query starts at the root. A salt
/// among them is the query's `cache_salt`, unless it names one itself.
pub fn digests(body: &mut QueryBody, blocks: usize, seed: u64) -> Result<Vec<Option<u64>>, String> {
    let mut digests = Vec::new();
    if let Some(keys) = &body.extra_keys {
        let lora = match &body.lora {
            crate::index::context::Lora::Name(name) => Some(name.as_str()),
            _ => None,
        };
        let context = extra::Context { blocks, root: true, lora, seed };
        let salt = extra::digests_of_json(Some(keys), None, context, &mut digests)?;
        body.cache_salt = body.cache_salt.take().or(salt.map(str::to_owned));
    }
    Ok(digests)
}
