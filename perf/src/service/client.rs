//! The least of an HTTP client: one connection, kept alive, one request at a time; the same for both servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// How many instances are said to have exactly so many tokens.
    pub fn matched(&self, tokens: usize) -> usize {
        let wanted = format!("\"longest_matched\":{tokens}");
        let squeezed: String = self.text().chars().filter(|letter| !letter.is_whitespace()).collect();
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
        squeezed.match_indices(&wanted).filter(|(at, _)| ends(&squeezed[at + wanted.len()..])).count()
    }
}

/// What is posted.
pub struct Posted {
    /// Path and query.
    pub path: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: Vec<u8>,
}

impl Posted {
    /// JSON.
    pub fn json(path: &'static str, body: String) -> Self {
        Self { path, kind: "application/json", body: body.into_bytes() }
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Client {
    /// Connects to a port of this machine.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|error| error.to_string())?;
        Ok(Self { reader: BufReader::new(stream), request: Vec::new() })
    }

    /// `GET`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.request.clear();
        self.request.extend(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").bytes());
        self.ask().map_err(|error| error.to_string())
    }

    /// `POST`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn post(&mut self, posted: &Posted) -> Result<Answer, String> {
        self.request.clear();
        let Posted { path, kind, body } = posted;
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        self.request.extend(head.bytes());
        self.request.extend(body);
        self.ask().map_err(|error| error.to_string())
    }

    fn ask(&mut self) -> std::io::Result<Answer> {
        self.reader.get_mut().write_all(&self.request)?;
        let broken = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken("no status line"))?;
        let mut length = None;
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let head = line.trim_end();
            if head.is_empty() {
                break;
            }
            if let Some((name, value)) = head.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        let mut body = vec![0; length.ok_or_else(|| broken("no content-length"))?];
        self.reader.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }
}

/// Asks the same on some connections at once, so often on each; how long each answer took.
///
/// # Errors
/// A connection broke, or an answer was none.
pub fn hammer(port: u16, connections: usize, posted: &Posted, times: usize) -> Result<Vec<Duration>, String> {
    let one = || {
        let mut client = Client::connect(port)?;
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times {
            let start = Instant::now();
            let answer = client.post(posted)?;
            taken.push(start.elapsed());
            if answer.status != 200 {
                return Err(answer.text());
            }
        }
        Ok(taken)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a client panicked".to_owned())??);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_matched() {
        let body = br#"{"a":{"longest_matched": 64},"b":{"longest_matched":640},"c":{"longest_matched":64}}"#;
        let answer = Answer { status: 200, body: body.to_vec() };
        assert_eq!((answer.matched(64), answer.matched(640), answer.matched(6)), (2, 1, 0));
    }
}
