//! Set-up: a running coordinator, asked in every way that HTTP allows and in some that it does not.
//! Claim: paths, methods, content types and framings are taken as the contract says, errors have its shape, and the
//! connection goes on after each of them.

use crate::coordinator::{Fleet, eventually, quiet};
use crate::wire::{Wire, error, fault, fault_in, refused, said};
use kvatlas::fleet::settings::Settings;
use serde_json::json;

const REGISTER: &str = r#"{"ip": "10.0.0.1", "http_port": 80, "instance_id": "a"}"#;

fn registered(again: bool) -> (u16, serde_json::Value) {
    (200, json!({"instance_id": "a", "re_registered": again}))
}

#[test]
fn paths_that_are_no_ones() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let paths = [
        "/",
        "*",
        "/?x=1",
        "/nothing",
        "//healthz",
        "//",
        "/Healthz",
        "/healthz/x",
        "/healthz%2F",
        "/instances/a",
        "/instances//heartbeat",
        "/instances/a%2Fb/heartbeat",
        "/quota/a/b",
        "/quota/a%2Fb",
        "/quota/a%2fb",
        "/quota%2Fa",
        "/cache",
        "/cache/objects",
        "/cache/prefetches/a/",
        "/cache/prefetches//b",
        "/cache/prefetches/a/b%2Fc",
        "/cache/prefetches/a/b/c",
        "/docs",
        "/redoc",
        "/query",
        "/register",
        "/services",
        "/readyz",
    ];
    for path in paths {
        for method in ["GET", "PATCH", "BREW"] {
            let answer = wire.ask(method, path, "{}");
            if path == "/instances/a" {
                assert_eq!(
                    (said(&answer), answer.header("allow")),
                    (error(405, "Method Not Allowed"), Some("delete"))
                );
            } else {
                assert_eq!(said(&answer), error(404, "Not Found"), "{method} {path}");
            }
            assert_eq!(answer.header("connection"), None);
        }
        wire.send(format!("HEAD {path} HTTP/1.1\r\nhost: c\r\n\r\n").as_bytes());
        assert!(wire.receive_head().starts_with("http/1.1 40"), "{path}");
        wire.goes_on();
    }
}

#[test]
fn methods_that_a_path_does_not_take() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let paths = [
        ("/instances", "GET, POST"),
        ("/instances/a", "DELETE"),
        ("/instances/a/heartbeat", "PUT"),
        ("/healthz", "GET"),
        ("/quota", "GET"),
        ("/quota/config", "GET, PUT, DELETE"),
        ("/quota/events", "GET, PUT, POST, DELETE"),
        ("/quota/a", "GET, PUT, DELETE"),
        ("/quota/a%20b", "GET, PUT, DELETE"),
        ("/cache/prefetches", "POST"),
        ("/cache/prefetches/a/b", "GET"),
        ("/cache/pins", "GET, POST, DELETE"),
        ("/cache/delete", "POST"),
        ("/blend/fingerprints", "POST, DELETE"),
        ("/blend/match", "POST"),
        ("/metrics", "GET"),
        ("/openapi.json", "GET"),
    ];
    for (path, allow) in paths {
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "BREW"] {
            if allow.split(", ").any(|taken| taken == method) {
                continue;
            }
            let answer = wire.ask(method, path, "");
            assert_eq!(said(&answer), error(405, "Method Not Allowed"), "{method} {path}");
            assert_eq!(answer.header("allow"), Some(allow.to_lowercase().as_str()), "{method} {path}");
        }
        // the head that GET would have got, and not one byte of a body
        wire.send(format!("HEAD {path} HTTP/1.1\r\nhost: c\r\n\r\n").as_bytes());
        let head = wire.receive_head();
        assert!(head.starts_with("http/1.1 405 method not allowed\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nallow: {}\r\n", allow.to_lowercase())), "{head}");
        wire.goes_on();
    }
}

