//! One JSON object, member by member, without a tree: the caller reads each value as it likes.
//!
//! Values are checked for syntax by a reader that keeps no stack of calls and no values, so that neither
//! deep nesting nor a large unknown member costs anything.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What is no JSON object, and where, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at line {line} column {column}: {what}")]
pub struct Invalid {
    /// Line.
    pub line: usize,
    /// Byte in the line.
    pub column: usize,
    /// What was expected or found.
    pub what: String,
}

/// Walks over the members of the object that a text consists of.
///
/// Take a key, then its value with [`Self::value`], or read it from [`Self::rest`] and step over it
/// with [`Self::skip`].
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
    begun: bool,
}

/// A member's key; borrowed unless it has escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Members<'a> {
    /// Opens the object in `text`; nothing but whitespace may surround it.
    pub fn new(text: &'a [u8]) -> Result<Self, Invalid> {
        let mut members = Self { text, at: 0, begun: false };
        if members.peek() != Some(b'{') {
            return Err(members.invalid("expected an object"));
        }
        members.at += 1;
        Ok(members)
    }

    /// The next key; none after the last member, once nothing follows the object.
    pub fn key(&mut self) -> Result<Option<Cow<'a, str>>, Invalid> {
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return match self.peek() {
                    None => Ok(None),
                    Some(_) => Err(self.invalid("expected nothing after the object")),
                };
            }
            Some(b',') if self.begun => self.at += 1,
            _ if self.begun => return Err(self.invalid("expected `,` or `}`")),
            _ => {}
        }
        self.begun = true;
        if self.peek() != Some(b'"') {
            return Err(self.invalid("expected a key"));
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.invalid("expected `:`"));
        }
        self.at += 1;
        self.peek();
        Ok(Some(key))
    }

    /// The value of the key just taken, and steps over it: valid JSON of any kind.
    pub fn value(&mut self) -> Result<&'a [u8], Invalid> {
        let rest = self.rest();
        if let Some(text) = plain_string(rest) {
            self.at += text.len() + 2;
            return Ok(&rest[..text.len() + 2]);
        }
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(IgnoredAny)) => {}
            Some(Err(error)) => return Err(self.refine(&error)),
            None => return Err(self.invalid("expected a value")),
        }
        let value = &rest[..stream.byte_offset()];
        if let Err(error) = std::str::from_utf8(value) {
            self.at += error.valid_up_to();
            return Err(self.invalid("expected UTF-8"));
        }
        self.at += value.len();
        Ok(value)
    }

    /// The text from the value of the key just taken on.
    pub fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Steps over `bytes` that the caller has read of [`Self::rest`].
    pub fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.text.len());
    }

    /// An error `bytes` after the start of [`Self::rest`].
    pub fn invalid_at(&self, bytes: usize, what: impl Into<String>) -> Invalid {
        let before = &self.text[..(self.at + bytes).min(self.text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Invalid {
            line: 1 + memchr::memchr_iter(b'\n', before).count(),
            column: 1 + before.len() - line_start,
            what: what.into(),
        }
    }

    fn invalid(&self, what: &str) -> Invalid {
        self.invalid_at(0, what)
    }

    /// Places an error of the general parser, which began at the value, in the whole text.
    fn refine(&self, error: &serde_json::Error) -> Invalid {
        let start = self.invalid_at(0, "");
        let first_line = error.line() <= 1;
        let message = error.to_string();
        // the parser's message ends with its own place
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        Invalid {
            line: start.line + error.line().saturating_sub(1),
            column: if first_line { start.column + error.column().saturating_sub(1) } else { error.column() },
            what: what.to_owned(),
        }
    }

    /// The next byte that is no whitespace; steps up to it.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.count();
        self.text.get(self.at).copied()
    }

    /// Reads the string that begins here.
    fn string(&mut self) -> Result<Cow<'a, str>, Invalid> {
        let rest = self.rest();
        if let Some(plain) = plain_string(rest) {
            self.at += plain.len() + 2;
            return Ok(Cow::Borrowed(plain));
        }
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<Key<'a>>();
        match stream.next() {
            Some(Ok(Key(key))) => {
                self.at += stream.byte_offset();
                Ok(key)
            }
            Some(Err(error)) => Err(self.refine(&error)),
            None => Err(self.invalid("expected a key")),
        }
    }
}

/// What is between the quotes of the string that `rest` begins with, if it is printable ASCII without escapes.
fn plain_string(rest: &[u8]) -> Option<&str> {
    let (b'"', inside) = rest.split_first()? else { return None };
    let length = inside.iter().position(|byte| !matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~'))?;
    let (text, end) = inside.split_at(length);
    // only ASCII, as was just seen
    (end[0] == b'"').then(|| std::str::from_utf8(text).ok()).flatten()
}
