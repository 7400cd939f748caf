//! The Conductor's HTTP contract.

pub mod body;
