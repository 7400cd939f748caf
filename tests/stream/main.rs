//! Subscriptions, gaps and replay: one file a property, one program, so that it is linked once.

#[path = "../support/fleet.rs"]
mod fleet;
#[path = "../support/mod.rs"]
mod support;

mod endpoints;
mod one_stream;
mod stream_churn;
mod stream_link_up;
mod stream_mends;
mod stream_model;
mod stream_reconnects;
mod stream_replay;
mod stream_revives;
mod stream_rules;
mod stream_topics;
mod stream_unreached;
mod stream_watch;
