//! One request and its answer.

use std::fmt::Write as _;
use std::io;
use std::net::TcpStream;
use std::time::Instant;

use super::connection::{self, Sent, plain};
use super::pool::Pool;
use super::target::{self, Server};
use super::{Failure, Order, Outcome, Reply};
use crate::limits::{COURIER_BODY_BYTES, HTTP_HEAD_BYTES, HTTP_HEADERS};

/// Carries an order out.
pub(super) fn carry_out(pool: &Pool, order: Order, deadline: Instant) -> Outcome {
    if connection::left(deadline).is_err() {
        return Err(Failure::new("too many requests were under way: it was not sent in time"));
    }
    let server = Server::check(&order.ip, order.port)?;
    let request = request(&order, &server)?;
    drop(order);
    if let Some(mut stream) = pool.take(&server) {
        match connection::send(&mut stream, &request, deadline) {
            // closed between the look at it and the first byte: another connection may try
            Sent::Nothing(_) => {}
            sent => return answer(pool, server, stream, sent, deadline),
        }
    }
    let mut stream = connection::connect(&server, deadline)?;
    let sent = connection::send(&mut stream, &request, deadline);
    drop(request);
    answer(pool, server, stream, sent, deadline)
}

/// Head and body as they go out.
fn request(order: &Order, server: &Server) -> Result<Vec<u8>, Failure> {
    let path = target::path(order)?;
    let (method, authority) = (order.method.name(), server.authority());
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: kvatlas/{}\r\naccept: */*\r\n",
        env!("CARGO_PKG_VERSION")
    );
    if let Some(body) = &order.body {
        // writing to a string cannot fail
        let _ = write!(head, "content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    } else if order.method == super::Method::Post {
        head += "content-length: 0\r\n";
    }
    head += "\r\n";
    let mut request = head.into_bytes();
    request.extend_from_slice(order.body.as_deref().unwrap_or_default());
    Ok(request)
}

/// Reads the answer, and keeps the connection when it can be used again.
fn answer(pool: &Pool, server: Server, stream: TcpStream, sent: Sent, deadline: Instant) -> Outcome {
    let (whole, error) = match sent {
        Sent::Whole => (true, None),
        Sent::Part(error) => (false, error),
        Sent::Nothing(error) => return Err(failed(&server, &Broken::Io(error))),
    };
    let mut reader = Reader { stream, deadline, buffer: Vec::new(), at: 0 };
    match reader.reply() {
        Ok((reply, open)) => {
            if whole && open && reader.at == reader.buffer.len() {
                pool.put(server, reader.stream);
            }
            Ok(reply)
        }
        // what stopped the request says more than what then became of the answer
        Err(broken) => Err(failed(&server, &error.map_or(broken, Broken::Io))),
    }
}

fn failed(server: &Server, broken: &Broken) -> Failure {
    let at = server.authority();
    match broken {
        Broken::Io(error) => Failure::new(format!("no answer from {at}: {}", plain(error))),
        Broken::Http(reason) => Failure::new(format!("no proper answer from {at}: {reason}")),
    }
}

/// How an answer may fail.
enum Broken {
    Io(io::Error),
    Http(&'static str),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
    UntilClose,
}

/// What a head says.
struct Head {
    status: u16,
    content_type: String,
    length: Length,
    /// The connection can be used again after the body.
    open: bool,
}

const TOO_LONG: Broken = Broken::Http("the body is too long");
const BAD_CHUNK: Broken = Broken::Http("a chunk is malformed");

/// What has arrived, and was used up to `at`.
struct Reader {
    stream: TcpStream,
    deadline: Instant,
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    /// The answer, and whether the connection stays open after it.
    fn reply(&mut self) -> Result<(Reply, bool), Broken> {
        loop {
            let head = self.head()?;
            // 100 Continue and its like announce another head; 101 would change the protocol
            match head.status {
                101 => return Err(Broken::Http("it wants another protocol")),
                100..200 => continue,
                _ => {}
            }
            let body = match head.length {
                _ if matches!(head.status, 204 | 304) => Vec::new(),
                Length::Bytes(len) if len > COURIER_BODY_BYTES => return Err(TOO_LONG),
                Length::Bytes(len) => {
                    let mut body = Vec::new();
                    self.take(len, &mut body)?;
                    body
                }
                Length::Chunked => self.chunks()?,
                Length::UntilClose => self.rest()?,
            };
            return Ok((Reply { status: head.status, content_type: head.content_type, body }, head.open));
        }
    }

    fn head(&mut self) -> Result<Head, Broken> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS];
            let mut head = httparse::Response::new(&mut headers);
            match head.parse(&self.buffer[self.at..]) {
                Ok(httparse::Status::Complete(len)) => {
                    let head = judge(&head)?;
                    self.at += len;
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() - self.at > HTTP_HEAD_BYTES => {
                    return Err(Broken::Http("the head is too long"));
                }
                Ok(httparse::Status::Partial) => self.more()?,
                Err(httparse::Error::TooManyHeaders) => return Err(Broken::Http("it has too many headers")),
                Err(_) => return Err(Broken::Http("the head is malformed")),
            }
        }
    }

    /// Reads on; an end is an error.
    fn more(&mut self) -> Result<(), Broken> {
        self.buffer.drain(..self.at);
        self.at = 0;
        match connection::receive(&mut self.stream, &mut self.buffer, self.deadline)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the middle").into()),
            _ => Ok(()),
        }
    }

    /// Moves the next `len` bytes to `body`.
    fn take(&mut self, mut len: usize, body: &mut Vec<u8>) -> Result<(), Broken> {
        while len > 0 {
            if self.at == self.buffer.len() {
                self.more()?;
            }
            let part = len.min(self.buffer.len() - self.at);
            body.extend_from_slice(&self.buffer[self.at..self.at + part]);
            self.at += part;
            len -= part;
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = self.buffer.split_off(self.at);
        while connection::receive(&mut self.stream, &mut body, self.deadline)? > 0 {
            if body.len() > COURIER_BODY_BYTES {
                return Err(TOO_LONG);
            }
        }
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let size = self.chunk_size()?;
            if size == 0 {
                self.trailers()?;
                return Ok(body);
            }
            if size > (COURIER_BODY_BYTES - body.len()) as u64 {
                return Err(TOO_LONG);
            }
            self.take(size as usize, &mut body)?;
            let mut end = Vec::new();
            self.take(2, &mut end)?;
            if end != b"\r\n" {
                return Err(BAD_CHUNK);
            }
        }
    }

    fn chunk_size(&mut self) -> Result<u64, Broken> {
        loop {
            match httparse::parse_chunk_size(&self.buffer[self.at..]) {
                Ok(httparse::Status::Complete((used, size))) => {
                    self.at += used;
                    return Ok(size);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() - self.at < HTTP_HEAD_BYTES => {
                    self.more()?;
                }
                _ => return Err(BAD_CHUNK),
            }
        }
    }

    /// Skips the lines after the last chunk, the empty one included.
    fn trailers(&mut self) -> Result<(), Broken> {
        let mut skipped = 0;
        loop {
            let rest = &self.buffer[self.at..];
            match memchr::memchr(b'\n', rest) {
                Some(end) => {
                    let empty = matches!(&rest[..end], b"" | b"\r");
                    self.at += end + 1;
                    skipped += end + 1;
                    if empty {
                        return Ok(());
                    }
                }
                None if skipped + rest.len() > HTTP_HEAD_BYTES => return Err(BAD_CHUNK),
                None => self.more()?,
            }
            if skipped > HTTP_HEAD_BYTES {
                return Err(BAD_CHUNK);
            }
        }
    }
}

/// What a whole head means.
fn judge(head: &httparse::Response<'_, '_>) -> Result<Head, Broken> {
    let values = |name: &'static str| {
        let named = head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let coding: Vec<String> = values("transfer-encoding").collect();
    let mut lengths = values("content-length");
    let length = if coding.is_empty() {
        match lengths.next() {
            None => Length::UntilClose,
            Some(first) => {
                if lengths.any(|other| other != first) {
                    return Err(Broken::Http("it has two lengths"));
                }
                Length::Bytes(digits(&first).ok_or(Broken::Http("its length is no number"))?)
            }
        }
    } else if coding.len() == 1 && coding[0] == "chunked" {
        Length::Chunked
    } else {
        return Err(Broken::Http("it has a transfer coding that nobody asked for"));
    };
    let closes = values("connection").any(|value| value.split(',').any(|token| token.trim() == "close"));
    // both ways to tell the length: what comes after is not trusted
    let vague = !coding.is_empty() && values("content-length").next().is_some();
    let content_type = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-type"));
    let status = head.code.unwrap_or_default();
    // who answers by a code that HTTP has not may mean anything by what comes after it
    let strange = !(100..600).contains(&status);
    Ok(Head {
        status,
        content_type: content_type
            .map(|header| String::from_utf8_lossy(header.value).into_owned())
            .unwrap_or_default(),
        length,
        open: head.version == Some(1) && !closes && !vague && !strange && length != Length::UntilClose,
    })
}

/// A number that is nothing but digits.
fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
