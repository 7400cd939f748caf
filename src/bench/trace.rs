//! Requests of a trace in Mooncake's format: one JSON object a line, with `timestamp` (milliseconds),
//! `input_length` and `output_length` (tokens) and `hash_ids`, one for each 512 tokens of the prompt. Equal ids stand
//! for equal tokens behind equal ones.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

use super::{VOCABULARY, mix};
use crate::limits::{BENCH_LINE_BYTES, BENCH_REQUEST_TOKENS};

/// What some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Tokens that one id of a trace stands for.
pub const ID_TOKENS: u64 = 512;

/// One request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Request {
    /// When it came, milliseconds.
    pub timestamp: f64,
    /// Tokens of the prompt.
    pub input_length: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub output_length: u64,
    /// Ids of the prompt's blocks; the last one may stand for fewer tokens.
    pub hash_ids: Vec<u64>,
}

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file.
    #[error("line {line}: {source}")]
    Unreadable {
        /// Where.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A line too long.
    #[error("line {0}: longer than {BENCH_LINE_BYTES} bytes")]
    TooLong(u64),
    /// A line that is no request.
    #[error("line {line}, column {}: {}", .source.column(), plain(.source))]
    NoRequest {
        /// Where.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A request that contradicts itself.
    #[error("line {line}: {reason}")]
    Senseless {
        /// Where.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads requests one by one; empty lines are passed over.
#[derive(Debug)]
pub struct Requests<R> {
    from: R,
    line: u64,
    last: f64,
}

impl<R: BufRead> Requests<R> {
    /// The requests of a file.
    pub fn new(from: R) -> Self {
        Self { from, line: 0, last: f64::NEG_INFINITY }
    }

    /// The line that was read last.
    pub const fn line(&self) -> u64 {
        self.line
    }

    fn read(&mut self) -> Result<Option<Request>, TraceError> {
        let mut text = Vec::new();
        loop {
            self.line += 1;
            text.clear();
            let most = BENCH_LINE_BYTES as u64 + 1;
            let read = self.from.by_ref().take(most).read_until(b'\n', &mut text);
            read.map_err(|source| TraceError::Unreadable { line: self.line, source })?;
            if text.is_empty() {
                return Ok(None);
            }
            if self.line == 1 && text.starts_with(BYTE_ORDER_MARK) {
                let reason = "begins with a byte order mark; the trace must be UTF-8 without one".to_owned();
                return Err(TraceError::Senseless { line: 1, reason });
            }
            if text.trim_ascii_end().len() > BENCH_LINE_BYTES
                || text.len() as u64 == most && !text.ends_with(b"\n")
            {
                return Err(TraceError::TooLong(self.line));
            }
            if !text.trim_ascii().is_empty() {
                return self.parse(&text).map(Some);
            }
        }
    }

    fn parse(&mut self, text: &[u8]) -> Result<Request, TraceError> {
        let line = self.line;
        let request: Request =
            serde_json::from_slice(text).map_err(|source| TraceError::NoRequest { line, source })?;
        let reason = request.fault(self.last);
        if let Some(reason) = reason {
            return Err(TraceError::Senseless { line, reason });
        }
        self.last = request.timestamp;
        Ok(request)
    }
}

impl<R: BufRead> Iterator for Requests<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl Request {
    fn fault(&self, last: f64) -> Option<String> {
        let Self { timestamp, input_length, output_length, hash_ids } = self;
        if !timestamp.is_finite() || *timestamp < 0.0 {
            return Some(format!("timestamp {timestamp} is no time"));
        }
        if *timestamp < last {
            return Some(format!("timestamp {timestamp} is before that of the line before, {last}"));
        }
        if input_length.saturating_add(*output_length) > BENCH_REQUEST_TOKENS {
            return Some(format!(
                "input_length and output_length are more than {BENCH_REQUEST_TOKENS} tokens"
            ));
        }
        let needed = input_length.div_ceil(ID_TOKENS);
        (hash_ids.len() as u64 != needed).then(|| {
            format!("{input_length} tokens of input need {needed} hash_ids, there are {}", hash_ids.len())
        })
    }

    /// Tokens of the prompt; requests of one seed share tokens where they share ids.
    pub fn prompt(&self, seed: u64) -> Vec<u32> {
        let of = |&id| text(mix(seed ^ mix(id)), ID_TOKENS);
        let mut tokens: Vec<u32> = self.hash_ids.iter().flat_map(of).collect();
        tokens.truncate(self.input_length as usize);
        tokens
    }

    /// Tokens of its answer, that of the request with this number; no two share any.
    pub fn output(&self, seed: u64, number: u64) -> Vec<u32> {
        text(mix(!seed ^ mix(number)), self.output_length).collect()
    }
}

fn text(start: u64, len: u64) -> impl Iterator<Item = u32> {
    (0..len).map(move |place| (mix(start.wrapping_add(place)) % VOCABULARY) as u32)
}

/// What is wrong, without the place: a line of a trace is a text of its own, whose only line is always 1.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}