#[test]
fn a_trailing_slash_leads_to_the_path_without_it() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for (method, target, location) in [
        ("GET", "/healthz/", "/healthz"),
        ("GET", "/healthz/?x=1&y=%2f", "/healthz?x=1&y=%2f"),
        ("POST", "/instances/", "/instances"),
        ("DELETE", "/instances/a%20b/", "/instances/a%20b"),
        ("PUT", "/instances/a/heartbeat/", "/instances/a/heartbeat"),
        ("GET", "/quota/", "/quota"),
        ("GET", "/quota//", "/quota"),
        ("POST", "/quota/events/", "/quota/events"),
        ("DELETE", "/cache/pins/", "/cache/pins"),
        ("GET", "/cache/prefetches/a/b/", "/cache/prefetches/a/b"),
        ("POST", "/cache/prefetches/", "/cache/prefetches"),
    ] {
        let answer = wire.ask(method, target, REGISTER);
        assert_eq!((answer.status, answer.body.len()), (307, 0), "{target}");
        assert_eq!(answer.header("location"), Some(location), "{target}");
    }
    wire.send(b"HEAD /healthz/ HTTP/1.1\r\nhost: c\r\n\r\n");
    assert!(wire.receive_head().starts_with("http/1.1 307 "));
    wire.goes_on();
    assert_eq!(said(&fleet.get("/instances")), (200, json!({"instances": []})));
}

#[test]
fn path_parts_are_decoded_once() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for (segment, id) in [
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("a%252Fb", "a%2Fb"),
        ("%C3%A9", "é"),
        ("%ff", "\u{fffd}"),
        ("a%", "a%"),
        ("a%zz", "a%zz"),
        ("a%00b", "a\0b"),
        ("..", ".."),
        ("%2e%2e", ".."),
        (";x=1", ";x=1"),
        ("'%22", "'\""),
    ] {
        let answer = wire.ask("PUT", &format!("/instances/{segment}/heartbeat"), "");
        let text = format!("unknown instance {id}; re-register");
        assert_eq!(said(&answer), (404, json!({"error": text})), "{segment}");
        let body = json!({"ip": "h", "http_port": 1, "instance_id": id}).to_string();
        assert_eq!(said(&wire.ask("POST", "/instances", &body)).0, 200);
        let answer = wire.ask("PUT", &format!("/instances/{segment}/heartbeat?x=1"), "anything");
        assert_eq!(said(&answer), (200, json!({"instance_id": id})), "{segment}");
        let answer = wire.ask("DELETE", &format!("/instances/{segment}"), "");
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{segment}");
    }
    assert_eq!(said(&wire.ask("GET", "/instances", "")), (200, json!({"instances": []})));
    // registered it can be, addressed it cannot
    let body = json!({"ip": "h", "http_port": 1, "instance_id": "a/b"}).to_string();
    assert_eq!(said(&wire.ask("POST", "/instances", &body)).0, 200);
    assert_eq!(said(&wire.ask("DELETE", "/instances/a%2Fb", "")), error(404, "Not Found"));
    assert_eq!(wire.ask("GET", "/instances", "").json()["instances"][0]["instance_id"], "a/b");
}

#[test]
fn content_types() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let taken = [
        "",
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=latin-1; x=\"y\"",
        "Application/JSON",
        "application/problem+json",
        "application/vnd.api+json; version=1",
    ];
    for (index, kind) in taken.into_iter().enumerate() {
        let answer = wire.ask_as(kind, "POST", "/instances", REGISTER.as_bytes());
        assert_eq!(said(&answer), registered(index > 0), "{kind}");
    }
    let message = "Input should be a valid dictionary or object to extract fields from";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "application/jsonx",
        // a suffix says so under `application` alone
        "text/x+json",
        "image/svg+json",
        "*/*+json",
        "application/json/x",
        "json",
    ] {
        let answer = wire.ask_as(kind, "POST", "/instances", REGISTER.as_bytes());
        let faults = json!([fault("model_attributes_type", json!(["body"]), message, json!(REGISTER))]);
        assert_eq!(said(&answer), refused(faults), "{kind}");
        let answer = wire.ask_as(kind, "PUT", "/instances/a/heartbeat", b"\xff");
        assert_eq!(
            said(&answer),
            (200, json!({"instance_id": "a"})),
            "the body of a heartbeat is nobody's business"
        );
    }
}

