//! Tokens in the common spelling, 64 bytes and four tokens at a time, on processors with AVX2.
//!
//! A block is classed into masks, one bit a byte, and its grammar is checked on the masks alone. A token is then
//! in the eight bytes before its comma, and the last of them that is no digit says where it begins: nothing has to
//! be known of its length, and no block waits for the one before it.
#![allow(unsafe_code)] // instructions of some processors only, and stores into room that was made

use std::arch::x86_64::{
    __m256i, _mm_storeu_si128, _mm256_andnot_si256, _mm256_castsi256_si128, _mm256_cmpeq_epi8,
    _mm256_cmpeq_epi64, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epu8, _mm256_min_epu8,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_packus_epi32, _mm256_permute4x64_epi64, _mm256_set_epi64x,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_testz_si256, _mm256_xor_si256,
};

use super::{BLOCK, WORD, word};

/// Tokens converted together.
const GROUP: usize = 4;
/// Most tokens that end in a block: each has a digit and a comma.
const MOST: usize = BLOCK / 2;

/// Sixteen bytes: each whitespace at its lower half-byte, elsewhere what no byte with that half is.
const BLANKS: [i64; 2] = [b' ' as i64, (b'\t' as i64) << 8 | (b'\n' as i64) << 16 | (b'\r' as i64) << 40];

const _: () = assert!(MOST.is_multiple_of(GROUP), "whole groups fit where all tokens do");

/// Reads tokens of 1 to 7 digits, each with a comma right behind it and blanks only behind that, whole blocks of
/// them; a token begins at `at`.
///
/// Returns where the first element begins that was not read, or the blanks before it.
pub(super) fn run(bytes: &[u8], at: usize, out: &mut Vec<u32>) -> usize {
    let able = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt");
    if !able {
        return at;
    }
    // SAFETY: the processor was just seen to have all that the function is compiled for.
    unsafe { blocks(bytes, at, out) }
}

#[target_feature(enable = "avx2,bmi1,popcnt,lzcnt")]
fn blocks(bytes: &[u8], mut at: usize, out: &mut Vec<u32>) -> usize {
    // a token is loaded as the word before its comma, so a block is seen with the word before it
    let Some(mut from) = at.checked_sub(WORD) else { return at };
    // as if a comma stood before the first token
    let mut before = Classes { digits: 0, zeros: 0, commas: 1 << (BLOCK - 1), blanks: 0 };
    while let Some(window) = bytes.get(from..).and_then(|rest| rest.first_chunk()) {
        let block = Classes::of(window);
        if block.faults(&before) != 0 || !convert(window, block.commas, out) {
            break;
        }
        if block.commas != 0 {
            at = from + WORD + BLOCK - block.commas.leading_zeros() as usize;
        }
        before = block;
        from += BLOCK;
    }
    at
}

/// What the bytes of a block are, one bit each.
struct Classes {
    digits: u64,
    zeros: u64,
    commas: u64,
    blanks: u64,
}

impl Classes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(window: &[u8; WORD + BLOCK]) -> Self {
        let (low, high) = (vector(window, WORD), vector(window, WORD + BLOCK / 2));
        Self {
            digits: mask(digits(low), digits(high)),
            zeros: mask(equal(low, b'0'), equal(high, b'0')),
            commas: mask(equal(low, b','), equal(high, b',')),
            blanks: mask(blanks(low), blanks(high)),
        }
    }

    /// Bytes that are out of place behind those of the block before.
    #[inline]
    fn faults(&self, before: &Self) -> u64 {
        let behind = |of: fn(&Self) -> u64, bytes: u32| of(self) << bytes | of(before) >> (64 - bytes);
        let separators = |of: &Self| of.commas | of.blanks;
        let foreign = !(self.digits | separators(self));
        let empty = self.commas & !behind(|of| of.digits, 1);
        let stray = self.blanks & !behind(separators, 1);
        let padded = self.digits & behind(|of| of.zeros, 1) & behind(separators, 2);
        foreign | empty | stray | padded
    }
}

