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
#[inline]
fn run_of_tokens(rest: &[u8], slots: &mut [u32]) -> (usize, usize) {
    let (mut done, mut at) = (0, 0);
    while done < slots.len() {
        let (wide, bytes) = run_of_wide_tokens(&rest[at..], &mut slots[done..]);
        done += wide;
        at += bytes;
        let Some(slot) = slots.get_mut(done) else { break };
        match rest[at..] {
            [0xcc, value, ..] => (*slot, at) = (u32::from(value), at + 2),
            [value @ 0..=0x7f, ..] => (*slot, at) = (u32::from(value), at + 1),
            // a wide one is left to the caller at the end of the payload
            _ => break,
        }
        done += 1;
    }
    (done, at)
}

/// The same from integers of 16 and 32 bits alone, which nearly all tokens are.
///
/// Vocabularies mix both at random, so widths are computed, not branched on; and since each step waits for the one
/// before it, the next marker comes from the bytes at hand.
#[inline]
fn run_of_wide_tokens(rest: &[u8], slots: &mut [u32]) -> (usize, usize) {
    const NARROW: u8 = 0xcd;
    let Some(mut marker) = rest.first().copied() else { return (0, 0) };
    let mut at = 0;
    for (done, slot) in slots.iter_mut().enumerate() {
        let wide = u32::from(marker.wrapping_sub(NARROW));
        let window = rest.get(at..).and_then(|left| left.first_chunk::<8>());
        let Some(window) = window.filter(|_| wide <= 1) else { return (done, at) };
        let word = u64::from_le_bytes(*window);
        *slot = ((word.swap_bytes() << 8) >> (48 - 16 * wide)) as u32;
        marker = (word >> (24 + 16 * wide)) as u8;
        at += 3 + 2 * wide as usize;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One integer in so many bytes behind its marker, 0 for none, as far as it fits.
    fn spell(token: u32, width: u8, to: &mut Vec<u8>) {
        match width {
            0 if token < 0x80 => to.push(token as u8),
            1 if token < 0x100 => to.extend([0xcc, token as u8]),
            2 if token < 0x1_0000 => to.extend([&[0xcd][..], &(token as u16).to_be_bytes()].concat()),
            3 => to.extend([&[0xcf][..], &u64::from(token).to_be_bytes()].concat()),
            4 if token < 0x80 => to.extend([0xd0, token as u8]),
            _ => to.extend([&[0xce][..], &token.to_be_bytes()].concat()),
        }
    }

    proptest! {
        /// Tokens in any spelling, cut short or with a foreign byte: what is read is what single heads say.
        #[test]
        fn many_tokens_are_read_as_one_by_one(
            tokens in prop::collection::vec((0_u32..32, any::<u32>(), 0_u8..8), 0..80),
            cut in prop::option::of(0_usize..400),
            foreign in prop::option::of((0_usize..400, any::<u8>())),
        ) {
            let mut bytes = Vec::new();
            for (bits, token, width) in &tokens {
                spell(token >> bits, *width, &mut bytes);
            }
            if let Some((at, byte)) = foreign && at < bytes.len() {
                bytes[at] = byte;
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            let mut naive = Cursor::new(&bytes, 0);
            let one_by_one: Result<Vec<u32>, Fault> = tokens.iter().map(|_| naive.u32()).collect();
            let (mut cursor, mut slots) = (Cursor::new(&bytes, 0), vec![0; tokens.len()]);
            let read = each_token(&mut cursor, &mut slots);
            prop_assert_eq!(read.map(|()| (slots, cursor.at())), one_by_one.map(|tokens| (tokens, naive.at())));
        }
    }
}
