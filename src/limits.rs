//! Every bound of the daemon, in one place. Hitting one is counted in `/metrics` and never fatal.

/// Largest HTTP request head, bytes (431 beyond).
pub const HTTP_HEAD_BYTES: usize = 16 * 1024;
/// Most header lines in a request head (431 beyond).
pub const HTTP_HEADERS: usize = 64;
/// Default for the largest HTTP request body, bytes (413 beyond).
pub const HTTP_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Default for the most open HTTP connections of one reactor (503 beyond).
pub const HTTP_CONNECTIONS: usize = 4096;
/// Default for how long a connection may stay silent, seconds.
pub const HTTP_IDLE_SECONDS: u64 = 75;

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

/// Most reactors; route masks are one word.
pub const REACTORS: usize = 64;

/// Largest settings file, bytes.
pub const CONFIG_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Most publishers of a settings file.
pub const CONFIG_PUBLISHERS: usize = 4096;
/// Default for how long a stopping daemon goes on answering, seconds.
pub const DRAIN_SECONDS: u64 = 5;
/// Longest busy poll, microseconds.
pub const BUSY_POLL_US: u64 = 1000;
/// Default for how long a replay may stay silent, milliseconds.
pub const REPLAY_IDLE_MS: u64 = 2000;

/// Largest answer that the command-line client reads, bytes.
pub const CLIENT_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Largest file of tokens or hashes that a command reads, bytes.
pub const CLIENT_INPUT_BYTES: u64 = 256 * 1024 * 1024;
/// Commands that may wait for a publisher's thread.
pub const PUBLISHER_QUEUE: usize = 1024;
/// Most events of a pool's batch.
pub const POOL_BATCH_EVENTS: usize = 64;

const _: () = assert!(EVENT_HASHES < u32::MAX as usize);
const _: () = assert!(EVENT_TOKENS < u32::MAX as usize);
const _: () = assert!(ZMQ_MESSAGE_BYTES < u32::MAX as i64);
