//! A small blocking HTTP/1.1 client over TCP and Unix sockets: one connection a request, one deadline for all
//! of it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::limits::{CLIENT_RESPONSE_BYTES, HTTP_HEAD_BYTES, HTTP_HEADERS};

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `host:port`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing listens there.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// Where.
        target: Target,
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke or was too slow.
    #[error("no answer from {target}: {source}")]
    Transfer {
        /// Where.
        target: Target,
        /// What the system said.
        source: io::Error,
    },
    /// What came back is no HTTP answer.
    #[error("{target} does not answer in HTTP: {reason}")]
    Protocol {
        /// Where.
        target: Target,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Body, without transfer coding.
    pub body: Vec<u8>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err("unix: needs a path".into())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if text.starts_with("https:") {
            return Err("TLS is not spoken here; use http://".into());
        }
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        if address.is_empty() || address.contains('/') {
            return Err("must be http://HOST:PORT or unix:PATH".into());
        }
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self::Tcp(if has_port { address.to_owned() } else { format!("{address}:80") }))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "http://{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// Asks one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    target: Target,
    timeout: Duration,
}

impl Client {
    /// A client whose requests take at most `timeout` each, connecting included.
    pub const fn new(target: Target, timeout: Duration) -> Self {
        Self { target, timeout }
    }

    /// `POST` of a JSON body.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<Response, ClientError> {
        let len = body.len();
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n",
            self.host()
        ), body)
    }

    /// `GET`.
    pub fn get(&self, path: &str) -> Result<Response, ClientError> {
        self.exchange(
            &format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host()),
            b"",
        )
    }

    fn host(&self) -> &str {
        if let Target::Tcp(address) = &self.target { address } else { "localhost" }
    }

    fn exchange(&self, head: &str, body: &[u8]) -> Result<Response, ClientError> {
        let deadline = Instant::now() + self.timeout;
        let connect = |source| ClientError::Connect { target: self.target.clone(), source };
        let transfer = |source| ClientError::Transfer { target: self.target.clone(), source };
        let mut stream = Stream::connect(&self.target, deadline).map_err(connect)?;
        stream.send(&[head.as_bytes(), body].concat(), deadline).map_err(transfer)?;
        let mut reader = Reader { stream, deadline, buffer: Vec::new() };
        reader.response().map_err(|error| match error {
            Broken::Io(source) => transfer(source),
            Broken::Http(reason) => ClientError::Protocol { target: self.target.clone(), reason },
        })
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
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

/// The time that is left; an error when there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::new(io::ErrorKind::TimedOut, "took too long")) } else { Ok(left) }
}

impl Stream {
    fn connect(target: &Target, deadline: Instant) -> io::Result<Self> {
        match target {
            Target::Unix(path) => Ok(Self::Unix(UnixStream::connect(path)?)),
            Target::Tcp(address) => {
                let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
                for address in address.to_socket_addrs()? {
                    outcome = TcpStream::connect_timeout(&address, left(deadline)?);
                    if outcome.is_ok() {
                        break;
                    }
                }
                let stream = outcome?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        let left = Some(left(deadline)?);
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(left).and_then(|()| stream.write_all(bytes)),
            Self::Unix(stream) => stream.set_write_timeout(left).and_then(|()| stream.write_all(bytes)),
        }
    }

    fn receive(&mut self, bytes: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let left = Some(left(deadline)?);
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(bytes)),
            Self::Unix(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(bytes)),
        }
    }
}

/// What has arrived and was not used yet.
struct Reader {
    stream: Stream,
    deadline: Instant,
    buffer: Vec<u8>,
}

/// How the end of a body is told.
enum Length {
    Bytes(usize),
    Chunked,
    UntilClose,
}

impl Reader {
    fn response(&mut self) -> Result<Response, Broken> {
        loop {
            let (status, length) = self.head()?;
            // 100 Continue and its like announce another head
            if (100..200).contains(&status) {
                continue;
            }
            let body = match length {
                _ if status == 204 || status == 304 => Vec::new(),
                Length::Bytes(len) => self.take(len)?,
                Length::Chunked => self.chunks()?,
                Length::UntilClose => self.rest()?,
            };
            return Ok(Response { status, body });
        }
    }

    fn head(&mut self) -> Result<(u16, Length), Broken> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS];
            let mut head = httparse::Response::new(&mut headers);
            match head.parse(&self.buffer) {
                Ok(httparse::Status::Complete(len)) => {
                    let status = head.code.unwrap_or_default();
                    let length = body_length(head.headers)?;
                    self.buffer.drain(..len);
                    return Ok((status, length));
                }
                Ok(httparse::Status::Partial) if self.buffer.len() > HTTP_HEAD_BYTES => {
                    return Err(Broken::Http("the head is too long"));
                }
                Ok(httparse::Status::Partial) => self.more()?,
                Err(_) => return Err(Broken::Http("the head is malformed")),
            }
        }
    }

    /// Reads on; an end is an error.
    fn more(&mut self) -> Result<(), Broken> {
        match self.receive()? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the middle").into()),
            _ => Ok(()),
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut piece = [0; 16 * 1024];
        loop {
            match self.stream.receive(&mut piece, self.deadline) {
                Ok(len) => {
                    self.buffer.extend_from_slice(&piece[..len]);
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "took too long"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, len: usize) -> Result<Vec<u8>, Broken> {
        if len > CLIENT_RESPONSE_BYTES {
            return Err(Broken::Http("the answer is too long"));
        }
        while self.buffer.len() < len {
            self.more()?;
        }
        Ok(self.buffer.drain(..len).collect())
    }

    fn rest(&mut self) -> Result<Vec<u8>, Broken> {
        while self.receive()? > 0 {
            if self.buffer.len() > CLIENT_RESPONSE_BYTES {
                return Err(Broken::Http("the answer is too long"));
            }
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        loop {
            let size = match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((used, size))) => {
                    self.buffer.drain(..used);
                    usize::try_from(size).unwrap_or(usize::MAX)
                }
                Ok(httparse::Status::Partial) if self.buffer.len() < HTTP_HEAD_BYTES => {
                    self.more()?;
                    continue;
                }
                _ => return Err(Broken::Http("a chunk is malformed")),
            };
            // the connection ends with this answer, so nobody needs the trailers
            if size == 0 {
                return Ok(body);
            }
            if size > CLIENT_RESPONSE_BYTES - body.len() {
                return Err(Broken::Http("the answer is too long"));
            }
            body.extend(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(Broken::Http("a chunk is malformed"));
            }
        }
    }
}

fn body_length(headers: &[httparse::Header<'_>]) -> Result<Length, Broken> {
    let value = |name: &str| {
        let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    if value("transfer-encoding").is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked")) {
        return Ok(Length::Chunked);
    }
    match value("content-length") {
        Some(len) => {
            len.trim().parse().map(Length::Bytes).map_err(|_| Broken::Http("Content-Length is no number"))
        }
        None => Ok(Length::UntilClose),
    }
}
