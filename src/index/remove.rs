//! What removals and clears take away.

use super::apply::{Reading, Work};
use super::chain::NameSource;
use super::envelope::{check_local, name_salt, observe_envelope, rank, tenant};
use super::keyed::keyed_object;
use super::publisher::{Class, Publisher, Scope};
use super::run::Place;
use super::shard::Shard;
use crate::event::{Clear, Envelope, Remove, Skip};

/// The lanes that a removal or a clear touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    rank: Option<u32>,
    backend: Option<u32>,
    medium: Option<u8>,
    /// Where the medium has no copy, any medium will do.
    or_any_medium: bool,
}

impl Lanes {
    fn any_medium(self) -> Self {
        Self { medium: None, ..self }
    }

    fn take(self, publisher: &Publisher, lane: u8) -> bool {
        let lane = &publisher.lanes[usize::from(lane)];
        self.rank.is_none_or(|rank| rank == lane.rank)
            && self.backend.is_none_or(|backend| backend == lane.backend)
            && self.medium.is_none_or(|medium| medium == lane.medium)
    }
}

impl Shard {
    pub(super) fn begin_remove(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        remove: &Remove,
    ) -> Result<Option<Work>, Skip> {
        let payload = reading.payload;
        let envelope = reading.envelope(remove.envelope);
        observe_envelope(publisher, reading, envelope);
        check_local(remove.locality, payload)?;
        if !publisher.carries_prefix(remove.group_idx, remove.spec_kind.text(payload)) {
            return Err(Skip::Group);
        }
        remove.fault.map_or(Ok(()), Err)?;
        let object = match envelope {
            Some(envelope) => keyed_object(reading, remove.hashes, envelope)?,
            None => None,
        };
        let pool = publisher.registration.class == Class::Pool;
        let medium = self.media.number(remove.medium.bytes(payload), pool)?;
        let mut lanes = Lanes {
            rank: Some(rank(publisher, reading.batch, envelope)),
            backend: Some(0),
            medium: Some(medium),
            or_any_medium: pool,
        };
        let backend = envelope.and_then(|envelope| reading.text(envelope.backend_id)).unwrap_or("");
        lanes.backend = Some(publisher.known_backend(backend).unwrap_or(u32::MAX));
        let salt = name_salt(publisher, reading, envelope);
        if envelope.is_some_and(|envelope| whole_object(publisher, envelope)) {
            lanes = lanes.any_medium();
        }
        self.check_depth(publisher, reading, remove, envelope, salt);
        if publisher.parts.needed > 0 {
            let rank = object.as_ref().and_then(|object| object.tp_rank);
            lanes.rank = Some(Publisher::part_rank(rank)?);
        }
        let names =
            object.map_or(NameSource::Batch(remove.hashes), |object| NameSource::Owned(object.hashes));
        Ok(Some(Work::Remove { names, salt, remaining: remove.remaining, lanes, at: 0 }))
    }

    pub(super) fn check_depth(
        &self,
        publisher: &Publisher,
        reading: Reading<'_>,
        remove: &Remove,
        envelope: Option<&Envelope>,
        salt: u64,
    ) {
        let Some(stated) = envelope.and_then(|envelope| envelope.base_block_idx) else { return };
        let first = remove.hashes.of(&reading.batch.hashes).first();
        let known = first
            .and_then(|name| self.place_of(publisher, *name ^ salt))
            .and_then(|place| self.runs.depth(place));
        if known.is_some_and(|known| known != stated) {
            publisher.stats.depth_disagreements.add(1);
        }
    }

    pub(super) fn begin_clear(
        &mut self,
        publisher: &mut Publisher,
        reading: Reading<'_>,
        clear: &Clear,
    ) -> Result<Option<Work>, Skip> {
        let envelope = reading.envelope(clear.envelope);
        observe_envelope(publisher, reading, envelope);
        let pool = publisher.registration.class == Class::Pool;
        let medium = match reading.text(clear.medium) {
            Some(name) => Some(self.media.number(Some(name.as_bytes()), pool)?),
            None => None,
        };
        let backend = match envelope.and_then(|envelope| reading.text(envelope.backend_id)) {
            Some(name) if pool => Some(publisher.known_backend(name).unwrap_or(u32::MAX)),
            _ => None,
        };
        let rank = (!pool).then(|| rank(publisher, reading.batch, envelope));
        // as with stores, a pool's envelope without a tenant means the registered one
        let tenant = envelope.filter(|_| pool).map(|envelope| {
            let stated = tenant(publisher, reading, envelope);
            stated.unwrap_or_else(|| publisher.registration.tenant.clone())
        });
        let own = name_salt(publisher, reading, envelope);
        let lanes = Lanes { rank, backend, medium, or_any_medium: false };
        let touched: Vec<bool> =
            (0..publisher.lanes.len()).map(|lane| lanes.take(publisher, lane as u8)).collect();
        let takes = |lane: u8, salt| touched[usize::from(lane)] && (tenant.is_none() || salt == own);
        publisher.orphans.clear(takes);
        self.resolver.forget(publisher.number, takes);
        let holds = publisher.lanes.iter().zip(&touched).any(|(lane, touched)| *touched && lane.held > 0)
            || !publisher.parts.present.is_empty();
        Ok(holds.then_some(Work::Clear { lanes, tenant, segment: 0 }))
    }

