//! What is passed on to one server: `/cache/prefetches`, `/cache/delete`.

use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::keys;
use super::pins;
use super::reply::{Reply, write_detail};
use crate::fleet::answer::object;
use crate::fleet::books::{DELETION, write_key};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::courier::{Class, Method, Order, Reply as Upstream};
use crate::fleet::form::{self, Sequence, Tier, python_repr};
use crate::fleet::key::Key;
use crate::fleet::vault::Pinning;
use crate::http::Request;
use crate::limits::{COST_BLOCK, FLEET_BATCH_KEYS, FLEET_READ_BYTES, FLEET_STEP, FLEET_UPSTREAM_TIME};

#[derive(Serialize)]
struct Submitted<'a> {
    instance_id: &'a str,
    request_id: &'a str,
    chunks: i64,
    status: &'a str,
}

#[derive(Serialize)]
struct Deleted<'a> {
    instance_id: &'a str,
    requested: u64,
    affected: u64,
    skipped: u64,
    status: &'static str,
}

/// A DELETE whose keys are written as they come.
struct Deletion {
    body: Vec<u8>,
    keys: usize,
}

/// Fields of a server's answer to a prefetch.
const SUBMITTED: &[&str] = &["request_id", "chunks", "status"];
/// Fields of its answer to a deletion.
const DELETED: &[&str] = &["deleted", "skipped", "ok", "error"];

/// `POST /cache/prefetches`
pub async fn prefetch(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let read = fleet.read(request, |kind, body| {
        let form = form::prefetch(kind, body)?;
        let mut body = Vec::new();
        form.write(&mut body);
        Ok((form.instance_id, body))
    });
    let (id, body) = match read.await {
        Ok(read) => read,
        Err(reject) => return reply.reject(&reject),
    };
    let id = &id;
    let Some(order) = order(fleet, id, Method::Post, &["prefetches"], Some(body)) else {
        return unknown(id, reply);
    };
    fleet.counts.prefetches.add(1);
    let answer = read_object(fleet, order, SUBMITTED).await;
    match answer.as_ref().map_err(String::clone).and_then(|answer| submitted(id, answer)) {
        Ok(submitted) => reply.ok(&submitted),
        Err(reason) => failed(fleet, &format!("prefetch submit to {}", python_repr(id)), &reason, reply),
    }
}

/// `GET /cache/prefetches/{instance}/{request}`
pub async fn status(fleet: &Rc<Coordinator>, id: &str, request_id: &str, reply: Reply<'_>) {
    let Some(order) = order(fleet, id, Method::Get, &["prefetches", request_id], None) else {
        return unknown(id, reply);
    };
    match fleet.send(order).await {
        Ok(answer) if can_be_relayed(answer.status) => relay(fleet, answer, reply).await,
        outcome => {
            let reason = outcome.map_or_else(
                |failure| failure.to_string(),
                |answer| format!("it answered {}", answer.status),
            );
            failed(fleet, &format!("prefetch status from {}", python_repr(id)), &reason, reply);
        }
    }
}

/// `POST /cache/delete`
pub async fn delete(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let chunk_size = fleet.settings.chunk_size;
    let form = match fleet
        .read(request, move |kind, body| form::cache_delete(kind, body, chunk_size as usize))
        .await
    {
        Ok(form) => form,
        Err(reject) => return reply.reject(&reject),
    };
    let id = &form.instance_id;
    if fleet.registry.borrow().get(id).is_none() {
        return unknown(id, reply);
    }
    let sequence = Arc::new(form.sequence);
    if let Err(reject) = sequence.check() {
        return reply.reject(&reject);
    }
    let requested = match keys::resolve(&sequence, chunk_size) {
        Ok(keys) => keys.chunks(),
        Err(fault) => return reply.detail(400, &fault.to_string()),
    };
    let mut answer = Deleted { instance_id: id, requested, affected: 0, skipped: 0, status: "deleted" };
    if requested == 0 {
        answer.status = "noop";
        return reply.ok(&answer);
    }
    if let Err(reason) = delete_all(fleet, &sequence, form.tier, form.force, &mut answer).await {
        return failed(fleet, &format!("cache delete on {}", python_repr(id)), &reason, reply);
    }
    if form.force
        && form.tier != Tier::L1
        && let Err(reason) = pins::apply(fleet, &sequence, Pinning::Drop).await
    {
        return reply.unsaved(&reason);
    }
    reply.ok(&answer);
}

