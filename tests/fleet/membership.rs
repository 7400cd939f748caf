//! A coordinator over HTTP: servers register, are listed, send heartbeats, and go.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::coordinator::{Fleet, eventually, quiet, receive};
use kvatlas::fleet::settings::Settings;
use serde_json::json;

#[test]
fn a_server_registers_is_listed_heard_of_and_gone() {
    let fleet = Fleet::start(quiet());
    let answer =
        fleet.post("/instances", &json!({"ip": " 10.0.0.5 ", "http_port": 8080, "instance_id": "a b"}));
    assert_eq!((answer.status, answer.json()), (200, json!({"instance_id": "a b", "re_registered": false})));
    assert_eq!(fleet.put("/instances/a%20b/heartbeat", &json!(null)).json(), json!({"instance_id": "a b"}));
    let mut listed = fleet.get("/instances").json();
    assert!(listed["instances"][0]["registration_time"].take().as_f64().unwrap() > 1.7e9);
    assert_eq!(
        listed,
        json!({"instances": [{
            "instance_id": "a b", "ip": "10.0.0.5", "http_port": 8080, "registration_time": null,
            "metadata": {}, "p2p_advertised_url": "", "mq_port": 0,
        }]})
    );
    for _ in 0..2 {
        let answer = fleet.delete("/instances/a%20b");
        assert_eq!((answer.status, answer.body.len(), answer.header("content-length")), (204, 0, None));
    }
    assert_eq!(fleet.get("/instances").json(), json!({"instances": []}));
    let answer = fleet.put("/instances/a%20b/heartbeat", &json!({}));
    assert_eq!((answer.status, answer.json()), (404, json!({"error": "unknown instance a b; re-register"})));
}

#[test]
fn a_new_registration_keeps_its_place_and_replaces_every_field() {
    let fleet = Fleet::start(quiet());
    for id in ["a", "b"] {
        let body = json!({"ip": "1.1.1.1", "http_port": 1, "instance_id": id, "metadata": {"z": "1", "a": "2"}, "mq_port": 5});
        assert_eq!(fleet.post("/instances", &body).status, 200);
    }
    let again = fleet.post("/instances", &json!({"ip": "2.2.2.2", "http_port": "2", "instance_id": "a"}));
    assert_eq!(again.json(), json!({"instance_id": "a", "re_registered": true}));
    let listed = fleet.get("/instances").json();
    assert_eq!(listed["instances"][0]["ip"], "2.2.2.2");
    assert_eq!(listed["instances"][0]["metadata"], json!({}));
    assert_eq!(listed["instances"][0]["mq_port"], 0);
    assert_eq!(listed["instances"][1]["instance_id"], "b");
}

#[test]
fn one_of_many_registrations_at_once_is_the_first() {
    let fleet = Fleet::start(quiet());
    let fleet = &fleet;
    let firsts: usize = thread::scope(|scope| {
        let body = json!({"ip": "1.1.1.1", "http_port": 1, "instance_id": "x"});
        let all: Vec<_> = (0..32)
            .map(|_| {
                let body = body.clone();
                scope.spawn(move || fleet.post("/instances", &body).json()["re_registered"] == false)
            })
            .collect();
        all.into_iter().map(|one| usize::from(one.join().unwrap())).sum()
    });
    assert_eq!(firsts, 1);
}

/// What an MP server does over the life of its connection, faster than it does it.
#[test]
fn a_client_session_survives_reaping_and_registers_again() {
    let settings = Settings { instance_timeout: 0.6, health_check_interval: 0.1, ..quiet() };
    let fleet = Fleet::start(settings);
    let mut stream = TcpStream::connect(fleet.address()).unwrap();
    let mut ask = |request: &str, body: &str| {
        let length = body.len();
        write!(
            stream,
            "{request} HTTP/1.1\r\nhost: c\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        receive(&mut stream).unwrap()
    };
    let register = r#"{"instance_id": "s", "ip": "127.0.0.1", "http_port": 1, "metadata": {}, "p2p_advertised_url": "", "mq_port": 0}"#;
    assert_eq!(ask("POST /instances", register).json(), json!({"instance_id": "s", "re_registered": false}));
    for _ in 0..6 {
        thread::sleep(Duration::from_millis(200));
        assert_eq!(ask("PUT /instances/s/heartbeat", "").status, 200, "kept alive by its heartbeats");
    }
    let events = r#"{"instance_id": "s", "seq": 1, "events": [{"type": "store", "key": {"chunk_hash_hex": "AA", "model_name": "m", "kv_rank": 0, "object_group_id": 0, "cache_salt": ""}, "bytes": 7}], "tier": "l2"}"#;
    assert_eq!(ask("POST /quota/events", events).json(), json!({"recorded": 1}));
    eventually("the silent server is dropped", || fleet.get("/instances").json() == json!({"instances": []}));
    assert_eq!(ask("PUT /instances/s/heartbeat", "").status, 404);
    assert_eq!(ask("POST /instances", register).json(), json!({"instance_id": "s", "re_registered": false}));
    assert_eq!(ask("DELETE /instances/s", "").status, 204);
    assert_eq!(fleet.usage("_default"), 7, "what it stored stays counted");
    assert!(fleet.metric("instances_reaped_total") >= 1.0);
}

#[test]
fn an_idle_connection_is_closed_only_after_the_keep_alive_time() {
    let fleet = Fleet::start(Settings { timeout_keep_alive: 1, ..quiet() });
    let mut stream = TcpStream::connect(fleet.address()).unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nhost: c\r\n\r\n";
    stream.write_all(ask).unwrap();
    assert_eq!(receive(&mut stream).unwrap().status, 200);
    thread::sleep(Duration::from_millis(700));
    stream.write_all(ask).unwrap();
    assert_eq!(receive(&mut stream).unwrap().status, 200, "within the time");
    assert!(receive(&mut stream).is_err(), "closed by the coordinator");
    // a request under way is not silence between two
    let mut slow = TcpStream::connect(fleet.address()).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    thread::sleep(Duration::from_millis(1500));
    slow.write_all(b"host: c\r\n\r\n").unwrap();
    assert_eq!(receive(&mut slow).unwrap().status, 200);
}
