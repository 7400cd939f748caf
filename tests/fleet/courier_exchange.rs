//! Set-up: a courier and MP servers on real sockets that behave in every way servers do. Claim: what is sent is
//! what was ordered, answers come back as they are, failures name the server, nothing exceeds its deadline or its
//! bound, and no part of an order can lead anywhere but to a path below `/cache/` of the server that is meant.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::mp_server::{Manner, MpServer, Object};
use kvatlas::fleet::courier::{Class, Courier, Method, Order, Outcome, Reply};
use kvatlas::limits::COURIER_BODY_BYTES;
use serde_json::{Value, json};

/// When something is given up for lost; no test waits so long unless it fails.
const LOST: Duration = Duration::from_secs(20);

struct Bench {
    courier: Courier,
    outcomes: Receiver<(u64, Outcome)>,
}

impl Bench {
    fn new() -> Self {
        let (sender, outcomes) = channel();
        let courier = Courier::start(move |ticket, outcome| {
            // a test that is over wants no more
            let _ = sender.send((ticket, outcome));
        });
        Self { courier, outcomes }
    }

    fn ask(&self, order: Order) -> Outcome {
        let ticket = order.ticket;
        self.courier.send(order).unwrap();
        let (told, outcome) = self.outcomes.recv_timeout(LOST).unwrap();
        assert_eq!(told, ticket);
        outcome
    }
}

fn order(server: &MpServer, method: Method, segments: &[&str]) -> Order {
    Order {
        ticket: 7,
        method,
        ip: server.ip(),
        port: server.port(),
        segments: segments.iter().map(ToString::to_string).collect(),
        query: Vec::new(),
        body: None,
        class: Class::Relay,
        total: LOST,
    }
}

fn list(server: &MpServer) -> Order {
    order(server, Method::Get, &["objects"])
}

