//! The long arrays of an event: token ids, hashes, copy counts. Most of a payload's bytes are here.

use super::fault::{Fault, Trouble};
use super::msgpack::{Cursor, Head};
use super::{Skip, Slice};
use crate::limits::{EVENT_HASHES, EVENT_TOKENS};

/// Fewest bytes of a hash that is given as a byte string.
const HASH_BYTES: usize = 8;

/// Appends an array of token ids; `None` for nil. Of SGLang's bigram pages the first tokens count.
///
/// On any error `out` is what it was.
pub(super) fn tokens(cursor: &mut Cursor<'_>, out: &mut Vec<u32>) -> Result<Option<Slice>, Trouble> {
    list(cursor, out, EVENT_TOKENS, |cursor, slots| {
        if cursor.rest().first().is_some_and(|&byte| opens_array(byte)) {
            slots.iter_mut().try_for_each(|slot| pair(cursor).map(|token| *slot = token))
        } else {
            each_token(cursor, slots)
        }
    })
}

/// Appends an array of block hashes; `None` for nil. On any error `out` is what it was.
pub(super) fn hashes(cursor: &mut Cursor<'_>, out: &mut Vec<u64>) -> Result<Option<Slice>, Trouble> {
    list(cursor, out, EVENT_HASHES, each_hash)
}

/// Appends an array of small counts; `None` for nil. On any error `out` is what it was.
pub(super) fn counts(cursor: &mut Cursor<'_>, out: &mut Vec<u32>) -> Result<Option<Slice>, Trouble> {
    list(cursor, out, EVENT_HASHES, each_token)
}

/// One hash: signed and unsigned spellings are one value, byte strings count by their last 8 bytes.
pub(super) fn hash(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    optional_hash(cursor)?.ok_or(Fault::Type)
}

/// One hash, `None` for nil.
pub(super) fn optional_hash(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Fault> {
    match cursor.head()? {
        Head::Nil => Ok(None),
        Head::Uint(value) => Ok(Some(value)),
        Head::Negative(value) => Ok(Some(value as u64)),
        Head::Bin(bytes) => {
            bytes.last_chunk::<HASH_BYTES>().map(|&low| Some(u64::from_be_bytes(low))).ok_or(Fault::Type)
        }
        _ => Err(Fault::Type),
    }
}

/// Reads the head of an array, makes room for its elements and lets `fill` read them.
fn list<T: Copy + Default>(
    cursor: &mut Cursor<'_>,
    out: &mut Vec<T>,
    most: usize,
    fill: impl FnOnce(&mut Cursor<'_>, &mut [T]) -> Result<(), Fault>,
) -> Result<Option<Slice>, Trouble> {
    let len = match cursor.head()? {
        Head::Nil => return Ok(None),
        Head::Array(len) => len,
        _ => return Err(Fault::Type.into()),
    };
    if len > most {
        return Err(Trouble::Bad(Skip::TooLarge));
    }
    let start = out.len();
    out.resize(start + len, T::default());
    if let Err(fault) = fill(cursor, &mut out[start..]) {
        out.truncate(start);
        return Err(fault.into());
    }
    Ok(Some(Slice { start: start as u32, len: len as u32 }))
}

fn each_token(cursor: &mut Cursor<'_>, slots: &mut [u32]) -> Result<(), Fault> {
    let mut done = 0;
    while done < slots.len() {
        let (count, bytes) = run_of_tokens(cursor.rest(), &mut slots[done..]);
        cursor.advance(bytes);
        done += count;
        // what the fast loop does not take: the last bytes of a payload, rare widths, wrong types
        if let Some(slot) = slots.get_mut(done) {
            *slot = cursor.u32()?;
            done += 1;
        }
    }
    Ok(())
}

/// Fills `slots` from unsigned integers of up to 32 bits; returns how many, and from how many bytes.
///
/// Vocabularies mix 16- and 32-bit spellings at random, so the width is computed, not branched on.
#[inline]
fn run_of_tokens(rest: &[u8], slots: &mut [u32]) -> (usize, usize) {
    let mut at = 0;
    for (done, slot) in slots.iter_mut().enumerate() {
        let Some(window) = rest.get(at..).and_then(|left| left.first_chunk::<8>()) else { return (done, at) };
        let word = u64::from_be_bytes(*window);
        let marker = (word >> 56) as u8;
        let log_width = u32::from(marker.wrapping_sub(0xcc));
        if log_width <= 2 {
            *slot = ((word << 8) >> (64 - (8 << log_width))) as u32;
            at += 1 + (1 << log_width);
        } else if marker < 0x80 {
            *slot = u32::from(marker);
            at += 1;
        } else {
            return (done, at);
        }
    }
    (slots.len(), at)
}

fn pair(cursor: &mut Cursor<'_>) -> Result<u32, Fault> {
    let Head::Array(2) = cursor.head()? else { return Err(Fault::Type) };
    let first = cursor.u32()?;
    cursor.u32()?;
    Ok(first)
}

const fn opens_array(byte: u8) -> bool {
    matches!(byte, 0x90..=0x9f | 0xdc | 0xdd)
}

fn each_hash(cursor: &mut Cursor<'_>, slots: &mut [u64]) -> Result<(), Fault> {
    for slot in slots {
        *slot = match cursor.rest().first_chunk::<9>() {
            // both 64-bit spellings are the same eight bytes
            Some(&[0xcf | 0xd3, ref value @ ..]) => {
                cursor.advance(9);
                u64::from_be_bytes(*value)
            }
            _ => hash(cursor)?,
        };
    }
    Ok(())
}
