//! Set-up: coordinators that keep their state in a directory, end in order or are killed, and start again.
//! Claim: quotas, the default limit and pins are there again, and nothing else; a damaged file is set aside and
//! reported; a directory has one coordinator at a time; without a directory nothing is kept.

use std::fs;
use std::path::Path;

use crate::coordinator::{Fleet, eventually, quiet, store};
use crate::fleet_process::{Process, command};
use kvatlas::fleet::settings::Settings;
use kvatlas::fleet::vault::FILE;
use serde_json::{Value, json};

fn pins(tokens: &[u32]) -> Value {
    json!({"model_name": "m", "world_size": 2, "token_ids": tokens, "cache_salt": "s"})
}

/// Changes of every kind, some taken back.
fn change(put: &dyn Fn(&str, &str, &Value)) {
    put("PUT", "/quota/a", &json!({"limit_gb": 2.5}));
    put("PUT", "/quota/_default", &json!({"limit_gb": 0}));
    put("PUT", "/quota/gone", &json!({"limit_gb": 1}));
    put("DELETE", "/quota/gone", &json!({}));
    put("PUT", "/quota/a", &json!({"limit_gb": 3}));
    put("PUT", "/quota/config", &json!({"default_limit_gb": 7.5}));
    put("POST", "/cache/pins", &pins(&[1, 2, 3, 4, 5, 6, 7, 8]));
    put("POST", "/cache/pins", &pins(&[1, 2, 3, 4]));
    put("DELETE", "/cache/pins", &pins(&[1, 2, 3, 4, 5, 6, 7, 8]));
    put("POST", "/quota/events", &json!({"instance_id": "x", "seq": 1, "events": [store(1, "a", 9)]}));
}

fn check(get: &dyn Fn(&str) -> Value) {
    assert_eq!(get("/quota/config"), json!({"default_limit_gb": 7.5}));
    let quotas = get("/quota");
    assert_eq!(
        quotas,
        json!({"total_gb": 0.0, "by_cache_salt": [
            {"cache_salt": "", "quota_limit_gb": 0.0, "quota_exists": true, "usage_gb": 0.0},
            {"cache_salt": "a", "quota_limit_gb": 3.0, "quota_exists": true, "usage_gb": 0.0},
        ]}),
        "usage is not kept"
    );
    let pinned = get("/cache/pins");
    assert_eq!(pinned["total"], 2, "one pin of each rank of the first chunk is left");
    assert!(pinned["pins"].as_array().unwrap().iter().all(|pin| pin["pin_count"] == 1));
    assert_eq!(get("/instances"), json!({"instances": []}));
}

#[test]
fn quotas_and_pins_survive_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a/b");
    let settings = Settings { state_dir: Some(dir), ..quiet() };
    let fleet = Fleet::start(settings.clone());
    change(&|method, path, body| {
        let answer = fleet.call(method, path, body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    fleet.stop();
    for _ in 0..2 {
        let fleet = Fleet::start(settings.clone());
        check(&|path| fleet.get(path).json());
        fleet.stop();
    }
}

#[test]
fn quotas_and_pins_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::keeping(folder.path());
    change(&|method, path, body| process.done(method, path, body));
    process.signal("KILL");
    process.end();
    let process = Process::keeping(folder.path());
    check(&|path| process.get(path));
    process.signal("TERM");
    let (status, said) = process.end();
    assert_eq!(status.code(), Some(0), "{said}");
    check(&|path| Process::keeping(folder.path()).get(path));
}

#[test]
fn without_a_directory_nothing_is_kept() {
    let fleet = Fleet::start(quiet());
    change(&|method, path, body| {
        assert_eq!(fleet.call(method, path, body.to_string().as_bytes()).status, 200);
    });
    fleet.stop();
    let fleet = Fleet::start(quiet());
    assert_eq!(fleet.get("/quota/config").json(), json!({"default_limit_gb": null}));
    assert_eq!(fleet.get("/quota").json(), json!({"total_gb": 0.0, "by_cache_salt": []}));
    assert_eq!(fleet.get("/cache/pins").json(), json!({"total": 0, "pins": []}));
}

#[test]
fn a_damaged_file_is_set_aside_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = b"this is no database".repeat(1000);
    fs::write(folder.path().join(FILE), &damaged).unwrap();
    let process = Process::keeping(folder.path());
    assert_eq!(process.get("/quota/config"), json!({"default_limit_gb": null}));
    process.done("PUT", "/quota/a", &json!({"limit_gb": 1}));
    process.signal("TERM");
    let (status, said) = process.end();
    assert_eq!(status.code(), Some(0));
    assert!(said.contains("damaged") && said.contains("set aside"), "{said}");
    let aside: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| fs::read(path).is_ok_and(|bytes| bytes == damaged))
        .collect();
    assert_eq!(aside.len(), 1, "it is not deleted");
    assert!(said.contains(aside[0].to_str().unwrap()), "{said}");
    let process = Process::keeping(folder.path());
    assert_eq!(process.get("/quota/a")["quota_exists"], true);
}

fn refused(dir: &Path) -> String {
    let dir = dir.to_str().unwrap();
    let mut child =
        command(&["--host", "127.0.0.1", "--port", "0", "--state-dir", dir], &[]).spawn().unwrap();
    eventually("it is refused", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_directory_has_one_coordinator_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::keeping(folder.path());
    first.done("PUT", "/quota/a", &json!({"limit_gb": 1}));
    let said = refused(folder.path());
    assert!(said.contains("in use by another process"), "{said}");
    first.done("PUT", "/quota/b", &json!({"limit_gb": 1}));
    assert_eq!(first.get("/quota/a")["quota_exists"], true, "the first one does not notice");
}

#[test]
fn a_directory_that_cannot_be_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let said = refused(&file);
    assert!(said.contains("state directory") && said.contains(file.to_str().unwrap()), "{said}");
}