fn delete(server: &MpServer, objects: &[Object]) -> Order {
    let keys: Vec<Value> = objects.iter().map(Object::json).collect();
    let body = Some(json!({"keys": keys}).to_string().into_bytes());
    Order { body, ..order(server, Method::Delete, &["objects"]) }
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

fn objects(count: u64) -> Vec<(Object, u64)> {
    (0..count).map(|number| (Object::numbered(number, "m", "s"), 10)).collect()
}

#[test]
fn a_server_is_asked_as_it_expects() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.store(&objects(5));
    let query = vec![("page_size".to_owned(), "2".to_owned())];
    let reply = bench.ask(Order { query, ..list(&server) }).unwrap();
    assert_eq!((reply.status, reply.content_type.as_str()), (200, "application/json"));
    let page = json_of(&reply);
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    let token = page["next_page_token"].as_str().unwrap().to_owned();
    assert!(token.contains('/'), "a token that has to be encoded: {token}");
    let query = vec![("page_size".to_owned(), "500".to_owned()), ("page_token".to_owned(), token)];
    let page = json_of(&bench.ask(Order { query, ..list(&server) }).unwrap());
    assert_eq!(page["entries"].as_array().unwrap().len(), 3);
    assert_eq!(page["next_page_token"], Value::Null);

    let all = server.objects();
    let reply = bench.ask(delete(&server, &all[..4])).unwrap();
    assert_eq!(json_of(&reply), json!({"deleted": 4, "skipped": 0, "ok": true}));
    assert_eq!(server.objects(), all[4..]);

    let body = Some(br#"{"model_name":"m","world_size":1,"token_ids":[],"cache_salt":""}"#.to_vec());
    let reply = bench.ask(Order { body, ..order(&server, Method::Post, &["prefetches"]) }).unwrap();
    assert_eq!((reply.status, json_of(&reply)), (202, json!({"chunks": 0, "status": "noop"})));
    let reply = bench.ask(order(&server, Method::Get, &["prefetches", "x"])).unwrap();
    assert_eq!(reply.status, 404);

    let seen = server.seen();
    let wire: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.target.as_str())).collect();
    assert_eq!(wire[0], ("GET", "/cache/objects?page_size=2"));
    assert_eq!(
        wire[2..],
        [("DELETE", "/cache/objects"), ("POST", "/cache/prefetches"), ("GET", "/cache/prefetches/x"),]
    );
    let (get, delete) = (&seen[0], &seen[2]);
    assert_eq!(get.header("host"), Some(server.address().to_string().as_str()));
    assert_eq!(get.header("user-agent"), Some(concat!("kvatlas/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(get.header("accept"), Some("*/*"));
    assert_eq!((get.header("content-length"), get.header("content-type")), (None, None));
    assert_eq!(delete.header("content-type"), Some("application/json"));
    assert_eq!(delete.json()["keys"].as_array().unwrap().len(), 4);
    assert_eq!(server.connections(), 1, "one connection for all of it");
}

#[test]
fn no_part_of_a_path_escapes() {
    let (bench, server) = (Bench::new(), MpServer::start());
    let nasty =
        ["..", ".", "../..", "a/b", "a?b=c", "a#b", "a%2Fb", "%2e%2e", "a b", "\r\nx: y", "é", "a;b", "\\"];
    for part in nasty {
        bench.ask(order(&server, Method::Get, &["prefetches", part])).unwrap();
    }
    let seen = server.seen();
    assert_eq!(seen.len(), nasty.len());
    for (seen, part) in seen.iter().zip(nasty) {
        let tail = seen.target.strip_prefix("/cache/prefetches/").unwrap();
        assert!(!tail.contains(['/', '?', '#', ' ', ';', '\\']) && !matches!(tail, "." | ".."), "{tail}");
        assert_eq!(percent_encoding::percent_decode_str(tail).decode_utf8().unwrap(), part);
        assert_eq!(seen.header("x"), None);
    }
    assert!(bench.ask(order(&server, Method::Get, &["prefetches", ""])).is_err());
    assert_eq!(server.seen().len(), nasty.len(), "an empty part is not sent");
}

#[test]
fn nothing_but_a_host_is_dialled() {
    let (bench, server) = (Bench::new(), MpServer::start());
    let port = server.port();
    for ip in
        ["127.0.0.1/x", "u@127.0.0.1", "127.0.0.1?", "127.0.0.1#", "127.0.0.1:80", "", " 127.0.0.1", "a\r\nb"]
    {
        let failure = bench.ask(Order { ip: ip.into(), ..list(&server) }).unwrap_err();
        assert!(failure.0.contains("not dialled"), "{failure}");
    }
    assert!(bench.ask(Order { port: 0, ..list(&server) }).is_err());
    assert_eq!(server.connections(), 0);
    // a name is looked up
    assert_eq!(
        bench.ask(Order { ip: "localhost".into(), total: Duration::MAX, ..list(&server) }).unwrap().status,
        200
    );
    assert_eq!(server.seen()[0].header("host"), Some(format!("localhost:{port}").as_str()));
    let failure = bench.ask(Order { ip: "no-such-host.invalid".into(), ..list(&server) }).unwrap_err();
    assert!(failure.0.contains("no-such-host.invalid"), "{failure}");
}

#[test]
fn an_ipv6_address_is_dialled_with_and_without_brackets() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let (bench, server) = (Bench::new(), MpServer::bind("[::1]:0"));
    for ip in ["::1", "[::1]", "0:0:0:0:0:0:0:1"] {
        assert_eq!(bench.ask(Order { ip: ip.into(), ..list(&server) }).unwrap().status, 200);
    }
    for seen in server.seen() {
        assert_eq!(seen.header("host"), Some(format!("[::1]:{}", server.port()).as_str()));
    }
}

#[test]
fn any_status_is_an_answer_and_redirects_are_not_followed() {
    let (bench, server, other) = (Bench::new(), MpServer::start(), MpServer::start());
    for status in [201, 304, 400, 404, 418, 500, 503, 599] {
        server.behave(Manner::Status(status));
        let outcome = bench.ask(list(&server)).unwrap();
        assert_eq!(outcome.status, status);
        // 304 has no body, whatever the server says
        assert_eq!(outcome.body.is_empty(), status == 304);
    }
    server.behave(Manner::Redirect(format!("http://{}/cache/objects", other.address())));
    let reply = bench.ask(list(&server)).unwrap();
    assert_eq!((reply.status, reply.body.len()), (307, 0));
    assert_eq!(other.connections(), 0);
}

#[test]
fn a_connection_is_kept_only_after_an_answer_that_ends_as_it_says() {
    for (head, kept) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive", true),
        ("HTTP/1.1 500 X\r\ncontent-length: 2", true),
        ("HTTP/1.1 599 X\r\ncontent-length: 2", true),
        ("HTTP/1.1 600 X\r\ncontent-length: 2", false),
        ("HTTP/1.1 999 X\r\ncontent-length: 2", false),
        ("HTTP/1.1 000 X\r\ncontent-length: 2", false),
        ("HTTP/1.1 099 X\r\ncontent-length: 2", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2", false),
    ] {
        let (bench, server) = (Bench::new(), MpServer::start());
        server.behave(Manner::RawOpen(format!("{head}\r\n\r\n{{}}").into_bytes()));
        for _ in 0..2 {
            bench.ask(list(&server)).unwrap();
        }
        assert_eq!(server.connections() == 1, kept, "{head}");
    }
}

#[test]
fn proxies_of_the_environment_are_not_asked() {
    // variables are set for a process of its own: this test, run again
    if std::env::var_os("http_proxy").is_none() {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["courier_exchange::proxies_of_the_environment_are_not_asked", "--exact"])
            .envs(
                ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"]
                    .map(|name| (name, "http://127.0.0.1:1")),
            )
            .output()
            .unwrap();
        assert!(run.status.success() && String::from_utf8_lossy(&run.stdout).contains("1 passed"), "{run:?}");
        return;
    }
    let (bench, server) = (Bench::new(), MpServer::start());
    assert_eq!(bench.ask(list(&server)).unwrap().status, 200);
}

#[test]
fn bodies_come_in_every_coding() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.store(&objects(50));
    let plain = bench.ask(list(&server)).unwrap();
    server.behave(Manner::Chunked);
    assert_eq!(bench.ask(list(&server)).unwrap(), plain);
    assert_eq!(bench.ask(list(&server)).unwrap(), plain);
    assert_eq!(server.connections(), 1, "a chunked body leaves the connection usable");
    let raw = |head: &str| Manner::Raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello").into_bytes());
    for head in [
        "x: y",
        "connection: close\r\ncontent-length: 5",
        "connection: x, Close\r\ncontent-length: 5\r\ncontent-length: 5",
    ] {
        server.behave(raw(head));
        assert_eq!(bench.ask(list(&server)).unwrap().body, b"hello", "{head}");
    }
    let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nlink: x\r\n\r\nHTTP/1.0 200 OK\r\n\r\nhello";
    server.behave(Manner::Raw(early.to_vec()));
    assert_eq!(bench.ask(list(&server)).unwrap().body, b"hello");
}

#[test]
fn a_malformed_answer_is_a_failure() {
    let (bench, server) = (Bench::new(), MpServer::start());
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunks = format!("{ok}transfer-encoding: chunked\r\n\r\n");
    let bad = [
        String::new(),
        "hello\r\n\r\n".into(),
        "HTTP/1.1 abc OK\r\n\r\n".into(),
        "HTTP/2 200 OK\r\n\r\n".into(),
        format!("{ok}content-length: 9\r\n\r\nhello"),
        format!("{ok}content-length: -5\r\n\r\nhello"),
        format!("{ok}content-length: +5\r\n\r\nhello"),
        format!("{ok}content-length: 5, 6\r\n\r\nhello"),
        format!("{ok}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!"),
        format!("{ok}content-length: 99999999999999999999999\r\n\r\nhello"),
        format!("{ok}transfer-encoding: gzip\r\n\r\nhello"),
        format!("{chunks}zz\r\nhello\r\n0\r\n\r\n"),
        format!("{chunks}5\r\nhelloXX0\r\n\r\n"),
        format!("{chunks}5\r\nhello\r\n"),
        format!("{chunks}fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        format!("{chunks}5\r\nhello\r\n0\r\nx: {}", "y".repeat(20_000)),
        format!("{ok}x: {}", "y".repeat(40_000)),
        format!("{ok}{}\r\n", "x: y\r\n".repeat(100)),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n".into(),
    ];
    for (at, bytes) in bad.iter().enumerate() {
        server.behave(Manner::Raw(bytes.clone().into_bytes()));
        let failure = bench.ask(list(&server)).unwrap_err();
        assert!(failure.0.contains(&server.address().to_string()), "{at}: {failure}");
        assert_eq!(server.take_seen().len(), 1, "{at}: asked once");
    }
    server.behave(Manner::Half);
    assert!(bench.ask(list(&server)).is_err());
    server.behave(Manner::Good);
    assert!(bench.ask(list(&server)).is_ok(), "the server is none the worse for it");
}

#[test]
fn a_body_beyond_the_bound_is_a_failure() {
    let (bench, server) = (Bench::new(), MpServer::start());
    let most = COURIER_BODY_BYTES;
    let with = |head: String, len: usize| {
        let mut bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + len, b'x');
        bytes
    };
    server.behave(Manner::Raw(with(format!("content-length: {most}"), most)));
    assert_eq!(bench.ask(list(&server)).unwrap().body.len(), most);
    let one_chunk =
        [with("transfer-encoding: chunked".into(), 0), format!("{:x}\r\n", most + 1).into_bytes()];
    let too_long = [
        with(format!("content-length: {}", most + 1), 10),
        with("x: y".into(), most + 100_000),
        one_chunk.concat(),
    ];
    for bytes in too_long {
        server.behave(Manner::Raw(bytes));
        let failure = bench.ask(list(&server)).unwrap_err();
        assert!(failure.0.contains("too long"), "{failure}");
    }
}

#[test]
fn every_request_ends_by_its_deadline() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.store(&objects(20));
    let total = Duration::from_millis(300);
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello".to_vec();
    let slow = [Manner::Silent, Manner::Slow(Duration::from_secs(3)), Manner::Trickle, Manner::RawOpen(head)];
    for manner in slow {
        server.behave(manner.clone());
        let begun = Instant::now();
        let failure = bench.ask(Order { total, ..list(&server) }).unwrap_err();
        assert!(begun.elapsed() >= total, "{manner:?}: not before it");
        assert!(failure.0.contains("too long"), "{manner:?}: {failure}");
    }
    // a server that accepts a request and reads only a little of it at a time
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = vec![0; 64 * 1024];
        while std::io::Read::read(&mut stream, &mut piece).is_ok_and(|read| read > 0) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let body = Some(vec![b' '; 64 << 20]);
    let failure = bench.ask(Order { port, total, body, ..delete(&server, &[]) }).unwrap_err();
    assert!(failure.0.contains("too long"), "{failure}");
}

#[test]
fn an_early_answer_is_heard() {
    let (bench, server) = (Bench::new(), MpServer::start());
    server.behave(Manner::Unread);
    // far more than the buffers of two sockets
    let body = Some(vec![b' '; 64 << 20]);
    let reply = bench.ask(Order { body, ..delete(&server, &[]) }).unwrap();
    assert_eq!(reply.status, 400);
    server.behave(Manner::Good);
    assert_eq!(bench.ask(list(&server)).unwrap().status, 200);
    assert_eq!(server.connections(), 2, "the connection with half a request on it is not used again");
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let bench = Bench::new();
    let order = list(&MpServer::start());
    // a port that is taken, so that no other test listens there, and that nobody listens on
    let deaf = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    deaf.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let port = deaf.local_addr().unwrap().as_socket().unwrap().port();
    let failure = bench.ask(Order { port, ..order.clone() }).unwrap_err();
    assert!(failure.0.contains("connection refused"), "{failure}");
    // a listener that accepts nothing and whose queue is full: the connection is never established
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let brief = Duration::from_millis(200);
    let mut filling = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, brief) {
        filling.push(stream);
        assert!(filling.len() < 100, "the queue never fills");
    }
    let failure = bench.ask(Order { port: address.port(), total: brief, ..order }).unwrap_err();
    assert!(failure.0.contains("cannot connect") && failure.0.contains("too long"), "{failure}");
}
