//! A whole daemon, asked over HTTP: one file a property, one program, so that it is linked once.

#[path = "../support/fleet.rs"]
mod fleet;

mod churn;
mod contexts_apart;
mod contract_examples;
mod invented_tenants;
mod last_number_is_applied;
mod late_publisher;
mod media_names;
mod merged_answers;
mod msgpack_bodies;
mod partial_truth;
mod query_binary;
mod readings_apart;
mod shared_endpoints;
mod views;
mod why_nothing;
mod worked_example;
