//! JSON strings: where they end, what is wrong with them, what they say.

use std::borrow::Cow;

use super::json::Error;

/// Whether a string is its own text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Plain,
    Escaped,
}

/// Reads the string whose opening quote stands at `open`; returns where its closing quote stands.
pub(super) fn scan(text: &str, open: usize) -> Result<(Shape, usize), Error> {
    let bytes = text.as_bytes();
    let mut shape = Shape::Plain;
    let mut at = open + 1;
    loop {
        let found = memchr::memchr2(b'"', b'\\', &bytes[at..]);
        let run = &bytes[at..at + found.unwrap_or(bytes.len() - at)];
        // most runs have no control characters, which is quickly seen; where one stands is only asked then
        if run.iter().any(|byte| *byte < b' ') {
            let control = run.iter().take_while(|byte| **byte >= b' ').count();
            return Err(Error::Syntax("Invalid control character at", at + control));
        }
        let Some(found) = found else { return Err(unterminated(open)) };
        at += found;
        if bytes[at] == b'"' {
            return Ok((shape, at));
        }
        shape = Shape::Escaped;
        at = escape(bytes, at, open)?;
    }
}

fn unterminated(open: usize) -> Error {
    Error::Syntax("Unterminated string starting at", open)
}

/// Steps over the escape whose backslash stands at `at`.
fn escape(bytes: &[u8], at: usize, open: usize) -> Result<usize, Error> {
    match bytes.get(at + 1) {
        None => Err(unterminated(open)),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            // something must follow the digits, or the text is cut short
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) && bytes.len() > at + 6 => Ok(at + 6),
            _ => Err(Error::Syntax(concat!("Invalid \\uXX", "XX escape"), at + 1)),
        },
        Some(_) => Err(Error::Syntax("Invalid \\escape", at)),
    }
}

/// What a string with escapes says; none where half of a surrogate pair stands alone.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let whole = units(text, |piece| match piece {
        Ok(piece) => {
            out.push_str(&piece);
            true
        }
        Err(Alone) => false,
    });
    whole.then_some(out)
}

/// What a string with escapes says, with U+FFFD where half of a surrogate pair stands alone.
pub(super) fn unescape_lossy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    units(text, |piece| {
        out.push_str(&piece.unwrap_or(Cow::Borrowed("\u{fffd}")));
        true
    });
    out
}

/// Half of a surrogate pair without the other half.
struct Alone;

/// Hands out the pieces of a string until `take` has enough; whether it took all. The string was scanned before.
fn units<'a>(text: &'a str, mut take: impl FnMut(Result<Cow<'a, str>, Alone>) -> bool) -> bool {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        let (piece, length) = unit(escape);
        if !(take(Ok(Cow::Borrowed(plain))) && take(piece)) {
            return false;
        }
        rest = escape.get(length..).unwrap_or_default();
    }
    take(Ok(Cow::Borrowed(rest)))
}

/// The escape that a text begins with, and its length.
fn unit<'a>(escape: &str) -> (Result<Cow<'a, str>, Alone>, usize) {
    let simple = match escape.as_bytes().get(1) {
        Some(b'b') => "\u{8}",
        Some(b'f') => "\u{c}",
        Some(b'n') => "\n",
        Some(b'r') => "\r",
        Some(b't') => "\t",
        Some(b'/') => "/",
        Some(b'"') => "\"",
        Some(b'u') => return code_unit(escape),
        _ => "\\",
    };
    (Ok(Cow::Borrowed(simple)), 2)
}

fn code_unit<'a>(escape: &str) -> (Result<Cow<'a, str>, Alone>, usize) {
    let digits = |from: usize| u32::from_str_radix(escape.get(from..from + 4)?, 16).ok();
    let first = digits(2).unwrap_or(0xfffd);
    if let Some(character) = char::from_u32(first) {
        return (Ok(Cow::Owned(character.into())), 6);
    }
    let second = if escape.get(6..8) == Some("\\u") { digits(8) } else { None };
    match second {
        Some(second @ 0xdc00..=0xdfff) if first < 0xdc00 => {
            let code = 0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00));
            (Ok(Cow::Owned(char::from_u32(code).unwrap_or('\u{fffd}').into())), 12)
        }
        _ => (Err(Alone), 6),
    }
}
