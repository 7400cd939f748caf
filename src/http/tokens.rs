//! JSON arrays of integers: prompts are long, so tokens are read eight bytes at a time.

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

/// Reads tokens in the common spelling, 1 to 7 digits and a comma and perhaps a blank, as far as it goes.
///
/// Returns where the first element begins that is spelled otherwise, or wrong.
fn run(bytes: &[u8], mut at: usize, out: &mut Vec<u32>) -> usize {
    // two bytes beyond the word are looked at, so that a token of seven digits needs no other check
    while let Some(window) = bytes.get(at..at + 10) {
        let word = u64::from_le_bytes([
            window[0], window[1], window[2], window[3], window[4], window[5], window[6], window[7],
        ]);
        // a digit becomes its value, 0 to 9; any other byte gets its high bit set, here or by the sum
        let values = word ^ 0x3030_3030_3030_3030;
        let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
        // a carry out of a byte that is no digit spoils only bytes behind it
        let digits = others.trailing_zeros() as usize / 8;
        let leads_with_zero = digits > 1 && window[0] == b'0';
        if digits == 0 || digits == 8 || leads_with_zero || window[digits] != b',' {
            break;
        }
        out.push(number(values << (64 - 8 * digits)));
        at += digits + 1 + usize::from(window[digits + 1] == b' ');
    }
    at
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
