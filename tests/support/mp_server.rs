//! An MP server as a coordinator sees one: real sockets, real HTTP, objects in memory, and the manners of servers
//! that are slow, broken or hostile.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Most keys of one DELETE.
const KEYS: usize = 10_000;
/// Most entries of one page.
const PAGE: i64 = 5000;
/// Pause between the bytes of a server that trickles.
const TRICKLE: Duration = Duration::from_millis(20);

/// How the server answers, until it is told otherwise.
#[derive(Clone, Debug, Default)]
pub enum Manner {
    /// As it should.
    #[default]
    Good,
    /// As it should, with chunked bodies.
    Chunked,
    /// As it should, and closes without having said so.
    Closing,
    /// With this status and a `detail`; nothing is done.
    Status(u16),
    /// As it should, after a while.
    Slow(Duration),
    /// With these bytes, then closes.
    Raw(Vec<u8>),
    /// With these bytes, and keeps the connection.
    RawOpen(Vec<u8>),
    /// As it should, a byte at a time.
    Trickle,
    /// Not at all, and keeps the connection.
    Silent,
    /// Not at all, and closes.
    Hangup,
    /// With half of what it should, then closes.
    Half,
    /// DELETE: 200 with `ok: false`; nothing is deleted.
    NotOk,
    /// DELETE: as [`Manner::NotOk`] where one of the keys cannot be deleted, else as it should.
    Touchy,
    /// DELETE: as if all were well; nothing is deleted.
    NeverDelete,
    /// With 307 to another place.
    Redirect(String),
    /// 400 after the head, and reads no body.
    Unread,
}

/// What a server stores.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    pub hash: String,
    pub model: String,
    pub rank: i128,
    pub group: u64,
    pub salt: String,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Number of its connection, from 0.
    pub connection: usize,
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Default)]
struct State {
    manner: Manner,
    seen: Vec<Seen>,
    /// In the order in which they were stored.
    objects: BTreeMap<u64, (Object, u64)>,
    places: HashMap<Object, u64>,
    /// What no DELETE deletes, though it is answered as if all were well.
    undeletable: HashSet<Object>,
    next: u64,
    /// Polls that are still answered by `pending`, by request; none once it was told to be completed.
    prefetches: HashMap<String, Option<u32>>,
    pending_polls: u32,
    chunk_size: usize,
    streams: Vec<TcpStream>,
    reporter: Option<Sender<Vec<Value>>>,
    member: Option<Member>,
    /// Number of the last batch that was reported.
    seq: u64,
}

/// What the server is to its coordinator.
#[derive(Clone)]
struct Member {
    coordinator: SocketAddr,
    instance_id: String,
}

/// The server as a client of its coordinator: one connection, kept as long as it works.
#[derive(Default)]
struct Session {
    connection: Option<TcpStream>,
}

struct Inner {
    address: SocketAddr,
    state: Mutex<State>,
    session: Mutex<Session>,
    stopping: AtomicBool,
    connections: AtomicUsize,
    open: AtomicUsize,
}

/// A server on a port of its own; dropping it ends it and its connections.
#[derive(Clone)]
pub struct MpServer {
    inner: Arc<Inner>,
    _end: Arc<End>,
}

struct End(Arc<Inner>);

impl Object {
    /// One of many: an object of rank 0 of a world of one.
    pub fn numbered(number: u64, model: &str, salt: &str) -> Self {
        Self {
            hash: format!("{number:064x}"),
            model: model.into(),
            rank: 16_777_472,
            group: 0,
            salt: salt.into(),
        }
    }

    pub fn json(&self) -> Value {
        // serde_json has no number for 128 bits
        let rank = i64::try_from(self.rank).map_or_else(|_| json!(self.rank as u64), |rank| json!(rank));
        json!({
            "chunk_hash_hex": self.hash, "model_name": self.model, "kv_rank": rank,
            "object_group_id": self.group, "cache_salt": self.salt,
        })
    }

