//! A request head: what the rest of the daemon needs of it, as places in the receive buffer.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::decoder::{Limits, Refusal};
use crate::limits::HTTP_HEADERS;

/// Request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// Any other token.
    Other,
}

impl Method {
    fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// How long the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
}

/// A parsed head; ranges count from its first byte.
#[derive(Debug)]
pub(super) struct Head {
    /// Bytes of the head, blank line included.
    pub(super) bytes: usize,
    pub(super) method: Method,
    /// Empty for an absolute target without a path, which means `/`.
    pub(super) path: Range<usize>,
    pub(super) query: Option<Range<usize>>,
    pub(super) content_type: Range<usize>,
    pub(super) accept: Range<usize>,
    pub(super) traceparent: Option<Range<usize>>,
    pub(super) framing: Framing,
    pub(super) expects_continue: bool,
    pub(super) keep_alive: bool,
    pub(super) http_10: bool,
}

/// The header lines that matter, before their meaning is decided together.
#[derive(Default)]
struct Fields<'a> {
    content_type: Option<&'a [u8]>,
    accept: Option<&'a [u8]>,
    traceparent: Option<&'a [u8]>,
    length: Option<usize>,
    length_is_bad: bool,
    encoded: bool,
    chunked: usize,
    other_coding: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    other_expectation: bool,
}

/// End of the head in `bytes`, just after its blank line; bytes before `from` were searched before.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    // the blank line may begin up to two bytes before what is new
    let mut at = from.saturating_sub(2);
    while let Some(found) = memchr::memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

impl Head {
    /// Parses `bytes`, one whole head with its blank line.
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        let mut lines = [const { MaybeUninit::uninit() }; HTTP_HEADERS];
        let mut head = httparse::Request::new(&mut []);
        match head.parse_with_uninit_headers(bytes, &mut lines) {
            Ok(httparse::Status::Complete(end)) if end == bytes.len() => {}
            Ok(_) => return Err(Refusal::new(400, "malformed request head")),
            Err(error) => return Err(refuse(error, bytes)),
        }
        let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
            return Err(Refusal::new(400, "malformed request line"));
        };
        let mut fields = Fields::default();
        for line in head.headers.iter() {
            fields.add(line.name, line.value);
        }
        let http_10 = version == 0;
        let framing = fields.framing(http_10, limits)?;
        let (path, query) = split_target(target)?;
        let place = |part: &[u8]| {
            let start = part.as_ptr().addr() - bytes.as_ptr().addr();
            start..start + part.len()
        };
        Ok(Self {
            bytes: bytes.len(),
            method: Method::named(method),
            path: place(path.as_bytes()),
            query: query.map(|query| place(query.as_bytes())),
            content_type: fields.content_type.map_or(0..0, place),
            accept: fields.accept.map_or(0..0, place),
            traceparent: fields.traceparent.map(place),
            framing,
            // HTTP/1.0 knows no interim answer, and an empty body needs none
            expects_continue: fields.expects_continue && !http_10 && framing != Framing::Length(0),
            keep_alive: !fields.close && (!http_10 || fields.keep_alive),
            http_10,
        })
    }
}

impl<'a> Fields<'a> {
    fn add(&mut self, name: &str, value: &'a [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            6 if is("accept") => self.accept = self.accept.or(Some(value)),
            6 if is("expect") => self.expect(value),
            10 if is("connection") => self.connection(value),
            11 if is("traceparent") => self.traceparent = self.traceparent.or(Some(value)),
            12 if is("content-type") => self.content_type = self.content_type.or(Some(value)),
            14 if is("content-length") => self.length(value),
            17 if is("transfer-encoding") => self.encoding(value),
            _ => {}
        }
    }

    fn expect(&mut self, value: &[u8]) {
        for element in elements(value) {
            if element.eq_ignore_ascii_case(b"100-continue") {
                self.expects_continue = true;
            } else {
                self.other_expectation |= !element.is_empty();
            }
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for element in elements(value) {
            self.close |= element.eq_ignore_ascii_case(b"close");
            self.keep_alive |= element.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Repeated lengths are harmless while they agree.
    fn length(&mut self, value: &[u8]) {
        for element in elements(value) {
            if element.is_empty() || !element.iter().all(u8::is_ascii_digit) {
                self.length_is_bad = true;
                return;
            }
            let length = element
                .iter()
                .fold(0_usize, |sum, digit| sum.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
            self.length_is_bad |= self.length.is_some_and(|before| before != length);
            self.length = Some(length);
        }
    }

    fn encoding(&mut self, value: &[u8]) {
        self.encoded = true;
        for element in elements(value) {
            if element.eq_ignore_ascii_case(b"chunked") {
                self.chunked += 1;
            } else {
                self.other_coding |= !element.is_empty();
            }
        }
    }

    /// Decides on the body. Whatever two servers could read differently is refused.
    fn framing(&self, http_10: bool, limits: &Limits) -> Result<Framing, Refusal> {
        if self.length_is_bad {
            return Err(Refusal::new(400, "malformed content-length"));
        }
        if self.encoded && self.length.is_some() {
            let message = "transfer-encoding and content-length exclude each other";
            return Err(Refusal::new(400, message));
        }
        if self.encoded && http_10 {
            return Err(Refusal::new(400, "HTTP/1.0 has no transfer-encoding"));
        }
        if self.other_coding {
            return Err(Refusal::new(501, "transfer-encoding is not supported"));
        }
        if self.encoded && self.chunked != 1 {
            return Err(Refusal::new(400, "malformed transfer-encoding"));
        }
        if self.other_expectation {
            return Err(Refusal::new(417, "expectation is not supported"));
        }
        if self.encoded {
            return Ok(Framing::Chunked);
        }
        let length = self.length.unwrap_or(0);
        if length > limits.body_bytes {
            return Err(Refusal::BODY_TOO_LARGE);
        }
        Ok(Framing::Length(length))
    }
}

fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Path and query of a request target in origin, absolute or asterisk form.
fn split_target(target: &str) -> Result<(&str, Option<&str>), Refusal> {
    let local = if target.starts_with('/') || target == "*" {
        target
    } else {
        let authority = ["http://", "https://"]
            .iter()
            .find_map(|scheme| {
                let start = target.get(..scheme.len())?;
                start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
            })
            .ok_or(Refusal::new(400, "malformed request target"))?;
        let end = authority.find(['/', '?']).unwrap_or(authority.len());
        &authority[end..]
    };
    Ok(match local.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (local, None),
    })
}

fn refuse(error: httparse::Error, bytes: &[u8]) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal::new(431, "too many header lines"),
        httparse::Error::Version if names_a_version(bytes) => {
            Refusal::new(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
        }
        _ => Refusal::new(400, "malformed request head"),
    }
}

/// True when the request line ends in `HTTP/` and a version.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let word = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next();
    word.and_then(|word| word.strip_prefix(b"HTTP/"))
        .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}
