//! What counts the bytes that its thread holds: one file a property, one allocator for all.

#[path = "../support/books.rs"]
mod books;
#[path = "../support/counting.rs"]
mod counting;
#[path = "../../benches/support/fleet.rs"]
mod fleet;

mod books_bytes;
mod index_bytes;
mod memory_flat;
