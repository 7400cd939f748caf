//! A whole daemon, publishers that feed it, and a client that asks it.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvatlas::daemon::directory::{Directory, Readiness};
use kvatlas::daemon::message::Message;
use kvatlas::daemon::{self, Setup};
use kvatlas::http;
use kvatlas::index::hash::{DEFAULT_SEED, sequence_hashes};
use kvatlas::reactor::{Listen, Reactors, Settings, start};
use kvatlas::rt::Driver;
use kvatlas::stream::contexts::Contexts;
use kvatlas::stream::subscription;
use kvatlas::wire::chain::Chain;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::pool::{FIRST_SEQUENCE, Master, PoolEvent};
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

/// When something is given up for lost; no test waits so long unless it fails.
pub const LOST: Duration = Duration::from_secs(20);
/// The model of whoever names none.
pub const MODEL: &str = "deepseek";

/// Waits until `ready`; fails the test when it never is.
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + LOST;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An object with further members, or with others of the same names.
pub fn with(mut object: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    object.as_object_mut().unwrap().extend(more);
    object
}

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The body; fails on anything but one JSON value without repeated keys.
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        match serde_json::from_slice::<Strict>(&self.body) {
            Ok(Strict(value)) => value,
            Err(error) => panic!("{error}: {text}"),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The message of an error, which is all its body has.
    pub fn error(&self) -> String {
        let body = self.json();
        let object = body.as_object().unwrap();
        assert_eq!(object.len(), 1, "{body}");
        object["error"].as_str().unwrap().to_owned()
    }
}

/// Sends bytes on a connection of their own and reads until it is closed.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LOST)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(bytes).unwrap();
    receive(&mut stream)
}

/// Reads an answer behind which the connection is closed.
pub fn receive(stream: &mut TcpStream) -> Response {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer") + 4;
    let body = answer.split_off(head);
    let head = String::from_utf8(answer).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head, body }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Anybody who can be asked over HTTP.
pub trait Ask {
    fn address(&self) -> SocketAddr;

    fn call(&self, method: &str, path: &str, body: &[u8]) -> Response {
        exchange(self.address(), &request(method, path, body))
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        self.call("POST", path, body.to_string().as_bytes())
    }

    fn get(&self, path: &str) -> Response {
        self.call("GET", path, b"")
    }

    /// Asks a question that must have an answer.
    fn ask(&self, body: &Value) -> Value {
        let path = if body.get("token_ids").is_some() { "/query" } else { "/query_by_hash" };
        let answer = self.post(path, body);
        assert_eq!(answer.status, 200, "{body}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Registers, successfully.
    fn register(&self, body: &Value) {
        let answer = self.post("/register", body);
        assert_eq!(answer.status, 200, "{body}: {}", String::from_utf8_lossy(&answer.body));
    }

    /// What `/services` says of the publishers at an endpoint.
    fn services(&self, endpoint: &str) -> Vec<Value> {
        let Value::Array(mut all) = self.get("/services").json()["services"].take() else {
            panic!("no list")
        };
        all.retain(|service| service["Endpoint"] == endpoint);
        all
    }
}

/// For threads, which cannot share a [`Daemon`].
impl Ask for SocketAddr {
    fn address(&self) -> SocketAddr {
        *self
    }
}

/// A daemon in this process, on a free port.
pub struct Daemon {
    pub directory: Arc<Directory>,
    reactors: Option<Reactors<Message>>,
    address: SocketAddr,
}

impl Ask for Daemon {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Daemon {
    pub fn start(reactors: usize) -> Self {
        Self::with(reactors, http::Limits::default())
    }

    /// One that waits for replays as long as a loaded machine may need.
    pub fn patient(reactors: usize) -> Self {
        Self::tuned(reactors, http::Limits::default(), Duration::from_secs(2), Duration::ZERO)
    }

    /// A patient one that forgets who is away for longer than `ttl`.
    pub fn forgetful(reactors: usize, ttl: Duration) -> Self {
        Self::tuned(reactors, http::Limits::default(), Duration::from_secs(2), ttl)
    }

    pub fn with(reactors: usize, http: http::Limits) -> Self {
        Self::tuned(reactors, http, Duration::from_millis(200), Duration::ZERO)
    }

    fn tuned(reactors: usize, http: http::Limits, replay_idle: Duration, stream_ttl: Duration) -> Self {
        let directory = Directory::new(reactors);
        let setup = Setup {
            seed: DEFAULT_SEED,
            directory: directory.clone(),
            contexts: Contexts::new().unwrap(),
            subscription: subscription::Settings::default(),
            replay_idle,
            stream_ttl,
        };
        let settings = Settings {
            reactors,
            driver: Driver::Auto,
            // tests run side by side, and several daemons in one test
            pin: false,
            listen: vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())],
            http,
            ..Settings::default()
        };
        let reactors = start(settings, move |seat| daemon::Daemon::new(seat, &setup)).unwrap();
        directory.counters.set(reactors.counters.clone()).unwrap();
        directory.set_readiness(Readiness::Ready);
        Self { directory, address: reactors.addresses[0], reactors: Some(reactors) }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let reactors = self.reactors.take().unwrap();
        reactors.stop();
        let outcome = reactors.join();
        if !std::thread::panicking() {
            outcome.unwrap();
        }
    }
}

/// What engines have in common with pools.
pub trait Source {
    fn publisher(&self) -> &Publisher;

