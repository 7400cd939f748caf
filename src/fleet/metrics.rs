//! `GET /metrics` of the coordinator: Prometheus text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::rc::Rc;

use super::api::reply::Reply;
use super::books::{Salt, SaltListing};
use super::coordinator::Coordinator;
use super::resync::Outcome;
use crate::limits::{COST_BLOCK, FLEET_METRIC_SALTS, FLEET_STEP};
use crate::metrics::Counter;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What happened since the start, beside what the books count.
#[derive(Default, Debug)]
pub struct Counts {
    /// Registrations, further ones of the same instance included.
    pub registered: Counter,
    /// Registrations refused at a bound.
    pub registrations_refused: Counter,
    /// Instances that left by themselves.
    pub deregistered: Counter,
    /// Instances dropped because they were silent.
    pub reaped: Counter,
    /// Heartbeats of registered instances.
    pub heartbeats: Counter,
    /// Heartbeats of others.
    pub heartbeats_unknown: Counter,
    /// Batches of events applied.
    pub batches: Counter,
    /// Batches of events refused.
    pub batches_refused: Counter,
    /// Sweeps of eviction.
    pub sweeps: Counter,
    /// Keys that dry runs would have evicted.
    pub dry_keys: Counter,
    /// Victims with nobody to send them to.
    pub unsent: Counter,
    /// DELETEs sent.
    pub deletes_sent: Counter,
    /// DELETEs that failed.
    pub deletes_failed: Counter,
    /// Prefetches passed on.
    pub prefetches: Counter,
    /// Requests that a server did not answer as it should (502).
    pub relay_errors: Counter,
    /// Requests not sent because too many were under way.
    pub busy: Counter,
    /// Changes that could not be made durable.
    pub save_errors: Counter,
}

type Line = (&'static str, &'static str, u64);

/// `GET /metrics`
pub async fn metrics(fleet: &Rc<Coordinator>, reply: Reply<'_>) {
    let usage = Usage::of(fleet).await;
    let mut page = String::with_capacity(8 * 1024);
    counters(fleet, &mut page);
    levels(fleet, &mut page);
    usage.write(&mut page);
    resync(fleet, &mut page);
    reply.body(200, CONTENT_TYPE, &[], |out| out.extend_from_slice(page.as_bytes()));
}

fn counters(fleet: &Coordinator, page: &mut String) {
    let seen = fleet.books.borrow().counters();
    let done = &fleet.counts;
    let http = &fleet.seat.counters;
    let lines: [Line; 36] = [
        ("registrations_total", "Registrations, repeated ones included.", done.registered.get()),
        ("registrations_refused_total", "Registrations beyond a bound.", done.registrations_refused.get()),
        ("deregistrations_total", "Instances that deregistered.", done.deregistered.get()),
        ("instances_reaped_total", "Instances dropped without a heartbeat.", done.reaped.get()),
        ("heartbeats_total", "Heartbeats of registered instances.", done.heartbeats.get()),
        ("heartbeats_unknown_total", "Heartbeats answered 404.", done.heartbeats_unknown.get()),
        ("event_batches_total", "Batches of usage events applied.", done.batches.get()),
        ("event_batches_refused_total", "Batches of usage events refused.", done.batches_refused.get()),
        ("event_batches_missing_total", "Batches that had not come when a later one did.", seen.missing),
        (
            "event_batches_repeated_total",
            "Batches that were late, or whose number was not new.",
            seen.repeats,
        ),
        ("store_events_total", "Store events.", seen.stores),
        ("lookup_events_total", "Lookup events.", seen.lookups),
        ("delete_events_total", "Delete events.", seen.deletes),
        ("keys_refused_total", "Keys not kept because the books are full.", seen.refused),
        ("eviction_sweeps_total", "Sweeps.", done.sweeps.get()),
        ("eviction_keys_planned_total", "Keys that sweeps chose.", seen.planned),
        ("eviction_keys_dry_total", "Keys that dry runs would have chosen.", done.dry_keys.get()),
        ("eviction_keys_unsent_total", "Chosen keys with no instance to send them to.", done.unsent.get()),
        ("eviction_keys_sent_total", "Keys in DELETEs, those that wait to be sent included.", seen.sent),
        ("eviction_keys_answered_total", "Keys in DELETEs that were answered well.", seen.answered),
        ("eviction_keys_failed_total", "Keys in DELETEs that failed or were refused.", seen.failed),
        ("eviction_keys_confirmed_total", "Delete events of keys that had been sent.", seen.confirmed),
        ("eviction_back_offs_total", "Times that a key began a longer pause.", seen.back_offs),
        ("eviction_requests_total", "DELETEs, those that wait to be sent included.", done.deletes_sent.get()),
        ("eviction_requests_failed_total", "DELETEs that failed.", done.deletes_failed.get()),
        ("resync_keys_listed_total", "Keys taken from listings.", seen.listed),
        ("resync_keys_overruled_total", "Listed keys of which events told more.", seen.overruled),
        ("resync_keys_doubtful_total", "Listed keys not taken after too many deletions.", seen.doubtful),
        ("prefetches_total", "Prefetches passed on.", done.prefetches.get()),
        ("relay_errors_total", "Requests that a server did not answer well.", done.relay_errors.get()),
        ("outgoing_busy_total", "Requests not sent: too many were under way.", done.busy.get()),
        ("save_errors_total", "Changes that could not be made durable.", done.save_errors.get()),
        ("http_requests_total", "HTTP requests answered.", http.requests.get()),
        ("http_requests_refused_total", "HTTP requests refused by the codec.", http.requests_refused.get()),
        (
            "http_connections_refused_total",
            "HTTP connections over the limit.",
            http.connections_refused.get(),
        ),
        ("reactor_stalls_total", "Polls of more than a millisecond.", http.stalls.get()),
    ];
    for (name, help, value) in lines {
        line(page, name, "counter", help, value);
    }
}

