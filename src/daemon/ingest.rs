//! The way of a message into the shard.
//!
//! A batch goes to every pool publisher of the endpoint and to the engine publishers whose registered rank is
//! the batch's, or to all of them when there is none.

use super::Daemon;
use super::local::{self, Local};
use super::streams::Socket;
use crate::event::{self, Batch, Event};
use crate::index::apply::Cursor;
use crate::index::publisher::Class;
use crate::limits::COST_BLOCK;
use crate::rt::Pass;
use crate::stream::trust::Place;
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_64;

/// Blocks applied before others have their turn.
const APPLY_STEP: usize = 64;
/// Sequence number that ends a replay; on the PUB socket it means nothing.
const END_OF_REPLAY: u64 = u64::MAX;

/// One message of an endpoint.
pub async fn take(daemon: &Rc<Daemon>, socket: &Socket, frames: &[zmq::Message]) {
    let publishers = socket.publishers();
    let Some((topic, sequence, payload)) = numbered(frames) else {
        for local in publishers.iter() {
            local.listing.stats.malformed.add(1);
            local.listing.stats.fail(format!("a message of {} frames is no batch", frames.len()));
        }
        return;
    };
    if sequence == END_OF_REPLAY {
        if !payload.is_empty() {
            publishers.iter().for_each(|local| local.listing.stats.malformed.add(1));
        }
        return;
    }
    let content = xxh3_64(payload);
    let mut following = None;
    for local in publishers.iter() {
        let stats = &local.listing.stats;
        stats.messages.add(1);
        stats.bytes.add(payload.len() as u64);
        let pass = local.gate.enter().await;
        let follows = local.topics.borrow_mut().advance(topic, sequence, content);
        match follows {
            None => local::live(daemon, local, topic, sequence, content, payload).await,
            Some(place) if following.is_none() => following = Some((local, place, pass)),
            Some(place) => {
                let other = (local, place, pass);
                apply_to(daemon, socket, [other], payload).await;
            }
        }
    }
    if let Some(first) = following {
        apply_to(daemon, socket, [first], payload).await;
    }
}

fn numbered(frames: &[zmq::Message]) -> Option<(&[u8], u64, &[u8])> {
    let [topic, sequence, payload] = frames else { return None };
    let sequence: [u8; 8] = sequence[..].try_into().ok()?;
    Some((&topic[..], u64::from_be_bytes(sequence), &payload[..]))
}

type Following<'a> = (&'a Rc<Local>, (usize, Place), Pass);

async fn apply_to<const N: usize>(
    daemon: &Rc<Daemon>,
    socket: &Socket,
    following: [Following<'_>; N],
    payload: &[u8],
) {
    let mut batch = daemon.streams.take_batch();
    let decoded = event::decode(payload, &mut batch);
    let ranked = socket.is_ranked(&daemon.directory, batch.dp_rank);
    for (local, (stream, place), _pass) in following {
        match decoded {
            Err(refusal) => local.listing.stats.refuse(refusal),
            Ok(()) if local.takes(batch.dp_rank, ranked) => {
                local.feed(stream);
                apply(daemon, local, payload, &batch).await;
                if clears_all(local, &batch) {
                    local::clear(local, stream, place);
                }
            }
            Ok(()) => {}
        }
        local.applied(stream, place.sequence);
        local.weigh(stream, place);
        if local.listing.stats.is_settling() {
            local.tell();
        }
    }
    daemon.streams.give_batch(batch);
}

/// A batch that waited; returns whether it cleared everything.
pub async fn apply_held(daemon: &Rc<Daemon>, local: &Rc<Local>, stream: usize, payload: &[u8]) -> bool {
    let mut batch = daemon.streams.take_batch();
    let mut cleared = false;
    if let Err(refusal) = event::decode(payload, &mut batch) {
        local.listing.stats.refuse(refusal);
    } else {
        let socket = daemon.streams.socket(local);
        let ranked = socket.is_some_and(|socket| socket.is_ranked(&daemon.directory, batch.dp_rank));
        if local.takes(batch.dp_rank, ranked) {
            local.feed(stream);
            apply(daemon, local, payload, &batch).await;
            cleared = clears_all(local, &batch);
        }
    }
    daemon.streams.give_batch(batch);
    cleared
}

/// Whether the batch takes everything that a publisher holds. A pool's envelope names one backend of one tenant.
fn clears_all(local: &Local, batch: &Batch) -> bool {
    let engine = local.listing.key.class == Class::Engine;
    let all = |event: &Event| matches!(event, Event::Clear(clear) if !clear.medium.is_some() && (engine || clear.envelope.is_none()));
    batch.events.iter().any(all)
}

async fn apply(daemon: &Rc<Daemon>, local: &Local, payload: &[u8], batch: &Batch) {
    let stats = &local.listing.stats;
    daemon.streams.events.set(daemon.streams.events.get() + batch.events.len() as u64);
    stats.publisher.batches.add(1);
    stats.publisher.unknown_fields.add(u64::from(batch.unknown_fields));
    stats.last_event_ms.set(daemon.seat.ingest.now_ms());
    batch.skipped.iter().for_each(|skipped| stats.skip(skipped.reason));
    let mut cursor = Cursor::default();
    // the number may belong to somebody else once this publisher is gone
    while !local.gone.is_set() {
        let number = local.number.get();
        let done = daemon.shard.borrow_mut().apply(number, payload, batch, &mut cursor, APPLY_STEP);
        let blocks = if done { batch.hashes.len() % APPLY_STEP + 1 } else { APPLY_STEP };
        daemon.seat.ingest.spend(COST_BLOCK * blocks as u32).await;
        if done {
            break;
        }
    }
    daemon.learn_contexts();
    daemon.carry_mail();
}
