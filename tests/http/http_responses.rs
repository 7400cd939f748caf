//! Set-up: responses written one behind the other into one vector, and a naive reader of them. Claim:
//! each carries its status, its length, its persistence, and a body that is JSON whatever the message.

use kvatlas::http::router::{Miss, Route, find};
use kvatlas::http::{Method, response};
use proptest::prelude::*;

type Headers = Vec<(String, String)>;

/// Splits the first response off: status line, lower-case header lines, body.
fn read(input: &[u8], has_body: bool) -> (String, Headers, Vec<u8>, &[u8]) {
    let split = input.windows(4).position(|four| four == b"\r\n\r\n");
    let split = split.expect("a blank line");
    let head = std::str::from_utf8(&input[..split]).expect("text");
    let mut lines = head.split("\r\n");
    let status = lines.next().expect("a status line").to_owned();
    let headers: Headers = lines
        .map(|line| line.split_once(':').expect("a colon"))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let length: usize = value(&headers, "content-length").unwrap().parse().unwrap();
    let end = split + 4 + if has_body { length } else { 0 };
    (status, headers, input[split + 4..end].to_vec(), &input[end..])
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = headers.iter().filter(|(known, _)| known == name);
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} twice");
    value
}

proptest! {
    #[test]
    fn every_message_is_a_json_error(messages in prop::collection::vec(any::<String>(), 1..5)) {
        let mut out = Vec::new();
        for message in &messages {
            response::error(&mut out, 400, message, true, false);
        }
        let mut rest = out.as_slice();
        for message in &messages {
            let (status, headers, body, after) = read(rest, true);
            prop_assert_eq!(status, "HTTP/1.1 400 Bad Request");
            prop_assert_eq!(value(&headers, "content-type"), Some("application/json"));
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(body, serde_json::json!({ "error": message }));
            rest = after;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_body_of_any_length_is_announced(lengths in prop::collection::vec(0..20_000_usize, 1..4)) {
        let mut out = Vec::new();
        for length in &lengths {
            let mark = response::begin(&mut out, 200, "text/plain", true, false);
            out.resize(out.len() + length, b'x');
            response::finish(&mut out, mark);
        }
        let mut rest = out.as_slice();
        for length in &lengths {
            let (status, _, body, after) = read(rest, true);
            prop_assert_eq!(status, "HTTP/1.1 200 OK");
            prop_assert_eq!(body, vec![b'x'; *length]);
            rest = after;
        }
        prop_assert!(rest.is_empty());
    }
}

#[test]
fn persistence_is_said_where_it_is_not_the_default() {
    for (keep_alive, http_10, said) in [
        (true, false, None),
        (false, false, Some("close")),
        (true, true, Some("keep-alive")),
        (false, true, Some("close")),
    ] {
        let mut out = Vec::new();
        let mark = response::begin(&mut out, 200, "text/plain", keep_alive, http_10);
        response::finish(&mut out, mark);
        let (_, headers, _, _) = read(&out, true);
        assert_eq!(value(&headers, "connection"), said);
    }
}

#[test]
fn a_wrong_method_is_told_the_right_one_and_head_gets_no_body() {
    for head in [false, true] {
        let mut out = Vec::new();
        response::method_not_allowed(&mut out, "POST", head, true, false);
        let (status, headers, body, rest) = read(&out, !head);
        assert_eq!(status, "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(value(&headers, "allow"), Some("POST"));
        assert_eq!(body.is_empty(), head);
        assert!(rest.is_empty());
    }
}

#[test]
fn paths_are_exact_and_take_one_method_and_head_with_get() {
    for (path, method, route) in [
        ("/register", Method::Post, Route::Register),
        ("/unregister", Method::Post, Route::Unregister),
        ("/query", Method::Post, Route::Query),
        ("/query_by_hash", Method::Post, Route::QueryByHash),
        ("/services", Method::Get, Route::Services),
        ("/global_view", Method::Get, Route::GlobalView),
        ("/healthz", Method::Get, Route::Healthz),
        ("/livez", Method::Get, Route::Livez),
        ("/readyz", Method::Get, Route::Readyz),
        ("/metrics", Method::Get, Route::Metrics),
    ] {
        assert_eq!(find(method, path), Ok(route));
        let other = if method == Method::Get { (Method::Post, "GET, HEAD") } else { (Method::Get, "POST") };
        assert_eq!(find(other.0, path), Err(Miss::MethodNotAllowed(other.1)));
        let head = if method == Method::Get { Ok(route) } else { Err(Miss::MethodNotAllowed(other.1)) };
        assert_eq!(find(Method::Head, path), head);
        assert_eq!(find(method, &format!("{path}/")), Err(Miss::NotFound));
        assert_eq!(find(method, &path.to_uppercase()), Err(Miss::NotFound));
    }
    assert_eq!(find(Method::Get, "/"), Err(Miss::NotFound));
}
