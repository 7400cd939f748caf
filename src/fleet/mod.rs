//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`key`] | the identity of a stored object |
//! | [`courier`] | requests to MP servers, on threads of their own |
//! | [`vault`] | quotas and pins on disk |
//! | [`mailbox`] | how such threads hand results to the reactor |

pub mod courier;
pub mod key;
pub mod mailbox;
pub mod vault;
