//! The other end of the wire: what engines and pools encode, and how they publish it.
//!
//! | File | What stands there |
//! |---|---|
//! | [`family`] | the wire versions of the engines, field by field |
//! | [`engine`] | batches and events of an engine into msgpack |
//! | [`pool`] | batches of `mooncake_master` into msgpack, keys into hashes |
//! | [`chain`] | the block hashes of an engine, and the standard ones |
//! | [`cache`] | an engine's prefix cache, as far as events show it |
//! | [`feed`] | steps of that cache as payloads |
//! | [`publisher`] | the sockets: PUB, and ROUTER for replay |
//! | [`replay`] | how replay requests are answered, well or badly |
//!
//! Nothing here is shared with the decoder in [`crate::event`]: the two meet only in bytes.

pub mod cache;
pub mod chain;
pub mod engine;
pub mod family;
pub mod feed;
mod msgpack;
pub mod pool;
pub mod publisher;
pub mod replay;
