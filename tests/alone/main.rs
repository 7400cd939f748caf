//! What counts the descriptors or the threads of its own process: one file a property, one test at a time.

#[path = "../support/mod.rs"]
mod support;

mod free_memory;
mod graceful_shutdown;
mod lost_wakeup;
mod mailbox;
