//! One page of a listing, read in steps.
//!
//! `{"entries": [{"key": {…}, "size_bytes": …}, …], "next_page_token": …}`. The page is cut at its outermost
//! structure, and each piece is parsed for itself: an entry that cannot be used is skipped and counted, what means
//! nothing here is passed over unjudged. Only a page that is no such object, or that ends early, is refused whole.

use serde::Deserialize;
use serde_json::Value;

use crate::fleet::key::{ChunkHash, Key, check_model, check_salt};

/// One listed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its identity.
    pub key: Key<'static>,
    /// Its size, bytes.
    pub bytes: u64,
}

/// A page that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// What can be used, in the order of the page.
    pub entries: Vec<Entry>,
    /// Entries that cannot be used.
    pub skipped: u64,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// Why a page is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// It is no JSON, or ends early.
    #[error("its page is not valid JSON (byte {0})")]
    Json(usize),
    /// It is something else than an object.
    #[error("its page is not a JSON object")]
    NoObject,
    /// `entries` is no array.
    #[error("entries of its page is not an array")]
    Entries,
    /// `next_page_token` is neither text nor null.
    #[error("next_page_token of its page is not a string")]
    Token,
}

/// What a step gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading {
    /// There is more to read.
    More,
    /// The page is read.
    Done(Result<Listing, PageFault>),
}

/// Between which things the reader stands.
#[derive(Clone, Copy, Debug)]
enum At {
    Start,
    /// Before a field or the end of the object; `true` before any.
    Field(bool),
    /// Before an entry or the end of the array; `true` before any.
    Entry(bool),
    Ended,
}

/// Reads one page.
#[derive(Debug)]
pub struct PageReader {
    body: Vec<u8>,
    place: usize,
    at: At,
    listing: Listing,
}

impl PageReader {
    /// Reads `body`.
    pub fn new(body: Vec<u8>) -> Self {
        Self { body, place: 0, at: At::Start, listing: Listing::default() }
    }

    /// Reads at most `most` entries and other fields.
    pub fn step(&mut self, most: usize) -> Reading {
        for _ in 0..most.max(1) {
            match self.advance() {
                Err(fault) => return Reading::Done(Err(fault)),
                Ok(()) if matches!(self.at, At::Ended) => {
                    return Reading::Done(Ok(std::mem::take(&mut self.listing)));
                }
                Ok(()) => {}
            }
        }
        Reading::More
    }

    fn advance(&mut self) -> Result<(), PageFault> {
        match self.at {
            At::Start => {
                if self.body.starts_with(b"\xef\xbb\xbf") {
                    self.place = 3;
                }
                self.blank();
                if self.peek() != Some(b'{') {
                    let value = serde_json::from_slice::<serde::de::IgnoredAny>(&self.body[self.place..]);
                    return Err(if value.is_ok() { PageFault::NoObject } else { self.fault() });
                }
                self.place += 1;
                self.at = At::Field(true);
            }
            At::Field(first) => {
                if self.closes(b'}', first)? {
                    self.blank();
                    self.at = At::Ended;
                    return if self.place == self.body.len() { Ok(()) } else { Err(self.fault()) };
                }
                self.field()?;
            }
            At::Entry(first) => {
                if self.closes(b']', first)? {
                    self.at = At::Field(false);
                    return Ok(());
                }
                let entry = self.value()?;
                match parse_entry(entry) {
                    Some(entry) => self.listing.entries.push(entry),
                    None => self.listing.skipped += 1,
                }
                self.at = At::Entry(false);
            }
            At::Ended => {}
        }
        Ok(())
    }

    /// A name, a colon, and the value up to where entries begin.
    fn field(&mut self) -> Result<(), PageFault> {
        let start = self.place;
        if self.peek() != Some(b'"') {
            return Err(self.fault());
        }
        let name: String = serde_json::from_slice(self.value()?).map_err(|_| PageFault::Json(start))?;
        self.blank();
        if self.peek() != Some(b':') {
            return Err(self.fault());
        }
        self.place += 1;
        self.blank();
        self.at = At::Field(false);
        match name.as_str() {
            "entries" if self.peek() == Some(b'[') => {
                self.place += 1;
                // of a name that stands twice the last counts
                self.listing.entries.clear();
                self.listing.skipped = 0;
                self.at = At::Entry(true);
            }
            "entries" => return Err(PageFault::Entries),
            "next_page_token" => {
                let start = self.place;
                let value: Value =
                    serde_json::from_slice(self.value()?).map_err(|_| PageFault::Json(start))?;
                self.listing.next = match value {
                    Value::Null => None,
                    Value::String(token) => Some(token),
                    _ => return Err(PageFault::Token),
                };
            }
            _ => {
                self.value()?;
            }
        }
        Ok(())
    }

