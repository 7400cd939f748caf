//! A whole coordinator in this process, and a client that asks it.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kvatlas::fleet::coordinator::{Coordinator, Luggage, Never};
use kvatlas::fleet::settings::Settings;
use kvatlas::http;
use kvatlas::reactor::{self, Listen, Reactors};
use kvatlas::rt::Driver;
use serde_json::{Value, json};

/// When something is given up for lost; no test waits so long unless it fails.
pub const LOST: Duration = Duration::from_secs(30);
/// The default of `GET /quota/config` and others is in GiB.
pub const GIB: f64 = (1u64 << 30) as f64;

/// Waits until `ready`; fails the test when it never is.
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + LOST;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Settings whose loops do nothing of themselves: no sweep, no resync.
pub fn quiet() -> Settings {
    Settings {
        eviction_check_interval: 0.0,
        health_check_interval: 0.0,
        enable_startup_resync: false,
        chunk_size: 4,
        ..Settings::default()
    }
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The `detail` of an error.
    pub fn detail(&self) -> Value {
        self.json()["detail"].clone()
    }
}

/// Reads one answer of a connection that may stay open.
pub fn receive(stream: &mut TcpStream) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(LOST))?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |length| length.trim().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { status, head, body })
}

/// A coordinator, stopped when dropped.
pub struct Fleet {
    // a lock, since threads of a test share the client and not the reactors
    reactors: Mutex<Option<Reactors<Never>>>,
    address: SocketAddr,
}

impl Fleet {
    /// One on a free port of the loopback.
    pub fn start(settings: Settings) -> Self {
        Self::on(settings, Driver::Auto)
    }

    pub fn on(settings: Settings, driver: Driver) -> Self {
        let keep_alive = settings.keep_alive();
        let http = http::Limits { body_bytes: settings.body_limit, ..http::Limits::default() };
        let luggage = Mutex::new(Some(Luggage::pack(settings).unwrap()));
        let listen = vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let settings = reactor::Settings {
            name: "fleet",
            driver,
            pin: false,
            listen,
            http,
            keep_alive,
            drain: Duration::from_secs(1),
            ..reactor::Settings::default()
        };
        let reactors = reactor::start(settings, move |seat| Coordinator::new(seat, &luggage)).unwrap();
        Self { address: reactors.addresses[0], reactors: Mutex::new(Some(reactors)) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and waits until it has.
    pub fn stop(self) {
        let reactors = self.reactors.lock().unwrap().take().unwrap();
        reactors.stop();
        reactors.join().unwrap();
    }

    /// Sends bytes on a connection of their own; the answer.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        use std::io::Write;
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(bytes).unwrap();
        receive(&mut stream).unwrap()
    }

    /// Asks with a body as it is, of type JSON.
    pub fn call(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.raw(&[head.as_bytes(), body].concat())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, b"")
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, b"")
    }

    pub fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, body.to_string().as_bytes())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, body.to_string().as_bytes())
    }

    /// Reports events, successfully.
    pub fn report(&self, events: &Value) {
        let answer = self.post("/quota/events", &json!({"instance_id": "test", "seq": 1, "events": events}));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Bytes stored under a salt (`_default` is the empty one).
    pub fn usage(&self, salt: &str) -> u64 {
        (self.get(&format!("/quota/{salt}")).json()["usage_gb"].as_f64().unwrap() * GIB).round() as u64
    }

    /// The number behind a line of `/metrics`, by its name and labels after `kvatlas_fleet_`.
    pub fn metric(&self, line: &str) -> f64 {
        let page = self.get("/metrics");
        let prefix = format!("kvatlas_fleet_{line} ");
        let value = page.text().lines().find_map(|line| line.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("no line {line}")).parse().unwrap()
    }
}

/// An event of a key that is told by a number.
pub fn event(kind: &str, number: u64, salt: &str, bytes: u64) -> Value {
    json!({
        "type": kind,
        "key": {
            "chunk_hash_hex": format!("{number:064x}"),
            "model_name": "m",
            "kv_rank": 16_777_472,
            "cache_salt": salt,
        },
        "bytes": bytes,
    })
}

pub fn store(number: u64, salt: &str, bytes: u64) -> Value {
    event("store", number, salt, bytes)
}
