//! Set-up: a server behind a coordinator, and clients that have prefetches passed on to it.
//! Claim: exactly the contract's body goes to exactly the contract's path; what comes back is told as the contract
//! says, and nothing that a server or a client says makes the coordinator ask for anything else.

use std::net::TcpListener;

use crate::coordinator::{Answer, Fleet, quiet};
use crate::mp_server::{Manner, MpServer};
use serde_json::{Value, json};

fn relay() -> (Fleet, MpServer) {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.set_prefetch(4, 1);
    server.join(fleet.address(), "a");
    (fleet, server)
}

fn prefetch(fleet: &Fleet, id: &str) -> Answer {
    let body = json!({"instance_id": id, "model_name": "m", "world_size": 2, "token_ids": [1, 2, 3, 4, 5]});
    fleet.post("/cache/prefetches", &body)
}

fn raw(status: &str, body: &str) -> Manner {
    let len = body.len();
    Manner::Raw(
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}").into_bytes(),
    )
}

#[test]
fn a_prefetch_goes_out_with_exactly_four_fields() {
    let (fleet, server) = relay();
    let answer = fleet.call(
        "POST",
        "/cache/prefetches",
        br#" {"tier": "l2", "world_size": "2", "token_ids": [-1, 4294967296, 3.0, true, "7"], "instance_id": "a",
              "model_name": "m\u00e9\"@"} "#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(
        answer,
        json!({"instance_id": "a", "request_id": "prefetch-0", "chunks": 1, "status": "submitted"})
    );
    let seen = server.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].target.as_str()), ("POST", "/cache/prefetches"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(
        seen[0].json(),
        json!({"model_name": "mé\"@", "world_size": 2, "token_ids": [-1, 4_294_967_296u64, 3, 1, 7], "cache_salt": ""})
    );
}

#[test]
fn answers_to_a_prefetch_are_told_with_four_fields() {
    let (fleet, server) = relay();
    let short = json!({"instance_id": "a", "model_name": "m", "world_size": 1, "token_ids": [1, 2, 3]});
    assert_eq!(
        fleet.post("/cache/prefetches", &short).json(),
        json!({"instance_id": "a", "request_id": "", "chunks": 0, "status": "noop"})
    );
    for (body, want) in [
        ("{}", json!({"instance_id": "a", "request_id": "", "chunks": 0, "status": "submitted"})),
        (
            r#"{"extra": [1], "status": "new", "chunks": -3, "request_id": "x/y", "instance_id": "b"}"#,
            json!({"instance_id": "a", "request_id": "x/y", "chunks": -3, "status": "new"}),
        ),
    ] {
        for status in ["200 OK", "202 Accepted", "299 Odd"] {
            server.behave(raw(status, body));
            let answer = prefetch(&fleet, "a");
            assert_eq!((answer.status, answer.json()), (200, want.clone()));
        }
    }
}

#[test]
fn an_unknown_server_is_404_before_anybody_is_asked() {
    let (fleet, server) = relay();
    let answer = prefetch(&fleet, "it's");
    assert_eq!(
        (answer.status, answer.json()),
        (404, json!({"detail": "no MP server registered with instance_id=\"it's\""}))
    );
    let answer = fleet.get("/cache/prefetches/b/prefetch-0");
    assert_eq!(
        (answer.status, answer.json()),
        (404, json!({"detail": "no MP server registered with instance_id='b'"}))
    );
    let answer =
        fleet.post("/cache/prefetches", &json!({"instance_id": "b", "model_name": "m", "world_size": 0}));
    assert_eq!(answer.status, 422, "the form comes first");
    assert!(server.seen().is_empty());
}

