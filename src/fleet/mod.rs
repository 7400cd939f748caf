//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`form`] | request bodies to typed forms, or refusals |
//! | [`key`] | the identity of a stored object |

pub mod form;
pub mod key;
