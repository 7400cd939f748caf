//! The fleet coordinator of LMCache MP servers: who is there, who may store how much, what is evicted, pinned,
//! prefetched.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`key`] | the identity of a stored object |
//! | [`books`] | what is stored and how recently used, what each salt may store, what is pinned, what goes next |

pub mod books;
pub mod key;
