//! What the envelope of an RFC event says against its registration. The envelope wins; nil, and a tenant
//! `default`, leave it to the registration.

use super::apply::Reading;
use super::context::{ContextKey, Lora};
use super::publisher::{Class, Publisher};
use crate::event::{Batch, Envelope, Skip, Span};
use xxhash_rust::xxh3::xxh3_64;

/// The batch's rank, else the registered one; the envelope's before both. A pool has none.
pub(super) fn rank(publisher: &Publisher, batch: &Batch, envelope: Option<&Envelope>) -> u32 {
    match publisher.registration.class {
        Class::Pool => 0,
        Class::Engine => envelope
            .and_then(|envelope| envelope.dp_rank)
            .or(batch.dp_rank)
            .unwrap_or(publisher.registration.rank),
    }
}

pub(super) fn check_local(locality: Span, payload: &[u8]) -> Result<(), Skip> {
    match locality.non_empty(payload) {
        Some(locality) if !locality.eq_ignore_ascii_case("local") => Err(Skip::Locality),
        _ => Ok(()),
    }
}

/// What a pool's names are mixed with: the same object may be put under several tenants, and each copy goes
/// alone. 0 for an engine, and under the registered tenant.
pub(super) fn name_salt(publisher: &Publisher, reading: Reading<'_>, envelope: Option<&Envelope>) -> u64 {
    let pool = envelope.filter(|_| publisher.registration.class == Class::Pool);
    match pool.and_then(|envelope| tenant(publisher, reading, envelope)) {
        Some(tenant) if tenant != publisher.registration.tenant => xxh3_64(tenant.as_bytes()),
        _ => 0,
    }
}

/// The tenant that an envelope names; `default` under a registration with another tenant names none.
pub(super) fn tenant(publisher: &Publisher, reading: Reading<'_>, envelope: &Envelope) -> Option<String> {
    let stated = reading.text(envelope.tenant_id)?;
    let registered = &publisher.registration.tenant;
    Some(if stated == "default" { registered.clone() } else { stated.to_owned() })
}

pub(super) fn apply_envelope(key: &mut ContextKey, reading: Reading<'_>, envelope: &Envelope) {
    if let Some(model) = reading.text(envelope.model_name) {
        model.clone_into(&mut key.model);
    }
    if let Some(salt) = reading.text(envelope.additional_salt) {
        salt.clone_into(&mut key.additional_salt);
    }
    if let Some(lora) = reading.text(envelope.lora_name) {
        key.lora = Lora::Name(lora.to_owned());
    }
    if let Some(tenant) = reading.text(envelope.tenant_id).filter(|tenant| *tenant != "default") {
        tenant.clone_into(&mut key.tenant);
    }
}

/// Counts what an envelope says that the registration or the stream's order does not.
pub(super) fn observe_envelope(publisher: &mut Publisher, reading: Reading<'_>, envelope: Option<&Envelope>) {
    let Some(envelope) = envelope else { return };
    let registration = &publisher.registration;
    let differs =
        |span: Span, registered: &str| reading.text(span).is_some_and(|stated| stated != registered);
    let disagrees = differs(envelope.model_name, &registration.model)
        || differs(envelope.additional_salt, &registration.additional_salt)
        || differs(envelope.lora_name, &registration.lora_name)
        || envelope.block_size.is_some_and(|size| size != registration.block_size)
        || reading
            .text(envelope.tenant_id)
            .is_some_and(|tenant| tenant != "default" && tenant != registration.tenant);
    if disagrees {
        publisher.stats.envelope_disagreements.add(1);
    }
    if let Some(id) = envelope.event_id {
        match publisher.last_event_id {
            Some(last) if id <= last => publisher.stats.event_id_regressions.add(1),
            Some(last) if id > last + 1 => publisher.stats.event_id_jumps.add(1),
            _ => {}
        }
        publisher.last_event_id = Some(id);
    }
}
