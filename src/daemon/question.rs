//! A query as the index sees it.

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
    /// Tenant asked for.
    pub fn tenant(&self) -> &str {
        &self.contexts[0].tenant
    }

    /// Tokens a block.
    pub fn block_size(&self) -> u32 {
        self.contexts[0].block_size
    }
}
