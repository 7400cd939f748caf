//! Tokens as clients pack them: base64 of little-endian 32-bit numbers.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Bytes of one token.
const TOKEN_BYTES: usize = size_of::<u32>();
/// Characters of so many hold whole tokens.
const GROUP: usize = 16;

const INNER: GeneralPurpose = engine(DecodePaddingMode::RequireNone);
const LAST: GeneralPurpose = engine(DecodePaddingMode::RequireCanonical);

/// Bits behind the last byte are not judged, as Python does not judge them.
const fn engine(padding: DecodePaddingMode) -> GeneralPurpose {
    let config =
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(padding);
    GeneralPurpose::new(&STANDARD, config)
}

/// Why packed tokens cannot be read; the text says so to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackedFault {
    /// It is no base64, or its padding is missing.
    #[error("tokens_b64 is not valid base64")]
    Base64,
    /// It does not end with a whole token.
    #[error("tokens_b64 must hold whole 32-bit tokens: {0} bytes are no multiple of {TOKEN_BYTES}")]
    Length(usize),
}

/// Unpacks tokens in steps.
#[derive(Debug)]
pub struct Unpack<'a> {
    text: &'a [u8],
    tokens: Vec<u32>,
    bytes: Vec<u8>,
}

impl<'a> Unpack<'a> {
    /// Unpacks `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), tokens: Vec::new(), bytes: Vec::new() }
    }

    /// Reads on, at most about `tokens` tokens; gives all of them at the end, and `None` before it.
    pub fn step(&mut self, tokens: usize) -> Option<Result<Vec<u32>, PackedFault>> {
        let most = (tokens / 3).saturating_add(1).saturating_mul(GROUP);
        let last = self.text.len() <= most;
        let (piece, rest) = self.text.split_at(most.min(self.text.len()));
        self.text = rest;
        self.bytes.clear();
        let engine = if last { &LAST } else { &INNER };
        if engine.decode_vec(piece, &mut self.bytes).is_err() {
            return Some(Err(PackedFault::Base64));
        }
        let (whole, odd) = self.bytes.as_chunks::<TOKEN_BYTES>();
        self.tokens.extend(whole.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        if !odd.is_empty() {
            return Some(Err(PackedFault::Length(self.tokens.len() * TOKEN_BYTES + odd.len())));
        }
        last.then(|| Ok(std::mem::take(&mut self.tokens)))
    }
}

/// Unpacks all tokens of `text` at once.
pub fn unpack(text: &str) -> Result<Vec<u32>, PackedFault> {
    let mut unpack = Unpack::new(text);
    loop {
        if let Some(done) = unpack.step(usize::MAX) {
            return done;
        }
    }
}
