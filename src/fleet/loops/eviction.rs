//! Eviction: after every pause a sweep over the salts that are over their limit, its victims sent to one instance.

use std::rc::Rc;

use serde_json::Value;

use crate::fleet::books::{Batch, Outcome, Plan, Planner, Rules};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::courier::{self, Class, Method, Order};
use crate::limits::{COST_LOOKUP, FLEET_STEP, FLEET_UPSTREAM_TIME};
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

/// Sends all batches to the instance whose turn it is, at once; answers come in their own time.
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
            books.answered(batch, Outcome::Failed, fleet.now());
        }
        return;
    };
    let target = Rc::new(target);
    for batch in plan.batches {
        fleet.seat.ingest.spawn(deliver(fleet.clone(), target.clone(), batch));
    }
}

async fn deliver(fleet: Rc<Coordinator>, target: Rc<Target>, mut batch: Batch) {
    let mut body = Vec::new();
    let keys = fleet.books.borrow_mut().write_batch(&mut batch, &mut body);
    fleet.seat.ingest.spend(keys as u32 * COST_LOOKUP).await;
    if keys == 0 {
        fleet.books.borrow_mut().answered(&batch, Outcome::Failed, fleet.now());
        return;
    }
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
    let failure = failure(fleet.send(order).await);
    let outcome = if failure.is_none() { Outcome::Ok } else { Outcome::Failed };
    if let Some(reason) = &failure {
        fleet.counts.deletes_failed.add(1);
        tracing::warn!(instance = target.id, keys, reason, "a DELETE failed; its keys are planned again");
    }
    fleet.books.borrow_mut().answered(&batch, outcome, fleet.now());
    fleet.registry.borrow_mut().reported(&target.id, failure.is_none());
}

/// Why a DELETE did not do what it should; a 2xx did, unless its body says `"ok": false`.
fn failure(outcome: courier::Outcome) -> Option<String> {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => return Some(failure.to_string()),
    };
    if !(200..300).contains(&reply.status) {
        return Some(format!("it answered {}", reply.status));
    }
    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if answer.get("ok") == Some(&Value::Bool(false)) {
        let error = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Some(format!("it could not delete: {error}"));
    }
    None
}
