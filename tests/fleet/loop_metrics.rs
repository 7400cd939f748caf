//! Set-up: evictions that succeed, fail and go unreported, and salts without end.
//! Claim: the numbers of `/metrics` are those that the servers saw; salts have a bounded number of lines.

use crate::coordinator::{Fleet, eventually, store};
use crate::evictions::{count, known, numbers, objects, quota, sweeping, sweeps};
use crate::mp_server::{Manner, MpServer};
use kvatlas::fleet::settings::Settings;
use kvatlas::limits::FLEET_METRIC_SALTS;
use serde_json::json;

#[test]
fn evictions_are_counted_as_the_servers_saw_them() {
    let fleet = Fleet::start(sweeping());
    let (good, bad) = (MpServer::start(), MpServer::start());
    bad.behave(Manner::Status(500));
    good.join(fleet.address(), "good");
    bad.join(fleet.address(), "bad");
    good.store(&objects(0..100, 100));
    known(&fleet, 10_000);
    quota(&fleet, "s", 5000);
    eventually("usage is below the quota", || fleet.usage("s") < 5000);
    eventually("all are answered", || count(&fleet, "eviction_keys_in_flight") == 0);
    sweeps(&fleet, 3);
    let keys = |server: &MpServer| server.seen().iter().map(|seen| numbers(seen).len()).sum::<usize>() as u64;
    let total = |name: &str| count(&fleet, &format!("eviction_{name}_total"));
    assert_eq!(total("keys_answered"), keys(&good));
    assert_eq!(total("keys_failed"), keys(&bad));
    assert_eq!(total("keys_sent"), keys(&good) + keys(&bad));
    assert_eq!(total("keys_planned"), total("keys_sent"), "nobody pinned or deleted them on the way");
    assert_eq!(total("keys_confirmed"), 100 - good.objects().len() as u64);
    assert_eq!(total("requests"), (good.seen().len() + bad.seen().len()) as u64);
    assert_eq!(total("requests_failed"), bad.seen().len() as u64);
    assert_eq!(count(&fleet, "usage_bytes"), good.bytes());
    assert_eq!(count(&fleet, "keys"), good.objects().len() as u64);
    assert_eq!(count(&fleet, "salt_usage_bytes{salt=\"s\"}"), good.bytes());
    assert_eq!(count(&fleet, "salt_limit_bytes{salt=\"s\"}"), 5000);
    assert_eq!(count(&fleet, "instances"), 2);
}

#[test]
fn salts_have_a_bounded_number_of_lines() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.0, ..sweeping() });
    let salts = FLEET_METRIC_SALTS as u64 + 50;
    let events: Vec<_> = (0..salts).map(|salt| store(1, &format!("salt {salt}"), salt + 1)).collect();
    fleet.report(&json!(events));
    let page = fleet.get("/metrics");
    let lines =
        page.text().lines().filter(|line| line.starts_with("kvatlas_fleet_salt_usage_bytes{")).count();
    assert_eq!(lines, FLEET_METRIC_SALTS);
    assert_eq!(count(&fleet, &format!("salt_usage_bytes{{salt=\"salt {}\"}}", salts - 1)), salts);
    assert_eq!(count(&fleet, "salts_unlisted"), 50);
    assert_eq!(count(&fleet, "salts_unlisted_bytes"), 50 * 51 / 2);
}

#[test]
fn labels_are_escaped() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.0, ..sweeping() });
    // salts in a path may be anything
    quota(&fleet, "a%22b%5Cc%0Ad", 7);
    assert_eq!(count(&fleet, r#"salt_limit_bytes{salt="a\"b\\c\nd"}"#), 7);
    assert_eq!(count(&fleet, r#"salt_usage_bytes{salt="a\"b\\c\nd"}"#), 0);
}

#[test]
fn batches_are_counted_with_their_gaps() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.0, ..sweeping() });
    for seq in [1, 2, 5, 5, 6] {
        let body = json!({"instance_id": "x", "seq": seq, "events": []});
        assert_eq!(fleet.post("/quota/events", &body).status, 200);
    }
    assert_eq!(count(&fleet, "event_batches_total"), 5);
    assert_eq!(count(&fleet, "event_batches_missing_total"), 2);
    assert_eq!(count(&fleet, "event_batches_repeated_total"), 1);
    assert_eq!(fleet.post("/quota/events", &json!({"instance_id": "x", "seq": 0, "events": []})).status, 422);
    assert_eq!(count(&fleet, "event_batches_refused_total"), 1);
}

#[test]
fn a_server_that_falls_silent_is_counted() {
    let settings = Settings { health_check_interval: 0.02, instance_timeout: 0.1, ..sweeping() };
    let fleet = Fleet::start(settings);
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    eventually("it is dropped", || count(&fleet, "instances_reaped_total") == 1);
    assert_eq!(count(&fleet, "instances"), 0);
    assert_eq!(server.heartbeat(), Some(404));
    assert_eq!(count(&fleet, "heartbeats_unknown_total"), 1);
    server.join(fleet.address(), "a");
    eventually("it is dropped again", || count(&fleet, "instances_reaped_total") == 2);
    assert_eq!(count(&fleet, "deregistrations_total"), 0);
}
