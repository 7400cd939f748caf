//! Text in paths, queries and answers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

use percent_encoding::percent_decode_str;

/// How the empty salt is spelled in a path.
const DEFAULT_SALT: &str = "_default";

/// One segment of a path, percent-decoded once; bytes that are no UTF-8 become U+FFFD, `+` stays.
///
/// None for a segment with an encoded slash, which matches no route.
pub fn path_param(raw: &str) -> Option<String> {
    let decoded = percent_decode_str(raw).decode_utf8_lossy();
    (!decoded.contains('/')).then(|| decoded.into_owned())
}

/// The salt that a decoded segment names.
pub fn salt_of_segment(segment: &str) -> &str {
    if segment == DEFAULT_SALT { "" } else { segment }
}

/// The parameters of a query, decoded.
pub(super) fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (query_text(name), query_text(value))
    })
}

fn query_text(raw: &str) -> Cow<'_, str> {
    if raw.contains('+') {
        let spaced = raw.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(raw).decode_utf8_lossy()
}

/// Writes a number as JSON with a fraction or exponent (`0.0`, `1e16`, `9.5e-7`); null if it is not finite.
pub fn write_float(out: &mut Vec<u8>, number: f64) {
    if number.is_finite() {
        write!(out, "{number:?}").expect("a vector takes every byte");
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Text in quotes as Python's `repr` writes it.
pub fn python_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                let (letter, width) = match code {
                    0..=0xff => ('x', 2),
                    0x100..=0xffff => ('u', 4),
                    _ => ('U', 8),
                };
                write!(out, "\\{letter}{code:0width$x}").expect("a string takes every character");
            }
        }
    }
    out.push(quote);
    out
}

/// Whether a character shows as itself: neither control, format, unassigned, nor a space other than the common one.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // after another character, so that a combining mark counts as what it is
    let pair: String = ['a', character].iter().collect();
    pair.escape_debug().count() == 2
}
