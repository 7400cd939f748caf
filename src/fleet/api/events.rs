//! What servers store, look up and delete: `POST /quota/events`.

use std::rc::Rc;

use serde::Serialize;

use super::reply::Reply;
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form::{Event, EventsReader, Kind, Progress};
use crate::http::Request;
use crate::limits::{COST_BLOCK, FLEET_STEP};

#[derive(Serialize)]
struct Recorded {
    recorded: usize,
}

/// `POST /quota/events`. Read whole before anything is applied; batches do not mix.
pub async fn events(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let turn = &fleet.seat.turn;
    let mut reader = EventsReader::new(request.content_type, request.body);
    let batch = loop {
        match reader.step(FLEET_STEP) {
            Progress::More => turn.spend(FLEET_STEP as u32 * COST_BLOCK).await,
            Progress::Done(Ok(batch)) => break batch,
            Progress::Done(Err(reject)) => {
                fleet.counts.batches_refused.add(1);
                return reply.reject(&reject);
            }
        }
    };
    let _alone = fleet.batches.enter().await;
    fleet.books.borrow_mut().heard(&batch.instance_id, batch.seq);
    for some in batch.events.chunks(FLEET_STEP) {
        {
            let mut books = fleet.books.borrow_mut();
            for Event { kind, key, bytes } in some {
                match kind {
                    // the books count what they have no room for
                    Kind::Store => _ = books.store(key, *bytes),
                    Kind::Lookup => books.lookup(key),
                    Kind::Delete => books.delete(key),
                }
            }
        }
        turn.spend(some.len() as u32 * COST_BLOCK).await;
    }
    fleet.counts.batches.add(1);
    reply.ok(&Recorded { recorded: batch.events.len() });
}