    fn endpoint(&self) -> &str {
        self.publisher().endpoint()
    }

    fn send(&self, payload: Vec<u8>) {
        self.publisher().send(payload).unwrap();
    }

    /// Waits for the first subscriber: what is sent from then on reaches it.
    fn joined(&self) {
        assert!(self.publisher().wait_subscriber(LOST).unwrap(), "nobody subscribed to {}", self.endpoint());
    }
}

/// A batch without events.
pub fn nothing() -> Vec<u8> {
    let batch = EngineBatch { stamp: Stamp::Seconds(0.0), events: &[], rank: None };
    encode_batch(Family::named("vllm-0.33.0").unwrap(), &batch)
}

/// Waits until every daemon hears every source, at the price of some empty batches.
pub fn join(daemons: &[&Daemon], sources: &[&dyn Source]) {
    for source in sources {
        for daemon in daemons {
            let deaf = |seq: u64| {
                let all = daemon.services(source.endpoint());
                let heard = |service: &Value| service["stream"]["last_sequence"].as_u64() >= Some(seq);
                all.is_empty() || !all.iter().all(heard)
            };
            eventually("a subscription", || {
                let seq = source.publisher().send(nothing()).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                !deaf(seq)
            });
        }
    }
}

/// Waits until everything that was sent is applied: a stream is in order, so the end of an empty batch will do.
pub fn settle(daemons: &[&Daemon], sources: &[&dyn Source]) {
    let sent: Vec<u64> = sources.iter().map(|source| source.publisher().send(nothing()).unwrap()).collect();
    for (source, seq) in sources.iter().zip(sent) {
        for daemon in daemons {
            eventually("everything applied", || {
                let all = daemon.services(source.endpoint());
                all.iter().all(|service| service["stream"]["last_sequence"].as_u64() >= Some(seq))
            });
        }
    }
}

/// An engine with its publisher.
pub struct Engine {
    pub publisher: Publisher,
    pub family: &'static Family,
    pub chain: Chain,
    pub block: u32,
    pub rank: u32,
}

impl Source for Engine {
    fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

impl Engine {
    /// A vLLM of today.
    pub fn new(secret: u64, block: u32, rank: u32) -> Self {
        Self::of_family("vllm-0.33.0", secret, block, rank)
    }

    pub fn of_family(family: &str, secret: u64, block: u32, rank: u32) -> Self {
        let publisher = Publisher::bind(PublisherOptions::new("tcp://127.0.0.1:0")).unwrap();
        let family = Family::named(family).unwrap();
        Self { publisher, family, chain: Chain::new(secret), block, rank }
    }

