//! Pins: `/cache/pins`.

use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use super::keys::{self, WireKey};
use super::reply::Reply;
use crate::fleet::books::PinListing;
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form::{self, Sequence};
use crate::fleet::vault::{Change, Pinning};
use crate::http::Request;
use crate::limits::{COST_BLOCK, COST_LOOKUP, FLEET_STEP};

#[derive(Serialize)]
struct Changed {
    requested: u64,
    affected: u64,
    status: &'static str,
}

#[derive(Serialize)]
struct Page {
    total: usize,
    pins: Vec<Pin>,
}

#[derive(Serialize)]
struct Pin {
    key: WireKey,
    pin_count: u32,
}

/// `POST /cache/pins`
pub async fn pin(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    change(fleet, request, Pinning::Pin, reply).await;
}

/// `DELETE /cache/pins`
pub async fn unpin(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    change(fleet, request, Pinning::Unpin, reply).await;
}

async fn change(fleet: &Rc<Coordinator>, request: &Request<'_>, how: Pinning, reply: Reply<'_>) {
    let chunk_size = fleet.settings.chunk_size;
    let named = fleet.read(request, move |kind, body| form::pins(kind, body, chunk_size as usize)).await;
    let sequence = match named {
        Ok(sequence) => Arc::new(sequence),
        Err(reject) => return reply.reject(&reject),
    };
    let (requested, affected) = match keys::resolve(&sequence, chunk_size) {
        Ok(keys) => (keys.chunks(), keys.keys()),
        Err(fault) => return reply.detail(400, &fault.to_string()),
    };
    match apply(fleet, &sequence, how).await {
        Ok(()) => {
            let status = if how == Pinning::Pin { "pinned" } else { "unpinned" };
            reply.ok(&Changed { requested, affected, status });
        }
        Err(reason) => reply.unsaved(&reason),
    }
}

/// Changes the pins of all keys of a sequence, which can be resolved: on disk first, where there is one.
pub(super) async fn apply(
    fleet: &Rc<Coordinator>,
    sequence: &Arc<Sequence>,
    how: Pinning,
) -> Result<(), String> {
    let chunk_size = fleet.settings.chunk_size;
    let entered = fleet.change().await;
    fleet.save(&entered, || durable(sequence.clone(), chunk_size, how)).await?;
    let mut keys = keys::resolve(sequence, chunk_size).map_err(|fault| fault.to_string())?;
    let mut refused = 0;
    loop {
        let mut done = 0;
        {
            let mut books = fleet.books.borrow_mut();
            for key in keys.by_ref().take(FLEET_STEP) {
                match how {
                    Pinning::Pin => refused += u64::from(books.pin(&key).is_none()),
                    Pinning::Unpin => _ = books.unpin(&key),
                    Pinning::Drop => _ = books.drop_pins(&key),
                }
                done += 1;
            }
        }
        if done == 0 {
            break;
        }
        fleet.seat.turn.spend(done * COST_BLOCK).await;
    }
    if refused > 0 { Err(format!("the books are full: {refused} keys are not pinned")) } else { Ok(()) }
}

/// The change for the disk. Its keys are resolved again by the writer: a million tokens are less than their keys.
fn durable(sequence: Arc<Sequence>, chunk_size: u64, how: Pinning) -> Change {
    let bytes = size_of_val(&*sequence.token_ids) + sequence.model_name.len() + sequence.cache_salt.len();
    let keys = Box::new(move |each: &mut dyn FnMut(&crate::fleet::key::Key<'_>)| {
        if let Ok(keys) = keys::resolve(&sequence, chunk_size) {
            keys.for_each(|key| each(&key));
        }
    });
    Change::Pins { how, keys, bytes }
}

/// `GET /cache/pins`
pub async fn list(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let wanted = match form::pins_query(request.query) {
        Ok(wanted) => wanted,
        Err(reject) => return reply.reject(&reject),
    };
    let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let mut listing = PinListing::new(
        wanted.cache_salt.as_deref(),
        wanted.model_name.as_deref(),
        number(wanted.offset),
        number(wanted.limit),
    );
    while !fleet.books.borrow().list_pins(&mut listing, FLEET_STEP) {
        fleet.seat.turn.spend(FLEET_STEP as u32 * COST_LOOKUP).await;
    }
    let (total, page) = listing.into_parts();
    let pins = page.into_iter().map(|(key, pin_count)| Pin { key: WireKey::of(key), pin_count }).collect();
    reply.ok(&Page { total, pins });
}
