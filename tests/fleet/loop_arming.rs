//! Set-up: a coordinator that sweeps, and a server with more than anybody's quota.
//! Claim: nothing is deleted until a limit is set; the default limit applies to salts without a quota, and a quota
//! to its salt alone.

use crate::coordinator::{Fleet, eventually};
use crate::evictions::{default_limit, deletes, known, objects, quota, sweeping, sweeps};
use crate::mp_server::{MpServer, Object};
use serde_json::{Value, json};

fn stored(fleet: &Fleet) -> MpServer {
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    let other: Vec<_> = (0..5).map(|number| (Object::numbered(number, "m", "t"), 10)).collect();
    server.store(&objects(0..5, 10));
    server.store(&other);
    known(fleet, 50);
    eventually("the other salt is known", || fleet.usage("t") == 50);
    server
}

#[test]
fn nothing_is_deleted_before_a_limit_is_set() {
    let fleet = Fleet::start(sweeping());
    let server = stored(&fleet);
    assert_eq!(fleet.get("/quota/config").json(), json!({"default_limit_gb": null}));
    sweeps(&fleet, 5);
    assert!(server.seen().is_empty());
    default_limit(&fleet, &json!(1.5));
    sweeps(&fleet, 5);
    assert!(server.seen().is_empty(), "both are far below it");
    default_limit(&fleet, &Value::Null);
    default_limit(&fleet, &json!(0));
    eventually("everything is evicted", || server.objects().is_empty());
    eventually("and reported", || fleet.get("/quota").json()["total_gb"] == 0.0);
}

#[test]
fn a_quota_is_kept_while_others_are_exempt() {
    let fleet = Fleet::start(sweeping());
    let server = stored(&fleet);
    quota(&fleet, "t", 0);
    eventually("its salt is evicted", || fleet.usage("t") == 0);
    sweeps(&fleet, 5);
    assert_eq!(fleet.usage("s"), 50);
    let sent = server.seen();
    for seen in deletes(&sent) {
        let body = seen.json();
        assert!(body["keys"].as_array().unwrap().iter().all(|key| key["cache_salt"] == "t"));
    }
}

#[test]
fn a_quota_goes_before_the_default_limit_which_returns_when_it_is_deleted() {
    let fleet = Fleet::start(sweeping());
    let server = stored(&fleet);
    quota(&fleet, "s", 1000);
    default_limit(&fleet, &json!(0));
    eventually("the other salt is evicted", || fleet.usage("t") == 0);
    sweeps(&fleet, 5);
    assert_eq!(fleet.usage("s"), 50);
    assert_eq!(fleet.delete("/quota/s").json()["status"], "removed");
    eventually("the default limit applies", || fleet.usage("s") == 0);
    assert!(server.objects().is_empty());
}
