//! Set-up: a live publisher with a replay endpoint sends one message larger than any may be. libzmq ends such a
//! connection and, by its own rules, never tries again.
//! Claim: the daemon subscribes anew by itself, and afterwards holds everything that was published meanwhile.

use std::time::{Duration, Instant};

use crate::fleet::{Ask, Daemon};
use kvatlas::limits::ZMQ_MESSAGE_BYTES;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde_json::{Value, json};

fn store(publisher: &Publisher, block: u32) {
    let hashes = [Hash::Unsigned(u64::from(block) + 1)];
    let parent = block.checked_sub(1).map(|above| Hash::Unsigned(u64::from(above) + 1));
    let tokens = [2 * block, 2 * block + 1];
    let stored = EngineEvent::Stored(Stored::plain(&hashes, parent, &tokens, 2));
    let batch = EngineBatch { stamp: Stamp::Seconds(1.0), events: &[stored], rank: Some(0) };
    publisher.send(encode_batch(Family::named("vllm-0.33.0").unwrap(), &batch)).unwrap();
}

fn until(daemon: &Daemon, what: &str, mut ready: impl FnMut(&Value) -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    let tokens: Vec<u32> = (0..20).collect();
    loop {
        let answer = daemon.ask(&json!({"model": "m", "block_size": 2, "token_ids": tokens}));
        if ready(&answer["default"]["i"]["longest_matched"]) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_broken_connection_is_made_anew() {
    let daemon = Daemon::start(1);
    let options = PublisherOptions {
        replay: Some("tcp://127.0.0.1:0".to_owned()),
        ..PublisherOptions::new("tcp://127.0.0.1:0")
    };
    let publisher = Publisher::bind(options).unwrap();
    daemon
        .register(&json!({"endpoint": publisher.endpoint(), "replay_endpoint": publisher.replay_endpoint(),
        "type": "vLLM", "modelname": "m", "instance_id": "i", "block_size": 2, "dp_rank": 0}));
    assert!(publisher.wait_subscriber(Duration::from_secs(20)).unwrap());
    store(&publisher, 0);
    until(&daemon, "the first block", |matched| *matched == 2);
    let oversized = vec![0; ZMQ_MESSAGE_BYTES as usize + 1];
    publisher.raw(vec![Vec::new(), vec![0; 8], oversized]).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    for block in 1..5 {
        store(&publisher, block);
    }
    let end = Instant::now() + Duration::from_secs(90);
    while daemon.services(publisher.endpoint())[0]["stream"]["state"] == "disconnected" {
        assert!(Instant::now() < end, "it stays disconnected");
        std::thread::sleep(Duration::from_millis(50));
    }
    // the first message of the new connection tells that something is missing
    store(&publisher, 5);
    until(&daemon, "what came while nobody listened", |matched| *matched == 12);
}
