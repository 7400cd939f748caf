//! The chunked transfer coding, undone in place: data moves down over the framing around it.

use super::decoder::{Limits, Refusal};

/// Most hexadecimal digits of a chunk size.
const SIZE_DIGITS: u8 = 16;

/// What the next byte of the body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Size,
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    TrailerLine,
    TrailerLf,
    EndLf,
    Done,
}

/// A chunked body on its way in. Every byte is looked at once, however the body is fragmented.
#[derive(Debug)]
pub(super) struct Chunked {
    phase: Phase,
    /// Data bytes of the current chunk that are still to come.
    left: usize,
    digits: u8,
    /// Bytes of extensions and trailers, which are skipped.
    skipped: usize,
    /// Bytes of the raw body that were looked at.
    read: usize,
    /// Bytes of data, at the start of the raw body.
    written: usize,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Size, left: 0, digits: 0, skipped: 0, read: 0, written: 0 }
    }

    /// Bytes of data decoded so far; they lie at the start of the raw body.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Bytes of the raw body looked at so far; those after [`Self::written`] are of no more use.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// Data bytes that the current chunk still promises.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Says that the bytes between data and unread rest were cut out of the raw body.
    pub(super) fn close_gap(&mut self) {
        self.read = self.written;
    }

    /// Decodes what has come of the raw body; true once the body is whole.
    pub(super) fn advance(&mut self, raw: &mut [u8], limits: &Limits) -> Result<bool, Refusal> {
        while self.phase != Phase::Done && self.read < raw.len() {
            if self.phase == Phase::Data {
                self.take_data(raw);
            } else {
                let byte = raw[self.read];
                self.read += 1;
                self.phase = self.framing(byte, limits)?;
            }
        }
        Ok(self.phase == Phase::Done)
    }

    fn take_data(&mut self, raw: &mut [u8]) {
        let count = self.left.min(raw.len() - self.read);
        if self.written != self.read {
            raw.copy_within(self.read..self.read + count, self.written);
        }
        self.read += count;
        self.written += count;
        self.left -= count;
        if self.left == 0 {
            self.phase = Phase::DataCr;
        }
    }

    fn framing(&mut self, byte: u8, limits: &Limits) -> Result<Phase, Refusal> {
        match (self.phase, byte) {
            (Phase::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (Phase::Size | Phase::SizeSpace, b'\r') if self.digits > 0 => Ok(Phase::SizeLf),
            (Phase::Size | Phase::SizeSpace, b';') if self.digits > 0 => Ok(Phase::Extension),
            (Phase::Size | Phase::SizeSpace, b' ' | b'\t') if self.digits > 0 => {
                self.skip(limits, Phase::SizeSpace)
            }
            (Phase::Extension, b'\r') => Ok(Phase::SizeLf),
            (Phase::Extension, b'\t' | b' '..=b'~' | 0x80..) => self.skip(limits, Phase::Extension),
            (Phase::SizeLf, b'\n') => self.begin_chunk(limits),
            (Phase::DataCr, b'\r') => Ok(Phase::DataLf),
            (Phase::DataLf, b'\n') => {
                self.digits = 0;
                Ok(Phase::Size)
            }
            (Phase::Trailer, b'\r') => Ok(Phase::EndLf),
            (Phase::TrailerLine, b'\r') => Ok(Phase::TrailerLf),
            (Phase::Trailer | Phase::TrailerLine, b'\t' | b' '..=b'~' | 0x80..) => {
                self.skip(limits, Phase::TrailerLine)
            }
            (Phase::TrailerLf, b'\n') => Ok(Phase::Trailer),
            (Phase::EndLf, b'\n') => Ok(Phase::Done),
            _ => Err(Refusal::new(400, "malformed chunked body")),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<Phase, Refusal> {
        if self.digits == SIZE_DIGITS {
            return Err(Refusal::new(400, "chunk size has too many digits"));
        }
        self.digits += 1;
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        self.left = (self.left << 4) | usize::from(value);
        Ok(Phase::Size)
    }

    fn begin_chunk(&self, limits: &Limits) -> Result<Phase, Refusal> {
        if self.left > limits.body_bytes.saturating_sub(self.written) {
            return Err(Refusal::BODY_TOO_LARGE);
        }
        Ok(if self.left == 0 { Phase::Trailer } else { Phase::Data })
    }

    /// Counts a byte of an extension or a trailer; together they may be as long as a head.
    fn skip(&mut self, limits: &Limits, phase: Phase) -> Result<Phase, Refusal> {
        self.skipped += 1;
        if self.skipped > limits.head_bytes {
            return Err(Refusal::new(431, "chunk extensions and trailers too large"));
        }
        Ok(phase)
    }
}