/// Sends the keys of a sequence in batches, one after the other, and sums the answers.
async fn delete_all(
    fleet: &Rc<Coordinator>,
    sequence: &Sequence,
    tier: Tier,
    force: bool,
    answer: &mut Deleted<'_>,
) -> Result<(), String> {
    let mut keys = keys::resolve(sequence, fleet.settings.chunk_size).map_err(|fault| fault.to_string())?;
    let holds_back = !force && tier != Tier::L1;
    let mut deletion = Deletion::new();
    loop {
        let mut taken = 0;
        {
            let books = fleet.books.borrow();
            let room = FLEET_STEP.min(FLEET_BATCH_KEYS - deletion.keys);
            for key in keys.by_ref().take(room) {
                taken += 1;
                if holds_back && books.pinned(&key) > 0 {
                    answer.skipped += 1;
                } else {
                    deletion.add(&key);
                }
            }
        }
        fleet.seat.turn.spend(taken * COST_BLOCK).await;
        if deletion.keys == FLEET_BATCH_KEYS || (taken == 0 && deletion.keys > 0) {
            let batch = std::mem::replace(&mut deletion, Deletion::new());
            let (deleted, skipped) = delete_some(fleet, answer.instance_id, batch.end(tier, force)).await?;
            answer.affected += deleted;
            answer.skipped += skipped;
        } else if taken == 0 {
            return Ok(());
        }
    }
}

impl Deletion {
    fn new() -> Self {
        Self { body: DELETION.to_vec(), keys: 0 }
    }

    fn add(&mut self, key: &Key<'_>) {
        if self.keys > 0 {
            self.body.push(b',');
        }
        write_key(key, &mut self.body);
        self.keys += 1;
    }

    /// The whole body.
    fn end(mut self, tier: Tier, force: bool) -> Vec<u8> {
        let rest = format!("],\"tier\":\"{}\",\"force\":{force}}}", tier.name());
        self.body.extend_from_slice(rest.as_bytes());
        self.body
    }
}

/// What a server says it deleted and skipped of one batch.
async fn delete_some(fleet: &Rc<Coordinator>, id: &str, body: Vec<u8>) -> Result<(u64, u64), String> {
    let order =
        order(fleet, id, Method::Delete, &["objects"], Some(body)).ok_or("it is not registered any more")?;
    let answer = read_object(fleet, order, DELETED).await?;
    if answer.get("ok") == Some(&Value::Bool(false)) {
        let error = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Err(format!("it could not delete: {error}"));
    }
    let number =
        |name| answer.get(name).map_or(Some(0), Value::as_u64).ok_or(format!("its answer has a bad {name}"));
    Ok((number("deleted")?, number("skipped")?))
}

/// Carries an order out; the wanted fields of the object that must answer it.
async fn read_object(
    fleet: &Coordinator,
    order: Order,
    wanted: &'static [&'static str],
) -> Result<Map<String, Value>, String> {
    let answer = fleet.send(order).await.map_err(|failure| failure.to_string())?;
    fleet.look(answer, move |answer| object(&answer, wanted)).await
}

/// An order for a registered instance that a client waits for.
fn order(
    fleet: &Coordinator,
    id: &str,
    method: Method,
    segments: &[&str],
    body: Option<Vec<u8>>,
) -> Option<Order> {
    let (ip, port) = fleet.address(id)?;
    Some(Order {
        ticket: 0,
        method,
        ip,
        port,
        segments: segments.iter().map(|&segment| segment.to_owned()).collect(),
        query: Vec::new(),
        body,
        class: Class::Relay,
        total: FLEET_UPSTREAM_TIME,
    })
}

fn submitted<'a>(instance_id: &'a str, answer: &'a Map<String, Value>) -> Result<Submitted<'a>, String> {
    let bad = |name: &str| format!("its answer has a bad {name}");
    let text = |name, absent| match answer.get(name).map_or(Some(absent), Value::as_str) {
        Some(text) if text.len() <= FLEET_READ_BYTES => Ok(text),
        _ => Err(bad(name)),
    };
    let chunks = answer.get("chunks").map_or(Some(0), Value::as_i64).ok_or_else(|| bad("chunks"))?;
    Ok(Submitted {
        instance_id,
        request_id: text("request_id", "")?,
        chunks,
        status: text("status", "submitted")?,
    })
}

/// Whether a status stands for a whole answer; 304 answers only who asked whether something changed.
fn can_be_relayed(status: u16) -> bool {
    (200..600).contains(&status) && status != 304
}

/// Hands an answer on with its status, whatever it is; a body that is not JSON becomes a `detail`.
async fn relay(fleet: &Coordinator, answer: Upstream, reply: Reply<'_>) {
    let status = answer.status;
    if status == 204 {
        return reply.no_content();
    }
    let look = |Upstream { body, .. }: Upstream| {
        let text = std::str::from_utf8(&body).ok();
        if text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()) {
            return body;
        }
        let mut detail = Vec::new();
        write_detail(&mut detail, &String::from_utf8_lossy(&body));
        detail
    };
    let body = fleet.look(answer, look).await;
    reply.copy(&fleet.seat.turn, status, &body).await;
}

fn unknown(id: &str, reply: Reply<'_>) {
    reply.detail(404, &format!("no MP server registered with instance_id={}", python_repr(id)));
}

fn failed(fleet: &Coordinator, what: &str, reason: &str, reply: Reply<'_>) {
    fleet.counts.relay_errors.add(1);
    if !fleet.gives_up() {
        tracing::warn!(reason, "{what} failed");
    }
    reply.detail(502, &format!("{what} failed: {reason}"));
}
