//! Eviction: after every pause a sweep over the salts that are over their limit, its victims sent to one instance.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec;

use serde_json::Value;

use crate::fleet::answer::object;
use crate::fleet::books::{Batch, DELETION, DELETION_END, Outcome, Plan, Planner, Rules};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::courier::{self, Class, Method, Order};
use crate::limits::{COST_LOOKUP, FLEET_BATCHES_AT_ONCE, FLEET_HALVINGS, FLEET_STEP, FLEET_UPSTREAM_TIME};
use crate::rt::sleep;

/// A sweep's victims on their way to one instance.
struct Dispatch {
    id: String,
    ip: String,
    port: u16,
    batches: RefCell<vec::IntoIter<Batch>>,
    /// Times that a refused batch may still be halved.
    halvings: Cell<usize>,
}

/// How a DELETE ended.
enum Verdict {
    Done,
    /// The server looked at it and would not: perhaps because of one key.
    Refused(String),
    /// Nobody did.
    Failed(String),
}

/// Sweeps after every pause until the reactor stops.
pub(in crate::fleet) async fn eviction(fleet: Rc<Coordinator>) {
    let Some(interval) = fleet.settings.eviction_pause() else { return };
    let rules = Rules {
        watermark: fleet.settings.trigger_watermark,
        ratio: fleet.settings.eviction_ratio,
        whole_chunks: fleet.settings.evict_whole_chunks,
        dry_run: fleet.settings.dry_run_eviction,
        interval,
    };
    let mut told = false;
    while fleet.seat.stopping.wait_at_most(sleep(interval)).await.is_some() {
        if fleet.is_holding() {
            if !told && fleet.now() > rules.interval + fleet.settings.resync_rules().max_wait {
                told = true;
                tracing::warn!("nothing is evicted yet: the listing of what is stored goes on");
            }
            continue;
        }
        let plan = plan(&fleet, rules).await;
        fleet.counts.sweeps.add(1);
        if plan.keys() == 0 {
            continue;
        }
        if rules.dry_run {
            fleet.counts.dry_keys.add(plan.keys() as u64);
            report(&plan, "dry run: a sweep would evict");
        } else {
            dispatch(&fleet, plan).await;
        }
    }
}

async fn plan(fleet: &Rc<Coordinator>, rules: Rules) -> Plan {
    let mut planner = Planner::new(&mut fleet.books.borrow_mut(), fleet.now(), rules);
    while !planner.step(&mut fleet.books.borrow_mut(), FLEET_STEP) {
        fleet.seat.ingest.spend(FLEET_STEP as u32 * COST_LOOKUP).await;
    }
    planner.into_plan()
}

/// One line a sweep; a line a salt only for those who look closely.
fn report(plan: &Plan, what: &'static str) {
    let bytes: u128 = plan.salts.iter().map(|salt| salt.bytes).sum();
    tracing::info!(salts = plan.salts.len(), keys = plan.keys(), bytes, "{what}");
    for salt in &plan.salts {
        tracing::debug!(
            salt = &*salt.salt,
            usage_bytes = salt.usage,
            limit_bytes = salt.limit,
            keys = salt.keys,
            bytes = salt.bytes,
            "{what}"
        );
    }
}

/// Sends all batches to the instance whose turn it is, several at a time; answers come in their own time.
async fn dispatch(fleet: &Rc<Coordinator>, plan: Plan) {
    let target = {
        let mut registry = fleet.registry.borrow_mut();
        let next = registry.next_target(&mut fleet.rng.borrow_mut());
        next.map(|instance| (instance.id.clone(), instance.ip.clone(), instance.http_port))
    };
    let Some((id, ip, port)) = target else {
        tracing::warn!(keys = plan.keys(), "no instance is registered: nothing is evicted");
        fleet.counts.unsent.add(plan.keys() as u64);
        for batch in plan.batches {
            answered(fleet, batch, Outcome::Unsent).await;
        }
        return;
    };
    report(&plan, "evicting");
    let lanes = plan.batches.len().min(FLEET_BATCHES_AT_ONCE);
    let batches = RefCell::new(plan.batches.into_iter());
    let dispatch = Rc::new(Dispatch { id, ip, port, batches, halvings: Cell::new(FLEET_HALVINGS) });
    for _ in 0..lanes {
        fleet.seat.ingest.spawn(deliver_all(fleet.clone(), dispatch.clone()));
    }
}

