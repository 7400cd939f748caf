//! Set-up: a daemon in which one instance stays, while threads register, replace and unregister others without pause,
//! some of them at the endpoint of the one that stays, and others ask about all of them and about single ones.
//! Claim: every answer is well-formed and names everybody once, the one that stays is answered for exactly at any
//! moment, and when all others have left nothing of them is there any more.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::fleet::{Ask, Daemon, Engine, MODEL, Source, settle};
use serde_json::{Value, json};

const ROUNDS: u32 = 60;

fn come_and_go(daemon: SocketAddr, engine: &Engine, who: u32) {
    for round in 0..ROUNDS {
        let instance = format!("guest-{}", (who + round) % 5);
        let mut body = engine.registration(&instance);
        body["dp_rank"] = json!(who);
        body["additionalsalt"] = json!(["", "w8a8"][round as usize % 2]);
        daemon.register(&body);
        if round % 3 == 0 {
            body["hashing"] = json!("standard");
            daemon.register(&body);
        }
        let gone = daemon.post("/unregister", &json!({ "instance_id": instance, "dp_rank": who }));
        assert_eq!(gone.json()["removed_instances"], json!([format!("{instance}|default|{who}")]));
    }
}

fn ask_on(daemon: SocketAddr, entry: &Value, stop: &AtomicBool) -> u32 {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        for instance in [json!(null), json!("stays"), json!(format!("guest-{}", asked % 5))] {
            let question = json!({
                "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4, 5, 6, 7],
                "instance_id": instance, "detail": asked % 4 == 3,
            });
            let answer = daemon.ask(&question)["default"].take();
            let answer = answer.as_object().unwrap();
            match instance.as_str() {
                Some(instance) => assert_eq!(answer.keys().collect::<Vec<_>>(), [instance]),
                None => assert!(answer.contains_key("stays"), "{answer:?}"),
            }
            if let Some(stays) = answer.get("stays") {
                for key in ["longest_matched", "GPU", "DP", "CPU", "DISK"] {
                    assert_eq!(stays[key], entry[key], "{answer:?}");
                }
            }
            asked += 1;
        }
    }
    asked
}

#[test]
fn nobody_disturbs_the_one_that_stays() {
    for reactors in [1, 3] {
        let daemon = Daemon::start(reactors);
        let (engine, other) = (Engine::new(1, 2, 0), Engine::new(2, 2, 0));
        daemon.register(&engine.registration("stays"));
        engine.joined();
        engine.store(&[1, 2, 3, 4, 5, 6], 0..3, "GPU");
        settle(&[&daemon], &[&engine]);
        let entry = json!({ "longest_matched": 6, "GPU": 6, "DP": { "0": 6 }, "CPU": 0, "DISK": 0 });
        let address = daemon.address();
        let stop = AtomicBool::new(false);
        let asked = thread::scope(|scope| {
            let asking: Vec<_> = (0..2).map(|_| scope.spawn(|| ask_on(address, &entry, &stop))).collect();
            let guests = [(&engine, 1), (&other, 2), (&engine, 3)];
            let guests = guests.map(|(engine, who)| scope.spawn(move || come_and_go(address, engine, who)));
            let outcome = guests.map(thread::ScopedJoinHandle::join);
            stop.store(true, Ordering::Relaxed);
            assert!(outcome.iter().all(Result::is_ok));
            asking.into_iter().map(|asking| asking.join().unwrap()).sum::<u32>()
        });
        assert!(asked > 10, "{asked}");
        assert_eq!(daemon.get("/services").json()["count"], 1);
        let question = json!({ "model": MODEL, "block_size": 2, "token_ids": [1, 2, 3, 4, 5, 6] });
        assert_eq!(daemon.ask(&question), json!({ "default": { "stays": entry } }));
        engine.remove(&[1, 2, 3, 4, 5, 6], 2..3, "GPU");
        settle(&[&daemon], &[&engine]);
        assert_eq!(daemon.ask(&question)["default"]["stays"]["longest_matched"], 4);
    }
}
