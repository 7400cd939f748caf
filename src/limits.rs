//! Every bound of the daemon, in one place. Hitting one is counted in `/metrics` and never fatal.

/// Largest HTTP request head, bytes (431 beyond).
pub const HTTP_HEAD_BYTES: usize = 16 * 1024;
/// Most header lines in a request head (431 beyond).
pub const HTTP_HEADERS: usize = 64;
/// Default for the largest HTTP request body, bytes (413 beyond).
pub const HTTP_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Room that an HTTP receive buffer starts with, bytes.
pub const HTTP_READ_BYTES: usize = 4 * 1024;
/// Most bytes of a body for which room is made before any of it has come.
pub const HTTP_TRUSTED_BYTES: usize = 64 * 1024;
/// Largest receive buffer that a connection keeps between requests, bytes.
pub const HTTP_KEPT_BYTES: usize = 256 * 1024;
/// Default for the most open HTTP connections of one reactor (503 beyond).
pub const HTTP_CONNECTIONS: usize = 4096;
/// Default for how long a connection may stay silent, seconds.
pub const HTTP_IDLE_SECONDS: u64 = 75;

/// Longest value of a name, salt or list of names in a request body, bytes of JSON.
pub const BODY_FIELD_BYTES: usize = 4 * 1024;
/// Longest `extra_keys` of a query, bytes of JSON.
pub const BODY_EXTRA_KEYS_BYTES: usize = 4 * 1024 * 1024;

/// Largest ZMQ message, bytes; libzmq drops the connection of a publisher that sends more.
pub const ZMQ_MESSAGE_BYTES: i64 = 64 * 1024 * 1024;
/// Default receive high-water mark of a subscription, messages.
pub const ZMQ_RECEIVE_HWM: i32 = 20_000;
/// Sockets a libzmq context carries at most (its own limit is 1,023).
pub const ZMQ_SOCKETS_PER_CONTEXT: usize = 1000;

/// Deepest nesting of a msgpack payload.
pub const MSGPACK_DEPTH: usize = 64;
/// Most hashes in one event.
pub const EVENT_HASHES: usize = 1 << 18;
/// Most tokens in one event.
pub const EVENT_TOKENS: usize = 1 << 24;
/// Most tokens in one block.
pub const BLOCK_TOKENS: u32 = 1 << 20;
/// Most events in one batch; a payload that announces more is refused.
pub const BATCH_EVENTS: usize = 1 << 18;
/// Longest string field of an event, bytes: model, adapter, salt, tenant, medium, key.
pub const EVENT_TEXT_BYTES: usize = 4096;

/// Most reactors; route masks are one word.
pub const REACTORS: usize = 64;

const _: () = assert!(EVENT_HASHES < u32::MAX as usize);
const _: () = assert!(EVENT_TOKENS < u32::MAX as usize);
const _: () = assert!(ZMQ_MESSAGE_BYTES < u32::MAX as i64);