/// Appends the tokens before `commas`; nothing, and false, when one has more digits than a word shows the
/// beginning of.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn convert(window: &[u8; WORD + BLOCK], mut commas: u64, out: &mut Vec<u32>) -> bool {
    let count = commas.count_ones() as usize;
    out.reserve(MOST);
    let room = out.spare_capacity_mut()[..MOST].as_mut_ptr();
    let mut long = _mm256_setzero_si256();
    for group in 0..count.div_ceil(GROUP) {
        let mut next = || {
            // behind the last comma this is the end of the block, whose number nobody asks for
            let end = commas.trailing_zeros() as usize;
            commas &= commas.wrapping_sub(1);
            word(window, end).cast_signed()
        };
        let (first, second, third, fourth) = (next(), next(), next(), next());
        let words = _mm256_set_epi64x(fourth, third, second, first);
        let values = _mm256_xor_si256(words, splat(b'0'));
        let begun = up_to_last(not_digits(values));
        long = _mm256_or_si256(long, _mm256_cmpeq_epi64(begun, _mm256_setzero_si256()));
        let numbers = _mm256_castsi256_si128(numbers(_mm256_andnot_si256(begun, values)));
        // SAFETY: `room` has place for `MOST` numbers, which whole groups fill, and no more than `MOST` tokens
        // end in a block without a fault: each has a digit.
        unsafe { _mm_storeu_si128(room.add(group * GROUP).cast(), numbers) };
    }
    if _mm256_testz_si256(long, long) == 0 {
        return false;
    }
    // SAFETY: so many numbers were written behind the old length, within the capacity.
    unsafe { out.set_len(out.len() + count) };
    true
}

/// The number that the eight digits of each word make, first digit in the lowest byte; in the lower half.
#[inline]
#[target_feature(enable = "avx2")]
fn numbers(values: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi16(10 + (1 << 8)));
    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(100 + (1 << 16)));
    let packed = _mm256_packus_epi32(fours, fours);
    let eights = _mm256_madd_epi16(packed, _mm256_set1_epi32(10_000 + (1 << 16)));
    _mm256_permute4x64_epi64::<0b10_00>(eights)
}

/// All bytes of a word up to the last one that is set in `marks`.
#[inline]
#[target_feature(enable = "avx2")]
fn up_to_last(marks: __m256i) -> __m256i {
    let marks = _mm256_or_si256(marks, _mm256_srli_epi64::<8>(marks));
    let marks = _mm256_or_si256(marks, _mm256_srli_epi64::<16>(marks));
    _mm256_or_si256(marks, _mm256_srli_epi64::<32>(marks))
}

/// Every byte of `values` that is more than 9.
#[inline]
#[target_feature(enable = "avx2")]
fn not_digits(values: __m256i) -> __m256i {
    let ten = splat(10);
    _mm256_cmpeq_epi8(_mm256_max_epu8(values, ten), values)
}

#[inline]
#[target_feature(enable = "avx2")]
fn digits(bytes: __m256i) -> __m256i {
    let values = _mm256_xor_si256(bytes, splat(b'0'));
    _mm256_cmpeq_epi8(_mm256_min_epu8(values, splat(9)), values)
}

/// JSON's four kinds of whitespace.
#[inline]
#[target_feature(enable = "avx2")]
fn blanks(bytes: __m256i) -> __m256i {
    // each kind stands where its lower half-byte points to
    let kinds = _mm256_set_epi64x(BLANKS[1], BLANKS[0], BLANKS[1], BLANKS[0]);
    _mm256_cmpeq_epi8(_mm256_shuffle_epi8(kinds, bytes), bytes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(bytes: __m256i, byte: u8) -> __m256i {
    _mm256_cmpeq_epi8(bytes, splat(byte))
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(byte: u8) -> __m256i {
    _mm256_set1_epi8(byte.cast_signed())
}

/// A bit for each byte of the two halves of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn mask(low: __m256i, high: __m256i) -> u64 {
    let bits = |half| u64::from(_mm256_movemask_epi8(half).cast_unsigned());
    bits(low) | bits(high) << 32
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(window: &[u8; WORD + BLOCK], at: usize) -> __m256i {
    let part = |part: usize| word(window, at + part * WORD).cast_signed();
    _mm256_set_epi64x(part(3), part(2), part(1), part(0))
}
