//! Set-up: a publisher with a replay endpoint is registered while nothing listens at its addresses. It comes up
//! later, publishes while nobody is connected, and stays silent.
//! Claim: what it published is replayed once the connection stands, without any further message.

#[path = "support/fleet.rs"]
mod fleet;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use fleet::{Ask, Daemon};
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use kvatlas::wire::publisher::{Publisher, PublisherOptions};
use serde_json::json;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_silent_late_publisher_is_replayed() {
    let daemon = Daemon::start(1);
    let endpoint = format!("tcp://127.0.0.1:{}", free_port());
    let replay = format!("tcp://127.0.0.1:{}", free_port());
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
