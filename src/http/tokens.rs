//! JSON arrays of integers. Prompts are long, so the ends of tokens are found a block of 64 bytes at a
//! time, and the digits of a token are summed as one word; four words at once where the processor can.

#[cfg(target_arch = "x86_64")]
mod avx2;

/// Bytes of a word.
const WORD: usize = 8;
/// Bytes of a block, one bit each in a mask.
const BLOCK: usize = 64;
/// Every byte an ASCII zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Why an array could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// Where in the input, bytes.
    pub offset: usize,
    /// Which element, counted from 0.
    pub index: usize,
    /// What is wrong there.
    pub what: What,
}

/// What is wrong with an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is another JSON value.
    NotAnArray,
    /// The element is no integer of the array's kind.
    NotAnInteger,
    /// Neither a comma nor the closing bracket follows the element.
    NoSeparator,
    /// The input ends before the array does.
    Unfinished,
}

/// Reads an array of unsigned 32-bit integers into `out`, which is cleared before.
///
/// Returns how many bytes it took, leading whitespace included. After an error `out` holds the elements
/// before it.
pub fn parse(bytes: &[u8], out: &mut Vec<u32>) -> Result<usize, Error> {
    parse_by(bytes, out, |bytes, at, out| {
        #[cfg(target_arch = "x86_64")]
        let at = avx2::run(bytes, at, out);
        run(bytes, at, out)
    })
}

/// [`parse`] in words alone, as on processors of which nothing more is known.
pub fn parse_words(bytes: &[u8], out: &mut Vec<u32>) -> Result<usize, Error> {
    parse_by(bytes, out, run)
}

/// Lets `run` read as many elements as it likes wherever one begins.
fn parse_by(
    bytes: &[u8],
    out: &mut Vec<u32>,
    run: impl Fn(&[u8], usize, &mut Vec<u32>) -> usize,
) -> Result<usize, Error> {
    out.clear();
    let (mut more, mut at) = open(bytes)?;
    while more {
        at = run(bytes, at, out);
        let (value, end) = token(bytes, at, out.len())?;
        (more, at) = separator(bytes, end, out.len())?;
        out.push(value);
    }
    Ok(at)
}

/// [`parse`], a byte at a time: the twin that the fast way is tested against.
pub fn parse_naive(bytes: &[u8], out: &mut Vec<u32>) -> Result<usize, Error> {
    elements(bytes, out, token)
}

/// Reads an array of 64-bit hashes into `out`, which is cleared before.
///
/// A hash is an unsigned integer, a negative one (two's complement), or a string of either in decimal.
/// Returns how many bytes it took.
pub fn parse_hashes(bytes: &[u8], out: &mut Vec<u64>) -> Result<usize, Error> {
    elements(bytes, out, hash)
}

/// Reads tokens in the common spelling, 1 to 8 digits and a comma and perhaps a blank, as far as it goes.
///
/// Returns where the first element begins that is spelled otherwise, or wrong, or near either end.
fn run(bytes: &[u8], mut at: usize, out: &mut Vec<u32>) -> usize {
    // a token is loaded as the word before its comma, so a block is seen with the word before it
    while let Some(window) = at.checked_sub(WORD).and_then(|from| bytes[from..].first_chunk()) {
        let mut others = others(window);
        let mut start = 0;
        while start < BLOCK {
            // the mask first: it is at hand before the byte is
            if others & (1 << start) != 0 && window[WORD + start] == b' ' {
                others &= others - 1;
                start += 1;
            }
            if others == 0 {
                break;
            }
            let end = others.trailing_zeros() as usize;
            let digits = end - start;
            let leads_with_zero = digits > 1 && window[WORD + start] == b'0';
            if !(1..=WORD).contains(&digits) || leads_with_zero || window[WORD + end] != b',' {
                return at + start;
            }
            others &= others - 1;
            // whatever stands before the token is shifted out
            let unused = 64 - 8 * digits;
            out.push(number((word(window, end) ^ ZEROS) >> unused << unused));
            start = end + 1;
        }
        if start <= 1 {
            return at;
        }
        at += start;
    }
    at
}

/// Eight bytes, the first in the lowest byte.
#[inline]
fn word(window: &[u8; WORD + BLOCK], at: usize) -> u64 {
    let mut bytes = [0; WORD];
    bytes.copy_from_slice(&window[at..at + WORD]);
    u64::from_le_bytes(bytes)
}