#[test]
fn whatever_is_no_good_answer_is_502() {
    let (fleet, server) = relay();
    let manners = [
        Manner::Status(301),
        Manner::Redirect("/healthz".to_owned()),
        Manner::Status(400),
        Manner::Status(404),
        Manner::Status(422),
        Manner::Status(500),
        Manner::Status(503),
        Manner::Hangup,
        Manner::Half,
        raw("200 OK", "hello"),
        raw("200 OK", ""),
        raw("200 OK", "[1]"),
        raw("200 OK", "null"),
        raw("200 OK", "\"text\""),
        raw("200 OK", r#"{"request_id": null}"#),
        raw("200 OK", r#"{"request_id": 7}"#),
        raw("200 OK", r#"{"chunks": "many"}"#),
        raw("200 OK", r#"{"status": null}"#),
        raw("200 OK", r#"{"request_id": "x"} trailing"#),
        raw("204 No Content", ""),
        Manner::Raw(b"\r\n\r\nnot HTTP".to_vec()),
    ];
    for manner in manners {
        server.behave(manner.clone());
        let answer = prefetch(&fleet, "a");
        assert_eq!(answer.status, 502, "{manner:?}: {}", answer.text());
        let detail = answer.detail();
        assert!(detail.as_str().unwrap().starts_with("prefetch submit to 'a' failed: "), "{detail}");
    }
    assert!(server.seen().iter().all(|seen| seen.target == "/cache/prefetches"), "no redirect is followed");
    server.behave(Manner::Good);
    assert_eq!(prefetch(&fleet, "a").status, 200);
}

#[test]
fn a_server_that_cannot_be_reached_is_502() {
    let fleet = Fleet::start(quiet());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (id, ip) in
        [("refused", "127.0.0.1"), ("nowhere", "no.such.host.invalid"), ("odd", "127.0.0.1/x?y#z@w")]
    {
        let body = json!({"ip": ip, "http_port": port, "instance_id": id});
        assert_eq!(fleet.post("/instances", &body).status, 200);
        let answer = prefetch(&fleet, id);
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(answer.text().contains(&format!("prefetch submit to '{id}' failed: ")));
        let answer = fleet.get(&format!("/cache/prefetches/{id}/x"));
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(answer.text().contains(&format!("prefetch status from '{id}' failed: ")));
    }
    assert!(fleet.metric("relay_errors_total") >= 6.0);
}

#[test]
fn a_poll_hands_on_status_and_json_as_they_are() {
    let (fleet, server) = relay();
    prefetch(&fleet, "a");
    let poll = || fleet.get("/cache/prefetches/a/prefetch-0");
    assert_eq!(poll().json(), json!({"request_id": "prefetch-0", "status": "pending"}));
    assert_eq!(poll().json()["status"], "completed");
    let gone = poll();
    assert_eq!((gone.status, gone.json()), (404, json!({"detail": "no prefetch prefetch-0"})));
    for status in [200, 202, 404, 418, 500, 503] {
        for body in [r#"{"b":1,"a":[1.50,null]}"#, "[]", "null", "3", "\"x\"", " {\"spaced\" : true}\n"] {
            server.behave(raw(&format!("{status} Any"), body));
            let answer = poll();
            assert_eq!((answer.status, answer.text()), (status, body));
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
        for body in ["", "hello \"world\"\n", "{", "NaN x"] {
            server.behave(raw(&format!("{status} Any"), body));
            let answer = poll();
            assert_eq!((answer.status, answer.json()), (status, json!({"detail": body})));
        }
    }
    server.behave(Manner::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\"\xff\"\n".to_vec()));
    assert_eq!(poll().json(), json!({"detail": "\"\u{fffd}\"\n"}), "JSON is UTF-8");
}

#[test]
fn a_redirect_is_handed_on_and_not_followed() {
    let (fleet, server) = relay();
    let other = MpServer::start();
    server.behave(Manner::Redirect(format!("http://{}/cache/objects", other.address())));
    let answer = fleet.get("/cache/prefetches/a/x");
    assert_eq!((answer.status, answer.json()), (307, json!({"detail": ""})));
    assert_eq!(answer.header("location"), None);
    assert_eq!((server.seen().len(), other.seen().len()), (1, 0));
    server.behave(raw("304 Not Modified", ""));
    assert_eq!(fleet.get("/cache/prefetches/a/x").status, 502, "a body would end in the next answer");
}

#[test]
fn a_request_id_stays_below_its_path() {
    let (fleet, server) = relay();
    for (asked, sent) in [
        ("a%3Fb", "a%3Fb"),
        ("%2e%2e", "%2E%2E"),
        ("%2E", "%2E"),
        ("a%20b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("a%25b%252F", "a%25b%252F"),
        ("%C3%A9%00%0d%0a", "%C3%A9%00%0D%0A"),
        ("a%23b&c=d;e", "a%23b%26c%3Dd%3Be"),
        ("a%5Cb", "a%5Cb"),
        ("%ff", "%EF%BF%BD"),
        ("x-y_z.~", "x-y_z.~"),
    ] {
        server.take_seen();
        let answer = fleet.get(&format!("/cache/prefetches/a/{asked}?tier=x"));
        assert_eq!(answer.status, 404, "{asked}: {}", answer.text());
        let targets: Vec<_> = server.seen().into_iter().map(|seen| seen.target).collect();
        assert_eq!(targets, [format!("/cache/prefetches/{sent}")]);
    }
    server.take_seen();
    for asked in ["a%2Fb", "..%2f..", "a/b", "%2F"] {
        assert_eq!(fleet.get(&format!("/cache/prefetches/a/{asked}")).json(), json!({"detail": "Not Found"}));
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_server_with_an_ipv6_address_is_reached() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("no IPv6 on this machine: nothing to be shown");
        return;
    }
    let fleet = Fleet::start(quiet());
    let server = MpServer::bind("[::1]:0");
    server.set_prefetch(4, 1);
    for ip in ["::1", "[::1]"] {
        let body = json!({"ip": ip, "http_port": server.port(), "instance_id": "six"});
        assert_eq!(fleet.post("/instances", &body).status, 200);
        let answer = prefetch(&fleet, "six");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(server.seen()[0].header("host"), Some(format!("[::1]:{}", server.port()).as_str()));
}

#[test]
fn many_clients_share_connections_and_have_their_own_answers() {
    let (fleet, server) = relay();
    let fleet = &fleet;
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..24).map(|_| scope.spawn(|| prefetch(fleet, "a").json()["request_id"].clone())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut sorted: Vec<_> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 24);
    for _ in 0..20 {
        assert_eq!(prefetch(fleet, "a").status, 200);
    }
    assert!(server.connections() <= 24, "{} for 44 requests", server.connections());
}
