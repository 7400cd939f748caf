//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`key`] | the identity of a stored object |

pub mod key;
