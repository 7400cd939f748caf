//! Stored chunks anywhere in a prompt: `/blend`.

use std::rc::Rc;

use serde::Serialize;

use super::reply::Reply;
use crate::fleet::blend::{Match as Found, Range};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form;
use crate::http::Request;
use crate::limits::{COST_LOOKUP, COST_TOKEN, FLEET_STEP, FLEET_TOKEN_STEP};

#[derive(Serialize)]
struct Inserted {
    inserted: u64,
}

#[derive(Serialize)]
struct Removed {
    removed: u64,
}

#[derive(Serialize)]
struct Matches<'a> {
    matches: Vec<Match<'a>>,
}

#[derive(Serialize)]
struct Match<'a> {
    object_key: &'a str,
    old_st: u64,
    cur_st: u64,
}

/// `POST /blend/fingerprints`
pub async fn add(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let ranges = match fleet.read(request, form::blend_register).await {
        Ok(ranges) => ranges,
        Err(reject) => return reply.reject(&reject),
    };
    let turn = &fleet.seat.turn;
    let mut inserted = 0;
    for range in &ranges {
        turn.spend(COST_LOOKUP).await;
        let published = Range {
            scope: &range.model_scope,
            tokens: &range.tokens,
            object_keys: &range.object_keys,
            old_st_base: range.old_st_base,
        };
        let Some(mut publishing) = fleet.blend.borrow().publish(published) else { continue };
        while fleet.blend.borrow_mut().publish_step(&mut publishing, FLEET_TOKEN_STEP) {
            turn.spend(FLEET_TOKEN_STEP as u32 * COST_TOKEN).await;
        }
        turn.spend(range.tokens.len().min(FLEET_TOKEN_STEP) as u32 * COST_TOKEN).await;
        inserted += publishing.inserted();
    }
    fleet.discard(request, ranges).await;
    reply.ok(&Inserted { inserted });
}

/// `DELETE /blend/fingerprints`
pub async fn remove(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let keys = match fleet.read(request, form::blend_remove).await {
        Ok(keys) => keys,
        Err(reject) => return reply.reject(&reject),
    };
    let mut removed = 0;
    for key in &keys {
        loop {
            let some = fleet.blend.borrow_mut().remove_some(key, FLEET_STEP);
            removed += some;
            fleet.seat.turn.spend((some as u32 + 1) * COST_LOOKUP).await;
            if some < FLEET_STEP as u64 {
                break;
            }
        }
    }
    fleet.discard(request, keys).await;
    reply.ok(&Removed { removed });
}

/// `POST /blend/match`
pub async fn find(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let prompt = match fleet.read(request, form::blend_match).await {
        Ok(prompt) => prompt,
        Err(reject) => return reply.reject(&reject),
    };
    let mut matching = fleet.blend.borrow().find(&prompt.model_scope, &prompt.tokens);
    while fleet.blend.borrow().find_step(&mut matching, FLEET_TOKEN_STEP) {
        fleet.seat.turn.spend(FLEET_TOKEN_STEP as u32 * COST_TOKEN).await;
    }
    let (found, seen) = matching.into_parts();
    if found.len() <= FLEET_STEP {
        return reply.ok(&Matches::of(&found));
    }
    let answer = fleet.aside(move || {
        drop(seen);
        serde_json::to_vec(&Matches::of(&found)).unwrap_or_default()
    });
    reply.copy(&fleet.seat.turn, 200, &answer.await).await;
}

impl<'a> Matches<'a> {
    fn of(found: &'a [Found]) -> Self {
        let matches = found.iter().map(|found| Match {
            object_key: &found.object_key,
            old_st: found.old_st,
            cur_st: found.cur_st,
        });
        Self { matches: matches.collect() }
    }
}
