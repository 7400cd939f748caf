//! Eviction: after every pause a sweep over the salts that are over their limit, its victims sent to one instance.

use std::cell::RefCell;
use std::rc::Rc;
use std::vec;

use serde_json::Value;

use crate::fleet::answer::object;
use crate::fleet::books::{Batch, Outcome, Plan, Planner, Rules};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::courier::{self, Class, Method, Order};
use crate::limits::{COST_LOOKUP, FLEET_BATCHES_AT_ONCE, FLEET_STEP, FLEET_UPSTREAM_TIME};
use crate::rt::sleep;

/// Where and as whom a sweep's victims are deleted.
struct Target {
    id: String,
    ip: String,
    port: u16,
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
    while fleet.seat.stopping.wait_at_most(sleep(interval)).await.is_some() {
        if fleet.is_holding() {
            tracing::debug!("nothing is evicted before the resync is over");
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
            report(&plan, "evicting");
            dispatch(&fleet, plan);
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

fn report(plan: &Plan, what: &'static str) {
    for salt in &plan.salts {
        tracing::info!(
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
fn dispatch(fleet: &Rc<Coordinator>, plan: Plan) {
    let target = {
        let mut registry = fleet.registry.borrow_mut();
        let next = registry.next_target(&mut fleet.rng.borrow_mut());
        next.map(|instance| Target {
            id: instance.id.clone(),
            ip: instance.ip.clone(),
            port: instance.http_port,
        })
    };
    let Some(target) = target else {
        tracing::warn!(keys = plan.keys(), "no instance is registered: nothing is evicted");
        fleet.counts.unsent.add(plan.keys() as u64);
        let mut books = fleet.books.borrow_mut();
        for batch in &plan.batches {
            books.answered(batch, Outcome::Unsent, fleet.now());
        }
        return;
    };
    let target = Rc::new(target);
    let lanes = plan.batches.len().min(FLEET_BATCHES_AT_ONCE);
    let batches = Rc::new(RefCell::new(plan.batches.into_iter()));
    for _ in 0..lanes {
        fleet.seat.ingest.spawn(deliver_all(fleet.clone(), target.clone(), batches.clone()));
    }
}

/// Sends one batch after the other, with others that do the same: bodies are written when they can go out.
async fn deliver_all(fleet: Rc<Coordinator>, target: Rc<Target>, batches: Rc<RefCell<vec::IntoIter<Batch>>>) {
    loop {
        let next = batches.borrow_mut().next();
        let Some(mut batch) = next else { return };
        let mut body = Vec::new();
        let keys = fleet.books.borrow_mut().write_batch(&mut batch, &mut body);
        fleet.seat.ingest.spend(keys as u32 * COST_LOOKUP).await;
        if keys > 0 {
            let outcome = deliver(&fleet, &target, keys, body).await;
            fleet.books.borrow_mut().answered(&batch, outcome, fleet.now());
        }
        if fleet.seat.stopping.is_set() {
            return;
        }
    }
}

async fn deliver(fleet: &Coordinator, target: &Target, keys: usize, body: Vec<u8>) -> Outcome {
    let order = Order {
        ticket: 0,
        method: Method::Delete,
        ip: target.ip.clone(),
        port: target.port,
        segments: vec!["objects".to_owned()],
        query: Vec::new(),
        body: Some(body),
        class: Class::Dispatch,
        total: FLEET_UPSTREAM_TIME,
    };
    fleet.counts.deletes_sent.add(1);
    let judged = judge(fleet.send(order).await);
    fleet.registry.borrow_mut().reported(&target.id, judged.is_ok());
    let Err(reason) = judged else { return Outcome::Ok };
    fleet.counts.deletes_failed.add(1);
    tracing::warn!(instance = target.id, keys, reason, "a DELETE failed; its keys are planned again");
    Outcome::Failed
}

/// Whether a DELETE did what it should: a 2xx did, unless its body says `"ok": false`.
fn judge(outcome: courier::Outcome) -> Result<(), String> {
    let reply = outcome.map_err(|failure| failure.to_string())?;
    if !(200..300).contains(&reply.status) {
        return Err(format!("it answered {}", reply.status));
    }
    // a body that says nothing says nothing against it
    let answer = object(&reply, &["ok", "error"]).unwrap_or_default();
    if answer.get("ok") == Some(&Value::Bool(false)) {
        let error = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Err(format!("it could not delete: {error}"));
    }
    Ok(())
}