    /// What a registration of this engine says.
    pub fn registration(&self, instance: &str) -> Value {
        json!({
            "endpoint": self.endpoint(), "type": self.family.engine, "modelname": MODEL,
            "instance_id": instance, "block_size": self.block, "dp_rank": self.rank,
        })
    }

    pub fn hashes(&self, tokens: &[u32]) -> Vec<Hash> {
        let hashes = self.chain.extend(None, tokens, self.block as usize);
        hashes.into_iter().map(|hash| Hash::of(self.family, hash)).collect()
    }

    pub fn events(&self, events: &[EngineEvent<'_>]) {
        self.events_of(Some(self.rank), events);
    }

    pub fn events_of(&self, rank: Option<u32>, events: &[EngineEvent<'_>]) {
        self.send(encode_batch(self.family, &EngineBatch { stamp: Stamp::Seconds(1.0), events, rank }));
    }

    /// Stores these blocks of a prompt.
    pub fn store(&self, tokens: &[u32], blocks: Range<usize>, medium: &str) {
        let hashes = self.hashes(tokens);
        self.events(&[EngineEvent::Stored(self.stored(&hashes, tokens, blocks, medium))]);
    }

    /// The event of [`Self::store`]; `hashes` are those of the whole prompt.
    pub fn stored<'a>(
        &self,
        hashes: &'a [Hash],
        tokens: &'a [u32],
        blocks: Range<usize>,
        medium: &'a str,
    ) -> Stored<'a> {
        let block = self.block as usize;
        let parent = blocks.start.checked_sub(1).map(|at| hashes[at]);
        let tokens = &tokens[blocks.start * block..blocks.end * block];
        Stored { medium: Some(medium), ..Stored::plain(&hashes[blocks], parent, tokens, self.block) }
    }

    /// Removes these blocks of a prompt.
    pub fn remove(&self, tokens: &[u32], blocks: Range<usize>, medium: &str) {
        let hashes = self.hashes(tokens);
        self.events(&[EngineEvent::Removed(Removed::plain(&hashes[blocks], Some(medium)))]);
    }

    pub fn clear(&self) {
        self.events(&[EngineEvent::Cleared(None)]);
    }
}

/// A pool with its publisher; keys are the standard hashes.
pub struct Pool {
    pub publisher: Publisher,
    pub master: Master,
    pub block: u32,
}

impl Source for Pool {
    fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

impl Pool {
    pub fn new(backend: &str, block: u32) -> Self {
        let options =
            PublisherOptions { first_seq: FIRST_SEQUENCE, ..PublisherOptions::new("tcp://127.0.0.1:0") };
        Self { publisher: Publisher::bind(options).unwrap(), master: Master::new(backend), block }
    }

    pub fn registration(&self, instance: &str) -> Value {
        json!({
            "endpoint": self.endpoint(), "type": "Mooncake", "modelname": MODEL,
            "instance_id": instance, "block_size": self.block, "dp_rank": 0,
        })
    }

    pub fn store(&mut self, tokens: &[u32], blocks: Range<usize>, medium: &str, tenant: &str) {
        self.publish(tokens, blocks, PoolEvent { medium: Some(medium), tenant, ..PoolEvent::stored("") });
    }

    pub fn remove(&mut self, tokens: &[u32], blocks: Range<usize>, medium: &str, tenant: &str) {
        self.publish(tokens, blocks, PoolEvent { medium: Some(medium), tenant, ..PoolEvent::removed("") });
    }

    fn publish(&mut self, tokens: &[u32], blocks: Range<usize>, like: PoolEvent<'_>) {
        let hashes = sequence_hashes(tokens, self.block as usize, DEFAULT_SEED);
        let keys: Vec<String> = hashes[blocks].iter().map(u64::to_string).collect();
        let events: Vec<PoolEvent<'_>> = keys.iter().map(|key| PoolEvent { key, ..like }).collect();
        if let Some(payload) = self.master.encode(1, &events) {
            self.send(payload);
        }
    }
}

/// JSON in which no object has a key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(value)) = access.next_element()? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = access.next_entry::<String, Strict>()? {
            if map.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{key:?} stands twice")));
            }
        }
        Ok(map.into())
    }
}
