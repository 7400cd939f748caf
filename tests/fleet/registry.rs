//! Set-up: a registry, times that are made up, and generators with known seeds.
//! Claim: listings keep the order of first registration; an instance is stale only when strictly older than the
//! timeout; targets go round in random order, each once before any again, and one that failed is passed over exactly
//! while one is there that did not (a naive model agrees at every step); the registry is bounded.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use fastrand::Rng;
use kvatlas::fleet::registry::{Full, Instance, Registered, Registry, generated_id};
use kvatlas::limits::{FLEET_INSTANCES, FLEET_REGISTRY_BYTES};
use proptest::prelude::*;

fn instance(id: &str) -> Instance {
    Instance { id: id.to_owned(), ip: "10.0.0.1".to_owned(), http_port: 8080, ..Instance::default() }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Registers at a time, and says what came of it.
fn register(registry: &mut Registry, id: &str, now: f64) -> Registered {
    registry.register(instance(id), seconds(now), 1000.0 + now, &mut Rng::with_seed(1)).unwrap()
}

fn ids(registry: &Registry) -> Vec<&str> {
    registry.list().map(|member| member.instance.id.as_str()).collect()
}

#[test]
fn listings_keep_the_order_of_first_registration() {
    let mut registry = Registry::new();
    for id in ["c", "a", "b/with slash"] {
        assert_eq!(register(&mut registry, id, 0.0), Registered { id: id.to_owned(), re_registered: false });
    }
    assert!(register(&mut registry, "c", 1.0).re_registered);
    assert_eq!(ids(&registry), ["c", "a", "b/with slash"]);
    registry.remove("c");
    assert!(!register(&mut registry, "c", 2.0).re_registered);
    assert_eq!(ids(&registry), ["a", "b/with slash", "c"]);
}

#[test]
fn a_registration_replaces_every_field() {
    let mut registry = Registry::new();
    let first = Instance {
        metadata: vec![("zone".to_owned(), "a".to_owned())],
        p2p_advertised_url: "tcp://h:1".to_owned(),
        mq_port: 7,
        ..instance("x")
    };
    registry.register(first, seconds(0.0), 1000.5, &mut Rng::with_seed(1)).unwrap();
    registry.reported("x", false);
    register(&mut registry, "x", 20.0);
    let member = registry.get("x").unwrap();
    assert_eq!(member.instance, instance("x"));
    assert_eq!((member.registered, member.heartbeat, member.failed), (1020.0, seconds(20.0), false));
}

#[test]
fn an_instance_without_an_id_gets_one() {
    let mut registry = Registry::new();
    let mut rng = Rng::with_seed(3);
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let done = registry.register(instance(""), seconds(0.0), 0.0, &mut rng).unwrap();
        assert!(!done.re_registered);
        assert!(registry.get(&done.id).is_some());
        assert!(seen.insert(done.id));
    }
    assert_eq!(registry.len(), 100);
}

