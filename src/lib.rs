//! kvatlas knows where every reusable KV-cache block of an inference fleet lives.
//!
//! N pinned reactors share nothing. Each owns a shard of the prefix index and a share of the ZMQ
//! subscriptions, accepts HTTP connections, and asks the others by message when a query spans shards.
//!
//! | Room | What stands there |
//! |---|---|
//! | [`event`] | what publishers send: msgpack bytes to a [`event::Batch`] |
//! | [`index`] | the exact prefix index of one shard: apply a batch, walk a prefix |
//! | [`stream`] | ZMQ endpoints, subscriptions |
//! | [`http`] | the HTTP codec, without sockets |
//! | [`daemon`] | a reactor's part of the daemon: directory, streams, questions between cores |
//! | [`api`] | the Conductor's HTTP contract |
//! | [`fleet`] | the coordinator of LMCache MP servers |
//! | [`rt`], [`mesh`], [`reactor`] | the runtime seam, messages between cores, how a core spends its turn |
//! | [`cli`], [`config`], [`serve`] | commands, settings, the daemon's start |
//! | [`wire`] | the other end of the wire: what engines and pools encode and publish |
//! | [`mod@bench`] | what `kvatlas bench` decides: schedules, gates, truth, reports |
//! | [`limits`] | every bound, in one place |

pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod event;
pub mod fleet;
pub mod http;
pub mod index;
pub mod limits;
pub mod mesh;
pub mod metrics;
pub mod reactor;
pub mod rt;
pub mod serve;
pub mod stream;
pub mod wire;
