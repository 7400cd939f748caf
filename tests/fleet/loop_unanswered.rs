//! Set-up: servers that are slow to answer, or answer and do nothing.
//! Claim: a key whose DELETE is unanswered is not sent again, and no younger one pays for it; one that is answered
//! but not reported as deleted is sent again, and after eight answers only after pauses, until it is heard of.

use std::time::Duration;

use crate::coordinator::{Fleet, eventually};
use crate::evictions::{count, known, objects, quota, sweeping, sweeps, victims};
use crate::mp_server::{Manner, MpServer, Object};
use kvatlas::fleet::settings::Settings;

fn over_quota(manner: Manner, settings: Settings) -> (Fleet, MpServer) {
    let fleet = Fleet::start(settings);
    let server = MpServer::start();
    server.behave(manner);
    server.join(fleet.address(), "a");
    server.store(&objects(0..10, 100));
    known(&fleet, 1000);
    quota(&fleet, "s", 900);
    (fleet, server)
}

#[test]
fn keys_of_an_unanswered_delete_are_not_sent_again() {
    let (fleet, server) = over_quota(Manner::Silent, sweeping());
    eventually("one is sent", || !victims(&server).is_empty());
    sweeps(&fleet, 20);
    assert_eq!(victims(&server), [[0, 1]], "800 of 900 bytes are left when these go");
    assert_eq!(fleet.usage("s"), 1000, "nothing is reported");
    assert_eq!(count(&fleet, "eviction_keys_in_flight"), 2);
    // over the quota without them, too: of fifteen keys three may go, and two are on their way
    server.store(&objects(10..15, 100));
    eventually("another is sent", || victims(&server).len() > 1);
    sweeps(&fleet, 20);
    assert_eq!((victims(&server), fleet.usage("s")), (vec![vec![0, 1], vec![2]], 1500), "each once");
}

#[test]
fn an_answered_delete_lets_its_keys_be_planned_again() {
    let pause = Duration::from_millis(300);
    let (fleet, server) = over_quota(Manner::Slow(pause), sweeping());
    eventually("the deletion is done, later", || server.objects().len() == 8);
    known(&fleet, 800);
    sweeps(&fleet, 5);
    assert_eq!(fleet.usage("s"), 800);
    let mut victims = victims(&server);
    victims.dedup();
    assert_eq!(victims, [[0, 1]]);
}

#[test]
fn unreported_keys_are_sent_again_each_sweep_and_no_others() {
    let settings = Settings { eviction_check_interval: 0.1, ..sweeping() };
    let (fleet, server) = over_quota(Manner::NeverDelete, settings);
    eventually("they are sent five times", || victims(&server).len() >= 5);
    assert!(victims(&server).iter().all(|keys| *keys == [0, 1]), "the same every time");
    assert_eq!(fleet.usage("s"), 1000);
}

#[test]
fn eight_answers_without_an_event_begin_pauses_that_an_event_or_a_registration_ends() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.05, ..sweeping() });
    let server = MpServer::start();
    server.behave(Manner::NeverDelete);
    server.join(fleet.address(), "a");
    let key = Object::numbered(0, "m", "s");
    server.store(&[(key.clone(), 1000)]);
    known(&fleet, 1000);
    quota(&fleet, "s", 900);
    let sent = || victims(&server).len();
    let look_up = || server.look_up(&key);
    let register = || _ = server.join(fleet.address(), "a");
    let enders: [&dyn Fn(); 2] = [&look_up, &register];
    for end in enders {
        let before = sent();
        // pauses are of 1, 2, 4 … intervals
        eventually("six pauses are over", || sent() >= before + 14);
        eventually("it is in the seventh", || count(&fleet, "eviction_keys_backed_off") == 1);
        let paused = sent();
        sweeps(&fleet, 3);
        assert_eq!(sent(), paused, "the pause is of 64 intervals");
        let events = || count(&fleet, "lookup_events_total") + count(&fleet, "registrations_total");
        let (heard, swept) = (events(), count(&fleet, "eviction_sweeps_total"));
        end();
        eventually("the coordinator hears of it", || events() > heard);
        eventually("it is sent again", || sent() > paused);
        let swept = count(&fleet, "eviction_sweeps_total") - swept;
        assert!(swept <= 20, "only after {swept} sweeps");
    }
    assert!(count(&fleet, "eviction_back_offs_total") >= 14);
}
