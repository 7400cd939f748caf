//! Reports in the usual spelling: known members, each once; short strings without escapes; integers in digits; few
//! blanks. Whatever is spelled otherwise, or wrong, is left to the exact reader, so that no step is long.

use std::borrow::Cow;

use super::event::{Event, Kind, kind_of};
use super::events::Events;
use crate::fleet::key::{ChunkHash, Key, check_model, check_salt};
use crate::limits::{FORM_BLANKS, FORM_STEP_BYTES, KEY_TEXT_BYTES};

/// The spelling is unusual, or something is wrong.
#[derive(Debug)]
pub(super) struct Unusual;

type Usual<T> = Result<T, Unusual>;

/// Most digits of an integer that is certain to fit 64 bits.
const DIGITS: usize = 18;

/// Longest name of a member, bytes.
const NAME_BYTES: usize = 16;

/// Bytes of the shortest event that is complete, about.
const EVENT_BYTES: usize = 80;

/// Reads a report event by event.
#[derive(Debug)]
pub(super) struct Quick<'a> {
    cursor: Cursor<'a>,
    instance_id: Option<&'a str>,
    seq: Option<u64>,
    tier: Option<&'a str>,
    events: Option<Vec<Event<'a>>>,
    in_events: bool,
    /// Model and salt that were checked last: most events of a report share them.
    model: &'a str,
    salt: &'a str,
}

impl<'a> Quick<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            cursor: Cursor { bytes: body, at: 0 },
            instance_id: None,
            seq: None,
            tier: None,
            events: None,
            in_events: false,
            model: "",
            salt: "",
        }
    }

    /// Bytes that were looked at.
    pub(super) fn seen(&self) -> usize {
        self.cursor.at
    }

    /// Reads at most so many events further, fewer where they are long; gives the report when it is complete.
    pub(super) fn step(&mut self, most: usize) -> Usual<Option<Events<'a>>> {
        let end = self.cursor.at + FORM_STEP_BYTES;
        if self.cursor.at == 0 {
            self.cursor.take(b'{')?;
            self.member()?;
        }
        for _ in 0..most {
            if self.cursor.at > end {
                break;
            }
            if self.in_events {
                let before = self.cursor.at;
                let event = self.event()?;
                let events = self.events.get_or_insert_default();
                if events.is_empty() {
                    // the others will be about as long: a list that does not move saves a long step
                    let rest = self.cursor.bytes.len() - before;
                    events.reserve_exact(rest / (self.cursor.at - before).max(EVENT_BYTES) + 1);
                }
                events.push(event);
                self.in_events = self.cursor.goes_on(b']')?;
            } else if self.cursor.goes_on(b'}')? {
                self.member()?;
            } else {
                return self.finish().map(Some);
            }
        }
        Ok(None)
    }

    fn finish(&mut self) -> Usual<Events<'a>> {
        let instance_id = self.instance_id.ok_or(Unusual)?.into();
        let seq = self.seq.filter(|seq| *seq > 0).ok_or(Unusual)?;
        let events = self.events.take().ok_or(Unusual)?;
        let usual = self.cursor.peek().is_none()
            && self.cursor.is_over()
            && self.tier.is_none_or(|tier| tier == "l2");
        if usual { Ok(Events { instance_id, seq, events }) } else { Err(Unusual) }
    }

    /// Reads a member of the report; of the events only the bracket before the first.
    fn member(&mut self) -> Usual<()> {
        let cursor = &mut self.cursor;
        match cursor.key()? {
            b"instance_id" => once(&mut self.instance_id, cursor.string()?),
            b"seq" => once(&mut self.seq, cursor.integer()?),
            b"tier" => once(&mut self.tier, cursor.string()?),
            b"events" => {
                once(&mut self.events, Vec::new())?;
                cursor.take(b'[')?;
                self.in_events = cursor.peek() != Some(b']');
                if self.in_events { Ok(()) } else { cursor.take(b']') }
            }
            _ => Err(Unusual),
        }
    }

    fn event(&mut self) -> Usual<Event<'a>> {
        let (mut kind, mut key, mut bytes) = (None::<Kind>, None, None);
        self.cursor.take(b'{')?;
        loop {
            match self.cursor.key()? {
                b"type" => once(&mut kind, kind_of(self.cursor.string()?).ok_or(Unusual)?)?,
                b"key" => once(&mut key, self.key()?)?,
                b"bytes" => once(&mut bytes, self.cursor.integer()?)?,
                _ => return Err(Unusual),
            }
            if !self.cursor.goes_on(b'}')? {
                break;
            }
        }
        match (kind, key, bytes) {
            (Some(kind), Some(key), Some(bytes)) => Ok(Event { kind, key, bytes }),
            _ => Err(Unusual),
        }
    }

    fn key(&mut self) -> Usual<Key<'a>> {
        let (mut hash, mut model, mut kv_rank, mut group, mut salt) = (None, None, None, None, None);
        let cursor = &mut self.cursor;
        cursor.take(b'{')?;
        loop {
            match cursor.key()? {
                b"chunk_hash_hex" => once(&mut hash, ChunkHash::of_hex(cursor.string()?).ok_or(Unusual)?)?,
                b"model_name" => once(&mut model, cursor.string()?)?,
                b"kv_rank" => once(&mut kv_rank, i128::from(cursor.integer()?))?,
                b"object_group_id" => once(&mut group, cursor.integer()?)?,
                b"cache_salt" => once(&mut salt, cursor.string()?)?,
                _ => return Err(Unusual),
            }
            if !cursor.goes_on(b'}')? {
                break;
            }
        }
        let (Some(hash), Some(model), Some(kv_rank)) = (hash, model, kv_rank) else { return Err(Unusual) };
        let salt = salt.unwrap_or("");
        if model != self.model {
            check_model(model).map_err(|_| Unusual)?;
            self.model = model;
        }
        if salt != self.salt {
            check_salt(salt).map_err(|_| Unusual)?;
            self.salt = salt;
        }
        let (model, salt) = (Cow::Borrowed(model), Cow::Borrowed(salt));
        Ok(Key { hash, model, kv_rank, group: group.unwrap_or(0), salt })
    }
}

