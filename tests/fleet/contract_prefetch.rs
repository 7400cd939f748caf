//! Set-up: a running coordinator and an MP server behind it, well-mannered or not.
//! Claim: a prefetch reaches the server with exactly the fields of the contract, its answer comes back as the contract
//! says, and a server that does not answer as it should is a 502 and never worse.

use crate::coordinator::{Fleet, quiet};
use crate::mp_server::{Manner, MpServer};
use crate::wire::{Wire, error, fault, fault_in, refused, said};
use serde_json::{Value, json};

fn raw(status: &str, body: &str) -> Manner {
    let length = body.len();
    Manner::Raw(
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes(),
    )
}

fn ask() -> Value {
    json!({"instance_id": "s", "model_name": "m", "world_size": 1, "token_ids": [1, 2, 3, 4], "cache_salt": "a"})
}

#[test]
fn a_prefetch_from_submit_to_the_end() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.set_prefetch(4, 1);
    server.join(fleet.address(), "s");
    let mut body = ask();
    // a tail, tokens that are none, and a field that nobody knows
    body["token_ids"] = json!([1, 2, 3, 4, -1, 18_446_744_073_709_551_615_u64, "7", true, 9.0]);
    body["further"] = json!(1);
    let (status, answer) = said(&fleet.post("/cache/prefetches", &body));
    let id = answer["request_id"].as_str().unwrap().to_owned();
    assert_eq!(
        (status, answer),
        (200, json!({"instance_id": "s", "request_id": id, "chunks": 2, "status": "submitted"}))
    );
    let seen = server.take_seen();
    assert_eq!(
        (seen.len(), seen[0].method.as_str(), seen[0].target.as_str()),
        (1, "POST", "/cache/prefetches")
    );
    assert_eq!(
        seen[0].json(),
        json!({"model_name": "m", "world_size": 1, "cache_salt": "a",
            "token_ids": [1, 2, 3, 4, -1, 18_446_744_073_709_551_615_u64, 7, 1, 9]})
    );
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    let path = format!("/cache/prefetches/s/{id}");
    assert_eq!(said(&fleet.get(&path)), (200, json!({"request_id": id, "status": "pending"})));
    let (status, answer) = said(&fleet.get(&path));
    assert_eq!((status, &answer["status"]), (200, &json!("completed")));
    assert_eq!(fleet.get(&path).status, 404, "it is told once");
    assert_eq!(server.take_seen()[0].target, path.replace("/s/", "/"));
}

#[test]
fn what_may_be_left_out_and_what_is_shorter_than_a_chunk() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.set_prefetch(4, 1);
    server.join(fleet.address(), "s");
    let body = json!({"instance_id": "s", "model_name": "m@x", "world_size": "2"});
    let wanted = json!({"instance_id": "s", "request_id": "", "chunks": 0, "status": "noop"});
    assert_eq!(said(&fleet.post("/cache/prefetches", &body)), (200, wanted));
    let sent = json!({"model_name": "m@x", "world_size": 2, "token_ids": [], "cache_salt": ""});
    assert_eq!(server.take_seen()[0].json(), sent);
}