/// A bit for each byte of the block that is no digit.
fn others(window: &[u8; WORD + BLOCK]) -> u64 {
    let mut mask = 0;
    for at in (0..BLOCK).step_by(WORD) {
        let values = word(window, WORD + at) ^ ZEROS;
        // 10 and more carries into the high bit of the byte, and so does nothing else
        let high =
            (((values & 0x7F7F_7F7F_7F7F_7F7F) + 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
        // the multiplication gathers the eight high bits in the highest byte
        mask |= ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << at;
    }
    mask
}

/// The number whose eight digits are the bytes of `values`, the first digit in the lowest byte.
fn number(values: u64) -> u32 {
    const PAIRS: u64 = 0x0000_00FF_0000_00FF;
    const HUNDREDS: u64 = 100 + (1_000_000 << 32);
    const ONES: u64 = 1 + (10_000 << 32);
    // every other byte becomes a pair of digits, then the pairs are weighed and summed
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let first = (pairs & PAIRS).wrapping_mul(HUNDREDS);
    let second = ((pairs >> 16) & PAIRS).wrapping_mul(ONES);
    (first.wrapping_add(second) >> 32) as u32
}

/// Reads an array of what `element` reads.
fn elements<T>(
    bytes: &[u8],
    out: &mut Vec<T>,
    element: impl Fn(&[u8], usize, usize) -> Result<(T, usize), Error>,
) -> Result<usize, Error> {
    out.clear();
    let (mut more, mut at) = open(bytes)?;
    while more {
        let (value, end) = element(bytes, at, out.len())?;
        (more, at) = separator(bytes, end, out.len())?;
        out.push(value);
    }
    Ok(at)
}

/// Steps into the array: whether an element follows, and where what follows begins.
fn open(bytes: &[u8]) -> Result<(bool, usize), Error> {
    let offset = skip_blanks(bytes, 0);
    if bytes.get(offset) != Some(&b'[') {
        return Err(Error { offset, index: 0, what: What::NotAnArray });
    }
    let at = skip_blanks(bytes, offset + 1);
    match bytes.get(at) {
        Some(b']') => Ok((false, at + 1)),
        _ => Ok((true, at)),
    }
}

/// Steps over what follows element `index`: whether another one follows, and where what follows begins.
fn separator(bytes: &[u8], at: usize, index: usize) -> Result<(bool, usize), Error> {
    let offset = skip_blanks(bytes, at);
    match bytes.get(offset) {
        Some(b',') => Ok((true, offset + 1)),
        Some(b']') => Ok((false, offset + 1)),
        Some(_) => Err(Error { offset, index, what: What::NoSeparator }),
        None => Err(Error { offset, index, what: What::Unfinished }),
    }
}

/// Reads element `index`, an unsigned 32-bit integer; returns its end too.
fn token(bytes: &[u8], at: usize, index: usize) -> Result<(u32, usize), Error> {
    let offset = skip_blanks(bytes, at);
    if offset == bytes.len() {
        return Err(Error { offset, index, what: What::Unfinished });
    }
    magnitude(bytes, offset).and_then(|(value, end)| Some((u32::try_from(value).ok()?, end))).ok_or(Error {
        offset,
        index,
        what: What::NotAnInteger,
    })
}

/// Reads element `index`, a hash; returns its end too.
fn hash(bytes: &[u8], at: usize, index: usize) -> Result<(u64, usize), Error> {
    let offset = skip_blanks(bytes, at);
    if offset == bytes.len() {
        return Err(Error { offset, index, what: What::Unfinished });
    }
    let read = if bytes[offset] == b'"' {
        signed(bytes, offset + 1)
            .filter(|(_, end)| bytes.get(*end) == Some(&b'"'))
            .map(|(hash, end)| (hash, end + 1))
    } else {
        signed(bytes, offset)
    };
    read.ok_or(Error { offset, index, what: What::NotAnInteger })
}

/// Reads an integer of 64 bits with or without sign.
fn signed(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    if bytes.get(at) != Some(&b'-') {
        return magnitude(bytes, at);
    }
    let (value, end) = magnitude(bytes, at + 1)?;
    // zero has no sign among integers
    (1..=1 << 63).contains(&value).then(|| (value.wrapping_neg(), end))
}

/// Reads digits as JSON writes an integer: no leading zeros, no fraction, no exponent.
fn magnitude(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut end = at;
    while let Some(digit @ b'0'..=b'9') = bytes.get(end) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        end += 1;
    }
    let leads_with_zero = end - at > 1 && bytes[at] == b'0';
    let goes_on = matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
    (end > at && !leads_with_zero && !goes_on).then_some((value, end))
}

fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}
