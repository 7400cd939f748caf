//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`form`] | request bodies to typed forms, or refusals |
//! | [`key`] | the identity of a stored object |
//! | [`books`] | what is stored and how recently used, what each salt may store, what is pinned, what goes next |
//! | [`registry`] | the instances, their heartbeats, whose turn it is |
//! | [`tokens`] | which objects a sequence of tokens is |
//! | [`resync`] | learning once, after the start, what storage holds |
//! | [`blend`] | stored chunks found again anywhere in a prompt |
//! | [`settings`] | what the coordinator can be told |
//! | [`courier`], [`answer`] | requests to MP servers, on threads of their own; what of an answer matters |
//! | [`vault`] | quotas and pins on disk |
//! | [`coordinator`], [`api`], `loops`, [`metrics`] | the running whole: its state, its HTTP, what it does of itself, its numbers |
//! | [`mailbox`] | how such threads hand results to the reactor |

pub mod answer;
pub mod api;
pub mod blend;
pub mod books;
pub mod coordinator;
pub mod courier;
pub mod form;
pub mod key;
mod loops;
pub mod mailbox;
pub mod metrics;
pub mod registry;
pub mod resync;
mod service;
pub mod settings;
pub mod tokens;
pub mod vault;
