//! Set-up: servers whose storage is full before the coordinator starts, listing it well, badly or not at all.
//! Claim: what storage holds is learnt once, page by page; a server that fails keeps what it gave, and another is
//! asked; events that come meanwhile win; nothing is evicted before it is over where there is a state directory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::coordinator::{Fleet, LOST, eventually, quiet, store};
use crate::evictions::{count, deletes, objects, quota};
use crate::mp_server::{Manner, MpServer, Object};
use kvatlas::fleet::settings::Settings;
use serde_json::{Value, json};

fn resyncing() -> Settings {
    Settings { enable_startup_resync: true, resync_poll_interval: 0.01, resync_page_size: 2, ..quiet() }
}

fn register(fleet: &Fleet, id: &str, port: u16) {
    let body = json!({"ip": "127.0.0.1", "http_port": port, "instance_id": id});
    assert_eq!(fleet.post("/instances", &body).status, 200);
}

fn is(fleet: &Fleet, state: &str) -> bool {
    count(fleet, &format!("resync{{state=\"{state}\"}}")) == 1
}

fn over(fleet: &Fleet, state: &str) {
    eventually(state, || !is(fleet, "running"));
    assert!(is(fleet, state), "it is not {state}");
}

fn targets(server: &MpServer) -> Vec<String> {
    server.seen().into_iter().map(|seen| seen.target).collect()
}

/// A server that answers each request with what the test hands over, and tells what it was asked.
struct Puppet {
    port: u16,
    asked: Receiver<String>,
    answers: Sender<(u16, Value)>,
}

impl Puppet {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, asked) = mpsc::channel();
        let (answers, hear) = mpsc::channel::<(u16, Value)>();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(target) = read_target(stream.as_ref().unwrap()) else { continue };
                // the test may be over
                let _ = tell.send(target);
                let Ok((status, body)) = hear.recv() else { return };
                let body = body.to_string();
                let len = body.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
                );
                let _ = stream.unwrap().write_all(head.as_bytes());
            }
        });
        Self { port, asked, answers }
    }

    /// What is asked next.
    fn asked(&self) -> String {
        self.asked.recv_timeout(LOST).expect("it is asked")
    }

    fn answer(&self, status: u16, entries: &[Value], next: &Value) {
        self.answers
            .send((status, json!({"adapter": "x", "entries": entries, "next_page_token": next})))
            .unwrap();
    }
}

fn read_target(mut stream: &TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()?.split(' ').nth(1).map(str::to_owned)
}

fn entry(number: u64, bytes: u64) -> Value {
    json!({"key": Object::numbered(number, "m", "s").json(), "size_bytes": bytes})
}

#[test]
fn everything_listed_is_known_and_is_evicted_in_that_order() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.02, ..resyncing() });
    let server = MpServer::start();
    server.store(&objects(0..5, 100));
    server.join(fleet.address(), "a");
    over(&fleet, "done");
    assert_eq!(fleet.usage("s"), 500);
    assert_eq!(
        targets(&server),
        [
            "/cache/objects?page_size=2",
            "/cache/objects?page_size=2&page_token=from%2F2",
            "/cache/objects?page_size=2&page_token=from%2F4"
        ]
    );
    assert!(server.seen().iter().all(|seen| seen.method == "GET" && seen.body.is_empty()));
    assert_eq!(count(&fleet, "resync_keys_listed_total"), 5);
    quota(&fleet, "s", 250);
    eventually("the oldest of the listing go", || fleet.usage("s") == 200);
    assert_eq!(server.objects(), [3, 4].map(|number| Object::numbered(number, "m", "s")));
}

#[test]
fn tokens_come_back_as_they_were_given() {
    let fleet = Fleet::start(resyncing());
    let puppet = Puppet::start();
    register(&fleet, "a", puppet.port);
    assert_eq!(puppet.asked(), "/cache/objects?page_size=2");
    puppet.answer(200, &[entry(0, 1)], &json!("T1"));
    assert_eq!(puppet.asked(), "/cache/objects?page_size=2&page_token=T1");
    puppet.answer(200, &[], &json!("a/b=c+d& é%"));
    assert_eq!(puppet.asked(), "/cache/objects?page_size=2&page_token=a%2Fb%3Dc%2Bd%26%20%C3%A9%25");
    puppet.answer(200, &[entry(1, 2)], &json!(""));
    assert_eq!(puppet.asked(), "/cache/objects?page_size=2&page_token=", "an empty one goes on");
    puppet.answer(200, &[entry(2, 4)], &Value::Null);
    over(&fleet, "done");
    assert_eq!((fleet.usage("s"), count(&fleet, "resync_pages")), (7, 4));
}

