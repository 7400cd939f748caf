//! Set-up: a server that refuses every DELETE in which one of a few keys stands, or every DELETE.
//! Claim: refused batches are halved until the others are deleted, in a bounded number of requests; keys that were
//! refused are planned again.

use crate::coordinator::{Fleet, eventually, store};
use crate::evictions::{count, known, objects, quota, sweeping, sweeps, victims};
use crate::mp_server::{Manner, MpServer, Object};
use kvatlas::fleet::settings::Settings;
use serde_json::json;

#[test]
fn a_key_that_spoils_every_batch_does_not_keep_the_others() {
    let fleet = Fleet::start(sweeping());
    let server = MpServer::start();
    server.behave(Manner::Touchy);
    server.join(fleet.address(), "a");
    server.store(&objects(0..1000, 10));
    for spoiler in [7, 400] {
        server.hold_on_to(&Object::numbered(spoiler, "m", "s"));
    }
    known(&fleet, 10_000);
    quota(&fleet, "s", 0);
    known(&fleet, 20);
    let mut left = server.objects();
    left.sort_by_key(|object| object.json().to_string());
    assert_eq!(left, [7, 400].map(|number| Object::numbered(number, "m", "s")));
    eventually("none is forgotten", || count(&fleet, "eviction_keys_in_flight") == 0);
}

#[test]
fn a_server_that_refuses_everything_is_asked_a_bounded_number_of_times_a_sweep() {
    // one sweep a while, so that its requests can be told from those of the next
    let fleet = Fleet::start(Settings { eviction_check_interval: 1.0, ..sweeping() });
    let server = MpServer::start();
    server.behave(Manner::Status(422));
    let body = json!({"ip": "127.0.0.1", "http_port": server.port(), "instance_id": "a"});
    assert_eq!(fleet.post("/instances", &body).status, 200);
    fleet.report(&json!((0..1000).map(|number| store(number, "s", 10)).collect::<Vec<_>>()));
    quota(&fleet, "s", 0);
    sweeps(&fleet, 2);
    let asked = victims(&server);
    let whole = asked.iter().filter(|keys| keys.len() == 1000).count();
    assert!(whole >= 1);
    assert!(asked.len() <= (whole + 1) * 57, "{}: 28 halvings a sweep", asked.len());
    assert_eq!(fleet.usage("s"), 10_000);
    server.behave(Manner::Good);
    eventually("all are deleted at last", || count(&fleet, "eviction_keys_answered_total") >= 1000);
}