    pub fn of_json(key: &Value) -> Result<Self, String> {
        let text = |name: &str| key[name].as_str().ok_or(format!("{name} must be a string"));
        let hash = text("chunk_hash_hex")?.to_lowercase();
        if hash.len() % 2 != 0 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("chunk_hash_hex is not hex".into());
        }
        let (model, salt) = (text("model_name")?, key["cache_salt"].as_str().unwrap_or_default());
        if model.contains('@') || salt.contains('@') {
            return Err("must not contain '@'".into());
        }
        let rank = &key["kv_rank"];
        let rank = rank.as_i64().map(i128::from).or(rank.as_u64().map(i128::from));
        Ok(Self {
            hash,
            model: model.into(),
            rank: rank.ok_or("kv_rank must be an integer")?,
            group: key["object_group_id"].as_u64().unwrap_or(0),
            salt: salt.into(),
        })
    }
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(named, _)| named == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl MpServer {
    /// A server on a free port of the loopback.
    pub fn start() -> Self {
        Self::bind("127.0.0.1:0")
    }

    pub fn bind(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let state = State { pending_polls: 1, chunk_size: 256, ..State::default() };
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            state: Mutex::new(state),
            session: Mutex::default(),
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        });
        let accepting = inner.clone();
        thread::spawn(move || accept(&listener, &accepting));
        Self { _end: Arc::new(End(inner.clone())), inner }
    }

    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    pub fn ip(&self) -> String {
        self.inner.address.ip().to_string()
    }

    pub fn port(&self) -> u16 {
        self.inner.address.port()
    }

    pub fn behave(&self, manner: Manner) {
        self.inner.lock().manner = manner;
    }

    /// Everything that was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.inner.lock().seen.clone()
    }

    /// What was asked so far, which is forgotten.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.inner.lock().seen)
    }

    /// Connections that were ever accepted.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Acquire)
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.inner.open.load(Ordering::Acquire)
    }

    /// Closes all connections; new ones are accepted.
    pub fn close_connections(&self) {
        for stream in self.inner.lock().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Tokens of a chunk, and how often a prefetch is pending before it is completed.
    pub fn set_prefetch(&self, chunk_size: usize, pending_polls: u32) {
        let mut state = self.inner.lock();
        (state.chunk_size, state.pending_polls) = (chunk_size, pending_polls);
    }

    /// Stores objects of some bytes, and reports them when the server has joined a coordinator.
    pub fn store(&self, objects: &[(Object, u64)]) {
        let mut state = self.inner.lock();
        for (object, bytes) in objects {
            state.put(object.clone(), *bytes);
        }
        let events = objects.iter().map(|(object, bytes)| event("store", object, *bytes)).collect();
        state.report(events);
    }

    /// From now on this object cannot be deleted, and nobody is told.
    pub fn hold_on_to(&self, object: &Object) {
        self.inner.lock().undeletable.insert(object.clone());
    }

    /// Reports that an object was looked up.
    pub fn look_up(&self, object: &Object) {
        self.inner.lock().report(vec![event("lookup", object, 0)]);
    }

    /// What is stored, oldest first.
    pub fn objects(&self) -> Vec<Object> {
        self.inner.lock().objects.values().map(|(object, _)| object.clone()).collect()
    }

    /// Bytes of what is stored.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().objects.values().map(|(_, bytes)| bytes).sum()
    }

    /// Registers with a coordinator; from now on stores and deletes are reported to it. Its id.
    pub fn join(&self, coordinator: SocketAddr, instance_id: &str) -> String {
        let body = json!({
            "instance_id": instance_id, "ip": self.ip(), "http_port": self.port(), "metadata": {},
            "p2p_advertised_url": "", "mq_port": 0,
        });
        let (status, answer) = self.inner.ask(coordinator, "POST", "/instances", Some(&body)).unwrap();
        assert_eq!(status, 200, "{answer}");
        let id = answer["instance_id"].as_str().unwrap().to_owned();
        let (reporter, batches) = mpsc::channel::<Vec<Value>>();
        let mut state = self.inner.lock();
        state.member = Some(Member { coordinator, instance_id: id.clone() });
        if state.reporter.is_none() {
            state.reporter = Some(reporter);
            let inner = Arc::downgrade(&self.inner);
            thread::spawn(move || {
                for events in batches {
                    let Some(inner) = inner.upgrade() else { return };
                    flush(&inner, &events);
                }
            });
        }
        id
    }

    /// One heartbeat; the status that came back, none when there was no answer.
    pub fn heartbeat(&self) -> Option<u16> {
        let member = self.inner.lock().member.clone()?;
        let path = format!("/instances/{}/heartbeat", member.instance_id);
        self.inner.ask(member.coordinator, "PUT", &path, None).ok().map(|(status, _)| status)
    }

    /// Deregisters; nothing is reported any more.
    pub fn leave(&self) -> Option<u16> {
        let member = {
            let mut state = self.inner.lock();
            state.reporter = None;
            state.member.take()?
        };
        let path = format!("/instances/{}", member.instance_id);
        self.inner.ask(member.coordinator, "DELETE", &path, None).ok().map(|(status, _)| status)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(
        &self,
        coordinator: SocketAddr,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.ask(coordinator, method, path, body)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.stopping.store(true, Ordering::Release);
        let mut state = self.0.lock();
        state.reporter = None;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // the acceptor waits for one more
        let _ = TcpStream::connect(self.0.address);
    }
}

