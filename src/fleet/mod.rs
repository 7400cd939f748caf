//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`key`] | the identity of a stored object |
//! | [`registry`] | the instances, their heartbeats, whose turn it is |
//! | [`tokens`] | which objects a sequence of tokens is |
//! | [`resync`] | learning once, after the start, what storage holds |
//! | [`blend`] | stored chunks found again anywhere in a prompt |
//! | [`settings`] | what the coordinator can be told |

pub mod blend;
pub mod key;
pub mod registry;
pub mod resync;
pub mod settings;
pub mod tokens;
