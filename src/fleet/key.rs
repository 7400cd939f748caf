//! The identity of a stored object: content, model, rank, group, tenant.

use std::borrow::Cow;
use std::fmt;

use super::form::python_repr;
use crate::limits::KEY_TEXT_BYTES;

/// Bytes of a chunk hash as every server of the fleet computes it.
pub const HASH_BYTES: usize = 32;
/// Most code points of a `cache_salt`.
pub const SALT_CHARS: usize = 128;

/// A chunk hash. Its length is free on the wire, and 32 bytes in practice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChunkHash {
    /// The usual length.
    Full([u8; HASH_BYTES]),
    /// Any other length, none included.
    Other(Box<[u8]>),
}

impl ChunkHash {
    /// Takes raw bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        match <[u8; HASH_BYTES]>::try_from(bytes) {
            Ok(full) => Self::Full(full),
            Err(_) => Self::Other(bytes.into()),
        }
    }

    /// Reads `chunk_hash_hex`: at most [`KEY_TEXT_BYTES`] pairs of hex digits of either case, ASCII whitespace between
    /// the pairs allowed.
    pub fn of_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() == 2 * HASH_BYTES {
            let mut full = [0; HASH_BYTES];
            if full.iter_mut().zip(text.chunks_exact(2)).all(|(byte, pair)| put(byte, pair[0], pair[1])) {
                return Some(Self::Full(full));
            }
        }
        let mut bytes = Vec::with_capacity((text.len() / 2).min(KEY_TEXT_BYTES));
        let mut rest = text.iter().copied().filter({
            // whitespace may stand between pairs, not within one
            let mut half = false;
            move |byte| {
                let blank = !half && is_blank(*byte);
                half ^= !blank;
                !blank
            }
        });
        while let Some(high) = rest.next() {
            let mut byte = 0;
            if !put(&mut byte, high, rest.next()?) || bytes.len() == KEY_TEXT_BYTES {
                return None;
            }
            bytes.push(byte);
        }
        Some(Self::of_bytes(&bytes))
    }

    /// The raw bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Full(full) => full,
            Self::Other(bytes) => bytes,
        }
    }
}

impl fmt::Display for ChunkHash {
    /// Lower-case hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn put(byte: &mut u8, high: u8, low: u8) -> bool {
    let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
    *byte = high << 4 | low & 0xf;
    (high | low) < NO_DIGIT
}

/// Marks a byte that is no hex digit.
const NO_DIGIT: u8 = 0x10;

/// The value of each byte that is a hex digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digits[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// What names one stored object. Equal parts are the same object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key<'a> {
    /// Hash of the chunk and all before it.
    pub hash: ChunkHash,
    /// Model name, without `@`.
    pub model: Cow<'a, str>,
    /// World size and rank, packed; any integer of 64 bits, signed or unsigned.
    pub kv_rank: i128,
    /// Object group, 0 where groups are not separate.
    pub group: u64,
    /// Tenant, see [`check_salt`].
    pub salt: Cow<'a, str>,
}

impl Key<'_> {
    /// The same key, owning its text.
    pub fn into_owned(self) -> Key<'static> {
        Key {
            hash: self.hash,
            model: Cow::Owned(self.model.into_owned()),
            kv_rank: self.kv_rank,
            group: self.group,
            salt: Cow::Owned(self.salt.into_owned()),
        }
    }
}

/// Why a salt or model cannot be part of a key; the text says so to a client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    /// A salt has one of the characters that storage paths are made of.
    #[error("cache_salt must not contain frozenset({{{0}}}) (got {1})")]
    SaltCharacter(&'static str, String),
    /// A salt is longer than [`SALT_CHARS`].
    #[error("cache_salt exceeds max length {SALT_CHARS} (got {0})")]
    SaltLength(usize),
    /// A model has the character that separates it from what follows in storage paths.
    #[error("model_name must not contain '@' (got {0})")]
    ModelCharacter(String),
    /// A model is longer than [`KEY_TEXT_BYTES`].
    #[error("model_name exceeds max length {KEY_TEXT_BYTES} bytes (got {0})")]
    ModelLength(usize),
}

/// Checks a salt: none of `@`, `/`, `\` and NUL, at most [`SALT_CHARS`] code points.
pub fn check_salt(salt: &str) -> Result<(), KeyFault> {
    let named = [('@', "'@'"), ('/', "'/'"), ('\\', r"'\\'"), ('\0', r"'\x00'")];
    for (character, name) in named {
        if salt.contains(character) {
            return Err(KeyFault::SaltCharacter(name, shown(salt)));
        }
    }
    match salt.chars().count() {
        length if length > SALT_CHARS => Err(KeyFault::SaltLength(length)),
        _ => Ok(()),
    }
}

/// Checks a model: no `@`, at most [`KEY_TEXT_BYTES`] bytes.
pub fn check_model(model: &str) -> Result<(), KeyFault> {
    if model.contains('@') {
        return Err(KeyFault::ModelCharacter(shown(model)));
    }
    match model.len() {
        length if length > KEY_TEXT_BYTES => Err(KeyFault::ModelLength(length)),
        _ => Ok(()),
    }
}

/// Text for an error, quoted as the fleet's servers quote, and not longer than a line.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SALT_CHARS).collect();
    python_repr(&start)
}