/// Sends one batch after the other, with others that do the same: bodies are written when they can go out. A batch
/// that is refused is halved, so that one key does not keep the others from being deleted.
async fn deliver_all(fleet: Rc<Coordinator>, dispatch: Rc<Dispatch>) {
    let mut halves = Vec::new();
    loop {
        let next = halves.pop().or_else(|| dispatch.batches.borrow_mut().next());
        let Some(mut batch) = next else { return };
        let body = write(&fleet, &mut batch).await;
        let keys = batch.len();
        if keys > 0 {
            match deliver(&fleet, &dispatch, body).await {
                Verdict::Done => answered(&fleet, batch, Outcome::Ok).await,
                Verdict::Refused(reason) if keys > 1 && dispatch.may_halve() => {
                    tracing::debug!(instance = dispatch.id, keys, reason, "a DELETE is refused: halved");
                    fleet.books.borrow_mut().refused(keys);
                    let second = batch.split_off(keys / 2);
                    halves.extend([second, batch]);
                }
                Verdict::Refused(_) | Verdict::Failed(_) if fleet.seat.stopping.is_set() => {
                    // nothing is planned any more
                    fleet.give_up(1);
                    return;
                }
                Verdict::Refused(reason) | Verdict::Failed(reason) => {
                    tracing::warn!(
                        instance = dispatch.id,
                        keys,
                        reason,
                        "a DELETE failed; its keys are planned again"
                    );
                    answered(&fleet, batch, Outcome::Failed).await;
                }
            }
        }
        if fleet.seat.stopping.is_set() {
            return;
        }
    }
}

/// Writes the body of a DELETE in steps.
async fn write(fleet: &Coordinator, batch: &mut Batch) -> Vec<u8> {
    let mut body = DELETION.to_vec();
    let mut next = 0;
    while next < batch.len() {
        next = fleet.books.borrow_mut().write_keys(batch, next, FLEET_STEP, &mut body);
        fleet.seat.ingest.spend(FLEET_STEP as u32 * COST_LOOKUP).await;
    }
    body.extend_from_slice(DELETION_END);
    body
}

/// Tells the books in steps how a DELETE ended.
async fn answered(fleet: &Coordinator, mut batch: Batch, outcome: Outcome) {
    while !batch.is_empty() {
        let rest = batch.split_off(FLEET_STEP);
        fleet.books.borrow_mut().answered(&batch, outcome, fleet.now());
        fleet.seat.ingest.spend(batch.len() as u32 * COST_LOOKUP).await;
        batch = rest;
    }
}

impl Dispatch {
    fn may_halve(&self) -> bool {
        let left = self.halvings.get();
        self.halvings.set(left.saturating_sub(1));
        left > 0
    }
}

async fn deliver(fleet: &Coordinator, dispatch: &Dispatch, body: Vec<u8>) -> Verdict {
    let order = Order {
        ticket: 0,
        method: Method::Delete,
        ip: dispatch.ip.clone(),
        port: dispatch.port,
        segments: vec!["objects".to_owned()],
        query: Vec::new(),
        body: Some(body),
        class: Class::Dispatch,
        total: FLEET_UPSTREAM_TIME,
    };
    fleet.counts.deletes_sent.add(1);
    let verdict = judge(fleet.send(order).await);
    let done = matches!(verdict, Verdict::Done);
    fleet.registry.borrow_mut().reported(&dispatch.id, done);
    fleet.counts.deletes_failed.add(u64::from(!done));
    verdict
}

/// Whether a DELETE did what it should: a 2xx did, unless its body says `"ok": false`.
fn judge(outcome: courier::Outcome) -> Verdict {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => return Verdict::Failed(failure.to_string()),
    };
    match reply.status {
        200..300 => {}
        // what stands in the body is at fault
        400 | 413 | 422 => return Verdict::Refused(format!("it answered {}", reply.status)),
        status => return Verdict::Failed(format!("it answered {status}")),
    }
    // a body that says nothing says nothing against it
    let answer = object(&reply, &["ok", "error"]).unwrap_or_default();
    if answer.get("ok") == Some(&Value::Bool(false)) {
        let error = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Verdict::Refused(format!("it could not delete: {error}"));
    }
    Verdict::Done
}