    /// The only lane of a publisher that a removal touches.
    pub(super) fn only_lane(publisher: &Publisher, lanes: Lanes) -> Option<u8> {
        let mut all = (0..publisher.lanes.len() as u8).filter(|lane| lanes.take(publisher, *lane));
        all.next().filter(|_| publisher.parts.needed == 0 && all.next().is_none())
    }

    pub(super) fn remove(
        &mut self,
        publisher: &mut Publisher,
        hash: u64,
        salt: u64,
        lanes: Lanes,
        left: Option<u32>,
    ) {
        let mut removed = self.remove_on(publisher, hash, salt, lanes, left);
        if !removed && lanes.or_any_medium {
            removed = self.remove_on(publisher, hash, salt, lanes.any_medium(), left);
        }
        if !removed {
            publisher.stats.unknown_removals.add(1);
        }
    }

    pub(super) fn remove_on(
        &mut self,
        publisher: &mut Publisher,
        hash: u64,
        salt: u64,
        lanes: Lanes,
        left: Option<u32>,
    ) -> bool {
        let mut removed = false;
        let name = hash ^ salt;
        let place = self.next_place(publisher, name);
        for lane in 0..publisher.lanes.len() as u8 {
            if lanes.take(publisher, lane) {
                removed |= self.remove_name(publisher, name, place, lane, left)
                    || !publisher.orphans.is_empty() && publisher.orphans.remove(name, lane, left)
                    || self.resolver.cancel(hash, salt, publisher.number, lane);
            }
        }
        removed
    }

    pub(super) fn clear_segment(
        &mut self,
        publisher: &mut Publisher,
        lanes: Lanes,
        tenant: Option<&str>,
        segment: usize,
    ) -> usize {
        let mut found = std::mem::take(&mut self.apply.found);
        found.clear();
        let on = |lane: u8, place: Place| {
            lanes.take(publisher, lane)
                && tenant.is_none_or(|tenant| {
                    self.contexts.get(self.runs.get(place.run).context).key.tenant == tenant
                })
        };
        publisher.names.on_lanes(segment, on, &mut found);
        for (name, lane) in &found {
            let (names, mut ledger) = self.ledger(publisher);
            names.remove(*name, *lane, Some(0), &mut ledger);
        }
        let done = found.len();
        self.apply.found = found;
        done
    }

    /// Clears what is held by the dialect's names, once the publisher's own names are cleared; returns the blocks
    /// done, fewer than `budget` when that was all.
    pub(super) fn clear_plain(
        &mut self,
        publisher: &mut Publisher,
        lanes: Lanes,
        tenant: Option<&str>,
        budget: usize,
    ) -> usize {
        let Some(dialect) = publisher.speech.dialect() else { return 0 };
        let mut done = 0;
        for lane in 0..publisher.lanes.len() as u8 {
            while done < budget && lanes.take(publisher, lane) {
                let (_, ledger) = self.ledger(publisher);
                let of =
                    |context| tenant.is_none_or(|tenant| ledger.contexts.get(context).key.tenant == tenant);
                let Some((run, mut span)) = ledger.any_held(lane, of) else { break };
                let most = (budget - done).min(usize::from(u16::MAX)) as u16;
                span.start = span.start.max(span.end.saturating_sub(most));
                for at in span.start..span.end {
                    let name = self.runs.label(Place { run, at }, dialect);
                    publisher.names.set_copies(name, lane, 0);
                }
                self.release_plainly(publisher, run, span, lane);
                done += usize::from(span.end - span.start);
            }
        }
        done
    }
}

/// Whether a removal means the object on every medium: the registration says so, or the master's main
/// generation, which announces only the end of a whole object.
fn whole_object(publisher: &Publisher, envelope: &Envelope) -> bool {
    match publisher.registration.removal_scope {
        Some(scope) => scope == Scope::Object,
        None => envelope.has_object_key && envelope.dp_rank.is_none(),
    }
}
