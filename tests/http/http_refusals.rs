//! Set-up: one input at a time, received at once. Claim: what HTTP forbids, or what exceeds a limit, is
//! refused with its own status, and what only looks odd is understood.

use kvatlas::http::{Decoder, Limits, Method, Step};

const LIMITS: Limits = Limits { head_bytes: 1024, body_bytes: 64 };

fn received(input: &[u8]) -> Decoder {
    let mut decoder = Decoder::new(LIMITS);
    let mut buffer = decoder.take_buffer();
    buffer.extend_from_slice(input);
    decoder.give_back(buffer);
    decoder
}

/// Status of a refusal, 200 of a request, 100 of a continue, 0 when more is needed.
fn status_of(step: Step<'_>) -> u16 {
    match step {
        Step::Refuse(refusal) => refusal.status,
        Step::Request(_) => 200,
        Step::Continue => 100,
        Step::NeedMore => 0,
    }
}

fn status(input: impl AsRef<[u8]>) -> u16 {
    status_of(received(input.as_ref()).next())
}

fn post(headers: &str) -> String {
    format!("POST /query HTTP/1.1\r\n{headers}\r\n\r\n")
}

#[test]
fn malformed_heads_are_400() {
    for input in [
        "GET\r\n\r\n",
        "GET / HTTQ/1.1\r\n\r\n",
        "GET nowhere HTTP/1.1\r\n\r\n",
        "GET ftp://host/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nspace : x\r\n\r\n",
        "GET / HTTP/1.1\r\na: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\na: b\0c\r\n\r\n",
        "\u{16}\u{3}\u{1}",
        "\rGET / HTTP/1.1\r\n\r\n",
    ] {
        assert_eq!(status(input), 400, "{input:?}");
    }
}

#[test]
fn ambiguous_lengths_are_400() {
    for headers in [
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 3, 4",
        "content-length: 3,",
        "content-length: +3",
        "content-length: -1",
        "content-length: 0x3",
        "content-length:",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding:",
    ] {
        assert_eq!(status(post(headers)), 400, "{headers:?}");
    }
    let old = "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(status(old), 400);
}

