//! How a key lies in the file: salt, model, group, rank, hash. Keys of a tenant and model lie together.

use std::borrow::Cow;

use crate::fleet::key::{ChunkHash, Key};

/// Moves signed ranks to where bytes sort as they do.
const RANK_SIGN: u128 = 1 << 127;

/// Keys that are brought into the order of the file before it is changed: hashes come in no order, and then each
/// would touch a page of its own.
#[derive(Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    /// Where each row begins and ends.
    places: Vec<(u32, u32)>,
}

impl Run {
    /// Adds a key.
    pub(super) fn push(&mut self, key: &Key<'_>) {
        let start = self.bytes.len() as u32;
        encode(key, &mut self.bytes);
        self.places.push((start, self.bytes.len() as u32));
    }

    /// Bytes of all keys.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by_key(|(start, end)| &bytes[*start as usize..*end as usize]);
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|(start, end)| &self.bytes[*start as usize..*end as usize])
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

/// Appends a key.
fn encode(key: &Key<'_>, row: &mut Vec<u8>) {
    for text in [&key.salt, &key.model] {
        row.extend_from_slice(&(text.len() as u32).to_be_bytes());
        row.extend_from_slice(text.as_bytes());
    }
    row.extend_from_slice(&key.group.to_be_bytes());
    row.extend_from_slice(&(key.kv_rank as u128 ^ RANK_SIGN).to_be_bytes());
    row.extend_from_slice(key.hash.bytes());
}

/// Reads a key; none when the bytes are no key.
pub(super) fn decode(mut row: &[u8]) -> Option<Key<'_>> {
    let salt = text(&mut row)?;
    let model = text(&mut row)?;
    let group = u64::from_be_bytes(*part(&mut row)?);
    let kv_rank = (u128::from_be_bytes(*part(&mut row)?) ^ RANK_SIGN) as i128;
    Some(Key {
        hash: ChunkHash::of_bytes(row),
        model: Cow::Borrowed(model),
        kv_rank,
        group,
        salt: Cow::Borrowed(salt),
    })
}

fn part<'a, const N: usize>(row: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (part, rest) = row.split_first_chunk()?;
    *row = rest;
    Some(part)
}

fn text<'a>(row: &mut &'a [u8]) -> Option<&'a str> {
    let len = u32::from_be_bytes(*part(row)?) as usize;
    let (text, rest) = row.split_at_checked(len)?;
    *row = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Key<'static>> {
        let rank = prop_oneof![any::<i64>().prop_map(i128::from), any::<u64>().prop_map(i128::from)];
        (".{0,20}", ".{0,20}", any::<u64>(), rank, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(salt, model, group, kv_rank, hash)| Key {
                hash: ChunkHash::of_bytes(&hash),
                model: Cow::Owned(model),
                kv_rank,
                group,
                salt: Cow::Owned(salt),
            },
        )
    }

    proptest! {
        #[test]
        fn a_key_comes_back(key in key(), other in key()) {
            let (mut row, mut second) = (Vec::new(), Vec::new());
            encode(&key, &mut row);
            encode(&other, &mut second);
            prop_assert_eq!(decode(&row), Some(key.clone()));
            prop_assert_eq!(row == second, key == other);
        }

        #[test]
        fn other_bytes_never_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(key) = decode(&bytes) {
                let mut row = Vec::new();
                encode(&key, &mut row);
                prop_assert_eq!(row, bytes);
            }
        }
    }

    #[test]
    fn a_cut_key_is_none() {
        let mut row = Vec::new();
        let hash = ChunkHash::of_bytes(b"");
        encode(&Key { hash, model: "m".into(), kv_rank: -1, group: 1, salt: "s".into() }, &mut row);
        for len in 0..row.len() {
            assert_eq!(decode(&row[..len]), None);
        }
    }
}
