//! One payload into one [`Batch`], in one pass. Only a bad event is walked twice, to find where it ends.

use super::fault::{Fault, Trouble};
use super::fields::{FIELD_DEPTH, Fields};
use super::key::Key;
use super::msgpack::{Cursor, Head};
use super::{Batch, Event, Refusal, Skip, Skipped, Timestamp, engine};
use crate::limits::BATCH_EVENTS;

/// Containers around an event: the batch and its events.
const EVENT_DEPTH: usize = 2;

/// Clears `batch` and fills it from `payload`.
///
/// # Errors
/// The payload as a whole is no batch; `batch` is left empty. Single bad events are no error: they stand in
/// [`Batch::skipped`].
pub fn decode(payload: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
    batch.clear();
    let outcome = read(payload, batch);
    if outcome.is_err() {
        batch.clear();
    }
    outcome
}

fn read(payload: &[u8], batch: &mut Batch) -> Result<(), Refusal> {
    // spans count in u32
    if payload.len() >= u32::MAX as usize {
        return Err(Refusal::Malformed);
    }
    let mut cursor = Cursor::new(payload, 0);
    match cursor.head()? {
        Head::Array(len) => positional(&mut cursor, len, batch)?,
        Head::Map(len) => keyed(&mut cursor, len, batch)?,
        _ => return Err(Refusal::NotABatch),
    }
    if cursor.rest().is_empty() { Ok(()) } else { Err(Refusal::Trailing) }
}

/// `[ts, events]` or `[ts, events, rank, …]`.
fn positional(cursor: &mut Cursor<'_>, len: usize, batch: &mut Batch) -> Result<(), Refusal> {
    if len < 2 {
        return Err(Refusal::NotABatch);
    }
    batch.ts = timestamp(cursor)?;
    events(cursor, batch)?;
    if len > 2 {
        batch.dp_rank = cursor.optional_u32()?;
    }
    batch.unknown_fields += len.saturating_sub(3) as u32;
    (3..len).try_for_each(|_| cursor.skip(1))?;
    Ok(())
}

/// `{ts, events, rank}` in any order, the rank under any of its names.
fn keyed(cursor: &mut Cursor<'_>, len: usize, batch: &mut Batch) -> Result<(), Refusal> {
    let mut found = false;
    for _ in 0..len {
        match cursor.key(1)? {
            Some(b"ts") => batch.ts = timestamp(cursor)?,
            Some(b"events") if found => return Err(Refusal::NotABatch),
            Some(b"events") => {
                events(cursor, batch)?;
                found = true;
            }
            Some(b"data_parallel_rank" | b"attn_dp_rank" | b"dp_rank") => {
                let rank = cursor.optional_u32()?;
                if rank.is_some() && batch.dp_rank.is_some() && rank != batch.dp_rank {
                    return Err(Refusal::NotABatch);
                }
                batch.dp_rank = rank.or(batch.dp_rank);
            }
            _ => {
                batch.unknown_fields += 1;
                cursor.skip(1)?;
            }
        }
    }
    if found { Ok(()) } else { Err(Refusal::NotABatch) }
}

fn timestamp(cursor: &mut Cursor<'_>) -> Result<Timestamp, Refusal> {
    match cursor.head()? {
        Head::Nil => Ok(Timestamp::Absent),
        Head::Uint(value) => Ok(i64::try_from(value).map_or(Timestamp::Uint(value), Timestamp::Int)),
        Head::Negative(value) => Ok(Timestamp::Int(value)),
        Head::Float(value) => Ok(Timestamp::Float(value)),
        _ => Err(Refusal::NotABatch),
    }
}

fn events(cursor: &mut Cursor<'_>, batch: &mut Batch) -> Result<(), Refusal> {
    let count = match cursor.head()? {
        Head::Array(count) if count <= BATCH_EVENTS => count,
        _ => return Err(Refusal::NotABatch),
    };
    for index in 0..count as u32 {
        let start = cursor.at();
        let marks = Marks::of(batch);
        match event(cursor, index, batch) {
            Ok(event) => batch.events.push(event),
            Err(Trouble::Broken(fault)) => return Err(fault.into()),
            Err(Trouble::Bad(reason)) => {
                marks.restore(batch);
                batch.skipped.push(Skipped { index, reason });
                cursor.rewind(start);
                cursor.skip(EVENT_DEPTH)?;
            }
        }
    }
    Ok(())
}

/// One event of whatever shape.
fn event(cursor: &mut Cursor<'_>, index: u32, batch: &mut Batch) -> Result<Event, Trouble> {
    match cursor.head()? {
        Head::Array(len) => engine::positional(cursor, len, index, batch),
        Head::Map(len) => map(cursor, len, index, batch),
        Head::Bin(inner) => wrapped(cursor, inner.len(), index, batch),
        _ => Err(Trouble::Bad(Skip::NotAnEvent)),
    }
}

fn map(cursor: &mut Cursor<'_>, len: usize, index: u32, batch: &mut Batch) -> Result<Event, Trouble> {
    if len == 0 {
        return Err(Trouble::Bad(Skip::NotAnEvent));
    }
    let mut fields = Fields::new(index);
    for _ in 0..len {
        if let Some(key) = cursor.key(FIELD_DEPTH)?.and_then(Key::of) {
            fields.read(key, cursor, batch)?;
        } else {
            batch.unknown_fields += 1;
            cursor.skip(FIELD_DEPTH)?;
        }
    }
    fields.finish(cursor.bytes(), batch)
}

/// An event inside a byte string of `len` bytes that the cursor has just passed (llm-d).
fn wrapped(cursor: &Cursor<'_>, len: usize, index: u32, batch: &mut Batch) -> Result<Event, Trouble> {
    let end = cursor.at();
    // the same bytes, cut where the byte string ends: spans keep counting from the payload's start
    let mut inside = Cursor::new(&cursor.bytes()[..end], end - len);
    let event = match inside.head() {
        Ok(Head::Array(len)) => engine::positional(&mut inside, len, index, batch),
        Ok(Head::Map(len)) => map(&mut inside, len, index, batch),
        _ => Err(Trouble::Bad(Skip::NotAnEvent)),
    };
    match event {
        Err(Trouble::Broken(Fault::TooDeep)) => Err(Trouble::Bad(Skip::TooDeep)),
        Err(Trouble::Broken(_)) => Err(Trouble::Bad(Skip::NotAnEvent)),
        Ok(_) if inside.at() != end => Err(Trouble::Bad(Skip::NotAnEvent)),
        event => event,
    }
}

/// How full the vectors are before an event, to take back what a bad one has left.
struct Marks {
    hashes: usize,
    tokens: usize,
    counts: usize,
    envelopes: usize,
}

impl Marks {
    fn of(batch: &Batch) -> Self {
        Self {
            hashes: batch.hashes.len(),
            tokens: batch.tokens.len(),
            counts: batch.counts.len(),
            envelopes: batch.envelopes.len(),
        }
    }

    fn restore(&self, batch: &mut Batch) {
        batch.hashes.truncate(self.hashes);
        batch.tokens.truncate(self.tokens);
        batch.counts.truncate(self.counts);
        batch.envelopes.truncate(self.envelopes);
    }
}