#[test]
fn bodies_that_are_no_object() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let whole = |kind, message, input| refused(json!([fault(kind, json!(["body"]), message, input)]));
    let attributes = "Input should be a valid dictionary or object to extract fields from";
    let broken = |at: u32, what: &str| {
        let context = json!({"error": what});
        refused(json!([fault_in(
            "json_invalid",
            json!(["body", at]),
            "JSON decode error",
            json!({}),
            context
        )]))
    };
    for (method, path) in [
        ("POST", "/instances"),
        ("PUT", "/quota/config"),
        ("PUT", "/quota/a"),
        ("POST", "/quota/events"),
        ("POST", "/cache/prefetches"),
        ("POST", "/cache/pins"),
        ("DELETE", "/cache/pins"),
        ("POST", "/cache/delete"),
        ("POST", "/blend/fingerprints"),
        ("DELETE", "/blend/fingerprints"),
        ("POST", "/blend/match"),
    ] {
        let mut ask = |body: &[u8]| said(&wire.ask_as("application/json", method, path, body));
        assert_eq!(ask(b""), whole("missing", "Field required", json!(null)), "{path}");
        assert_eq!(ask(b"null"), whole("missing", "Field required", json!(null)), "{path}");
        assert_eq!(ask(b"[1, \"x\"]"), whole("model_attributes_type", attributes, json!([1, "x"])), "{path}");
        assert_eq!(ask(b" 7 "), whole("model_attributes_type", attributes, json!(7)), "{path}");
        assert_eq!(ask(b"NaN"), whole("model_attributes_type", attributes, json!(null)), "{path}");
        assert_eq!(
            ask(b"\"\\ud800\""),
            whole("model_attributes_type", attributes, json!("\u{fffd}")),
            "{path}"
        );
        assert_eq!(ask(b"{\"a\": }"), broken(6, "Expecting value"), "{path}");
        assert_eq!(ask("\u{e9}".as_bytes()), broken(0, "Expecting value"), "{path}");
        assert_eq!(ask("\"\u{e9}\" x".as_bytes()), broken(4, "Extra data"), "{path}");
        assert_eq!(ask(b"{\"a\": 1"), broken(7, "Expecting ',' delimiter"), "{path}");
        assert_eq!(ask(b"   "), broken(3, "Expecting value"), "{path}");
        assert_eq!(ask(b"{\"a\": \"\xff\"}"), error(400, "There was an error parsing the body"), "{path}");
        assert_eq!(
            ask(b"\xef\xbb\xbf 7"),
            whole("model_attributes_type", attributes, json!(7)),
            "a BOM, {path}"
        );
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = [open.repeat(200_000), "1".to_owned(), close.repeat(200_000)].concat();
            let (status, answer) = ask(deep.as_bytes());
            assert_eq!((status, &answer["detail"][0]["type"]), (422, &json!("json_invalid")), "{path}");
            assert_eq!(ask(open.repeat(500_000).as_bytes()).0, 422, "{path}");
            // where nobody looks into it
            let hidden = format!("{{\"unknown\": {deep}}}");
            assert_eq!(ask(hidden.as_bytes()).0, 422, "{path}");
        }
        assert_eq!(ask(format!("{{\"x\": {}}}", "9".repeat(5000)).as_bytes()).0, 400, "{path}");
    }
    wire.goes_on();
}

#[test]
fn chunked_bodies_in_any_pieces() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let head = b"POST /instances HTTP/1.1\r\nhost: c\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    for (round, size) in [1, 7, 64].into_iter().enumerate() {
        let mut bytes = head.to_vec();
        for piece in REGISTER.as_bytes().chunks(size) {
            bytes.extend_from_slice(format!("{:x};name=value\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\nx-trailer: 1\r\n\r\n");
        for piece in bytes.chunks(size * 3) {
            wire.send(piece);
        }
        assert_eq!(said(&wire.receive()), registered(round > 0));
    }
    wire.send(&[head.as_slice(), b"0\r\n\r\n"].concat());
    let faults = json!([fault("missing", json!(["body"]), "Field required", json!(null))]);
    assert_eq!(said(&wire.receive()), refused(faults));
    wire.goes_on();
}