#[test]
fn the_form_comes_before_the_server_and_the_server_before_the_wire() {
    let fleet = Fleet::start(quiet());
    let unknown = |shown: &str| error(404, &format!("no MP server registered with instance_id={shown}"));
    for (id, shown) in [
        ("x", "'x'"),
        ("it's", "\"it's\""),
        ("a'\"b", r#"'a\'"b'"#),
        ("\n\u{e9}\u{200b}", "'\\né\\u200b'"),
        ("", "''"),
    ] {
        let mut body = ask();
        body["instance_id"] = json!(id);
        assert_eq!(said(&fleet.post("/cache/prefetches", &body)), unknown(shown));
    }
    assert_eq!(said(&fleet.get("/cache/prefetches/x%27/r")), unknown("\"x'\""));
    let body = json!({"instance_id": "x", "world_size": 0, "token_ids": [1, null, 1.5], "cache_salt": null});
    assert_eq!(
        said(&fleet.post("/cache/prefetches", &body)),
        refused(json!([
            fault("missing", json!(["body", "model_name"]), "Field required", body),
            fault_in(
                "greater_than_equal",
                json!(["body", "world_size"]),
                "Input should be greater than or equal to 1",
                json!(0),
                json!({"ge": 1})
            ),
            fault(
                "int_type",
                json!(["body", "token_ids", 1]),
                "Input should be a valid integer",
                json!(null)
            ),
            fault(
                "int_from_float",
                json!(["body", "token_ids", 2]),
                "Input should be a valid integer, got a number with a fractional part",
                json!(1.5)
            ),
            fault(
                "string_type",
                json!(["body", "cache_salt"]),
                "Input should be a valid string",
                json!(null)
            ),
        ]))
    );
}

#[test]
fn answers_of_a_submit() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    let mut wire = Wire::to(fleet.address());
    let mut submit = |manner: Manner| {
        server.behave(manner);
        said(&wire.ask("POST", "/cache/prefetches", &ask().to_string()))
    };
    let ok = |id: &str, chunks: i64, status: &str| {
        (200, json!({"instance_id": "s", "request_id": id, "chunks": chunks, "status": status}))
    };
    for code in ["200 OK", "201 Created", "202 Accepted"] {
        let body =
            r#"{"request_id": "r", "chunks": 3, "status": "queued", "instance_id": "other", "more": 1}"#;
        assert_eq!(submit(raw(code, body)), ok("r", 3, "queued"));
    }
    assert_eq!(submit(raw("200 OK", "{}")), ok("", 0, "submitted"));
    assert_eq!(submit(raw("200 OK", r#"{"chunks": 0, "status": "noop"}"#)), ok("", 0, "noop"));
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    for manner in [
        raw("200 OK", ""),
        raw("200 OK", "not json"),
        raw("200 OK", "[1]"),
        raw("200 OK", "null"),
        raw("200 OK", &deep),
        raw("200 OK", r#"{"request_id": null}"#),
        raw("200 OK", r#"{"request_id": 7}"#),
        raw("200 OK", r#"{"request_id": "r", "chunks": "x"}"#),
        raw("204 No Content", ""),
        raw("301 Moved", "{}"),
        raw("400 Bad Request", r#"{"detail": "no"}"#),
        raw("404 Not Found", "{}"),
        raw("500 Internal Server Error", "boom"),
        Manner::Redirect("http://127.0.0.1:1/".into()),
        Manner::Hangup,
        Manner::Half,
        Manner::Raw(b"nonsense\r\n\r\n".to_vec()),
        Manner::Raw(b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec()),
        Manner::Raw(b"HTTP/1.1 000 x\r\ncontent-length: 2\r\n\r\n{}".to_vec()),
    ] {
        let told = format!("{manner:?}");
        let (status, answer) = submit(manner);
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert_eq!(
            (status, answer.as_object().map(serde_json::Map::len)),
            (502, Some(1)),
            "{told}: {answer}"
        );
        assert!(detail.starts_with("prefetch submit to 's' failed: "), "{told}: {detail}");
    }
    let (_, answer) = submit(raw("418 x", "{}"));
    assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains("418")), "{answer}");
    wire.goes_on();
}

#[test]
fn answers_of_a_poll_are_relayed() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    let mut wire = Wire::to(fleet.address());
    for (code, body) in [
        ("200 OK", r#"{"status":"pending"}"#),
        ("202 Accepted", r#"{"status": "completed", "found_keys": 12, "total_keys": 12}"#),
        ("200 OK", "[1, 2.50, null]"),
        ("200 OK", "\"text\""),
        ("404 Not Found", r#"{"detail":"Not Found"}"#),
        ("418 I'm a teapot", "{}"),
        ("500 Internal Server Error", r#"{"detail": "x"}"#),
        ("503 Service Unavailable", "null"),
        ("307 Temporary Redirect", "{}"),
    ] {
        server.behave(raw(code, body));
        let answer = wire.ask("GET", "/cache/prefetches/s/r", "");
        assert_eq!((answer.status.to_string().as_str(), answer.text()), (&code[..3], body));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    for (code, body) in
        [("200 OK", "plain"), ("500 Internal Server Error", "Internal Server Error"), ("307 Go", "")]
    {
        server.behave(raw(code, body));
        let status = code[..3].parse().unwrap();
        assert_eq!(said(&wire.ask("GET", "/cache/prefetches/s/r", "")), (status, json!({"detail": body})));
    }
    server.behave(raw("204 No Content", ""));
    let answer = wire.ask("GET", "/cache/prefetches/s/r", "");
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    wire.goes_on();
    for manner in [
        Manner::Hangup,
        Manner::Half,
        Manner::Raw(b"nonsense\r\n\r\n".to_vec()),
        // answers that stand for none: nobody asked whether something changed, and these are no codes
        raw("304 Not Modified", ""),
        raw("999 x", "{}"),
    ] {
        let told = format!("{manner:?}");
        server.behave(manner);
        let (status, answer) = said(&wire.ask("GET", "/cache/prefetches/s/r", ""));
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(
            status == 502 && detail.starts_with("prefetch status from 's' failed: "),
            "{told}: {status} {detail}"
        );
    }
    wire.goes_on();
}

#[test]
fn a_request_id_is_one_part_of_the_path() {
    let fleet = Fleet::start(quiet());
    let server = MpServer::start();
    server.join(fleet.address(), "s");
    for (sent, arrives) in [
        ("abc", "abc"),
        ("a%3Fb=1", "a%3Fb%3D1"),
        ("a%23b", "a%23b"),
        ("a%20b", "a%20b"),
        ("%25", "%25"),
        ("%C3%A9", "%C3%A9"),
        ("a%0D%0Ax:1", "a%0D%0Ax%3A1"),
    ] {
        fleet.get(&format!("/cache/prefetches/s/{sent}"));
        let target = server.take_seen().pop().unwrap().target;
        let part = target.strip_prefix("/cache/prefetches/").unwrap();
        let decoded =
            |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
        assert_eq!(decoded(part), decoded(arrives), "{target}");
        assert!(!part.contains(['?', '#', ' ', '\r', '\n', '/']), "{target}");
    }
    for dots in ["%2e%2e", "..", "."] {
        let answer = fleet.get(&format!("/cache/prefetches/s/{dots}"));
        let seen = server.take_seen();
        // where it is sent at all, it does not leave its place
        for seen in &seen {
            let part = seen.target.strip_prefix("/cache/prefetches/").unwrap();
            assert!(!matches!(part, "." | ".." | ""), "{}", seen.target);
        }
        assert!((400..=502).contains(&answer.status) && answer.status != 500, "{}", answer.status);
    }
}

#[test]
fn servers_that_are_not_there() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for (id, ip) in [
        ("refused", "127.0.0.1"),
        ("six", "::1"),
        ("bracketed", "[::1]"),
        ("name", "no.such.host.invalid"),
        ("odd", "a b/c?d#e@f"),
    ] {
        let body = json!({"instance_id": id, "ip": ip, "http_port": 1}).to_string();
        assert_eq!(wire.ask("POST", "/instances", &body).status, 200);
        let mut body = ask();
        body["instance_id"] = json!(id);
        let (status, answer) = said(&wire.ask("POST", "/cache/prefetches", &body.to_string()));
        let detail = answer["detail"].as_str().unwrap();
        assert!(
            status == 502 && detail.starts_with(&format!("prefetch submit to '{id}' failed: ")),
            "{detail}"
        );
        let (status, answer) = said(&wire.ask("GET", &format!("/cache/prefetches/{id}/r"), ""));
        let detail = answer["detail"].as_str().unwrap();
        assert!(
            status == 502 && detail.starts_with(&format!("prefetch status from '{id}' failed: ")),
            "{detail}"
        );
    }
    wire.goes_on();
}
