//! Answers, written straight into the send buffer: head, then body, then the length into the head.

/// Room for the digits of `content-length`, enough for every `usize`; a length is right-aligned in it.
const LENGTH_WIDTH: usize = 20;

/// The interim answer to `expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// `content-type` of everything but the metrics.
pub const JSON: &str = "application/json";

/// A response whose body is being written.
#[derive(Debug, Clone, Copy)]
#[must_use = "a response without `finish` has no length"]
pub struct Mark {
    length_end: usize,
    body: usize,
}

/// Writes a response head; what is appended to `out` before [`finish`] is the body.
pub fn begin(out: &mut Vec<u8>, status: u16, content_type: &str, keep_alive: bool, http_10: bool) -> Mark {
    begin_with(out, status, content_type, &[], keep_alive, http_10)
}

/// [`begin`] with further header lines.
pub fn begin_with(
    out: &mut Vec<u8>,
    status: u16,
    content_type: &str,
    headers: &[(&str, &str)],
    keep_alive: bool,
    http_10: bool,
) -> Mark {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    header(out, "\r\ncontent-type", content_type);
    for (name, value) in headers {
        header(out, name, value);
    }
    connection(out, keep_alive, http_10);
    out.extend_from_slice(b"content-length: ");
    out.resize(out.len() + LENGTH_WIDTH, b' ');
    let length_end = out.len();
    out.extend_from_slice(b"\r\n\r\n");
    Mark { length_end, body: out.len() }
}

/// Ends the response that began at `mark`: everything behind its head is its body.
pub fn finish(out: &mut [u8], mark: Mark) {
    let Mark { length_end, body } = mark;
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(out.len() - body).as_bytes();
    out[length_end - digits.len()..length_end].copy_from_slice(digits);
}

/// [`finish`] for an answer to `HEAD`: the length of the body stands, the body does not.
pub fn finish_head(out: &mut Vec<u8>, mark: Mark) {
    let body = mark.body;
    finish(out, mark);
    out.truncate(body);
}

/// Writes `{"error": message}`.
pub fn error(out: &mut Vec<u8>, status: u16, message: &str, keep_alive: bool, http_10: bool) {
    let mark = begin(out, status, JSON, keep_alive, http_10);
    error_body(out, message);
    finish(out, mark);
}

/// Leaves of the response that begins at `start` its head alone, which says how long the body would be.
pub fn cut_body(out: &mut Vec<u8>, start: usize) {
    if let Some(end) = memchr::memmem::find(&out[start..], b"\r\n\r\n") {
        out.truncate(start + end + 4);
    }
}

/// Writes the 405 of a path that takes only the methods of `allow`; `head` says the client sent `HEAD`.
pub fn method_not_allowed(
    out: &mut Vec<u8>,
    allow: &'static str,
    head: bool,
    keep_alive: bool,
    http_10: bool,
) {
    let allow = [("allow", allow)];
    let mark = begin_with(out, 405, JSON, &allow, keep_alive, http_10);
    error_body(out, "method not allowed");
    if head {
        finish_head(out, mark);
    } else {
        finish(out, mark);
    }
}

/// Writes an answer without a body, which 204 must not have.
pub fn no_content(out: &mut Vec<u8>, keep_alive: bool, http_10: bool) {
    out.extend_from_slice(b"HTTP/1.1 204 No Content\r\n");
    connection(out, keep_alive, http_10);
    out.extend_from_slice(b"\r\n");
}

/// Appends `text` as a JSON string.
pub fn json_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a vector takes every string");
}

fn error_body(out: &mut Vec<u8>, message: &str) {
    out.extend_from_slice(b"{\"error\":");
    json_string(out, message);
    out.extend_from_slice(b"}\n");
}

fn connection(out: &mut Vec<u8>, keep_alive: bool, http_10: bool) {
    match (keep_alive, http_10) {
        (false, _) => header(out, "connection", "close"),
        (true, true) => header(out, "connection", "keep-alive"),
        (true, false) => {}
    }
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}