#[test]
fn generated_ids_are_random_uuids() {
    assert_eq!(generated_id(0), "mp-00000000000040008000000000000000");
    assert_eq!(generated_id(u128::MAX), "mp-ffffffffffff4fffbfffffffffffffff");
    let digits = generated_id(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    assert_eq!(digits, "mp-0123456789ab4def8123456789abcdef");
}

#[test]
fn an_id_that_is_taken_is_not_generated() {
    let mut registry = Registry::new();
    let id = registry.register(instance(""), seconds(0.0), 0.0, &mut Rng::with_seed(9)).unwrap().id;
    let other = registry.register(instance(""), seconds(0.0), 0.0, &mut Rng::with_seed(9)).unwrap();
    assert_ne!(other.id, id);
    assert!(!other.re_registered);
}

#[test]
fn heartbeats_and_removals_know_who_is_there() {
    let mut registry = Registry::new();
    assert!(!registry.heartbeat("x", seconds(0.0)));
    register(&mut registry, "x", 0.0);
    assert!(registry.heartbeat("x", seconds(5.0)));
    assert_eq!(registry.get("x").unwrap().heartbeat, seconds(5.0));
    assert_eq!(registry.remove("x").unwrap().instance.id, "x");
    assert!(registry.remove("x").is_none());
    assert!(!registry.heartbeat("x", seconds(6.0)));
    assert!(registry.is_empty());
}

#[test]
fn only_the_strictly_older_are_stale() {
    let mut registry = Registry::new();
    register(&mut registry, "old", 0.0);
    register(&mut registry, "just", 10.0);
    register(&mut registry, "young", 10.5);
    let stale = |timeout: f64| registry.stale(seconds(40.0), timeout).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(stale(30.0), ["old"]);
    assert_eq!(stale(29.75), ["old", "just"]);
    assert!(stale(f64::INFINITY).is_empty());
    assert!(stale(f64::NAN).is_empty(), "no number is no timeout");
}

#[test]
fn a_sweep_takes_out_the_stale_and_nobody_else() {
    let mut registry = Registry::new();
    register(&mut registry, "a", 0.0);
    register(&mut registry, "b", 0.0);
    registry.heartbeat("b", seconds(25.0));
    assert!(registry.sweep(seconds(30.0), 30.0).is_empty());
    let gone = registry.sweep(seconds(31.0), 30.0);
    assert_eq!(gone.iter().map(|member| member.instance.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(ids(&registry), ["b"]);
    assert!(!register(&mut registry, "a", 32.0).re_registered);
}

#[test]
fn a_clock_that_steps_back_makes_nobody_stale() {
    let mut registry = Registry::new();
    register(&mut registry, "a", 100.0);
    assert_eq!(registry.stale(seconds(1.0), 0.5).count(), 0);
}

#[test]
fn a_full_registry_refuses_newcomers_only() {
    let mut registry = Registry::new();
    for number in 0..FLEET_INSTANCES {
        register(&mut registry, &number.to_string(), 0.0);
    }
    let mut try_one = |id: &str| registry.register(instance(id), seconds(1.0), 0.0, &mut Rng::with_seed(1));
    assert_eq!(try_one("one more"), Err(Full::Instances));
    assert!(try_one("7").unwrap().re_registered);
    registry.remove("8");
    register(&mut registry, "one more", 2.0);
    assert_eq!(registry.len(), FLEET_INSTANCES);
}

#[test]
fn the_text_of_all_registrations_is_bounded() {
    let mut registry = Registry::new();
    let big = |id: &str| Instance {
        metadata: vec![("k".to_owned(), "v".repeat(FLEET_REGISTRY_BYTES / 2))],
        ..instance(id)
    };
    let mut rng = Rng::with_seed(1);
    registry.register(big("a"), seconds(0.0), 0.0, &mut rng).unwrap();
    assert_eq!(registry.register(big("b"), seconds(0.0), 0.0, &mut rng), Err(Full::Text));
    assert!(registry.get("b").is_none());
    assert!(registry.register(big("a"), seconds(0.0), 0.0, &mut rng).unwrap().re_registered);
    registry.remove("a");
    registry.register(big("b"), seconds(0.0), 0.0, &mut rng).unwrap();
}

#[test]
fn nobody_is_no_target() {
    assert!(Registry::new().next_target(&mut Rng::with_seed(1)).is_none());
}

#[test]
fn any_order_of_targets_occurs() {
    let mut seen = HashSet::new();
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut registry = Registry::new();
        for id in ["a", "b", "c"] {
            register(&mut registry, id, 0.0);
        }
        let order: String = (0..3).map(|_| registry.next_target(&mut rng).unwrap().id.clone()).collect();
        seen.insert(order);
    }
    assert_eq!(seen.len(), 6);
}

#[test]
fn failures_turn_to_others_and_end() {
    let mut rng = Rng::with_seed(5);
    let mut registry = Registry::new();
    register(&mut registry, "a", 0.0);
    registry.reported("a", false);
    assert_eq!(registry.next_target(&mut rng).unwrap().id, "a", "nobody else is there");
    register(&mut registry, "b", 0.0);
    for _ in 0..4 {
        assert_eq!(registry.next_target(&mut rng).unwrap().id, "b");
    }
    registry.reported("b", false);
    // one may end a round and begin the next
    let both: BTreeSet<_> = (0..3).map(|_| registry.next_target(&mut rng).unwrap().id.clone()).collect();
    assert_eq!(both.len(), 2, "where all failed, all have their turn");
    registry.reported("b", true);
    assert_eq!(registry.next_target(&mut rng).unwrap().id, "b");
    register(&mut registry, "a", 1.0);
    // one may end a round and begin the next
    let both: BTreeSet<_> = (0..3).map(|_| registry.next_target(&mut rng).unwrap().id.clone()).collect();
    assert_eq!(both.len(), 2, "a registration begins anew");
}

#[derive(Clone, Debug)]
enum Act {
    Register(u8),
    Remove(u8),
    Report(u8, bool),
    Next,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (0..6u8).prop_map(Act::Register),
        1 => (0..6u8).prop_map(Act::Remove),
        2 => (0..6u8, any::<bool>()).prop_map(|(id, ok)| Act::Report(id, ok)),
        5 => Just(Act::Next),
    ];
    proptest::collection::vec(act, 1..200)
}

proptest! {
    #[test]
    fn targets_go_round(acts in acts(), seed in any::<u64>()) {
        let mut rng = Rng::with_seed(seed);
        let mut registry = Registry::new();
        // who is there, who failed, who had a turn in this round
        let (mut there, mut failed, mut served) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for act in acts {
            match act {
                Act::Register(id) => {
                    register(&mut registry, &id.to_string(), 0.0);
                    there.insert(id);
                    failed.remove(&id);
                }
                Act::Remove(id) => {
                    prop_assert_eq!(registry.remove(&id.to_string()).is_some(), there.remove(&id));
                    failed.remove(&id);
                    served.remove(&id);
                }
                Act::Report(id, ok) => {
                    registry.reported(&id.to_string(), ok);
                    if ok { failed.remove(&id); } else if there.contains(&id) { failed.insert(id); }
                }
                Act::Next => {
                    let good: BTreeSet<u8> = there.difference(&failed).copied().collect();
                    let eligible = if good.is_empty() { there.clone() } else { good };
                    if eligible.is_subset(&served) {
                        served.clear();
                    }
                    let target = registry.next_target(&mut rng).map(|instance| instance.id.parse::<u8>().unwrap());
                    prop_assert_eq!(target.is_some(), !there.is_empty());
                    if let Some(target) = target {
                        prop_assert!(eligible.contains(&target), "passed over");
                        prop_assert!(served.insert(target), "had its turn in this round");
                    }
                }
            }
        }
    }
}
