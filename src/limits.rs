//! Every bound of the daemon, in one place. Hitting one is counted in `/metrics` and never fatal.

use std::time::Duration;

/// Largest HTTP request head, bytes (431 beyond).
pub const HTTP_HEAD_BYTES: usize = 16 * 1024;
/// Most header lines in a request head (431 beyond).
pub const HTTP_HEADERS: usize = 64;
/// Default for the largest HTTP request body, bytes (413 beyond).
pub const HTTP_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Room that an HTTP receive buffer starts with, bytes.
pub const HTTP_READ_BYTES: usize = 16 * 1024;
/// Most bytes of a body for which room is made before any of it has come.
pub const HTTP_TRUSTED_BYTES: usize = 64 * 1024;
/// Largest receive buffer that a connection keeps between requests, bytes.
pub const HTTP_KEPT_BYTES: usize = 256 * 1024;
/// Largest receive buffer that is kept for other connections of its reactor, bytes: some 300,000 tokens as JSON.
pub const HTTP_SPARE_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of all receive buffers that a reactor so keeps.
pub const HTTP_SPARES_BYTES: usize = 16 * 1024 * 1024;
/// Default for the most open HTTP connections of one reactor (503 beyond).
pub const HTTP_CONNECTIONS: usize = 4096;
/// Default for how long a connection may stay silent, seconds.
pub const HTTP_IDLE_SECONDS: u64 = 75;

/// Longest name or salt in a request body, bytes of its text; of another field, bytes of its JSON.
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

/// Bytes of a shard from which on memory may come in huge pages. A small index leaves them half empty: at 20 MB they took
/// 10 bytes a block more, and 4 MiB of a daemon that holds nothing.
pub const HUGE_PAGES_FROM: u64 = 64 * 1024 * 1024;

/// Milliseconds for which the allocator keeps memory that became free. Its own second, with an index that grows, left
/// a quarter of the resident memory unused; with this the CPU time of ingest is the same.
pub const FREE_MEMORY_MILLIS: i32 = 10;

/// What a turn of a reactor may cost before its tasks yield, in units of about 1.5 ns (100 µs).
pub const TURN_BUDGET: u32 = 1 << 16;
/// Events have one of so many parts of a turn: each end of a turn costs about as much as a block.
pub const INGEST_SHARE: u32 = 2;
/// The same while queries come: twice as many halve the rate of a replay and gain a query nothing more.
pub const INGEST_SHARE_ASKED: u32 = 16;
/// Turns after a query for which further ones are expected: 4 ms and more.
pub const TURNS_ASKED: u32 = 512;
/// Turns in a row, at most, after which the kernel is asked and the timers are not: 0.4 ms of ingest, and timers tell
/// milliseconds apart.
pub const ROUNDS_UNTIMED: u32 = 8;
/// Cost of receiving and decoding one event message: 64 fill a turn.
pub const COST_EVENT: u32 = TURN_BUDGET / 64;
/// Cost of hashing and applying one block: 200 fill a turn.
pub const COST_BLOCK: u32 = TURN_BUDGET / 200;
/// Cost of one index lookup of a query: 512 fill a turn.
pub const COST_LOOKUP: u32 = TURN_BUDGET / 512;
/// Cost of parsing or hashing one token: 8,192 fill a turn.
pub const COST_TOKEN: u32 = TURN_BUDGET / 8192;
/// Cost of reading, routing and answering one HTTP request, without what it asks for.
pub const COST_REQUEST: u32 = TURN_BUDGET / 64;
/// Bytes read or written for one unit of cost.
pub const BYTES_PER_COST: usize = 8;
/// A task that keeps its reactor longer than this is counted as a stall, microseconds.
pub const STALL_MICROS: u64 = 1000;
/// Submission queue of an io_uring; a reactor rarely has more operations new in one turn.
pub const URING_ENTRIES: u32 = 512;
/// Bytes that one read takes at most where the runtime reads by way of a buffer of the reactor.
pub const STREAM_READ_BYTES: usize = 64 * 1024;