#[test]
fn a_client_that_waits_to_be_told_to_go_on() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let length = REGISTER.len();
    for (round, path) in ["/instances", "/instances", "/nowhere"].into_iter().enumerate() {
        wire.send(
            format!(
                "POST {path} HTTP/1.1\r\nhost: c\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
            )
            .as_bytes(),
        );
        assert_eq!(wire.receive_head(), "http/1.1 100 continue\r\n\r\n");
        wire.send(REGISTER.as_bytes());
        let wanted = if path == "/nowhere" { error(404, "Not Found") } else { registered(round > 0) };
        assert_eq!(said(&wire.receive()), wanted);
    }
    wire.goes_on();
}

#[test]
fn clients_of_the_older_version() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let length = REGISTER.len();
    let post = |line: &str| {
        format!("POST /instances HTTP/1.0\r\n{line}content-length: {length}\r\n\r\n{REGISTER}").into_bytes()
    };
    wire.send(&post("connection: keep-alive\r\n"));
    let answer = wire.receive();
    assert_eq!((said(&answer), answer.header("connection")), (registered(false), Some("keep-alive")));
    wire.send(&post(""));
    let answer = wire.receive();
    assert_eq!((said(&answer), answer.header("connection")), (registered(true), Some("close")));
    assert!(wire.ends());
}

#[test]
fn a_connection_goes_on_after_every_answer() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let asked = [
        ("GET", "/nothing", "", 404),
        ("PUT", "/instances/x/heartbeat", "", 404),
        ("POST", "/instances", "{}", 422),
        ("POST", "/quota/events", "[", 422),
        ("PUT", "/quota/a", r#"{"limit_gb": Infinity}"#, 400),
        ("PATCH", "/quota", "", 405),
        ("GET", "/quota/", "", 307),
        ("DELETE", "/instances/x", "", 204),
        ("GET", "/cache/prefetches/x/y", "", 404),
        ("POST", "/instances", REGISTER, 200),
        // a server that nothing listens for
        ("POST", "/instances", r#"{"ip": "127.0.0.1", "http_port": 1, "instance_id": "dead"}"#, 200),
        ("GET", "/cache/prefetches/dead/y", "", 502),
        ("GET", "/metrics", "", 200),
    ];
    for (method, target, body, status) in asked {
        assert_eq!(wire.ask(method, target, body).status, status, "{method} {target}");
    }
    // and all at once, answered in order
    let mut all = Vec::new();
    for (method, target, body, _) in asked {
        let length = body.len();
        all.extend(
            format!("{method} {target} HTTP/1.1\r\nhost: c\r\ncontent-length: {length}\r\n\r\n{body}")
                .bytes(),
        );
    }
    wire.send(&all);
    for (method, target, _, status) in asked {
        assert_eq!(wire.receive().status, status, "{method} {target}");
    }
    assert!((fleet.metric("http_connections") as u64) < 4, "it was one connection, and those of the fixture");
}

#[test]
fn what_is_no_request_is_refused_in_the_same_shape() {
    let fleet = Fleet::start(Settings { body_limit: 4096, ..quiet() });
    let large = vec![b' '; 5000];
    assert_eq!(said(&fleet.call("POST", "/instances", &large)), error(413, "request body too large"));
    assert_eq!(said(&fleet.call("POST", "/instances", &large[..4096])).0, 422);
    let head = "POST /instances HTTP/1.1\r\nhost: c\r\n";
    for (bytes, wanted) in [
        ("GARBAGE\r\n\r\n".to_owned(), error(400, "malformed request head")),
        (format!("{head}content-length: x\r\n\r\n"), error(400, "malformed content-length")),
        (format!("{head}transfer-encoding: gzip\r\n\r\n"), error(501, "transfer-encoding is not supported")),
        (format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n"), error(400, "malformed chunked body")),
        (
            format!("{head}expect: 100-continue\r\ncontent-length: 5000\r\n\r\n"),
            error(413, "request body too large"),
        ),
        (format!("{head}x: {}\r\n\r\n", "x".repeat(100_000)), error(431, "request head too large")),
        (
            "GET /healthz HTTP/3.0\r\n\r\n".to_owned(),
            error(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"),
        ),
    ] {
        let answer = fleet.raw(bytes.as_bytes());
        assert_eq!((said(&answer), answer.header("connection")), (wanted, Some("close")));
    }
    eventually("all are counted", || fleet.metric("http_requests_refused_total") as u64 == 8);
}
