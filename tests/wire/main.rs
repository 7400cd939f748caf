//! Both ends of the wire, decoders and publishers: one file a property, one program, so that it is linked once.

#[path = "../support/shard.rs"]
mod shard;

mod payload_extra_keys;
mod payload_meaning;
mod payload_never_hurts;
mod payload_root;
mod payload_round_trip;
mod payload_unknown_fields;
mod publisher_cache;
mod publisher_families;
mod publisher_feed;
mod publisher_pool;
mod publisher_replay;
mod publisher_sequence;
mod publisher_standard_hash;
mod round_trip_families;