fn event(kind: &str, object: &Object, bytes: u64) -> Value {
    json!({"type": kind, "key": object.json(), "bytes": bytes})
}

/// Reports one batch, as the real one does: whatever goes wrong, it is not sent again.
fn flush(inner: &Inner, events: &[Value]) {
    let (coordinator, body) = {
        let mut state = inner.lock();
        let Some(Member { coordinator, instance_id }) = state.member.clone() else { return };
        state.seq += 1;
        (coordinator, json!({"instance_id": instance_id, "seq": state.seq, "events": events, "tier": "l2"}))
    };
    let _ = inner.ask(coordinator, "POST", "/quota/events", Some(&body));
}

impl Session {
    /// Asks the coordinator, on the connection of the last time when it still works.
    fn ask(
        &mut self,
        coordinator: SocketAddr,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let coding = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {coordinator}\r\n{coding}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        if let Some(kept) = self.connection.take()
            && let Ok(answer) = self.exchange(kept, &request)
        {
            return Ok(answer);
        }
        self.exchange(TcpStream::connect(coordinator)?, &request)
    }

    fn exchange(&mut self, mut stream: TcpStream, request: &str) -> io::Result<(u16, Value)> {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(request.as_bytes())?;
        let mut buffer = Vec::new();
        let (head, len) = read_head(&mut stream, &mut buffer)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut rest = buffer.split_off(len);
        read_to(&mut stream, &mut rest, content_length(&head))?;
        self.connection = Some(stream);
        Ok((status, serde_json::from_slice(&rest).unwrap_or(Value::Null)))
    }
}

/// Reads until a head is whole: its text and its bytes. `buffer` has what came.
fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<(String, usize)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok((String::from_utf8_lossy(&buffer[..end]).into_owned(), end + 4));
        }
        let len = buffer.len() + 1;
        read_to(stream, buffer, len)?;
    }
}

/// Reads until `buffer` has `len` bytes or more.
fn read_to(stream: &mut TcpStream, buffer: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    while buffer.len() < len {
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => buffer.extend_from_slice(&piece[..read]),
        }
    }
    Ok(())
}

