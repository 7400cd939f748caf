//! One value of a document: what it holds, and itself as JSON for an answer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::json::{Document, Kind};
use super::string;
use super::text::write_float;
use crate::http::response::json_string;

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'d, 'a> {
    document: &'d Document<'a>,
    at: usize,
}

/// Half of a surrogate pair stands alone in a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LoneSurrogate;

impl<'d, 'a> Value<'d, 'a> {
    /// The whole document.
    pub(super) fn root(document: &'d Document<'a>) -> Self {
        Self { document, at: 0 }
    }

    pub(super) fn kind(self) -> Kind {
        self.document.nodes[self.at].kind()
    }

    /// Place of what follows it.
    pub(super) fn next(self) -> usize {
        match self.kind() {
            Kind::Array | Kind::Object => self.document.nodes[self.at].end(),
            _ => self.at + 1,
        }
    }

    /// Its text, for numbers, words and strings (without quotes).
    pub(super) fn text(self) -> &'a str {
        let node = self.document.nodes[self.at];
        &self.document.text[node.start()..node.end()]
    }

    /// What it says, if it is a string.
    pub(super) fn string(self) -> Option<Result<Cow<'a, str>, LoneSurrogate>> {
        match self.kind() {
            Kind::Plain => Some(Ok(Cow::Borrowed(self.text()))),
            Kind::Escaped => Some(string::unescape(self.text()).map(Cow::Owned).ok_or(LoneSurrogate)),
            _ => None,
        }
    }

    /// What it says, if it is a string; U+FFFD for half a surrogate pair.
    pub(super) fn lossy(self) -> Cow<'a, str> {
        match self.kind() {
            Kind::Escaped => Cow::Owned(string::unescape_lossy(self.text())),
            _ => Cow::Borrowed(self.text()),
        }
    }

    /// The items of an array.
    pub(super) fn items(self) -> impl Iterator<Item = Value<'d, 'a>> {
        let (document, end) = (self.document, self.next());
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let item = (at < end).then_some(Value { document, at })?;
            at = item.next();
            Some(item)
        })
    }

    /// The members of an object, in the order of the text, repeated keys too.
    pub(super) fn members(self) -> impl Iterator<Item = (Value<'d, 'a>, Value<'d, 'a>)> {
        let (document, end) = (self.document, self.next());
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let key = (at < end).then_some(Value { document, at })?;
            let value = Value { document, at: at + 1 };
            at = value.next();
            Some((key, value))
        })
    }

    /// The members with these names, as far as they are there; of equal names the last one.
    pub(super) fn slots<const N: usize>(self, names: &[&str; N]) -> [Option<Value<'d, 'a>>; N] {
        let mut slots = [None; N];
        for (key, value) in self.members() {
            let Some(Ok(key)) = key.string() else { continue };
            if let Some(slot) = names.iter().position(|name| *name == key) {
                slots[slot] = Some(value);
            }
        }
        slots
    }

    /// Bytes of its text, or a little more.
    pub(super) fn length(self) -> usize {
        let nodes = &self.document.nodes;
        let start = nodes[self.at].start();
        match self.kind() {
            Kind::Array | Kind::Object => {
                nodes.get(self.next()).map_or(self.document.text.len(), |next| next.start()) - start
            }
            _ => self.text().len(),
        }
    }

    /// Writes it as JSON: the last of equal keys, no number that is not finite. Takes time by its length.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let end = self.next();
        let mut closers: Vec<(usize, u8)> = Vec::new();
        let mut stale = HashSet::new();
        let mut at = self.at;
        loop {
            while let Some((_, closer)) = closers.pop_if(|(end, _)| *end == at) {
                out.push(closer);
            }
            if at >= end {
                return;
            }
            let value = Value { document: self.document, at };
            if stale.contains(&at) {
                // a key whose value a later member replaces
                at = Value { document: self.document, at: at + 1 }.next();
                continue;
            }
            let last = out.last().copied();
            if at > self.at && !matches!(last, Some(b'[' | b'{' | b':')) {
                out.push(b',');
            }
            let is_key = value.write_start(out, &mut closers, &mut stale);
            at += 1;
            if is_key {
                out.push(b':');
            }
        }
    }

    /// Writes a scalar, or opens an array or object; whether it is a key of the object that is open.
    fn write_start(
        self,
        out: &mut Vec<u8>,
        closers: &mut Vec<(usize, u8)>,
        stale: &mut HashSet<usize>,
    ) -> bool {
        let in_object = matches!(closers.last(), Some((_, b'}')));
        let is_key = in_object && out.last() != Some(&b':');
        match self.kind() {
            Kind::Array => {
                out.push(b'[');
                closers.push((self.next(), b']'));
            }
            Kind::Object => {
                out.push(b'{');
                closers.push((self.next(), b'}'));
                let mut seen = HashMap::new();
                for (key, _) in self.members() {
                    stale.extend(seen.insert(key.lossy(), key.at));
                }
            }
            Kind::Plain | Kind::Escaped => json_string(out, &self.lossy()),
            Kind::Float => write_float(out, self.text().parse().unwrap_or(f64::NAN)),
            // minus zero is zero among integers
            Kind::Integer if self.text() == "-0" => out.push(b'0'),
            Kind::Null | Kind::True | Kind::False | Kind::Integer => {
                out.extend_from_slice(self.text().as_bytes());
            }
        }
        is_key
    }
}
