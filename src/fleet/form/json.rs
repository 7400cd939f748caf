//! Request bodies as Python's `json` reads them: `NaN` and infinities are numbers, integers have any length, of
//! equal keys the last one counts, errors have Python's words and places.
//!
//! A text becomes a tape of eight bytes a value, built without recursion.

use super::string::{self, Shape};
use crate::limits::{FORM_BODY_BYTES, FORM_DEPTH, FORM_INTEGER_DIGITS};

/// What a value is, as its text shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Integer,
    Float,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    Array,
    Object,
}

const KINDS: [Kind; 9] = [
    Kind::Null,
    Kind::True,
    Kind::False,
    Kind::Integer,
    Kind::Float,
    Kind::Plain,
    Kind::Escaped,
    Kind::Array,
    Kind::Object,
];
/// Bytes of text that a value takes in most bodies, at least.
const VALUE_BYTES: usize = 8;
/// Bits of a node that hold where its text begins; the kind stands above them.
const START_BITS: u32 = 28;

const _: () = assert!(FORM_BODY_BYTES < 1 << START_BITS);

/// One value: where its text begins, and where it ends (what stands after it on the tape, for arrays and objects).
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    place: u32,
    end: u32,
}

impl Node {
    fn new(kind: Kind, start: usize, end: usize) -> Self {
        Self { place: (kind as u32) << START_BITS | start as u32, end: end as u32 }
    }

    pub(super) fn kind(self) -> Kind {
        KINDS[(self.place >> START_BITS) as usize]
    }

    pub(super) fn start(self) -> usize {
        (self.place & ((1 << START_BITS) - 1)) as usize
    }

    pub(super) fn end(self) -> usize {
        self.end as usize
    }
}

/// A text and its values in the order in which they begin. Members are a key and a value.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) nodes: Vec<Node>,
}

/// Why a text is no JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Error {
    /// What is wrong, and at which byte.
    Syntax(&'static str, usize),
    /// Python itself gives up on it.
    Unreadable,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    Value,
    FirstItem,
    FirstKey,
    Key,
    Separator,
}

/// Builds a [`Document`].
#[derive(Debug)]
pub(super) struct Parser<'a> {
    document: Document<'a>,
    at: usize,
    open: Vec<u32>,
    expect: Expect,
}

impl<'a> Parser<'a> {
    /// Reads a text, at most [`FORM_BODY_BYTES`] long.
    pub(super) fn read(text: &'a str) -> Result<Document<'a>, Error> {
        // seldom is more needed, and what is not used costs nothing
        let nodes = Vec::with_capacity(text.len() / VALUE_BYTES + 1);
        let document = Document { text, nodes };
        let mut parser = Self { document, at: 0, open: Vec::new(), expect: Expect::Value };
        while parser.token()? {}
        Ok(parser.document)
    }

    /// Takes one token further; false at the end.
    fn token(&mut self) -> Result<bool, Error> {
        self.skip_blanks();
        let next = self.peek();
        match (self.expect, next) {
            (Expect::Separator, None) if self.open.is_empty() => return Ok(false),
            (Expect::Separator, _) => self.separator(next)?,
            (Expect::FirstItem, Some(b']')) | (Expect::FirstKey, Some(b'}')) => self.close(),
            (Expect::Value | Expect::FirstItem, _) => self.value(next)?,
            (Expect::FirstKey | Expect::Key, Some(b'"')) => self.key()?,
            (Expect::FirstKey | Expect::Key, _) => {
                return Err(self.error("Expecting property name enclosed in double quotes"));
            }
        }
        Ok(true)
    }

    fn peek(&self) -> Option<u8> {
        self.document.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn error(&self, what: &'static str) -> Error {
        Error::Syntax(what, self.at)
    }

    fn put(&mut self, kind: Kind, start: usize, end: usize) {
        self.document.nodes.push(Node::new(kind, start, end));
    }

    fn separator(&mut self, next: Option<u8>) -> Result<(), Error> {
        let Some(&open) = self.open.last() else { return Err(self.error("Extra data")) };
        let is_array = self.document.nodes[open as usize].kind() == Kind::Array;
        match next {
            Some(b']') if is_array => self.close(),
            Some(b'}') if !is_array => self.close(),
            Some(b',') => {
                self.at += 1;
                self.expect = if is_array { Expect::Value } else { Expect::Key };
            }
            _ => return Err(self.error("Expecting ',' delimiter")),
        }
        Ok(())
    }

    fn close(&mut self) {
        self.at += 1;
        self.expect = Expect::Separator;
        if let Some(open) = self.open.pop() {
            let end = self.document.nodes.len() as u32;
            self.document.nodes[open as usize].end = end;
        }
    }

    fn open(&mut self, kind: Kind, expect: Expect) -> Result<(), Error> {
        if self.open.len() == FORM_DEPTH {
            return Err(self.error("Nesting too deep"));
        }
        self.open.push(self.document.nodes.len() as u32);
        self.put(kind, self.at, 0);
        self.at += 1;
        self.expect = expect;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Error> {
        let (shape, end) = string::scan(self.document.text, self.at)?;
        let kind = if shape == Shape::Plain { Kind::Plain } else { Kind::Escaped };
        self.put(kind, self.at + 1, end);
        self.at = end + 1;
        Ok(())
    }

    fn key(&mut self) -> Result<(), Error> {
        self.string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.error("Expecting ':' delimiter"));
        }
        self.at += 1;
        self.expect = Expect::Value;
        Ok(())
    }

    fn value(&mut self, first: Option<u8>) -> Result<(), Error> {
        match first {
            Some(b'[') => return self.open(Kind::Array, Expect::FirstItem),
            Some(b'{') => return self.open(Kind::Object, Expect::FirstKey),
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word(&[
                ("null", Kind::Null),
                ("true", Kind::True),
                ("false", Kind::False),
                ("NaN", Kind::Float),
                ("Infinity", Kind::Float),
            ])?,
        }
        self.expect = Expect::Separator;
        Ok(())
    }

    fn word(&mut self, words: &[(&str, Kind)]) -> Result<(), Error> {
        let rest = &self.document.text.as_bytes()[self.at..];
        let Some((word, kind)) = words.iter().find(|(word, _)| rest.starts_with(word.as_bytes())) else {
            return Err(self.error("Expecting value"));
        };
        self.put(*kind, self.at, self.at + word.len());
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        let bytes = self.document.text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let start = self.at + usize::from(bytes[self.at] == b'-');
        let whole = match bytes.get(start) {
            Some(b'0') => 1,
            Some(b'1'..=b'9') => digits(start),
            _ => return self.word(&[("-Infinity", Kind::Float)]),
        };
        let mut end = start + whole;
        let mut kind = Kind::Integer;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            kind = Kind::Float;
            end += 1 + digits(end + 1);
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                kind = Kind::Float;
                end += 1 + sign + exponent;
            }
        }
        if kind == Kind::Integer && whole > FORM_INTEGER_DIGITS {
            return Err(Error::Unreadable);
        }
        self.put(kind, self.at, end);
        self.at = end;
        Ok(())
    }
}