/// Messages that one ring between two reactors holds (a power of two).
pub const MESH_RING: usize = 256;
/// Requests that wait at the sender when the ring is full; beyond that sending fails (503).
pub const MESH_REQUEST_BACKLOG: usize = 1024;
/// Replies that wait at the sender when the ring is full: more than a reactor has connections to ask for them.
pub const MESH_REPLY_BACKLOG: usize = 16 * 1024;
/// Messages that a reactor takes from the mesh in one pass of its pump.
pub const MESH_DRAIN: usize = 128;
/// Longest busy-polling before a pump sleeps, microseconds.
pub const BUSY_POLL_US: u32 = 1000;

/// Connections that a reactor accepts in one go before others get a turn.
pub const ACCEPT_BURST: usize = 64;
/// Pause after the process ran out of file descriptors, milliseconds.
pub const ACCEPT_PAUSE_MILLIS: u64 = 50;
/// Connections of a reactor that are over the limit and still hear their 503; beyond that they are just closed.
pub const REFUSED_CONNECTIONS: usize = 64;
/// How long a connection that was told to go may take to read the reason, milliseconds.
pub const LINGER_MILLIS: u64 = 1000;
/// What a client may still send after it was told to go, bytes.
pub const LINGER_BYTES: usize = 1 << 20;
/// Default for the longest time from the first byte of a request to the end of its head, seconds: short, so that
/// clients that trickle do not keep others out.
pub const HTTP_HEAD_SECONDS: u64 = 10;
/// Default for the most bytes of unfinished requests that all connections of one reactor hold (503 beyond).
pub const HTTP_HELD_BYTES: usize = 1 << 30;
/// Default for the longest time from the first byte of a request to its last, seconds.
pub const HTTP_REQUEST_SECONDS: u64 = 300;
/// Pipelined answers are written together up to about this size, bytes.
pub const HTTP_WRITE_BYTES: usize = 256 * 1024;
/// A write buffer larger than this is given back to the allocator between requests, bytes.
pub const HTTP_KEEP_BYTES: usize = 1 << 20;
/// Pending connections that the kernel keeps for one listener.
pub const LISTEN_BACKLOG: i32 = 1024;
/// How long the start waits for a port or a socket file that another process holds, milliseconds.
pub const LISTEN_PATIENCE_MILLIS: u64 = 1500;
/// How long a stopping reactor waits for answers in flight, seconds.
pub const SHUTDOWN_SECONDS: u64 = 10;

/// Frames of one ZMQ message that are kept; engines send three, the rest is dropped and counted.
pub const ZMQ_FRAMES: usize = 8;
/// First pause before a subscription reconnects, milliseconds.
pub const ZMQ_RECONNECT_MILLIS: i32 = 100;
/// Longest pause before a subscription reconnects, milliseconds.
pub const ZMQ_RECONNECT_MAX_MILLIS: i32 = 5000;
/// Pause between ZMTP heartbeats, milliseconds.
pub const ZMQ_HEARTBEAT_MILLIS: i32 = 5000;
/// A publisher silent for this long after a heartbeat is disconnected, milliseconds.
pub const ZMQ_HEARTBEAT_TIMEOUT_MILLIS: i32 = 15_000;
/// Longest endpoint, bytes.
pub const ENDPOINT_BYTES: usize = 512;

const _: () = assert!(MESH_RING.is_power_of_two());
const _: () = assert!(MESH_REPLY_BACKLOG >= HTTP_CONNECTIONS);
const _: () = assert!(COST_TOKEN > 0);
/// Largest settings file, bytes.
pub const CONFIG_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Most publishers of a settings file.
pub const CONFIG_PUBLISHERS: usize = 4096;
/// Default for how long a stopping daemon goes on answering, seconds.
pub const DRAIN_SECONDS: u64 = 5;
/// Default for how long a replay may stay silent, milliseconds.
pub const REPLAY_IDLE_MS: u64 = 2000;

