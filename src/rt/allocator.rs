//! What the allocator is told when a process begins.
#![allow(unsafe_code)] // two calls of mimalloc that take and give numbers

use libmimalloc_sys::{mi_option_get, mi_option_set_default, mi_option_t, mi_option_use_numa_nodes};

use crate::limits::FREE_MEMORY_MILLIS;

/// `mi_option_purge_delay`, which the bindings do not name; in mimalloc's list it stands before this one.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// Lets the allocator give memory back to the system [`FREE_MEMORY_MILLIS`] after it became free, unless
/// `MIMALLOC_PURGE_DELAY` says when. To be called while the process has one thread.
pub fn give_back_early() {
    // SAFETY: no pointers; nobody else reads or writes options yet, as the caller sees to.
    unsafe { mi_option_set_default(PURGE_DELAY, FREE_MEMORY_MILLIS.into()) };
}

/// For how many milliseconds the allocator keeps memory that became free.
pub fn keeps_free_memory() -> i64 {
    // SAFETY: no pointers; an option is one word, which is written at the start only.
    unsafe { mi_option_get(PURGE_DELAY) }
}
