//! One kept-alive HTTP connection, one request at a time: what lies between a question and its answer is not the
//! client.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::patience::Patience;
use crate::cli::client::Target;
use crate::cli::exit::{self, Failure};
use crate::limits::{CLIENT_RESPONSE_BYTES, HTTP_HEAD_BYTES, HTTP_HEADERS};

/// Bytes read at a time.
const READ: usize = 64 * 1024;
/// How often a wait looks whether it is still worth it.
const LOOK: Duration = Duration::from_millis(50);

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection to the daemon.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    target: Target,
    patience: Patience,
    asked: Instant,
    buffer: Vec<u8>,
}

/// `host` of requests to a target.
pub(super) fn host(target: &Target) -> String {
    match target {
        Target::Tcp(address) => address.clone(),
        Target::Unix(_) => "localhost".to_owned(),
    }
}

impl Connection {
    /// Connects.
    pub(super) fn open(target: &Target, patience: &Patience) -> Result<Self, Failure> {
        let limit = Some(LOOK);
        let open = || -> io::Result<Box<dyn Stream>> {
            match target {
                Target::Unix(path) => {
                    let stream = UnixStream::connect(path)?;
                    stream.set_read_timeout(limit)?;
                    stream.set_write_timeout(limit)?;
                    Ok(Box::new(stream))
                }
                Target::Tcp(address) => {
                    let addresses: Vec<_> = address.to_socket_addrs()?.collect();
                    let stream = TcpStream::connect(&addresses[..])?;
                    stream.set_read_timeout(limit)?;
                    stream.set_write_timeout(limit)?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream))
                }
            }
        };
        let stream = open().map_err(|error| {
            Failure::new(exit::UNAVAILABLE, format!("cannot connect to {target}: {error}"))
        })?;
        let (target, patience) = (target.clone(), patience.clone());
        Ok(Self { stream, target, patience, asked: Instant::now(), buffer: Vec::new() })
    }

    /// Asks with a whole request, and gives the answer's body once all of it is there.
    pub(super) fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let outcome = self.exchange(request);
        let (status, body) = outcome.map_err(|error| {
            Failure::new(exit::UNAVAILABLE, format!("no answer from {}: {error}", self.target))
        })?;
        if status == 200 {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        Err(Failure::new(exit::DATA, format!("{} refused: {status} {}", self.target, text.trim())))
    }

    /// Asks for a page.
    pub(super) fn get(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", host(&self.target));
        self.ask(request.as_bytes())
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        self.asked = Instant::now();
        let mut rest = request;
        while !rest.is_empty() {
            let written = self.patiently(|stream, _| stream.write(rest))?;
            rest = &rest[written..];
        }
        let (status, head, len) = loop {
            if let Some(found) = head(&self.buffer)? {
                break found;
            }
            self.more()?;
        };
        while self.buffer.len() < head + len {
            self.more()?;
        }
        let rest = self.buffer.split_off(head + len);
        let body = std::mem::replace(&mut self.buffer, rest).split_off(head);
        Ok((status, body))
    }

    fn more(&mut self) -> io::Result<()> {
        let len = self.buffer.len();
        self.buffer.resize(len + READ, 0);
        let outcome = self.patiently(|stream, buffer| stream.read(&mut buffer[len..]));
        self.buffer.truncate(len + outcome.as_ref().unwrap_or(&0));
        outcome.map(drop)
    }

    /// Reads or writes something, as soon as that is possible.
    fn patiently(
        &mut self,
        mut step: impl FnMut(&mut dyn Stream, &mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match step(&mut *self.stream, &mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.patience.left(self.asked).is_zero() {
                        self.patience.give_up();
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "took too long"));
                    }
                }
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the middle")),
                outcome => return outcome,
            }
        }
    }
}

/// Status, length of the head and of the body; `None` while the head is incomplete.
fn head(bytes: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let broken = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let len = match head.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() <= HTTP_HEAD_BYTES => return Ok(None),
        _ => return Err(broken("that is no HTTP")),
    };
    let body = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body = body.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    let body: usize = body.ok_or_else(|| broken("an answer without Content-Length"))?;
    if body > CLIENT_RESPONSE_BYTES {
        return Err(broken("the answer is too long"));
    }
    Ok(Some((head.code.unwrap_or_default(), len, body)))
}
