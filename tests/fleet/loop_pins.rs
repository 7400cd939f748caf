//! Set-up: a coordinator that sweeps, a server that stores chunks by their tokens, and pins.
//! Claim: a pinned key is not evicted; two pins need two unpins; a forced deletion drops them; the other ranks of a
//! victim's chunk go with it where that is wanted, unless they are pinned; a dry run deletes nothing.

use crate::coordinator::{Fleet, eventually};
use crate::evictions::{count, deletes, known, quota, sweeping, sweeps};
use crate::mp_server::{MpServer, Object};
use kvatlas::fleet::settings::Settings;
use kvatlas::fleet::tokens;
use serde_json::{Value, json};

/// What a server stores of tokens, four a chunk.
fn chunks(tokens: &[u32], world: u64) -> Vec<Object> {
    let keys = tokens::resolve(tokens, 4, "m", "s", world).unwrap();
    keys.map(|key| Object {
        hash: key.hash.to_string(),
        model: "m".into(),
        rank: key.kv_rank,
        group: 0,
        salt: "s".into(),
    })
    .collect()
}

fn pin(fleet: &Fleet, method: &str, tokens: &[u32], world: u64) -> Value {
    let body = json!({"model_name": "m", "world_size": world, "token_ids": tokens, "cache_salt": "s"});
    let answer = fleet.call(method, "/cache/pins", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn stored(fleet: &Fleet, objects: &[Object]) -> MpServer {
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    let each: Vec<_> = objects.iter().map(|object| (object.clone(), 100)).collect();
    server.store(&each);
    known(fleet, 100 * objects.len() as u64);
    server
}

#[test]
fn pinned_keys_stay_and_two_pins_need_two_unpins() {
    let fleet = Fleet::start(sweeping());
    let tokens: Vec<u32> = (0..12).collect();
    let objects = chunks(&tokens, 1);
    let server = stored(&fleet, &objects);
    let first = &tokens[..6];
    for _ in 0..2 {
        assert_eq!(pin(&fleet, "POST", first, 1), json!({"requested": 1, "affected": 1, "status": "pinned"}));
    }
    quota(&fleet, "s", 0);
    known(&fleet, 100);
    assert_eq!(server.objects(), objects[..1]);
    assert_eq!(pin(&fleet, "DELETE", first, 1), json!({"requested": 1, "affected": 1, "status": "unpinned"}));
    sweeps(&fleet, 10);
    assert_eq!(server.objects(), objects[..1], "one pin is left");
    pin(&fleet, "DELETE", first, 1);
    known(&fleet, 0);
    assert!(server.objects().is_empty());
}

#[test]
fn a_forced_deletion_drops_pins() {
    let fleet = Fleet::start(sweeping());
    let tokens: Vec<u32> = (0..4).collect();
    let server = stored(&fleet, &chunks(&tokens, 1));
    for _ in 0..3 {
        pin(&fleet, "POST", &tokens, 1);
    }
    let body = |force: bool| {
        json!({"instance_id": "a", "model_name": "m", "world_size": 1, "token_ids": tokens, "cache_salt": "s",
               "force": force})
    };
    let answer = fleet.post("/cache/delete", &body(false)).json();
    assert_eq!((&answer["affected"], &answer["skipped"]), (&json!(0), &json!(1)));
    assert_eq!(server.objects().len(), 1);
    let answer = fleet.post("/cache/delete", &body(true)).json();
    assert_eq!((&answer["affected"], &answer["skipped"]), (&json!(1), &json!(0)));
    known(&fleet, 0);
    assert_eq!(fleet.get("/cache/pins").json(), json!({"total": 0, "pins": []}));
    // stored again it is evicted like any other
    quota(&fleet, "s", 0);
    server.store(&[(chunks(&tokens, 1).remove(0), 100)]);
    eventually("it goes", || server.objects().is_empty() && fleet.usage("s") == 0);
}

#[test]
fn other_ranks_of_a_chunk_go_along() {
    let settings = Settings { evict_whole_chunks: true, eviction_ratio: 0.1, ..sweeping() };
    let fleet = Fleet::start(settings);
    let tokens: Vec<u32> = (0..20).collect();
    let objects = chunks(&tokens, 4);
    // a server stores rank by rank, so that the ranks of a chunk are far from each other
    let mut by_rank = objects.clone();
    by_rank.sort_by_key(|object| object.rank);
    let server = MpServer::start();
    server.join(fleet.address(), "a");
    let other_group = Object { group: 1, ..objects[0].clone() };
    let mut each: Vec<_> = by_rank.iter().map(|object| (object.clone(), 100)).collect();
    each.push((other_group.clone(), 100));
    server.store(&each);
    known(&fleet, 2100);
    quota(&fleet, "s", 1950);
    // a tenth of 21 keys are two, of two chunks, with three ranks each beside them
    known(&fleet, 1300);
    sweeps(&fleet, 5);
    let left: Vec<_> = by_rank.iter().filter(|object| !objects[..8].contains(object)).cloned().collect();
    assert_eq!(server.objects(), [left, vec![other_group]].concat(), "whole chunks, and no other group");
    let seen = server.seen();
    let sent = deletes(&seen).into_iter().map(|seen| seen.json()["keys"].as_array().unwrap().len());
    assert!(
        sent.clone().count() > 0 && sent.clone().all(|keys| keys == 8),
        "in one sweep, beyond its target"
    );
}

#[test]
fn a_pin_holds_all_ranks_of_its_world_and_none_of_another() {
    let settings = Settings { evict_whole_chunks: true, eviction_ratio: 0.1, ..sweeping() };
    let fleet = Fleet::start(settings);
    let tokens: Vec<u32> = (0..8).collect();
    let mut objects = chunks(&tokens, 2);
    objects.sort_by_key(|object| object.rank);
    let server = stored(&fleet, &objects);
    pin(&fleet, "POST", &tokens[..4], 1);
    quota(&fleet, "s", 350);
    known(&fleet, 200);
    sweeps(&fleet, 3);
    let second = &chunks(&tokens, 2)[2..];
    assert_eq!(server.objects(), second);
    pin(&fleet, "POST", &tokens, 2);
    quota(&fleet, "s", 0);
    sweeps(&fleet, 5);
    assert_eq!(server.objects(), second, "pinned now");
}

#[test]
fn a_dry_run_reports_and_deletes_nothing() {
    let fleet = Fleet::start(Settings { dry_run_eviction: true, ..sweeping() });
    let server = stored(&fleet, &chunks(&(0..40).collect::<Vec<u32>>(), 1));
    quota(&fleet, "s", 500);
    eventually("sweeps plan", || count(&fleet, "eviction_keys_dry_total") >= 6);
    assert_eq!(count(&fleet, "eviction_keys_dry_total") % 2, 0, "two of ten, every time");
    assert!(server.seen().is_empty());
    for counter in ["planned", "sent", "answered", "failed", "confirmed"] {
        assert_eq!(count(&fleet, &format!("eviction_keys_{counter}_total")), 0, "{counter}");
    }
    assert_eq!((fleet.usage("s"), count(&fleet, "eviction_keys_in_flight")), (1000, 0));
}