    /// Passes what stands between two things; whether the end stands there.
    fn closes(&mut self, end: u8, first: bool) -> Result<bool, PageFault> {
        self.blank();
        match self.peek() {
            Some(byte) if byte == end => {
                self.place += 1;
                return Ok(true);
            }
            Some(b',') if !first => self.place += 1,
            Some(_) if first => {}
            _ => return Err(self.fault()),
        }
        self.blank();
        Ok(false)
    }

    /// Passes one value and gives its text. Only strings and brackets are looked at.
    fn value(&mut self) -> Result<&[u8], PageFault> {
        let start = self.place;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'"') => self.string()?,
                Some(b'[' | b'{') => {
                    depth += 1;
                    self.place += 1;
                    continue;
                }
                Some(b']' | b'}') if depth > 0 => {
                    depth -= 1;
                    self.place += 1;
                }
                Some(b',' | b':') if depth > 0 => {
                    self.place += 1;
                    continue;
                }
                Some(b',' | b':' | b']' | b'}') | None => return Err(self.fault()),
                Some(_) => {
                    let ends = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}' | b'[' | b'{' | b'"');
                    let rest = &self.body[self.place..];
                    let blank = |byte: &u8| depth == 0 && byte.is_ascii_whitespace();
                    self.place +=
                        rest.iter().position(|byte| ends(byte) || blank(byte)).unwrap_or(rest.len());
                }
            }
            if depth == 0 {
                return Ok(&self.body[start..self.place]);
            }
        }
    }

    /// Passes a string.
    fn string(&mut self) -> Result<(), PageFault> {
        self.place += 1;
        loop {
            let rest = self.body.get(self.place..).unwrap_or_default();
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                self.place = self.body.len();
                return Err(self.fault());
            };
            let quote = rest[found] == b'"';
            self.place += found + if quote { 1 } else { 2 };
            if quote {
                return Ok(());
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.place).copied()
    }

    fn blank(&mut self) {
        let rest = &self.body[self.place..];
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.place += rest.iter().take_while(blank).count();
    }

    fn fault(&self) -> PageFault {
        PageFault::Json(self.place.min(self.body.len()))
    }
}

#[derive(Deserialize)]
struct RawEntry {
    key: RawKey,
    size_bytes: Value,
}

#[derive(Deserialize)]
struct RawKey {
    chunk_hash_hex: String,
    model_name: String,
    kv_rank: i128,
    #[serde(default)]
    object_group_id: u64,
    #[serde(default)]
    cache_salt: String,
}

fn parse_entry(text: &[u8]) -> Option<Entry> {
    // a name that stands twice is none that derived parsing takes; the last counts
    let entry: RawEntry = serde_json::from_slice(text)
        .or_else(|_| serde_json::from_slice::<Value>(text).and_then(serde_json::from_value))
        .ok()?;
    let key = entry.key;
    if !(i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&key.kv_rank) {
        return None;
    }
    check_model(&key.model_name).ok()?;
    check_salt(&key.cache_salt).ok()?;
    Some(Entry {
        bytes: whole(&entry.size_bytes)?,
        key: Key {
            hash: ChunkHash::of_hex(&key.chunk_hash_hex)?,
            model: key.model_name.into(),
            kv_rank: key.kv_rank,
            group: key.object_group_id,
            salt: key.cache_salt.into(),
        },
    })
}

/// A size as Python's `int()` takes it: a number cut to a whole one, text, a boolean.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Bool(value) => Some(u64::from(*value)),
        Value::Number(number) => number.as_u64().or_else(|| {
            let number = number.as_f64()?;
            (number > -1.0 && number < u64::MAX as f64).then_some(number as u64)
        }),
        Value::String(text) => {
            crate::fleet::settings::number::whole(text).and_then(|number| u64::try_from(number).ok())
        }
        _ => None,
    }
}