#[test]
fn a_length_repeated_alike_counts_once() {
    let input = post("content-length: 3\r\nContent-Length: 3, 3") + "abc";
    match received(input.as_bytes()).next() {
        Step::Request(request) => assert_eq!(request.body, b"abc"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn large_heads_and_many_lines_are_431() {
    let long = "x".repeat(2000);
    assert_eq!(status(post(&format!("a: {long}"))), 431);
    assert_eq!(status(format!("GET /{long}")), 431);
    assert_eq!(status(post(&"a: b\r\n".repeat(65))), 431);
    assert_eq!(status(post(&"a: b\r\n".repeat(63))), 200);
}

#[test]
fn large_bodies_are_413_before_they_come() {
    assert_eq!(status(post("content-length: 64")), 0);
    assert_eq!(status(post("content-length: 65")), 413);
    let endless = "content-length: 99999999999999999999999999";
    assert_eq!(status(post(endless)), 413);
    let expecting = "expect: 100-continue\r\ncontent-length: 65";
    assert_eq!(status(post(expecting)), 413);
    let chunked = post("transfer-encoding: chunked");
    assert_eq!(status(format!("{chunked}40\r\n")), 0);
    assert_eq!(status(format!("{chunked}41\r\n")), 413);
    let second = "x".repeat(32);
    assert_eq!(status(format!("{chunked}20\r\n{second}\r\n21\r\n")), 413);
    assert_eq!(status(format!("{chunked}ffffffffffffffff\r\n")), 413);
}

#[test]
fn malformed_chunks_are_400() {
    let chunked = post("transfer-encoding: chunked");
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        ";a\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3 3\r\n",
        "3\rx",
        "3;a\nb",
        "00000000000000003\r\n",
        "0\r\na: b\nc",
        "0\r\n\rx",
    ] {
        assert_eq!(status(format!("{chunked}{body}")), 400, "{body:?}");
    }
}

#[test]
fn endless_extensions_and_trailers_are_431() {
    let chunked = post("transfer-encoding: chunked");
    let long = "x".repeat(1025);
    assert_eq!(status(format!("{chunked}3;{long}")), 431);
    assert_eq!(status(format!("{chunked}0\r\n{long}")), 431);
    let lines = "a: b\r\n".repeat(300);
    assert_eq!(status(format!("{chunked}0\r\n{lines}")), 431);
}

#[test]
fn other_codings_are_501_and_other_versions_505() {
    for coding in ["gzip", "gzip, chunked", "chunked, gzip", "identity"] {
        let headers = format!("transfer-encoding: {coding}");
        assert_eq!(status(post(&headers)), 501, "{coding}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "HTTP/3"] {
        assert_eq!(status(format!("GET / {version}\r\n\r\n")), 505, "{version}");
    }
    assert_eq!(status("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn only_100_continue_may_be_expected_and_is_answered_once() {
    assert_eq!(status(post("expect: 200-ok\r\ncontent-length: 3")), 417);
    let headers = "EXPECT: 100-Continue\r\ncontent-length: 3";
    let mut decoder = received(post(headers).as_bytes());
    assert_eq!(status_of(decoder.next()), 100);
    assert_eq!(status_of(decoder.next()), 0);
    let mut buffer = decoder.take_buffer();
    buffer.extend_from_slice(b"abc");
    decoder.give_back(buffer);
    assert_eq!(status_of(decoder.next()), 200);
    assert_eq!(status_of(decoder.next()), 0);
    // nothing to wait for
    assert_eq!(status(post("expect: 100-continue")), 200);
    assert_eq!(status(post(headers) + "a"), 0);
    let old = "POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n";
    assert_eq!(status(old), 0);
}

#[test]
fn a_refusal_stays() {
    let mut decoder = received(b"nonsense\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    assert_eq!(status_of(decoder.next()), 400);
    assert_eq!(status_of(decoder.next()), 400);
    assert!(decoder.take_buffer().is_empty());
    assert_eq!(status_of(decoder.next()), 400);
}

#[test]
fn connections_persist_as_their_version_says() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "connection: close\r\n", false),
        ("1.1", "Connection: TE, Close\r\n", false),
        ("1.1", "connection: keep-alive, close\r\n", false),
        ("1.0", "", false),
        ("1.0", "connection: Keep-Alive\r\n", true),
        ("1.0", "connection: te\r\nconnection: x, keep-alive\r\n", true),
    ];
    for (version, headers, persists) in cases {
        let input = format!("GET / HTTP/{version}\r\n{headers}\r\nGET / HTTP/1.1\r\n\r\n");
        let mut decoder = received(input.as_bytes());
        match decoder.next() {
            Step::Request(request) => {
                assert_eq!(request.keep_alive, persists, "{version} {headers:?}");
                assert_eq!(request.http_10, version == "1.0");
            }
            other => panic!("{other:?}"),
        }
        let second = status_of(decoder.next());
        assert_eq!(second, if persists { 200 } else { 0 });
    }
}

#[test]
fn targets_and_header_values_are_found() {
    let cases = [
        ("/query", "/query", None),
        ("/query?", "/query", Some("")),
        ("/a?b=c?d", "/a", Some("b=c?d")),
        ("*", "*", None),
        ("http://host:1/query?x", "/query", Some("x")),
        ("HTTPS://host", "/", None),
        ("http://host?x", "/", Some("x")),
    ];
    for (target, path, query) in cases {
        let input = format!(
            "\r\n\nOPTIONS {target} HTTP/1.1\nAccept: a/b \r\nTraceParent:00-1\r\ncontent-type: c/d; e\r\n\n"
        );
        match received(input.as_bytes()).next() {
            Step::Request(request) => {
                assert_eq!((request.path, request.query), (path, query));
                assert_eq!(request.method, Method::Options);
                assert_eq!(request.accept, "a/b");
                assert_eq!(request.traceparent, Some("00-1"));
                assert_eq!(request.content_type, "c/d; e");
                assert_eq!(request.body, b"");
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}
