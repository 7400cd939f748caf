//! Set-up: 25,001 keys, all to be evicted at once, and two servers.
//! Claim: they go to one server, as DELETEs of 10,000, 10,000 and 5,001 keys, in exactly the JSON that servers read.

use std::fmt::Write as _;

use crate::coordinator::{Fleet, eventually};
use crate::evictions::{deletes, known, numbers, objects, quota, sweeping};
use crate::mp_server::{Manner, MpServer};
use serde_json::json;

#[test]
fn many_victims_go_out_in_batches_of_ten_thousand() {
    let fleet = Fleet::start(sweeping());
    let servers = [MpServer::start(), MpServer::start()];
    for (server, id) in servers.iter().zip(["a", "b"]) {
        server.behave(Manner::Silent);
        let body = json!({"ip": server.ip(), "http_port": server.port(), "instance_id": id});
        assert_eq!(fleet.post("/instances", &body).status, 200);
    }
    let events: Vec<_> = objects(0..25_001, 1)
        .into_iter()
        .map(|(object, bytes)| json!({"type": "store", "key": object.json(), "bytes": bytes}))
        .collect();
    fleet.report(&json!(events));
    known(&fleet, 25_001);
    quota(&fleet, "s", 0);
    let seen = || servers.each_ref().map(MpServer::seen);
    eventually("all are sent", || {
        seen().iter().flatten().map(|seen| numbers(seen).len()).sum::<usize>() >= 25_001
    });
    let [one, other] = seen();
    assert!(one.is_empty() || other.is_empty(), "all to one server");
    let seen = [one, other].concat();
    let mut batches: Vec<Vec<u64>> = deletes(&seen).into_iter().map(numbers).collect();
    batches.sort();
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10_000, 10_000, 5_001]);
    assert!(batches.concat().into_iter().eq(0..25_001), "oldest first, each once");
    for seen in &seen {
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("DELETE", "/cache/objects"));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        let mut exact = String::new();
        for number in numbers(seen) {
            let comma = if exact.is_empty() { "" } else { "," };
            write!(
                exact,
                "{comma}{{\"chunk_hash_hex\":\"{number:064x}\",\"model_name\":\"m\",\"kv_rank\":16777472,\
                 \"object_group_id\":0,\"cache_salt\":\"s\"}}"
            )
            .unwrap();
        }
        assert_eq!(String::from_utf8_lossy(&seen.body), format!("{{\"keys\":[{exact}]}}"));
    }
}

#[test]
fn every_kind_of_key_is_written_as_it_was_stored() {
    let fleet = Fleet::start(sweeping());
    let server = MpServer::start();
    server.behave(Manner::NeverDelete);
    server.join(fleet.address(), "a");
    let event = |hash: &str, model: &str, rank: i64, group: u64, salt: &str| {
        json!({"type": "store", "bytes": 1, "key": {
            "chunk_hash_hex": hash, "model_name": model, "kv_rank": rank, "object_group_id": group, "cache_salt": salt,
        }})
    };
    fleet.report(&json!([
        event("AbCd", "mödel \"x\"\n", -5, 7, ""),
        event("", "", i64::MAX, u64::MAX >> 1, "\u{1F600}"),
    ]));
    crate::evictions::default_limit(&fleet, &json!(0));
    eventually("both are sent", || server.seen().iter().any(|seen| seen.method == "DELETE"));
    let body = String::from_utf8(deletes(&server.seen())[0].body.clone()).unwrap();
    assert_eq!(
        body,
        "{\"keys\":[{\"chunk_hash_hex\":\"abcd\",\"model_name\":\"mödel \\\"x\\\"\\n\",\"kv_rank\":-5,\
         \"object_group_id\":7,\"cache_salt\":\"\"},{\"chunk_hash_hex\":\"\",\"model_name\":\"\",\
         \"kv_rank\":9223372036854775807,\"object_group_id\":9223372036854775807,\"cache_salt\":\"😀\"}]}"
    );
}
