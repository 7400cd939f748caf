//! The startup resync: an instance lists what storage holds.

use std::rc::Rc;

use crate::fleet::coordinator::Coordinator;
use crate::fleet::courier::{Class, Method, Order};
use crate::fleet::resync::{Ask, Entry, Outcome, Read, Step};
use crate::limits::{COST_BLOCK, FLEET_STEP, FLEET_UPSTREAM_TIME};
use crate::rt::sleep;

/// Runs once, to its end.
pub(in crate::fleet) async fn resync(fleet: Rc<Coordinator>) {
    fleet.books.borrow_mut().begin_resync();
    loop {
        let now = fleet.now();
        let step = {
            let registry = fleet.registry.borrow();
            let ids = registry.list().map(|member| member.instance.id.as_str());
            fleet.resync.borrow_mut().poll(now, ids, &mut fleet.rng.borrow_mut())
        };
        match step {
            Step::Wait(until) => {
                let pause = until.saturating_sub(fleet.now());
                if fleet.seat.stopping.wait_at_most(sleep(pause)).await.is_none() {
                    return;
                }
            }
            Step::Ask(ask) => list(&fleet, ask).await,
            Step::Busy | Step::Over => break,
        }
    }
    fleet.books.borrow_mut().end_resync();
    report(&fleet);
}

/// Asks for one page and takes it in.
async fn list(fleet: &Rc<Coordinator>, ask: Ask) {
    let instance = ask.instance.clone();
    let reply = match fleet.address(&instance) {
        None => Err("it is not registered any more".to_owned()),
        Some((ip, port)) => {
            let order = Order {
                ticket: 0,
                method: Method::Get,
                ip,
                port,
                segments: vec!["objects".to_owned()],
                query: ask.query,
                body: None,
                class: Class::Resync,
                total: FLEET_UPSTREAM_TIME,
            };
            fleet
                .send(order)
                .await
                .map(|reply| (reply.status, reply.body))
                .map_err(|failure| failure.to_string())
        }
    };
    let replied = fleet.resync.borrow_mut().replied(reply);
    if let Err(reason) = replied {
        tracing::warn!(instance, reason, "resync: this instance cannot list what is stored");
        return;
    }
    loop {
        let read = fleet.resync.borrow_mut().read(FLEET_STEP);
        match read {
            Read::More => fleet.seat.ingest.spend(FLEET_STEP as u32 * COST_BLOCK).await,
            Read::Page { entries, failed } => {
                enter(fleet, &entries).await;
                if let Some(reason) = failed {
                    tracing::warn!(instance, reason, "resync: this instance's listing is broken off");
                }
                return;
            }
            Read::Failed(reason) => {
                tracing::warn!(instance, reason, "resync: a page cannot be read");
                return;
            }
            Read::Nothing => return,
        }
    }
}

async fn enter(fleet: &Rc<Coordinator>, entries: &[Entry]) {
    let _alone = fleet.batches.enter().await;
    for some in entries.chunks(FLEET_STEP) {
        {
            let mut books = fleet.books.borrow_mut();
            for entry in some {
                books.listed(&entry.key, entry.bytes);
            }
        }
        fleet.seat.ingest.spend(FLEET_STEP as u32 * COST_BLOCK).await;
    }
}

fn report(fleet: &Coordinator) {
    let resync = fleet.resync.borrow();
    let tally = resync.tally();
    match resync.outcome() {
        Outcome::Done => tracing::info!(
            instance = tally.instance,
            pages = tally.pages,
            entries = tally.entries,
            skipped = tally.skipped,
            "resync: what is stored is known"
        ),
        Outcome::GaveUp => tracing::warn!(
            tried = tally.tried,
            entries = tally.entries,
            "resync: given up; what is stored is known from events only"
        ),
        Outcome::Running | Outcome::Disabled => {}
    }
}