/// Fills a slot that is empty: a name that comes twice is unusual.
fn once<T>(slot: &mut Option<T>, value: T) -> Usual<()> {
    if slot.replace(value).is_some() { Err(Unusual) } else { Ok(()) }
}

/// A place in a text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is no blank, unless too many are; steps up to it.
    fn peek(&mut self) -> Option<u8> {
        for _ in 0..FORM_BLANKS {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                next => return next.copied(),
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, byte: u8) -> Usual<()> {
        if self.peek() != Some(byte) {
            return Err(Unusual);
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over what follows an item or member: whether another one comes.
    fn goes_on(&mut self, closer: u8) -> Usual<bool> {
        let next = self.peek();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(byte) if byte == closer => Ok(false),
            _ => Err(Unusual),
        }
    }

    /// A string without escapes and of at most so many bytes, as bytes.
    fn raw(&mut self, most: usize) -> Usual<&'a [u8]> {
        self.take(b'"')?;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let near = &rest[..rest.len().min(most + 1)];
        let end = near.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '));
        self.at += end.map_or(near.len(), |end| end + 1);
        match end {
            Some(end) if near[end] == b'"' => Ok(&near[..end]),
            _ => Err(Unusual),
        }
    }

    fn string(&mut self) -> Usual<&'a str> {
        std::str::from_utf8(self.raw(KEY_TEXT_BYTES)?).map_err(|_| Unusual)
    }

    fn key(&mut self) -> Usual<&'a [u8]> {
        let key = self.raw(NAME_BYTES)?;
        self.take(b':')?;
        Ok(key)
    }

    fn integer(&mut self) -> Usual<u64> {
        self.peek();
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take(DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let padded = digits > 1 && rest[0] == b'0';
        let goes_on = matches!(rest.get(digits), Some(b'.' | b'e' | b'E'));
        if !(1..=DIGITS).contains(&digits) || padded || goes_on {
            return Err(Unusual);
        }
        self.at += digits;
        Ok(rest[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }
}