/// Largest answer that the command-line client reads, bytes.
pub const CLIENT_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Largest file of tokens or hashes that a command reads, bytes.
pub const CLIENT_INPUT_BYTES: u64 = 256 * 1024 * 1024;
/// Commands that may wait for a publisher's thread.
pub const PUBLISHER_QUEUE: usize = 1024;
/// Replay requests that a publisher answers at a time; further ones wait in its socket.
pub const PUBLISHER_ANSWERS: usize = 64;
/// Longest pause between two replies of a publisher that is slow on purpose, milliseconds.
pub const PUBLISHER_PAUSE_MS: u64 = 3_600_000;
/// Most batches that one flag of `publish` may name.
pub const PUBLISHER_FAULTS: usize = 4096;
/// Most events of a pool's batch.
pub const POOL_BATCH_EVENTS: usize = 64;

const _: () = assert!(EVENT_HASHES < u32::MAX as usize);
const _: () = assert!(EVENT_TOKENS < u32::MAX as usize);
const _: () = assert!(ZMQ_MESSAGE_BYTES < u32::MAX as i64);
/// Elements of a decoded batch whose memory is kept for the next one.
pub const STREAM_BATCH_KEPT: usize = 1 << 18;
/// Mappings a context that `/global_view` dumps unless `limit` says otherwise.
pub const GLOBAL_VIEW_MAPPINGS: usize = 10_000;
/// Families (tenant, model, block size) of events that are kept with the reactors that have them; for more,
/// the reactors are asked whatever the family.
pub const LEARNED_FAMILIES: usize = 4096;
/// Streams with lines of their own in `/metrics`; the rest is summed up.
pub const METRIC_STREAMS: usize = 1000;

/// Batches that a stream remembers to tell a repeat from a restart (16 bytes each).
pub const STREAM_MEMORY: usize = 1024;
/// Batches before the last one that a replay is compared with after a reconnect: more than may be applied between
/// the first message of a new connection and the word of it.
pub const STREAM_COMPARED: usize = 128;
/// Messages of one stream that may wait for a replay.
pub const HOLD_MESSAGES: usize = 16 * 1024;
/// Bytes of all messages of one endpoint that may wait for replays.
pub const HOLD_BYTES: usize = 64 * 1024 * 1024;
/// Requests that may follow one another while each brings something new: publishers cut long answers short.
pub const REPLAY_CHAIN: u32 = 64;
/// Times that a replay may contradict what was published before it is no longer believed.
pub const REPLAY_CONTRADICTIONS: u32 = 2;
/// How long something is missing before the publisher's memory is asked once more, seconds; it doubles with every attempt,
/// up to the second figure.
pub const MEND_SECONDS: u64 = 10;
/// The longest such time, seconds.
pub const MEND_MAX_SECONDS: u64 = 640;
/// Publishers of a reactor whose memory is read again at once; each may take [`HOLD_BYTES`] meanwhile.
pub const MENDS_AT_ONCE: usize = 4;
/// Topics of one endpoint; messages of further ones are refused and counted.
pub const STREAM_TOPICS: usize = 256;
/// Longest topic, bytes.
pub const TOPIC_BYTES: usize = 4096;
/// Registrations that may have ended before they reached their reactor.
pub const CANCELLED_REGISTRATIONS: usize = 4096;
/// Names that a dump of the index looks at for each mapping that it may show.
pub const DUMP_NAMES_PER_MAPPING: usize = 4;
/// How long a subscription may be without a connection before it is opened anew, seconds; well above libzmq's own
/// longest pause between two attempts. It doubles from time to time, up to the second figure.
pub const STREAM_REVIVE_SECONDS: u64 = 10;
/// The longest such time, seconds.
pub const STREAM_REVIVE_MAX_SECONDS: u64 = 80;
/// Contexts that are looked at to say why a query found nothing.
pub const WHY_CONTEXTS: usize = 4096;
/// Most mappings a context that `/global_view` dumps, whatever `limit` says.
pub const GLOBAL_VIEW_MOST: usize = 100_000;
/// Descriptors of one registration: libzmq's for a watched subscription and a replay (13.1 were counted), rounded up.
pub const FDS_PER_PUBLISHER: u64 = 14;
/// Descriptors that stay free of registrations: the reactors', libzmq's, logs, some connections.
pub const FDS_RESERVED: u64 = 128;

