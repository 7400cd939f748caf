//! Eviction as a server sees it: fast sweeps, and the keys that DELETEs name.
#![allow(dead_code, unreachable_pub)] // each test file uses its part

use kvatlas::fleet::settings::Settings;
use serde_json::{Value, json};

use crate::coordinator::{Fleet, GIB, LOST, eventually, quiet};
use crate::mp_server::{MpServer, Object, Seen};

/// Sweeps many times a second.
pub fn sweeping() -> Settings {
    Settings { eviction_check_interval: 0.02, ..quiet() }
}

/// Objects of salt `s` by these numbers.
pub fn objects(numbers: impl IntoIterator<Item = u64>, bytes: u64) -> Vec<(Object, u64)> {
    numbers.into_iter().map(|number| (Object::numbered(number, "m", "s"), bytes)).collect()
}

/// Sets the quota of a salt, bytes.
pub fn quota(fleet: &Fleet, salt: &str, bytes: u64) {
    let answer = fleet.put(&format!("/quota/{salt}"), &json!({"limit_gb": bytes as f64 / GIB}));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Sets the limit of salts without a quota.
pub fn default_limit(fleet: &Fleet, limit: &Value) {
    let answer = fleet.put("/quota/config", &json!({"default_limit_gb": limit}));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The DELETEs among what was asked.
pub fn deletes(seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.method == "DELETE").collect()
}

/// The numbers of the keys that a DELETE names.
pub fn numbers(seen: &Seen) -> Vec<u64> {
    let body = seen.json();
    let number = |key: &Value| u64::from_str_radix(key["chunk_hash_hex"].as_str().unwrap(), 16).unwrap();
    body["keys"].as_array().unwrap().iter().map(number).collect()
}

/// The numbers of the keys of each DELETE so far.
pub fn victims(server: &MpServer) -> Vec<Vec<u64>> {
    deletes(&server.seen()).into_iter().map(numbers).collect()
}

/// A whole number of `/metrics`.
pub fn count(fleet: &Fleet, line: &str) -> u64 {
    fleet.metric(line) as u64
}

/// Waits until `more` further sweeps are over.
pub fn sweeps(fleet: &Fleet, more: u64) {
    let end = count(fleet, "eviction_sweeps_total") + more;
    eventually("further sweeps", || count(fleet, "eviction_sweeps_total") >= end);
}

/// Waits until the coordinator knows of so many bytes under salt `s`.
pub fn known(fleet: &Fleet, bytes: u64) {
    eventually(&format!("{bytes} bytes are known, within {LOST:?}"), || fleet.usage("s") == bytes);
}
