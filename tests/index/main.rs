//! The prefix index of one thread: one file a property, one program, so that it is linked once.

#[path = "../support/shard.rs"]
mod shard;

mod answer_before_arrival;
mod events_beside_each_other;
mod names_reused;
mod oracle_index;
mod pool_objects;
mod purge_in_steps;
mod truth_model;
