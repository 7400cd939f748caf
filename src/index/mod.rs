//! The exact prefix index of one shard.
//!
//! A block of a context is a [`run::Place`]: a position in a [`run::Run`], which is a contiguous array of rolling
//! sequence hashes. A rolling hash names its whole prefix, so a run needs no child list: what follows it is found
//! by its hash. Per run, a [`cover::Cover`] an owner says which positions it holds; per publisher,
//! [`names::Names`] map its own hashes to places, with copy counts.
//!
//! | File | What |
//! |---|---|
//! | [`hash`] | the standard block hash |
//! | [`table`] | a hash table that grows in small steps |
//! | [`context`] | namespaces, and where each block of one stands |
//! | [`run`], [`cover`] | runs, and who holds what of them |
//! | [`names`], [`orphan`], [`publisher`] | what a publisher calls its blocks, and which wait for their parent |
//! | [`shard`] | publishers come and go |
//! | [`apply`], `store`, `remove`, `place` | a batch applied in bounded steps: what an event asks for, and its blocks |
//! | `envelope`, `keyed`, [`object_key`], [`resolve`] | RFC #1527: envelopes, pool objects, hashes looked up elsewhere |
//! | [`walk`], [`answer`] | a prefix walked |

pub mod answer;
pub mod apply;
pub mod context;
pub mod cover;
mod envelope;
pub mod hash;
mod keyed;
pub mod names;
pub mod object_key;
pub mod orphan;
mod place;
pub mod publisher;
mod remove;
pub mod resolve;
pub mod run;
pub mod shard;
mod store;
pub mod table;
pub mod walk;
