//! DELETEs: what they say, and what their answers change.

use super::Books;
use super::entry::{EntryId, State};
use super::ledger::Class;
use super::millis;
use super::plan::Batch;
use crate::fleet::key::Key;
use std::time::Duration;

/// How a DELETE ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A status of 200 to 299, and `ok` not false.
    Ok,
    /// Anything else.
    Failed,
    /// It was never sent.
    Unsent,
}

/// How the body of a DELETE begins, and ends.
pub const DELETION: &[u8] = b"{\"keys\":[";
/// See [`DELETION`].
pub const DELETION_END: &[u8] = b"]}";

impl Books {
    /// The key that an id names, while it is stored.
    pub fn key(&self, id: EntryId) -> Option<Key<'_>> {
        self.ledger.slot(id).map(|slot| self.ledger.key(slot))
    }

    /// The keys of a batch that are still stored.
    pub fn batch_keys<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = Key<'a>> {
        batch.ids.iter().filter_map(|id| self.key(*id))
    }

    /// Writes the body of a DELETE, and returns how many keys it names. Keys that were deleted or pinned since they
    /// were chosen leave the batch; with none left nothing need be sent.
    pub fn write_batch(&mut self, batch: &mut Batch, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(DELETION);
        self.write_keys(batch, 0, usize::MAX, out);
        out.extend_from_slice(DELETION_END);
        batch.len()
    }

    /// Writes up to `most` keys of a batch from the `from`th on, after [`DELETION`] or others; the place of the next.
    /// The last are followed by [`DELETION_END`].
    pub fn write_keys(&mut self, batch: &mut Batch, from: usize, most: usize, out: &mut Vec<u8>) -> usize {
        let end = from.saturating_add(most).min(batch.len());
        let mut kept = from;
        for at in from..end {
            let id = batch.ids[at];
            let Some(slot) = self.ledger.slot(id) else { continue };
            if self.ledger.entries[slot].state.has(State::PINNED) {
                self.ledger.change(slot, |entry| entry.state.set(State::FLYING, false));
                continue;
            }
            if out.last() == Some(&b'}') {
                out.push(b',');
            }
            write_key(&self.ledger.key(slot), out);
            batch.ids[kept] = id;
            kept += 1;
        }
        batch.ids.drain(kept..end);
        self.counters.sent += (kept - from) as u64;
        kept
    }

    /// A DELETE of so many keys was refused; they go out again in smaller ones.
    pub fn refused(&mut self, keys: usize) {
        self.counters.failed += keys as u64;
    }

    /// A DELETE ended: its keys may be chosen again. Every batch of a plan must come here once.
    pub fn answered(&mut self, batch: &Batch, outcome: Outcome, now: Duration) {
        let well = outcome == Outcome::Ok;
        let keys = batch.len() as u64;
        match outcome {
            Outcome::Ok => self.counters.answered += keys,
            Outcome::Failed => self.counters.failed += keys,
            Outcome::Unsent => {}
        }
        for id in &batch.ids {
            let Some(slot) = self.ledger.slot(*id) else { continue };
            if self.ledger.class(slot) == Class::Flying {
                self.ledger.landed(slot, well, millis(now));
                let backs_off = well && self.ledger.class(slot) == Class::Stuck;
                self.counters.back_offs += u64::from(backs_off);
            }
        }
    }
}

/// Appends a key as MP servers read it.
pub fn write_key(key: &Key<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"chunk_hash_hex\":\"");
    for byte in key.hash.bytes() {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    out.extend_from_slice(b"\",\"model_name\":");
    write_text(&key.model, out);
    out.extend_from_slice(b",\"kv_rank\":");
    out.extend_from_slice(itoa::Buffer::new().format(key.kv_rank).as_bytes());
    out.extend_from_slice(b",\"object_group_id\":");
    out.extend_from_slice(itoa::Buffer::new().format(key.group).as_bytes());
    out.extend_from_slice(b",\"cache_salt\":");
    write_text(&key.salt, out);
    out.push(b'}');
}

fn digit(half: u8) -> u8 {
    half + if half < 10 { b'0' } else { b'a' - 10 }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    // a string always serialises, and a vector takes all of it
    let written = serde_json::to_writer(&mut *out, text);
    debug_assert!(written.is_ok());
}