/// Most instances of a fleet; further ones are refused.
pub const FLEET_INSTANCES: usize = 65_536;
/// Bytes of text that the registrations of a fleet may hold together: ids, addresses, metadata.
pub const FLEET_REGISTRY_BYTES: usize = 64 * 1024 * 1024;
/// Largest world size for which tokens are resolved to keys; every chunk has a key a rank.
pub const FLEET_WORLD_SIZE: u64 = 65_536;
/// Most keys to which the tokens of one request are resolved.
pub const FLEET_RESOLVED_KEYS: u64 = 4_000_000;
/// Largest page that an MP server lists; it refuses to list more at a time.
pub const FLEET_PAGE_ENTRIES: u64 = 5000;
/// Most pages that are asked of one instance; at 1,000 entries a page it is a thousand million.
pub const FLEET_RESYNC_PAGES: u64 = 1_000_000;
/// Most fingerprints of chunks that are kept; beyond, the oldest go.
pub const FLEET_FINGERPRINTS: usize = 1 << 20;
/// Bytes of object keys and scopes that the fingerprints may hold together; beyond, the oldest go.
pub const FLEET_FINGERPRINT_BYTES: usize = 256 * 1024 * 1024;
/// Default for the largest request body of the coordinator, bytes (413 beyond). Batches of 100,000 events have 23 MB,
/// a million token ids 8 MB.
pub const FLEET_BODY_BYTES: usize = 256 * 1024 * 1024;
/// Requests to MP servers under way at a time: DELETEs of evictions, one thread each.
pub const COURIER_DISPATCH_THREADS: usize = 16;
/// The same for requests that a client waits for.
pub const COURIER_RELAY_THREADS: usize = 32;
/// The same for listings.
pub const COURIER_RESYNC_THREADS: usize = 2;
/// Requests of one class that may wait for a thread; further ones are refused.
pub const COURIER_QUEUE: usize = 1024;
/// Bytes of the bodies that may wait for a thread, a class.
pub const COURIER_QUEUE_BYTES: usize = 256 * 1024 * 1024;
/// How long a thread of the courier waits for work before it ends, seconds.
pub const COURIER_THREAD_IDLE_SECONDS: u64 = 10;
/// Stack of a thread of the courier, bytes.
pub const COURIER_STACK_BYTES: usize = 256 * 1024;
/// Longest time that a request may be given, seconds.
pub const COURIER_TOTAL_SECONDS: u64 = 24 * 3600;
/// Longest time to connect, seconds.
pub const COURIER_CONNECT_SECONDS: u64 = 10;
/// Largest body of an answer, bytes: a page of 5,000 entries with long names fits.
pub const COURIER_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Connections that are kept open between requests, all told.
pub const COURIER_IDLE_CONNECTIONS: usize = 64;
/// The same to one server.
pub const COURIER_IDLE_PER_SERVER: usize = 16;
/// How long a connection may lie idle and be used again, milliseconds: well below the 5 s after which servers close.
pub const COURIER_IDLE_MILLIS: u64 = 3000;
/// Names that are looked up at a time; a system resolver may take longer than a request.
pub const COURIER_LOOKUPS: usize = 16;
/// Addresses of a name that are tried.
pub const COURIER_ADDRESSES: usize = 8;

