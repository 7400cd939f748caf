//! Set-up: a server that stores, deletes as it is told and reports both, and a coordinator that sweeps.
//! Claim: usage settles below the quota, the oldest keys gone and the newest there; sizes that differ do not matter,
//! nor does a key that cannot be deleted.

use crate::coordinator::{Fleet, eventually};
use crate::evictions::{count, known, objects, quota, sweeping, sweeps, victims};
use crate::mp_server::{MpServer, Object};
use kvatlas::fleet::settings::Settings;

#[test]
fn ten_keys_settle_at_four_fifths_of_the_quota() {
    let fleet = Fleet::start(Settings { eviction_ratio: 0.2, ..sweeping() });
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    server.store(&objects(0..10, 100));
    known(&fleet, 1000);
    quota(&fleet, "s", 500);
    known(&fleet, 400);
    sweeps(&fleet, 10);
    assert_eq!(fleet.usage("s"), 400, "it stays there");
    assert_eq!(server.objects(), objects_only(6..=9));
    // a fifth of ten, of eight, and so on, at least one; what is not yet reported may be sent again
    let mut victims = victims(&server);
    victims.dedup();
    assert_eq!(victims, [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
}

#[test]
fn used_keys_stay_and_others_go() {
    let fleet = Fleet::start(Settings { eviction_ratio: 1.0 / 3.0, ..sweeping() });
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    server.store(&objects(0..3, 100));
    known(&fleet, 300);
    server.look_up(&Object::numbered(0, "m", "s"));
    eventually("the lookup is known", || count(&fleet, "lookup_events_total") > 0);
    quota(&fleet, "s", 250);
    known(&fleet, 200);
    assert_eq!(server.objects(), [0, 2].map(|number| Object::numbered(number, "m", "s")));
}

#[test]
fn keys_of_many_sizes_converge_in_few_sweeps() {
    let fleet = Fleet::start(Settings { eviction_ratio: 0.2, ..sweeping() });
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    // the old ones are small: a fifth by count frees little at first
    let mixed: Vec<_> =
        (0..200).map(|number| (Object::numbered(number, "m", "s"), 1 + number * number)).collect();
    server.store(&mixed);
    let all: u64 = mixed.iter().map(|(_, bytes)| bytes).sum();
    known(&fleet, all);
    let limit = all / 10;
    quota(&fleet, "s", limit);
    eventually("usage is below the quota", || fleet.usage("s") < limit);
    sweeps(&fleet, 3);
    let mut victims = victims(&server);
    victims.dedup();
    // at a fifth a time 200 keys are 6 after 18 sweeps, which are below a tenth of the bytes
    assert_eq!(victims.len(), 18);
    assert_eq!(server.objects(), objects_only(194..=199));
    assert!(server.bytes() < limit);
}

#[test]
fn a_key_that_cannot_be_deleted_stops_no_other() {
    let fleet = Fleet::start(Settings { eviction_ratio: 0.01, ..sweeping() });
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    let stuck = Object::numbered(0, "m", "s");
    server.hold_on_to(&stuck);
    server.store(&[(stuck.clone(), 1000)]);
    server.store(&objects(1..=30, 100));
    known(&fleet, 4000);
    quota(&fleet, "s", 2050);
    known(&fleet, 2000);
    sweeps(&fleet, 20);
    assert_eq!(fleet.usage("s"), 2000, "it takes no turn of others, and its bytes count");
    server.store(&objects(31..=32, 100));
    eventually("what comes later is evicted as well", || {
        server.objects().iter().eq([&stuck].into_iter().chain(&objects_only(23..=32)))
    });
    sweeps(&fleet, 3);
    assert_eq!(fleet.usage("s"), 2000);
}

fn objects_only(numbers: std::ops::RangeInclusive<u64>) -> Vec<Object> {
    objects(numbers, 0).into_iter().map(|(object, _)| object).collect()
}
