//! Budgets and usage by tenant: `/quota`.

use std::rc::Rc;

use serde::Serialize;

use super::reply::Reply;
use crate::fleet::books::{Salt, SaltListing};
use crate::fleet::coordinator::Coordinator;
use crate::fleet::form::{self, bytes_to_gib, gib_to_bytes, salt_of_segment};
use crate::fleet::vault::Change;
use crate::http::Request;
use crate::limits::{COST_BLOCK, FLEET_STEP};

#[derive(Serialize)]
struct Config {
    default_limit_gb: Option<f64>,
}

#[derive(Serialize)]
struct Changed<'a> {
    cache_salt: &'a str,
    limit_gb: f64,
    status: &'static str,
}

#[derive(Serialize)]
struct Status<'a> {
    cache_salt: &'a str,
    quota_limit_gb: f64,
    quota_exists: bool,
    usage_gb: f64,
}

#[derive(Serialize)]
struct Usage<'a> {
    total_gb: f64,
    by_cache_salt: Vec<Status<'a>>,
}

/// `GET /quota/config`
pub fn config(fleet: &Coordinator, reply: Reply<'_>) {
    let default_limit_gb = fleet.books.borrow().default_limit().map(bytes_to_gib);
    reply.ok(&Config { default_limit_gb });
}

/// `PUT /quota/config`
pub async fn set_config(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    let default_limit_gb = match fleet.read(request, form::config).await {
        Ok(limit) => limit,
        Err(reject) => return reply.reject(&reject),
    };
    let limit = default_limit_gb.map(gib_to_bytes);
    let entered = fleet.change().await;
    if let Err(reason) = fleet.save(&entered, || Change::Default(limit)).await {
        return reply.unsaved(&reason);
    }
    fleet.books.borrow_mut().set_default(limit);
    reply.ok(&Config { default_limit_gb });
}

/// `PUT /quota/{salt}`
pub async fn set(fleet: &Rc<Coordinator>, segment: &str, request: &Request<'_>, reply: Reply<'_>) {
    let wanted = match fleet.read(request, form::quota).await {
        Ok(form) => form,
        Err(reject) => return reply.reject(&reject),
    };
    let cache_salt = salt_of_segment(segment);
    let limit = wanted.bytes();
    let entered = fleet.change().await;
    if !fleet.books.borrow().has_room_for_quota(cache_salt) {
        return reply.detail(503, "too many quotas");
    }
    if let Err(reason) = fleet.save(&entered, || Change::Quota(cache_salt.to_owned(), Some(limit))).await {
        return reply.unsaved(&reason);
    }
    fleet.books.borrow_mut().set_quota(cache_salt, limit);
    reply.ok(&Changed { cache_salt, limit_gb: wanted.limit_gb, status: "ok" });
}

/// `DELETE /quota/{salt}`
pub async fn remove(fleet: &Rc<Coordinator>, segment: &str, request: &Request<'_>, reply: Reply<'_>) {
    if let Err(reject) = form::tier(request.query) {
        return reply.reject(&reject);
    }
    let cache_salt = salt_of_segment(segment);
    let entered = fleet.change().await;
    let exists = fleet.books.borrow().quota(cache_salt).is_some();
    if exists {
        if let Err(reason) = fleet.save(&entered, || Change::Quota(cache_salt.to_owned(), None)).await {
            return reply.unsaved(&reason);
        }
        fleet.books.borrow_mut().remove_quota(cache_salt);
    }
    let status = if exists { "removed" } else { "not_found" };
    reply.ok(&Changed { cache_salt, limit_gb: 0.0, status });
}

/// `GET /quota/{salt}`
pub fn get(fleet: &Coordinator, segment: &str, request: &Request<'_>, reply: Reply<'_>) {
    match form::tier(request.query) {
        Ok(()) => reply.ok(&status(fleet, salt_of_segment(segment))),
        Err(reject) => reply.reject(&reject),
    }
}

/// `GET /quota`. Of one moment: nothing is stored or deleted meanwhile.
pub async fn list(fleet: &Rc<Coordinator>, request: &Request<'_>, reply: Reply<'_>) {
    if let Err(reject) = form::tier(request.query) {
        return reply.reject(&reject);
    }
    let still = fleet.batches.enter().await;
    let total_gb = shown(fleet.books.borrow().total());
    let mut listing = SaltListing::new();
    while !fleet.books.borrow().list_salts(&mut listing, FLEET_STEP) {
        fleet.seat.turn.spend(FLEET_STEP as u32 * COST_BLOCK).await;
    }
    drop(still);
    let salts = listing.take();
    if salts.len() <= FLEET_STEP {
        return reply.copy(&fleet.seat.turn, 200, &written(total_gb, salts)).await;
    }
    let body = fleet.aside(move || written(total_gb, salts)).await;
    reply.copy(&fleet.seat.turn, 200, &body).await;
}

/// The listing as JSON, sorted by code point.
fn written(total_gb: f64, mut salts: Vec<Salt>) -> Vec<u8> {
    salts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let by_cache_salt = salts.iter().map(|salt| Status::of(&salt.name, salt.usage, salt.quota)).collect();
    serde_json::to_vec(&Usage { total_gb, by_cache_salt }).unwrap_or_default()
}

fn status<'a>(fleet: &Coordinator, cache_salt: &'a str) -> Status<'a> {
    let books = fleet.books.borrow();
    Status::of(cache_salt, books.usage(cache_salt), books.quota(cache_salt))
}

impl<'a> Status<'a> {
    fn of(cache_salt: &'a str, usage: u128, quota: Option<u64>) -> Self {
        Self {
            cache_salt,
            // the default limit is not shown
            quota_limit_gb: quota.map_or(0.0, bytes_to_gib),
            quota_exists: quota.is_some(),
            usage_gb: shown(usage),
        }
    }
}

/// Bytes in GiB; sums may be beyond 64 bits.
fn shown(bytes: u128) -> f64 {
    bytes as f64 * bytes_to_gib(1)
}