#[test]
fn a_page_that_fails_keeps_those_before_it_and_another_server_is_asked() {
    let fleet = Fleet::start(resyncing());
    let puppet = Puppet::start();
    register(&fleet, "a", puppet.port);
    puppet.asked();
    puppet.answer(200, &[entry(0, 1), entry(1, 2)], &json!("T1"));
    puppet.asked();
    eventually("the first page is known", || fleet.usage("s") == 3);
    let other = MpServer::start();
    other.store(&objects(1..4, 100));
    register(&fleet, "b", other.port());
    puppet.answer(503, &[entry(9, 1000)], &json!("T2"));
    over(&fleet, "done");
    assert_eq!(
        fleet.usage("s"),
        301,
        "the first page of one, all of the other; its sizes are the later ones"
    );
    assert_eq!(targets(&other)[0], "/cache/objects?page_size=2", "from the beginning");
    assert_eq!(count(&fleet, "resync_instances_tried"), 2);
    assert!(puppet.asked.try_recv().is_err(), "nobody is asked again");
}

#[test]
fn each_server_is_tried_once_and_a_later_one_may_still_succeed() {
    let fleet = Fleet::start(resyncing());
    let bad = [Manner::Status(503), Manner::Hangup, Manner::Raw(b"HTTP/1.1 200 OK\r\n\r\n[]".to_vec())];
    let bad = bad.map(|manner| {
        let server = MpServer::start();
        server.behave(manner);
        server.join(fleet.address(), &format!("bad {}", server.port()));
        server
    });
    eventually("all are tried", || count(&fleet, "resync_instances_tried") == 3);
    assert!(is(&fleet, "running"));
    // a new registration of the same server is no new server
    bad[0].join(fleet.address(), &format!("bad {}", bad[0].port()));
    let good = MpServer::start();
    good.store(&objects(0..3, 10));
    good.join(fleet.address(), "good");
    over(&fleet, "done");
    assert_eq!(fleet.usage("s"), 30);
    assert!(bad.iter().all(|server| server.seen().len() == 1));
}

#[test]
fn bad_entries_are_skipped() {
    let fleet = Fleet::start(resyncing());
    let puppet = Puppet::start();
    register(&fleet, "a", puppet.port);
    puppet.asked();
    let key = |change: &str, value: Value| {
        let mut entry = entry(7, 1000);
        entry["key"][change] = value;
        entry
    };
    let mut bare = entry(1, 0);
    bare["size_bytes"] = json!("20");
    bare["key"].as_object_mut().unwrap().remove("object_group_id");
    let entries = [
        key("model_name", json!("a@b")),
        key("cache_salt", json!("a@b")),
        key("chunk_hash_hex", json!("xyz")),
        key("chunk_hash_hex", json!("abc")),
        key("chunk_hash_hex", Value::Null),
        key("kv_rank", json!("x")),
        key("object_group_id", json!(-1)),
        json!({"key": Object::numbered(7, "m", "s").json()}),
        json!({"key": Object::numbered(7, "m", "s").json(), "size_bytes": -1}),
        json!({"size_bytes": 1000}),
        json!(null),
        json!([]),
        entry(0, 1),
        bare,
    ];
    puppet.answer(200, &entries, &Value::Null);
    over(&fleet, "done");
    assert_eq!(fleet.usage("s"), 21);
    assert_eq!(count(&fleet, "resync_entries_skipped"), 12);
}

#[test]
fn a_page_size_above_the_ceiling_of_servers_is_lowered() {
    let fleet = Fleet::start(Settings { resync_page_size: 6000, ..resyncing() });
    let server = MpServer::start();
    server.store(&objects(0..5001, 1));
    server.join(fleet.address(), "a");
    over(&fleet, "done");
    assert_eq!(fleet.usage("s"), 5001);
    assert_eq!(
        targets(&server),
        [
            "/cache/objects?page_size=6000",
            "/cache/objects?page_size=5000",
            "/cache/objects?page_size=5000&page_token=from%2F5000"
        ]
    );
}