fn content_length(head: &str) -> usize {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

fn accept(listener: &TcpListener, inner: &Arc<Inner>) {
    for stream in listener.incoming() {
        if inner.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let number = inner.connections.fetch_add(1, Ordering::AcqRel);
        let _ = stream.set_nodelay(true);
        if let Ok(copy) = stream.try_clone() {
            inner.lock().streams.push(copy);
        }
        let inner = inner.clone();
        thread::spawn(move || {
            inner.open.fetch_add(1, Ordering::AcqRel);
            // a client that goes away ends its connection, nothing else
            let _ = serve(stream, number, &inner);
            inner.open.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

fn serve(mut stream: TcpStream, connection: usize, inner: &Inner) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let (head, len) = read_head(&mut stream, &mut buffer)?;
        let manner = inner.lock().manner.clone();
        let mut body = buffer.split_off(len);
        if !matches!(manner, Manner::Unread) {
            let length = content_length(&head);
            read_to(&mut stream, &mut body, length)?;
            buffer = body.split_off(length);
        }
        let mut first = head.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let seen = Seen {
            connection,
            method: method.into(),
            target: target.into(),
            headers: headers.collect(),
            body,
        };
        inner.lock().seen.push(seen.clone());
        if !answer(&mut stream, inner, &seen, manner)? {
            return stream.shutdown(Shutdown::Both);
        }
    }
}

/// Answers one request in its manner; whether the connection goes on.
fn answer(stream: &mut TcpStream, inner: &Inner, seen: &Seen, manner: Manner) -> io::Result<bool> {
    let good = |manner: &Manner| {
        let (status, body) = inner.lock().handle(seen, manner);
        (status, body.to_string())
    };
    match manner {
        Manner::Raw(bytes) => return stream.write_all(&bytes).map(|()| false),
        Manner::RawOpen(bytes) => stream.write_all(&bytes)?,
        Manner::Silent => {}
        Manner::Hangup => return Ok(false),
        Manner::Status(status) => {
            stream.write_all(&plain(status, "", &json!({"detail": "told to fail"}).to_string()))?;
        }
        Manner::Redirect(location) => {
            stream.write_all(&plain(307, &format!("location: {location}\r\n"), ""))?;
        }
        Manner::Unread => {
            stream.write_all(&plain(400, "", &json!({"detail": "too much"}).to_string()))?;
            thread::sleep(Duration::from_secs(2));
            return Ok(false);
        }
        Manner::Chunked => {
            let (status, body) = good(&manner);
            stream.write_all(&chunked(status, &body))?;
        }
        Manner::Trickle => {
            let (status, body) = good(&manner);
            for byte in plain(status, "", &body) {
                stream.write_all(&[byte])?;
                thread::sleep(TRICKLE);
            }
        }
        Manner::Half => {
            let (status, body) = good(&manner);
            let bytes = plain(status, "", &body);
            return stream.write_all(&bytes[..bytes.len() - body.len().div_ceil(2)]).map(|()| false);
        }
        Manner::Slow(pause) => {
            thread::sleep(pause);
            let (status, body) = good(&manner);
            stream.write_all(&plain(status, "", &body))?;
        }
        Manner::Closing => {
            let (status, body) = good(&manner);
            return stream.write_all(&plain(status, "", &body)).map(|()| false);
        }
        Manner::Good | Manner::NotOk | Manner::Touchy | Manner::NeverDelete => {
            let (status, body) = good(&manner);
            stream.write_all(&plain(status, "", &body))?;
        }
    }
    Ok(true)
}

fn plain(status: u16, more: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn chunked(status: u16, body: &str) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in body.as_bytes().chunks(7) {
        bytes.extend(format!("{:x};part=yes\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\ndigest: none\r\n\r\n");
    bytes
}

fn detail(status: u16, text: impl Into<String>) -> (u16, Value) {
    (status, json!({"detail": text.into()}))
}

impl State {
    fn report(&self, events: Vec<Value>) {
        if let Some(reporter) = &self.reporter
            && !events.is_empty()
        {
            let _ = reporter.send(events);
        }
    }

    fn put(&mut self, object: Object, bytes: u64) {
        let place = *self.places.entry(object.clone()).or_insert(self.next);
        self.next = self.next.max(place + 1);
        self.objects.insert(place, (object, bytes));
    }

    fn handle(&mut self, seen: &Seen, manner: &Manner) -> (u16, Value) {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let body = serde_json::from_slice(&seen.body).unwrap_or(Value::Null);
        match (seen.method.as_str(), path, path.strip_prefix("/cache/prefetches/")) {
            ("GET", "/cache/objects", _) => self.list(query),
            ("DELETE", "/cache/objects", _) => self.delete(&body, manner),
            ("POST", "/cache/prefetches", _) => self.prefetch(&body),
            ("GET", _, Some(id)) => self.poll(id),
            _ => detail(404, "Not Found"),
        }
    }

    fn list(&self, query: &str) -> (u16, Value) {
        let decoded =
            |value: &str| percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        let field = |name: &str| {
            let mut fields = query.split('&').filter_map(|field| field.split_once('='));
            fields
                .find(|(named, _)| *named == name)
                .map(|(_, value)| decoded(value))
                .filter(|value| !value.is_empty())
        };
        let size = field("page_size").map_or(Ok(500), |size| size.parse::<i64>());
        let Some(size) = size.ok().filter(|size| (1..=PAGE).contains(size)) else {
            return (422, json!({"detail": [{"loc": ["query", "page_size"], "msg": "1 to 5000"}]}));
        };
        match field("tier").as_deref() {
            None | Some("l2") => {}
            Some(_) => return detail(400, "only tier l2 can be listed"),
        }
        if let Some(adapter) = field("adapter").filter(|adapter| adapter != "mem") {
            return detail(404, format!("no adapter {adapter}"));
        }
        let from = match field("page_token") {
            None => 0,
            Some(token) => match token.strip_prefix("from/").and_then(|from| from.parse().ok()) {
                Some(from) => from,
                None => return detail(400, "bad page_token"),
            },
        };
        let model = field("model_name");
        let wanted = |object: &Object| model.as_ref().is_none_or(|model| *model == object.model);
        let mut rest = self.objects.range(from..).filter(|(_, (object, _))| wanted(object));
        let page: Vec<_> = rest.by_ref().take(size as usize).collect();
        let next = rest.next().map(|(place, _)| format!("from/{place}"));
        let entries: Vec<_> = page
            .iter()
            .map(|(_, (object, bytes))| json!({"key": object.json(), "size_bytes": bytes}))
            .collect();
        (200, json!({"adapter": "mem", "entries": entries, "next_page_token": next}))
    }

    fn delete(&mut self, body: &Value, manner: &Manner) -> (u16, Value) {
        let Some(keys) = body["keys"].as_array() else {
            return (
                422,
                json!({"detail": [{"type": "missing", "loc": ["body", "keys"], "msg": "Field required"}]}),
            );
        };
        if keys.len() > KEYS {
            return detail(400, format!("too many keys (limit={KEYS}, got={})", keys.len()));
        }
        let mut objects = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            match Object::of_json(key) {
                Ok(object) => objects.push(object),
                Err(reason) => return detail(400, format!("keys[{at}]: {reason}")),
            }
        }
        let count = objects.len();
        match manner {
            Manner::NotOk => {
                return (200, json!({"deleted": 0, "skipped": 0, "ok": false, "error": "told to fail"}));
            }
            Manner::Touchy if objects.iter().any(|object| self.undeletable.contains(object)) => {
                return (200, json!({"deleted": 0, "skipped": 0, "ok": false, "error": "one is in the way"}));
            }
            Manner::NeverDelete => {}
            _ => {
                objects.retain(|object| !self.undeletable.contains(object));
                for object in &objects {
                    if let Some(place) = self.places.remove(object) {
                        self.objects.remove(&place);
                    }
                }
                self.report(objects.iter().map(|object| event("delete", object, 0)).collect());
            }
        }
        (200, json!({"deleted": count, "skipped": 0, "ok": true}))
    }

    fn prefetch(&mut self, body: &Value) -> (u16, Value) {
        let asked = (body["model_name"].as_str(), body["world_size"].as_u64(), body["token_ids"].as_array());
        let (Some(_), Some(_), Some(tokens)) = asked else {
            return (422, json!({"detail": [{"type": "missing", "loc": ["body"], "msg": "Field required"}]}));
        };
        let chunks = tokens.len() / self.chunk_size;
        if chunks == 0 {
            return (202, json!({"chunks": 0, "status": "noop"}));
        }
        let id = format!("prefetch-{}", self.prefetches.len());
        self.prefetches.insert(id.clone(), Some(self.pending_polls));
        (202, json!({"request_id": id, "chunks": chunks, "status": "submitted"}))
    }

    fn poll(&mut self, id: &str) -> (u16, Value) {
        match self.prefetches.get_mut(id) {
            Some(Some(0)) => {
                self.prefetches.insert(id.to_owned(), None);
                (200, json!({"request_id": id, "status": "completed", "found_keys": 1, "total_keys": 1}))
            }
            Some(Some(left)) => {
                *left -= 1;
                (200, json!({"request_id": id, "status": "pending"}))
            }
            Some(None) | None => detail(404, format!("no prefetch {id}")),
        }
    }
}
