//! Set-up: servers that fail, each in its way, some beside a good one, some alone, or nobody at all.
//! Claim: the keys of a DELETE that failed are planned again; a server that failed is passed over while another is
//! there, and is used when it is alone; with nobody there the plan is kept.

use std::net::TcpListener;

use crate::coordinator::{Fleet, eventually, store};
use crate::evictions::{count, deletes, known, objects, quota, sweeping, sweeps, victims};
use crate::mp_server::{Manner, MpServer};
use serde_json::json;

fn register(fleet: &Fleet, id: &str, port: u16) {
    let body = json!({"ip": "127.0.0.1", "http_port": port, "instance_id": id});
    assert_eq!(fleet.post("/instances", &body).status, 200);
}

#[test]
fn keys_of_a_delete_that_failed_are_planned_again() {
    let raw = |text: &str| Manner::Raw(text.as_bytes().to_vec());
    for manner in [
        Manner::Status(500),
        Manner::Redirect("/elsewhere".to_owned()),
        Manner::Hangup,
        Manner::Half,
        raw("not HTTP at all\r\n\r\n"),
    ] {
        let fleet = Fleet::start(sweeping());
        let server = MpServer::start();
        register(&fleet, "a", server.port());
        server.behave(manner.clone());
        fleet.report(&json!((0..10).map(|number| store(number, "s", 100)).collect::<Vec<_>>()));
        quota(&fleet, "s", 900);
        eventually("it is tried three times", || victims(&server).len() >= 3);
        assert!(victims(&server).iter().all(|keys| *keys == [0, 1]), "{manner:?}: the same every time");
        assert_eq!(fleet.usage("s"), 1000);
        assert!(count(&fleet, "eviction_requests_failed_total") >= 2, "{manner:?}");
        assert!(count(&fleet, "eviction_keys_failed_total") >= 4);
        assert_eq!(count(&fleet, "eviction_keys_answered_total"), 0);
        assert_eq!(count(&fleet, "eviction_keys_backed_off"), 0, "failures are no answers");
        assert!(server.seen().iter().all(|seen| seen.target == "/cache/objects"), "no redirect is followed");
        server.behave(Manner::Good);
        eventually("it is deleted at last", || count(&fleet, "eviction_keys_answered_total") >= 2);
    }
}

#[test]
fn a_2xx_counts_whatever_its_body_says_but_not_ok() {
    for body in ["", "hello", "[]", "{\"ok\": null}", "{\"ok\": 0}", "{\"ok\": \"false\"}", "{\"ok\": true}"]
    {
        let fleet = Fleet::start(sweeping());
        let server = MpServer::start();
        let len = body.len();
        let answer = format!("HTTP/1.1 204 Whatever\r\ncontent-length: {len}\r\n\r\n{body}");
        let answer = if body.is_empty() { answer } else { answer.replace("204", "202") };
        server.behave(Manner::Raw(answer.into_bytes()));
        register(&fleet, "a", server.port());
        fleet.report(&json!([store(0, "s", 100)]));
        quota(&fleet, "s", 0);
        eventually("it is answered", || count(&fleet, "eviction_keys_answered_total") >= 1);
        assert_eq!(count(&fleet, "eviction_requests_failed_total"), 0, "{body}");
    }
}

#[test]
fn a_server_that_refuses_connections_is_passed_over_while_another_is_there() {
    let fleet = Fleet::start(sweeping());
    let good = MpServer::start();
    good.behave(Manner::NeverDelete);
    let port = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap().port()
    };
    register(&fleet, "closed", port);
    register(&fleet, "good", good.port());
    fleet.report(&json!((0..10).map(|number| store(number, "s", 100)).collect::<Vec<_>>()));
    quota(&fleet, "s", 900);
    eventually("the good one is asked six times", || victims(&good).len() >= 6);
    let failed = count(&fleet, "eviction_requests_failed_total");
    assert!(failed <= 1, "{failed}: not twice while another is there");
    assert_eq!(fleet.delete("/instances/good").status, 204);
    eventually("alone it is used, and used again", || {
        count(&fleet, "eviction_requests_failed_total") >= failed + 3
    });
}

#[test]
fn servers_take_turns() {
    let fleet = Fleet::start(sweeping());
    let servers = [(); 3].map(|()| MpServer::start());
    for (number, server) in servers.iter().enumerate() {
        server.behave(Manner::Status(500));
        register(&fleet, &number.to_string(), server.port());
    }
    fleet.report(&json!([store(0, "s", 100)]));
    quota(&fleet, "s", 0);
    eventually("each is tried", || servers.iter().all(|server| victims(server).len() >= 3));
    let counts = servers.each_ref().map(|server| victims(server).len());
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 2, "{counts:?}");
}

#[test]
fn with_nobody_there_the_plan_is_kept() {
    let fleet = Fleet::start(sweeping());
    fleet.report(&json!((0..10).map(|number| store(number, "s", 100)).collect::<Vec<_>>()));
    quota(&fleet, "s", 900);
    sweeps(&fleet, 5);
    assert!(count(&fleet, "eviction_keys_unsent_total") >= 8);
    assert_eq!(count(&fleet, "eviction_keys_sent_total"), 0);
    assert_eq!(count(&fleet, "eviction_keys_failed_total"), 0);
    assert_eq!(fleet.usage("s"), 1000);
    let server = MpServer::start();
    server.join(fleet.address(), "late");
    server.store(&objects(0..10, 100));
    known(&fleet, 800);
    assert_eq!(deletes(&server.seen()).into_iter().map(crate::evictions::numbers).next().unwrap(), [0, 1]);
}