/// Changes that may wait to be written to disk; further ones are refused.
pub const VAULT_QUEUE: usize = 1024;
/// Bytes that waiting changes may hold.
pub const VAULT_QUEUE_BYTES: usize = 256 * 1024 * 1024;
/// Changes that share one fsync.
pub const VAULT_BATCH: usize = 64;
/// Pages of the vault that are kept in memory, bytes.
pub const VAULT_CACHE_BYTES: usize = 32 * 1024 * 1024;
/// How long the start waits for a state directory that another process has, milliseconds.
pub const VAULT_PATIENCE_MILLIS: u64 = 1500;
/// Keys of one change that are sorted together, bytes.
pub const VAULT_RUN_BYTES: usize = 64 * 1024 * 1024;
/// Longest model and salt of a pin together, bytes.
pub const VAULT_SCOPE_BYTES: usize = 16 * 1024;
/// Most keys that the fleet's books hold, stored or pinned; further ones are refused and counted.
pub const FLEET_KEYS: usize = 1 << 26;
/// Most bytes of models, salts and chunk hashes of unusual length that the books keep.
pub const FLEET_TEXT_BYTES: usize = 256 * 1024 * 1024;
/// Most salts with a quota of their own.
pub const FLEET_QUOTAS: usize = 1 << 20;
/// Most keys of one DELETE; MP servers refuse more.
pub const FLEET_BATCH_KEYS: usize = 10_000;
/// Deletions of a key that were answered well, but never reported, before it backs off.
pub const FLEET_UNREPORTED_ANSWERS: u8 = 8;
/// Longest pause of a key that backs off, milliseconds.
pub const FLEET_BACK_OFF_MILLIS: u64 = 60_000;
/// Keys of one salt that may back off before their bytes no longer count as usage that others must make room for.
pub const FLEET_STUCK_KEYS: u32 = 64;
/// Deletions that are remembered while a resync runs; after more of them it adds no further key.
pub const FLEET_RESYNC_DELETIONS: usize = 1 << 20;
/// Instances whose event sequence is watched; for a further one the first is forgotten.
pub const FLEET_SEQUENCES: usize = 4096;
/// Longest model, and longest chunk hash, of a key, bytes.
pub const KEY_TEXT_BYTES: usize = 1024;
/// Longest scope, and longest object key, of a fingerprint, bytes.
pub const BLEND_TEXT_BYTES: usize = 16 * 1024;
/// Most that one registration may hold: its text and [`METADATA_BYTES`] for each pair of its metadata.
pub const FLEET_INSTANCE_BYTES: usize = 64 * 1024;
/// What a pair of metadata takes beside its text, bytes.
pub const METADATA_BYTES: usize = 64;
/// Bytes of a report of events after which a step of reading it ends with the event at hand.
pub const FORM_STEP_BYTES: usize = 16 * 1024;
/// Most blanks in a row in a report of events that is read in steps.
pub const FORM_BLANKS: usize = 256;
/// Largest request body that the coordinator reads, bytes.
pub const FORM_BODY_BYTES: usize = (1 << 28) - 1;
/// Deepest nesting of a request body.
pub const FORM_DEPTH: usize = 1000;
/// Most digits of an integer in a request body.
pub const FORM_INTEGER_DIGITS: usize = 4300;
/// Most faults that one refusal lists.
pub const FORM_FAULTS: usize = 1000;
/// Most bytes of values that one refusal shows.
pub const FORM_ECHO_BYTES: usize = 1 << 20;
/// Most tokens that a pin or deletion names.
pub const SEQUENCE_TOKENS: usize = 1_000_000;
/// Pins of one page, unless the query says otherwise.
pub const PINS_PAGE: i128 = 1000;
/// Most pins of one page.
pub const PINS_PAGE_MOST: i128 = 10_000;

/// Events, keys, entries or pins that the coordinator handles before it looks at other requests.
pub const FLEET_STEP: usize = 64;
/// Longest request body that is read at once; a longer one is read on a thread of its own.
pub const FLEET_READ_BYTES: usize = 64 * 1024;
/// Bytes of bodies and answers that are copied before other requests have a turn.
pub const FLEET_COPY_BYTES: usize = 128 * 1024;
/// Tokens that a blend request handles before it looks at other requests.
pub const FLEET_TOKEN_STEP: usize = 4096;
/// Deadline of a request to an MP server.
pub const FLEET_UPSTREAM_TIME: Duration = Duration::from_secs(30);
/// How long a stopping coordinator waits for answers in flight, then for DELETEs under way, milliseconds.
pub const FLEET_STOP_MILLIS: u64 = 1000;
/// How long requests to MP servers that a client waits for are still waited for on the way down, milliseconds.
pub const FLEET_RELAY_STOP_MILLIS: u64 = 250;
/// How long changes under way are still saved and answered on the way down, milliseconds.
pub const FLEET_SAVE_STOP_MILLIS: u64 = 20_000;
/// How far the coordinator stands back behind the reactors of the index in the same process.
pub const FLEET_NICE: u8 = 5;
/// Times that a sweep halves a refused DELETE: enough to find two keys among 10,000 that none can be deleted with.
pub const FLEET_HALVINGS: usize = 28;
/// DELETEs of one sweep that are under way at a time: as many as the courier gives one server.
pub const FLEET_BATCHES_AT_ONCE: usize = 8;
/// Salts that have lines of their own in the coordinator's metrics.
pub const FLEET_METRIC_SALTS: usize = 100;

