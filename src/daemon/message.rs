//! What reactors say to each other. Small: everything long goes by reference count or is lent.

use super::directory::Listing;
use super::question::Question;
use crate::index::resolve::{Found, Want};
use std::sync::Arc;

/// A message between reactors, or from the control thread.
pub enum Message {
    /// Answer this question for your instances, into the lent buffer.
    Ask {
        /// Brings the reply home.
        ticket: u64,
        /// The question, its hashes included.
        job: Arc<Job>,
        /// Lent by the asker, so that its memory stays with one reactor.
        out: Vec<u8>,
    },
    /// Dump your contexts and mappings, at most `limit` a context.
    Dump {
        /// Brings the reply home.
        ticket: u64,
        /// Mappings a context.
        limit: usize,
    },
    /// A publisher was registered here.
    Add {
        /// Brings the reply home; 0 when nobody waits.
        ticket: u64,
        /// What was registered.
        listing: Arc<Listing>,
    },
    /// Publishers were unregistered or replaced.
    Remove {
        /// Brings the reply home; 0 when nobody waits.
        ticket: u64,
        /// Their numbers in the directory.
        ids: Arc<[u64]>,
    },
    /// Engine hashes that pools of another reactor name.
    Wants(Arc<[Want]>),
    /// Where wanted hashes stand.
    Founds(Vec<Found>),
    /// The reply to any of them.
    Reply {
        /// Of the request.
        ticket: u64,
        /// The outcome.
        reply: Reply,
    },
}

const _: () = assert!(size_of::<Message>() <= 64);

/// A question, hashed once.
pub struct Job {
    /// What is asked.
    pub question: Question,
    /// Rolling hashes of the prompt's complete blocks.
    pub hashes: Vec<u64>,
}

/// The outcome of a request to another reactor.
pub enum Reply {
    /// A fragment of an answer: members of a JSON object without the braces.
    Fragment(Vec<u8>),
    /// Done.
    Done,
    /// Not possible, and why.
    Failed(Box<str>),
}
