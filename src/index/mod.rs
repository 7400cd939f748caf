//! The exact prefix index of one shard.
//!
//! A block of a context is a [`run::Place`]: a position in a [`run::Run`], which is a contiguous array of rolling
//! sequence hashes. A rolling hash names its whole prefix, so a run needs no child list: what follows it is found
//! by its hash. Per run, [`covers::Covers`] say which positions each owner holds. Publishers that hash alike
//! share a [`dialect`]: a column of their hashes beside each run, and a dictionary from hash to place; what they
//! call otherwise stays among a publisher's own [`names`].
//!
//! | File | What |
//! |---|---|
//! | [`hash`] | the standard block hash |
//! | [`table`], `segments`, `halves`, [`heads`] | hash tables that grow in small steps: one with keys, one without, and runs by their first blocks |
//! | [`context`] | namespaces, and where each block of one stands |
//! | [`run`], [`covers`], [`cover`], [`pins`] | runs, who holds what of them, and what stays although nobody does |
//! | [`dialect`], [`mod@column`], [`dictionary`], `prefetch` | what publishers that hash alike call the blocks |
//! | [`name`], [`names`], `naming` | a publisher's own names, and what any name means |
//! | [`recent`] | blocks just removed |
//! | [`publisher`], [`orphan`], [`media`] | a registration, its blocks that wait for their parent, and where copies lie |
//! | [`shard`], `leave`, [`contexts`], `ledger` | publishers come and go, and what their holdings change |
//! | [`apply`], `store`, `remove`, `chain`, `place` | a batch applied in bounded steps: what an event asks for, and its blocks |
//! | `envelope`, `keyed`, [`object_key`], [`resolve`] | RFC #1527: envelopes, pool objects, hashes looked up elsewhere |
//! | [`walk`], `credit`, [`answer`], [`dump`] | a prefix walked, and names listed |

pub mod answer;
pub mod apply;
mod chain;
pub mod column;
pub mod context;
pub mod contexts;
pub mod cover;
pub mod covers;
mod credit;
pub mod dialect;
pub mod dictionary;
pub mod dump;
mod envelope;
mod halves;
pub mod hash;
pub mod heads;
mod keyed;
mod leave;
mod ledger;
pub mod media;
pub mod name;
pub mod names;
mod naming;
pub mod object_key;
pub mod orphan;
pub mod pins;
mod place;
mod prefetch;
pub mod publisher;
pub mod recent;
mod remove;
pub mod resolve;
pub mod run;
mod segments;
pub mod shard;
mod store;
pub mod table;
pub mod walk;