/// Default for how late a batch or question of a bench may be sent and count as sent on time, milliseconds.
pub const BENCH_LATE_MS: u64 = 5;
/// The same for requests of a trace, which come in bursts and are played one after the other.
pub const BENCH_TRACE_LATE_MS: u64 = 250;
/// Most publishers, workers or owners of a bench.
pub const BENCH_PUBLISHERS: u32 = 1024;
/// Longest run of a bench, seconds.
pub const BENCH_SECONDS: f64 = 24.0 * 3600.0;
/// Most batches or requests a second that a schedule of a bench may have.
pub const BENCH_RATE: f64 = 1e6;
/// Most blocks of one batch of a bench, all events together.
pub const BENCH_BATCH_BLOCKS: u64 = 1 << 16;
/// Most blocks that one publisher of a bench holds.
pub const BENCH_CAPACITY: u32 = 1 << 26;
/// Batches of one publisher that may be unapplied while there is no schedule: well below what a subscription queues.
pub const BENCH_WINDOW: u64 = 2048;
/// Batches of one publisher that may be sent and not applied; beyond, the run is given up.
pub const BENCH_IN_FLIGHT: usize = 1 << 20;
/// Batches that a late publisher hands over before it looks how late they were.
pub const BENCH_BURST: usize = 32;
/// Bytes that may wait in the socket of one publisher; what is beyond is lost, as it is with engines.
pub const BENCH_SOCKET_BYTES: usize = 256 * 1024 * 1024;
/// Longest time that the daemon may take to subscribe to a publisher, seconds.
pub const BENCH_SUBSCRIBE_SECONDS: u64 = 20;
/// Longest wait for one answer while a bench measures, seconds.
pub const BENCH_ANSWER_SECONDS: u64 = 30;
/// Longest wait for one answer once a bench has done its work or was stopped, and for the rest of what was stopped,
/// seconds: by so much a daemon that answers nothing delays the end.
pub const BENCH_SILENCE_SECONDS: u64 = 5;
/// Longest wait for the rest to be applied after the last batch was sent, seconds.
pub const BENCH_SETTLE_SECONDS: u64 = 60;
/// How long nothing may be applied before that wait ends, milliseconds.
pub const BENCH_STUCK_MILLIS: u64 = 3000;
/// Longest wait until what was sent before the clock runs is applied, seconds.
pub const BENCH_FILL_SECONDS: u64 = 300;
/// Most connections of a bench.
pub const BENCH_CONNECTIONS: u32 = 1024;
/// Most tokens that all prompts of a bench have together.
pub const BENCH_PROMPT_TOKENS: u64 = 1 << 28;
/// Blocks of an event that fills the daemon: what an engine computes in one step of 2048 tokens.
pub const BENCH_EVENT_BLOCKS: usize = 128;
/// Longest line of a trace, bytes.
pub const BENCH_LINE_BYTES: usize = 1 << 20;
/// Most tokens of one request of a trace, prompt and output.
pub const BENCH_REQUEST_TOKENS: u64 = 1 << 22;
/// Longest pause between two requests of a trace, as it is played, seconds.
pub const BENCH_PAUSE_SECONDS: f64 = 3600.0;
/// Most requests of a trace.
pub const BENCH_TRACE_REQUESTS: usize = 1 << 20;
/// Most ids of all requests of a trace together.
pub const BENCH_TRACE_IDS: usize = 1 << 26;
/// Requests of a trace that are asked again once all is quiet.
pub const BENCH_ASKED_AGAIN: usize = 500;
/// Longest time that the histograms of a bench tell apart, seconds; what is longer counts as so long.
pub const BENCH_TIME_SECONDS: u64 = 3600;

const _: () = assert!(VAULT_RUN_BYTES + VAULT_SCOPE_BYTES < u32::MAX as usize);
