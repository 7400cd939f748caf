//! What servers store, look up and delete: `POST /quota/events`.

use std::rc::Rc;

use serde::Serialize;

use super::reply::Reply;
use crate::fleet::books::Books;
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form::{self, Event, Events, EventsReader, Kind, Progress, Reject};
use crate::http::Request;
use crate::limits::{COST_BLOCK, FLEET_STEP};

#[derive(Serialize)]
struct Recorded {
    recorded: usize,
}

/// `POST /quota/events`. Read whole before anything is applied; batches do not mix.
pub async fn events(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let Events { instance_id, seq, events } = match read(fleet, request).await {
        Ok(batch) => batch,
        Err(reject) => {
            fleet.counts.batches_refused.add(1);
            return reply.reject(&reject);
        }
    };
    let _alone = fleet.batches.enter().await;
    let recorded = events.len();
    fleet.books.borrow_mut().heard(&instance_id, seq);
    let mut events = events.into_iter();
    while !events.as_slice().is_empty() {
        let taken = apply(&mut fleet.books.borrow_mut(), events.by_ref().take(FLEET_STEP));
        fleet.seat.turn.spend(taken * COST_BLOCK).await;
    }
    fleet.counts.batches.add(1);
    reply.ok(&Recorded { recorded });
}

/// Applies events; how many there were.
fn apply<'a>(books: &mut Books, events: impl Iterator<Item = Event<'a>>) -> u32 {
    let mut taken = 0;
    for Event { kind, key, bytes } in events {
        match kind {
            // the books count what they have no room for
            Kind::Store => _ = books.store(&key, bytes),
            Kind::Lookup => books.lookup(&key),
            Kind::Delete => books.delete(&key),
        }
        taken += 1;
    }
    taken
}

/// Reads a report in steps where it is spelled as usual, else as other long bodies are read.
async fn read<'a>(fleet: &Coordinator, request: &Request<'a>) -> Result<Events<'a>, Reject> {
    let mut reader = EventsReader::new(request.content_type, request.body);
    loop {
        match reader.step(FLEET_STEP) {
            Progress::More => fleet.seat.turn.spend(FLEET_STEP as u32 * COST_BLOCK).await,
            Progress::Done(batch) => return Ok(batch),
            Progress::Unusual => break,
        }
    }
    fleet.read(request, |kind, body| form::events(kind, body).map(Events::into_owned)).await
}
