//! A zero-copy cursor over msgpack bytes.
//!
//! Invariants worth naming:
//! - an announced length is never trusted: every element takes at least one byte, so a container that
//!   announces more elements than bytes are left is truncated at once, and nothing is reserved for it;
//! - skipping keeps its own bounded stack, so that nesting costs neither the call stack nor the heap.

use rmp::Marker;

pub use super::fault::Fault;
use crate::limits::MSGPACK_DEPTH;

/// One value, or the opening of a container whose elements follow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Head<'a> {
    /// nil.
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer of any width that is not negative.
    Uint(u64),
    /// A negative integer of any width.
    Negative(i64),
    /// A float of either width.
    Float(f64),
    /// A string, not yet checked to be UTF-8.
    Str(&'a [u8]),
    /// A byte string.
    Bin(&'a [u8]),
    /// An extension type and its bytes.
    Ext(i8, &'a [u8]),
    /// So many elements follow.
    Array(usize),
    /// So many keys and values follow, key first.
    Map(usize),
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at byte `at`.
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The next byte to read, counted from the start of the payload.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// All bytes, read or not.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Goes back to where the cursor has been.
    pub fn rewind(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at;
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Steps over bytes that the caller has read from [`Self::rest`].
    pub(super) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.rest().len());
        self.at += count;
    }

    /// The marker of the next value; nothing is consumed.
    pub fn peek(&self) -> Result<Marker, Fault> {
        self.bytes.get(self.at).map(|&byte| Marker::from_u8(byte)).ok_or(Fault::Truncated)
    }

    /// Reads a scalar whole, or the opening of a container.
    #[inline]
    pub fn head(&mut self) -> Result<Head<'a>, Fault> {
        let marker = self.peek()?;
        self.at += 1;
        Ok(match marker {
            Marker::FixPos(value) => Head::Uint(u64::from(value)),
            Marker::FixNeg(value) => Head::Negative(i64::from(value)),
            Marker::Null => Head::Nil,
            Marker::True => Head::Bool(true),
            Marker::False => Head::Bool(false),
            Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => return self.unsigned(marker),
            Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => return self.signed(marker),
            Marker::F32 => Head::Float(f64::from(f32::from_be_bytes(self.fixed()?))),
            Marker::F64 => Head::Float(f64::from_be_bytes(self.fixed()?)),
            Marker::FixStr(len) => Head::Str(self.take(usize::from(len))?),
            Marker::Str8 | Marker::Str16 | Marker::Str32 => Head::Str(self.long(marker)?),
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => Head::Bin(self.long(marker)?),
            Marker::FixArray(len) => self.array(usize::from(len))?,
            Marker::Array16 => self.len16().and_then(|len| self.array(len))?,
            Marker::Array32 => self.len32().and_then(|len| self.array(len))?,
            Marker::FixMap(len) => self.map(usize::from(len))?,
            Marker::Map16 => self.len16().and_then(|len| self.map(len))?,
            Marker::Map32 => self.len32().and_then(|len| self.map(len))?,
            Marker::FixExt1 => self.ext(1)?,
            Marker::FixExt2 => self.ext(2)?,
            Marker::FixExt4 => self.ext(4)?,
            Marker::FixExt8 => self.ext(8)?,
            Marker::FixExt16 => self.ext(16)?,
            Marker::Ext8 => self.len8().and_then(|len| self.ext(len))?,
            Marker::Ext16 => self.len16().and_then(|len| self.ext(len))?,
            Marker::Ext32 => self.len32().and_then(|len| self.ext(len))?,
            Marker::Reserved => return Err(Fault::Reserved),
        })
    }

    /// Steps over one value that stands inside `outer` containers.
    ///
    /// # Errors
    /// [`Fault::TooDeep`] when it nests deeper than [`MSGPACK_DEPTH`] in all.
    pub fn skip(&mut self, outer: usize) -> Result<(), Fault> {
        let Some(first) = self.inside()? else { return Ok(()) };
        // elements still to read in each open container; announced lengths are below the payload's, thus u32
        let mut pending = [0_u32; MSGPACK_DEPTH];
        let mut open = 0;
        let mut opened = Some(first);
        loop {
            if let Some(elements) = opened {
                if outer + open >= MSGPACK_DEPTH {
                    return Err(Fault::TooDeep);
                }
                pending[open] = elements as u32;
                open += 1;
            }
            while open > 0 && pending[open - 1] == 0 {
                open -= 1;
            }
            if open == 0 {
                return Ok(());
            }
            pending[open - 1] -= 1;
            opened = self.inside()?;
        }
    }

    /// A key of a map: its bytes when it is a string; any other key is stepped over.
    #[inline]
    pub fn key(&mut self, outer: usize) -> Result<Option<&'a [u8]>, Fault> {
        // keys below 32 bytes, which all known ones are, take one test
        if let Some(&marker @ 0xa0..=0xbf) = self.bytes.get(self.at) {
            self.at += 1;
            return self.take(usize::from(marker & 0x1f)).map(Some);
        }
        let start = self.at;
        if let Head::Str(bytes) = self.head()? {
            return Ok(Some(bytes));
        }
        self.at = start;
        self.skip(outer)?;
        Ok(None)
    }

    /// An integer from 0 to `u32::MAX`, `None` for nil.
    pub fn optional_u32(&mut self) -> Result<Option<u32>, Fault> {
        match self.head()? {
            Head::Nil => Ok(None),
            Head::Uint(value) => u32::try_from(value).map(Some).map_err(|_| Fault::Type),
            _ => Err(Fault::Type),
        }
    }

    /// An integer from 0 to `u32::MAX`.
    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.optional_u32()?.ok_or(Fault::Type)
    }

    /// An integer from 0 to `u64::MAX`, `None` for nil.
    pub fn optional_u64(&mut self) -> Result<Option<u64>, Fault> {
        match self.head()? {
            Head::Nil => Ok(None),
            Head::Uint(value) => Ok(Some(value)),
            _ => Err(Fault::Type),
        }
    }

    /// An integer from `i64::MIN` to `i64::MAX`, `None` for nil.
    pub fn optional_i64(&mut self) -> Result<Option<i64>, Fault> {
        match self.head()? {
            Head::Nil => Ok(None),
            Head::Uint(value) => i64::try_from(value).map(Some).map_err(|_| Fault::Type),
            Head::Negative(value) => Ok(Some(value)),
            _ => Err(Fault::Type),
        }
    }

    /// The head of the next value; for a container that is not empty the number of values inside.
    #[inline]
    fn inside(&mut self) -> Result<Option<usize>, Fault> {
        Ok(match self.head()? {
            Head::Array(len) if len > 0 => Some(len),
            Head::Map(len) if len > 0 => Some(2 * len),
            _ => None,
        })
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let taken = self.rest().get(..len).ok_or(Fault::Truncated)?;
        self.at += len;
        Ok(taken)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let fixed = *self.rest().first_chunk::<N>().ok_or(Fault::Truncated)?;
        self.at += N;
        Ok(fixed)
    }

    fn unsigned(&mut self, marker: Marker) -> Result<Head<'a>, Fault> {
        Ok(Head::Uint(match marker {
            Marker::U8 => u64::from(u8::from_be_bytes(self.fixed()?)),
            Marker::U16 => u64::from(u16::from_be_bytes(self.fixed()?)),
            Marker::U32 => u64::from(u32::from_be_bytes(self.fixed()?)),
            _ => u64::from_be_bytes(self.fixed()?),
        }))
    }

    fn signed(&mut self, marker: Marker) -> Result<Head<'a>, Fault> {
        let value = match marker {
            Marker::I8 => i64::from(i8::from_be_bytes(self.fixed()?)),
            Marker::I16 => i64::from(i16::from_be_bytes(self.fixed()?)),
            Marker::I32 => i64::from(i32::from_be_bytes(self.fixed()?)),
            _ => i64::from_be_bytes(self.fixed()?),
        };
        Ok(u64::try_from(value).map_or(Head::Negative(value), Head::Uint))
    }

    fn len8(&mut self) -> Result<usize, Fault> {
        self.fixed().map(|bytes| usize::from(u8::from_be_bytes(bytes)))
    }

    fn len16(&mut self) -> Result<usize, Fault> {
        self.fixed().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn len32(&mut self) -> Result<usize, Fault> {
        self.fixed().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    fn long(&mut self, marker: Marker) -> Result<&'a [u8], Fault> {
        let len = match marker {
            Marker::Str8 | Marker::Bin8 => self.len8()?,
            Marker::Str16 | Marker::Bin16 => self.len16()?,
            _ => self.len32()?,
        };
        self.take(len)
    }

    fn ext(&mut self, len: usize) -> Result<Head<'a>, Fault> {
        let kind = i8::from_be_bytes(self.fixed()?);
        Ok(Head::Ext(kind, self.take(len)?))
    }

    fn array(&mut self, len: usize) -> Result<Head<'a>, Fault> {
        if len > self.rest().len() { Err(Fault::Truncated) } else { Ok(Head::Array(len)) }
    }

    fn map(&mut self, len: usize) -> Result<Head<'a>, Fault> {
        if 2 * len > self.rest().len() { Err(Fault::Truncated) } else { Ok(Head::Map(len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(bytes: &[u8]) -> Result<Head<'_>, Fault> {
        Cursor::new(bytes, 0).head()
    }

    #[test]
    fn one_number_has_many_spellings() {
        for bytes in [
            &[0x05][..],
            &[0xcc, 5],
            &[0xcd, 0, 5],
            &[0xce, 0, 0, 0, 5],
            &[0xcf, 0, 0, 0, 0, 0, 0, 0, 5],
            &[0xd0, 5],
            &[0xd1, 0, 5],
            &[0xd2, 0, 0, 0, 5],
            &[0xd3, 0, 0, 0, 0, 0, 0, 0, 5],
        ] {
            assert_eq!(head(bytes), Ok(Head::Uint(5)));
        }
        assert_eq!(head(&[0xff]), Ok(Head::Negative(-1)));
        assert_eq!(head(&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]), Ok(Head::Negative(i64::MIN)));
    }

    #[test]
    fn announced_lengths_are_not_trusted() {
        assert_eq!(head(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]), Err(Fault::Truncated));
        assert_eq!(head(&[0xdf, 0x80, 0, 0, 0, 1]), Err(Fault::Truncated));
        assert_eq!(head(&[0xdb, 0, 0, 0, 2, b'a']), Err(Fault::Truncated));
        assert_eq!(head(&[0xc1]), Err(Fault::Reserved));
    }

    #[test]
    fn skipping_bounds_the_depth_and_not_the_length() {
        let nest = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert_eq!(Cursor::new(&nest(MSGPACK_DEPTH), 0).skip(0), Ok(()));
        assert_eq!(Cursor::new(&nest(MSGPACK_DEPTH + 1), 0).skip(0), Err(Fault::TooDeep));
        assert_eq!(Cursor::new(&nest(MSGPACK_DEPTH), 0).skip(1), Err(Fault::TooDeep));
        let mut cursor = Cursor::new(&[0x82, 0xa1, b'a', 0x92, 1, 0x90, 0xa1, b'b', 0x80, 0x07], 0);
        assert_eq!(cursor.skip(0), Ok(()));
        assert_eq!(cursor.head(), Ok(Head::Uint(7)));
    }
}
