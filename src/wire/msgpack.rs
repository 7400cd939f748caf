//! A growing msgpack text. Integers take their smallest form, as msgspec and msgpack-c write them.

use rmp::encode::{self, ByteBuf};

/// Why no write can fail.
const INFALLIBLE: &str = "a buffer in memory takes every byte";

/// A buffer that msgpack values are appended to.
#[derive(Default)]
pub(super) struct Msgpack(ByteBuf);

impl Msgpack {
    pub(super) fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    pub(super) fn nil(&mut self) {
        encode::write_nil(&mut self.0).expect(INFALLIBLE);
    }

    pub(super) fn uint(&mut self, value: u64) {
        encode::write_uint(&mut self.0, value).expect(INFALLIBLE);
    }

    pub(super) fn int(&mut self, value: i64) {
        encode::write_sint(&mut self.0, value).expect(INFALLIBLE);
    }

    pub(super) fn float(&mut self, value: f64) {
        encode::write_f64(&mut self.0, value).expect(INFALLIBLE);
    }

    pub(super) fn text(&mut self, value: &str) {
        encode::write_str(&mut self.0, value).expect(INFALLIBLE);
    }

    /// The text, nil where there is none.
    pub(super) fn text_or_nil(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.nil(),
        }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        encode::write_bin(&mut self.0, value).expect(INFALLIBLE);
    }

    /// Opens an array of `len` values.
    pub(super) fn array(&mut self, len: usize) {
        encode::write_array_len(&mut self.0, len as u32).expect(INFALLIBLE);
    }

    /// Opens a map of `len` pairs.
    pub(super) fn map(&mut self, len: usize) {
        encode::write_map_len(&mut self.0, len as u32).expect(INFALLIBLE);
    }

    /// Opens a map of `len` pairs with the three-byte header, whatever the length.
    pub(super) fn wide_map(&mut self, len: u16) {
        let [high, low] = len.to_be_bytes();
        self.0.as_mut_vec().extend([0xde, high, low]);
    }
}