fn levels(fleet: &Coordinator, page: &mut String) {
    let books = fleet.books.borrow();
    let now = books.counters();
    let blend = fleet.blend.borrow();
    let default = books.default_limit();
    let lines: [Line; 10] = [
        ("instances", "Registered instances.", fleet.registry.borrow().len() as u64),
        ("keys", "Stored keys that are known.", now.keys as u64),
        ("keys_pinned", "Keys with pins.", now.pinned as u64),
        ("eviction_keys_in_flight", "Keys whose DELETE is unanswered.", now.in_flight as u64),
        (
            "eviction_keys_backed_off",
            "Keys deleted often without an event, in a pause.",
            now.backed_off as u64,
        ),
        ("books_bytes", "Heap bytes of usage, quotas and pins.", books.bytes_used() as u64),
        ("blend_fingerprints", "Fingerprints of stored chunks.", blend.len() as u64),
        ("http_connections", "Open HTTP connections.", fleet.seat.counters.connections_open.get()),
        ("default_limit_set", "1 when salts without a quota have a limit.", u64::from(default.is_some())),
        ("default_limit_bytes", "That limit.", default.unwrap_or(0)),
    ];
    for (name, help, value) in lines {
        line(page, name, "gauge", help, value);
    }
    line(page, "usage_bytes", "gauge", "Bytes stored in all.", books.total());
    line(
        page,
        "blend_fingerprints_dropped_total",
        "counter",
        "Fingerprints dropped at the bound.",
        blend.dropped(),
    );
}

/// Usage and limit of the salts that use most; the others in one sum, so that labels stay few.
#[derive(Default)]
struct Usage {
    /// Usage and name in order, and quota.
    most: BTreeMap<(Reverse<u128>, Box<str>), Option<u64>>,
    others: u64,
    others_bytes: u128,
}

impl Usage {
    async fn of(fleet: &Rc<Coordinator>) -> Self {
        let mut usage = Self::default();
        let mut listing = SaltListing::new();
        let _still = fleet.batches.enter().await;
        loop {
            let over = fleet.books.borrow().list_salts(&mut listing, FLEET_STEP);
            listing.take().into_iter().for_each(|salt| usage.add(salt));
            if over {
                return usage;
            }
            fleet.seat.turn.spend(FLEET_STEP as u32 * COST_BLOCK).await;
        }
    }

    fn add(&mut self, salt: Salt) {
        self.most.insert((Reverse(salt.usage), salt.name), salt.quota);
        if self.most.len() > FLEET_METRIC_SALTS
            && let Some(((Reverse(bytes), _), _)) = self.most.pop_last()
        {
            self.others += 1;
            self.others_bytes += bytes;
        }
    }

    fn write(&self, page: &mut String) {
        heading(page, "salt_usage_bytes", "gauge", "Bytes stored under a salt.");
        for (Reverse(usage), salt) in self.most.keys() {
            let _ = writeln!(page, "kvatlas_fleet_salt_usage_bytes{{salt=\"{}\"}} {usage}", label(salt));
        }
        heading(page, "salt_limit_bytes", "gauge", "Quota of a salt.");
        for ((_, salt), limit) in &self.most {
            let Some(limit) = limit else { continue };
            let _ = writeln!(page, "kvatlas_fleet_salt_limit_bytes{{salt=\"{}\"}} {limit}", label(salt));
        }
        line(page, "salts_unlisted", "gauge", "Salts without lines of their own.", self.others);
        line(page, "salts_unlisted_bytes", "gauge", "Bytes stored under those.", self.others_bytes);
    }
}

fn resync(fleet: &Coordinator, page: &mut String) {
    let resync = fleet.resync.borrow();
    heading(page, "resync", "gauge", "1 for the state that the startup resync is in.");
    for outcome in [Outcome::Running, Outcome::Done, Outcome::GaveUp, Outcome::Disabled] {
        let is = u8::from(outcome == fleet.resync_state());
        let _ = writeln!(page, "kvatlas_fleet_resync{{state=\"{}\"}} {is}", outcome.name());
    }
    let tally = resync.tally();
    line(page, "resync_instances_tried", "gauge", "Instances asked for a listing.", tally.tried);
    line(page, "resync_pages", "gauge", "Pages read.", tally.pages);
    line(page, "resync_entries_skipped", "gauge", "Listed entries that could not be used.", tally.skipped);
}

fn heading(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP kvatlas_fleet_{name} {help}\n# TYPE kvatlas_fleet_{name} {kind}");
}

fn line(page: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    heading(page, name, kind, help);
    let _ = writeln!(page, "kvatlas_fleet_{name} {value}");
}

/// A label value: backslash, quote and line feed escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
