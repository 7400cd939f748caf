//! Set-up: a publisher with a replay endpoint is registered while nothing listens at its addresses. It comes up
//! later, publishes while nobody is connected, and stays silent.
//! Claim: what it published is replayed once the connection stands, without any further message.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::fleet::{Ask, Daemon};
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde_json::json;

/// An address of the loopback that no other test uses: its ports stay free.
const HOST: &str = "127.0.0.23";

fn free() -> String {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    format!("tcp://{}", listener.local_addr().unwrap())
}

#[test]
fn a_silent_late_publisher_is_replayed() {
    let daemon = Daemon::start(1);
    let (endpoint, replay) = (free(), free());
    let body = json!({"endpoint": endpoint, "replay_endpoint": replay, "type": "vLLM", "modelname": "m",
        "instance_id": "i", "block_size": 2, "dp_rank": 0});
    daemon.register(&body);
    // the first request to the replay endpoint has failed by then
    std::thread::sleep(Duration::from_millis(2500));
    let options = PublisherOptions { replay: Some(replay), ..PublisherOptions::new(endpoint) };
    let publisher = Publisher::bind(options).unwrap();
    let hashes = [Hash::Unsigned(1), Hash::Unsigned(2)];
    let stored = EngineEvent::Stored(Stored::plain(&hashes, None, &[1, 2, 3, 4], 2));
    let batch = EngineBatch { stamp: Stamp::Seconds(1.0), events: &[stored], rank: Some(0) };
    publisher.lose(encode_batch(Family::named("vllm-0.33.0").unwrap(), &batch)).unwrap();
    let question = json!({"model": "m", "block_size": 2, "token_ids": [1, 2, 3, 4]});
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = daemon.ask(&question);
        if answer["default"]["i"]["longest_matched"] == 4 {
            break;
        }
        assert!(Instant::now() < end, "never replayed: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