#[test]
fn events_that_come_meanwhile_win() {
    let fleet = Fleet::start(Settings { eviction_check_interval: 0.02, ..resyncing() });
    let puppet = Puppet::start();
    register(&fleet, "a", puppet.port);
    puppet.asked();
    // before the page: 0 is stored with another size, 1 is gone, 2 is stored and gone, 3 is gone and stored
    fleet.report(&json!([
        store(0, "s", 64),
        crate::coordinator::event("delete", 1, "s", 0),
        store(2, "s", 5),
        crate::coordinator::event("delete", 2, "s", 0),
        crate::coordinator::event("delete", 3, "s", 0),
        store(3, "s", 32),
    ]));
    let listed: Vec<Value> = (0..5).map(|number| entry(number, 1000)).collect();
    puppet.answer(200, &listed, &json!("T1"));
    puppet.asked();
    eventually("the page is known", || fleet.usage("s") == 1096);
    // between two pages: 4, which was listed, is gone, and is listed again
    fleet.report(&json!([crate::coordinator::event("delete", 4, "s", 0)]));
    puppet.answer(200, &[entry(4, 1000), entry(5, 1)], &Value::Null);
    over(&fleet, "done");
    assert_eq!(fleet.usage("s"), 97);
    assert_eq!(count(&fleet, "resync_keys_overruled_total"), 5);
    // afterwards nothing of it is left: what is stored again is stored
    fleet.report(&json!([store(4, "s", 2)]));
    assert_eq!(fleet.usage("s"), 99);
    // and listed keys are older than those that events named: 5 goes first
    quota(&fleet, "s", 99);
    assert_eq!(puppet.asked(), "/cache/objects");
    assert_eq!(count(&fleet, "eviction_keys_in_flight"), 1);
    fleet.report(&json!([crate::coordinator::event("delete", 5, "s", 0)]));
    assert_eq!((fleet.usage("s"), count(&fleet, "eviction_keys_confirmed_total")), (98, 1));
}

#[test]
fn with_nobody_there_it_is_given_up() {
    let fleet = Fleet::start(Settings { resync_max_wait: 0.1, ..resyncing() });
    over(&fleet, "gave_up");
    let server = MpServer::start();
    server.store(&objects(0..3, 10));
    server.join(fleet.address(), "late");
    fleet.report(&json!([store(9, "s", 1)]));
    assert!(server.seen().is_empty(), "nobody is asked any more");
    assert_eq!((fleet.usage("s"), count(&fleet, "resync_instances_tried")), (1, 0));
}

#[test]
fn where_it_is_not_wanted_nobody_is_asked() {
    let fleet = Fleet::start(Settings { enable_startup_resync: false, ..resyncing() });
    let server = MpServer::start();
    server.store(&objects(0..3, 10));
    server.join(fleet.address(), "a");
    over(&fleet, "disabled");
    fleet.report(&json!([store(9, "s", 1)]));
    assert!(server.seen().is_empty());
    assert_eq!(fleet.usage("s"), 1);
}

#[test]
fn nothing_is_evicted_before_it_is_over_where_quotas_were_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        Settings { eviction_check_interval: 0.01, state_dir: Some(folder.path().to_owned()), ..resyncing() };
    {
        let fleet = Fleet::start(Settings { enable_startup_resync: false, ..settings.clone() });
        quota(&fleet, "s", 0);
        fleet.stop();
    }
    let fleet = Fleet::start(settings.clone());
    let (puppet, server) = (Puppet::start(), MpServer::start());
    register(&fleet, "a", puppet.port);
    puppet.asked();
    register(&fleet, "b", server.port());
    fleet.report(&json!((0..10).map(|number| store(number, "s", 100)).collect::<Vec<_>>()));
    puppet.answer(200, &[entry(10, 100)], &json!("T1"));
    puppet.asked();
    eventually("the page is known", || fleet.usage("s") == 1100);
    assert_eq!(count(&fleet, "eviction_keys_planned_total"), 0);
    assert_eq!(count(&fleet, "eviction_sweeps_total"), 0);
    puppet.answer(200, &[], &Value::Null);
    eventually("then it is", || count(&fleet, "eviction_keys_planned_total") >= 11);
    // given up is over as well
    let fleet = {
        fleet.stop();
        Fleet::start(Settings { resync_max_wait: 0.05, ..settings })
    };
    fleet.report(&json!([store(1, "s", 1)]));
    over(&fleet, "gave_up");
    register(&fleet, "b", server.port());
    server.take_seen();
    eventually("evicted", || !deletes(&server.seen()).is_empty());
}
