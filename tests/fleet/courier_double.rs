//! Set-up: the MP server double that other tests of the fleet stand on, asked by the courier, and a place that
//! notes what it says to its coordinator. Claim: the double answers and reports as the servers of the contract's
//! release do.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::mp_server::{Manner, MpServer, Object, Seen};
use kvatlas::fleet::courier::{Class, Courier, Method, Order};
use serde_json::{Value, json};

/// When something is given up for lost; no test waits so long unless it fails.
const LOST: Duration = Duration::from_secs(20);

/// Asks once; status and JSON.
fn ask(
    server: &MpServer,
    method: Method,
    path: &[&str],
    query: &[(&str, &str)],
    body: Option<Value>,
) -> (u16, Value) {
    let (sender, outcomes) = channel();
    let courier = Courier::start(move |_, outcome| sender.send(outcome).unwrap());
    let order = Order {
        ticket: 0,
        method,
        ip: server.ip(),
        port: server.port(),
        segments: path.iter().map(ToString::to_string).collect(),
        query: query.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        body: body.map(|body| body.to_string().into_bytes()),
        class: Class::Relay,
        total: LOST,
    };
    courier.send(order).unwrap();
    let reply = outcomes.recv_timeout(LOST).unwrap().unwrap();
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

fn list(server: &MpServer, query: &[(&str, &str)]) -> (u16, Value) {
    ask(server, Method::Get, &["objects"], query, None)
}

fn delete(server: &MpServer, body: Value) -> (u16, Value) {
    ask(server, Method::Delete, &["objects"], &[], Some(body))
}

#[test]
fn it_lists_in_pages() {
    let server = MpServer::start();
    let objects: Vec<_> = (0..12).map(|number| (Object::numbered(number, "m", "s"), number)).collect();
    server.store(&objects);
    let (mut seen, mut token) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("page_size", "5")];
        query.extend(token.as_deref().map(|token| ("page_token", token)));
        let (status, page) = list(&server, &query);
        assert_eq!((status, &page["adapter"]), (200, &json!("mem")));
        seen.extend(page["entries"].as_array().unwrap().iter().cloned());
        match page["next_page_token"].as_str() {
            Some(next) => token = Some(next.to_owned()),
            None => break,
        }
    }
    let want: Vec<_> =
        objects.iter().map(|(object, bytes)| json!({"key": object.json(), "size_bytes": bytes})).collect();
    assert_eq!(seen, want);
    for (name, value, status) in [
        ("page_size", "0", 422),
        ("page_size", "5001", 422),
        ("page_size", "x", 422),
        ("page_size", "5000", 200),
        ("tier", "l1", 400),
        ("adapter", "none", 404),
        ("page_token", "bad", 400),
    ] {
        assert_eq!(list(&server, &[(name, value)]).0, status, "{name}={value}");
    }
    assert_eq!(list(&server, &[("model_name", "other")]).1["entries"], json!([]));
}

#[test]
fn it_deletes_at_most_ten_thousand() {
    let server = MpServer::start();
    let keys = |count| (0..count).map(|number| Object::numbered(number, "m", "s").json()).collect::<Vec<_>>();
    server.store(&(0..20).map(|number| (Object::numbered(number, "m", "s"), 1)).collect::<Vec<_>>());
    assert_eq!(delete(&server, json!({"keys": keys(10_001)})).0, 400);
    assert_eq!(server.objects().len(), 20);
    let mut bad = keys(3);
    bad[2]["chunk_hash_hex"] = json!("zz");
    let (status, body) = delete(&server, json!({"keys": bad}));
    assert!(status == 400 && body["detail"].as_str().unwrap().starts_with("keys[2]: "), "{body}");
    assert_eq!(delete(&server, json!({})).0, 422);
    server.behave(Manner::NotOk);
    assert_eq!(delete(&server, json!({"keys": keys(5)})).1["ok"], json!(false));
    server.behave(Manner::NeverDelete);
    assert_eq!(delete(&server, json!({"keys": keys(5)})).1, json!({"deleted": 5, "skipped": 0, "ok": true}));
    assert_eq!(server.objects().len(), 20);
    server.behave(Manner::Good);
    // counted whether they are there or not
    assert_eq!(delete(&server, json!({"keys": keys(10_000)})).1["deleted"], 10_000);
    assert!(server.objects().is_empty() && server.bytes() == 0);
}

#[test]
fn it_prefetches() {
    let server = MpServer::start();
    server.set_prefetch(4, 2);
    let submit = |tokens: usize| {
        let body =
            json!({"model_name": "m", "world_size": 1, "token_ids": vec![1; tokens], "cache_salt": ""});
        ask(&server, Method::Post, &["prefetches"], &[], Some(body))
    };
    assert_eq!(submit(3), (202, json!({"chunks": 0, "status": "noop"})));
    let (status, body) = submit(9);
    assert_eq!((status, &body["chunks"], &body["status"]), (202, &json!(2), &json!("submitted")));
    let id = body["request_id"].as_str().unwrap();
    let poll = || ask(&server, Method::Get, &["prefetches", id], &[], None);
    for want in [(200, "pending"), (200, "pending"), (200, "completed")] {
        let (status, body) = poll();
        assert_eq!((status, body["status"].as_str().unwrap()), want);
    }
    assert_eq!(poll().0, 404);
    assert_eq!(ask(&server, Method::Post, &["prefetches"], &[], Some(json!({}))).0, 422);
}

#[test]
fn it_reports_to_its_coordinator() {
    let (server, coordinator) = (MpServer::start(), MpServer::start());
    let body = r#"{"instance_id":"mp-1","re_registered":false}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    coordinator.behave(Manner::RawOpen(answer.into_bytes()));
    let heard = |count: usize| -> Vec<Seen> {
        let end = Instant::now() + LOST;
        while coordinator.seen().len() < count {
            assert!(Instant::now() < end, "only {} of {count}", coordinator.seen().len());
            std::thread::sleep(Duration::from_millis(5));
        }
        coordinator.seen()
    };
    assert_eq!(server.join(coordinator.address(), ""), "mp-1");
    let objects: Vec<_> = (0..3).map(|number| (Object::numbered(number, "m", "s"), 7)).collect();
    server.store(&objects);
    heard(2);
    assert_eq!(delete(&server, json!({"keys": [objects[0].0.json(), objects[2].0.json()]})).0, 200);
    heard(3);
    assert_eq!(server.heartbeat(), Some(200));
    assert_eq!(server.leave(), Some(200));
    server.store(&objects);
    let seen = heard(5);
    let wire: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.target.as_str())).collect();
    assert_eq!(
        wire,
        [
            ("POST", "/instances"),
            ("POST", "/quota/events"),
            ("POST", "/quota/events"),
            ("PUT", "/instances/mp-1/heartbeat"),
            ("DELETE", "/instances/mp-1"),
        ]
    );
    assert_eq!(seen[0].json()["http_port"], json!(server.port()));
    let event = |kind: &str, at: usize, bytes: u64| json!({"type": kind, "key": objects[at].0.json(), "bytes": bytes});
    let batch = |seq: u64, events: Vec<Value>| json!({"instance_id": "mp-1", "seq": seq, "events": events, "tier": "l2"});
    assert_eq!(seen[1].json(), batch(1, (0..3).map(|at| event("store", at, 7)).collect()));
    assert_eq!(seen[2].json(), batch(2, vec![event("delete", 0, 0), event("delete", 2, 0)]));
    assert_eq!(coordinator.connections(), 1, "on one connection");
}
