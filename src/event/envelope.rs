//! Events as RFC #1527 has them: maps with `event_type` and an envelope that says whose blocks they are.

use super::fault::Trouble;
use super::fields::{Fields, Op};
use super::{Batch, Event, SGLANG_ROOT, Skip, Slice, engine};

/// What an `event_type` says.
pub(super) fn op(tag: &[u8]) -> Option<Op> {
    match tag {
        b"stored" => Some(Op::Store),
        b"removed" => Some(Op::Remove),
        b"cleared" => Some(Op::Clear),
        _ => None,
    }
}

/// Makes the event of an RFC map's fields.
pub(super) fn finish(
    op: Op,
    mut fields: Fields,
    payload: &[u8],
    batch: &mut Batch,
) -> Result<Event, Trouble> {
    if let Some(reason) = fields.rfc_fault {
        return Err(Trouble::Bad(reason));
    }
    let hashes = match (op, hashes(&fields, batch)?) {
        (_, Some(hashes)) => hashes,
        (Op::Clear, None) => Slice::default(),
        // an object that is known by its key alone
        (_, None) if fields.envelope.object_key.is_some() => Slice::default(),
        _ => return Err(Trouble::Bad(Skip::MissingField)),
    };
    fields.store.parent = parent(&fields)?;
    let has_parent = fields.store.parent.is_some_and(|parent| parent != SGLANG_ROOT);
    if fields.envelope.base_block_idx == Some(0) && has_parent {
        return Err(Trouble::Bad(Skip::Conflict));
    }
    let mut envelope = fields.envelope;
    envelope.tp_rank = envelope.tp_rank.or(fields.head_or_tp_rank);
    envelope.block_size = fields.store.block_size;
    envelope.lora_name = fields.store.lora_name;
    let place = Some(batch.envelopes.len() as u32);
    let event = match op {
        Op::Store => Event::Store(engine::store(fields, hashes, place, payload)),
        Op::Remove => Event::Remove(engine::remove(&fields, hashes, place)),
        Op::Clear => Event::Clear(engine::clear(&fields, place)),
    };
    batch.envelopes.push(envelope);
    Ok(event)
}

/// `seq_hashes`, else `block_hashes`; where both say something they must say the same.
fn hashes(fields: &Fields, batch: &Batch) -> Result<Option<Slice>, Trouble> {
    match (fields.seq_hashes, fields.block_hashes) {
        (Some(seq), Some(block)) if seq.len > 0 && block.len > 0 => {
            if seq.of(&batch.hashes) == block.of(&batch.hashes) {
                Ok(Some(seq))
            } else {
                Err(Trouble::Bad(Skip::Conflict))
            }
        }
        (Some(seq), block) if seq.len > 0 || block.is_none() => Ok(Some(seq)),
        (_, block) => Ok(block),
    }
}

/// `parent_hash`, else `parent_block_hash`; where both say something they must say the same.
fn parent(fields: &Fields) -> Result<Option<u64>, Trouble> {
    match (fields.parent_hash, fields.store.parent) {
        (Some(parent), Some(alias)) if parent != alias => Err(Trouble::Bad(Skip::Conflict)),
        (parent, alias) => Ok(parent.or(alias)),
    }
}
