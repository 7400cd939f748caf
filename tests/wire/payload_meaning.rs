//! Set-up: captured-like payloads of every publisher family and every malformed kind, each with its meaning
//! written down: the project's own set in `tests/data/payloads.jsonl`, and the conformance folder where there
//! is one (`KVATLAS_CONFORMANCE`, else `../shared/conformance`).
//!
//! Claim: decoding gives exactly that meaning: verdict, timestamp, rank, events in order, every stated field;
//! and a bad event never costs its neighbours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kvatlas::event::{Batch, Event, decode, describe};
use serde_json::{Value, json};

/// Fields of an expected event that say nothing about decoding.
const NOT_DECODED: [&str; 3] = ["action", "hash_kinds", "note"];

/// What `semantics.md` decides otherwise than the conformance file says.
enum Decided {
    /// The verdict and the number of good events.
    Verdict(&'static str, usize),
    /// The class of the medium.
    Class(&'static str),
    /// The timestamp of the batch.
    Ts(f64),
}

/// The exceptions, each with its reason.
fn decisions() -> BTreeMap<&'static str, Decided> {
    use Decided::{Class, Ts, Verdict};
    BTreeMap::from([
        // section 2: a hash of fewer than 8 bytes is a bad event
        ("bytes_hash_len_1", Verdict("accept_skip_bad_events", 0)),
        ("bytes_hash_len_4", Verdict("accept_skip_bad_events", 0)),
        ("bytes_hash_len_7", Verdict("accept_skip_bad_events", 0)),
        // section 4: a nil timestamp is fine
        ("batch_ts_nil", Verdict("accept", 0)),
        // section 1: the envelope wins over the registration, so the event is good
        ("mooncake_rfc_wrong_stream_id", Verdict("accept", 1)),
        // section 4: standard sequence hashes locate their blocks themselves
        ("mooncake_rfc_no_position", Verdict("accept", 1)),
        // section 3: other spellings of GPU, and saying nothing
        ("medium_cuda_0", Class("gpu")),
        ("lmcache_cuda_0", Class("gpu")),
        ("medium_gpu_case", Class("gpu")),
        ("medium_empty_string", Class("gpu")),
        // the file states the event's own timestamp; the batch carries another one
        ("mooncake_ts_seconds_float", Ts(1_739_145_600.5)),
    ])
}

#[test]
fn the_projects_own_payloads_mean_what_is_written_beside_them() {
    let text = include_str!("../data/payloads.jsonl");
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        let payload = bytes(case["payload_hex"].as_str().unwrap());
        check(id, &payload, &case["expect"]);
        count += 1;
    }
    assert!(count > 120, "only {count} payloads");
}

#[test]
fn the_conformance_payloads_mean_what_is_written_beside_them() {
    let Some(folder) = conformance() else {
        println!("no conformance folder: only the project's own payloads were checked");
        return;
    };
    let mut decisions = decisions();
    let mut count = 0;
    for file in json_files(&folder.join("payloads")) {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let id = case["id"].as_str().unwrap();
        let Some(payload) = payload_of(&case, &file) else { continue };
        let mut expect = case["expect"].clone();
        match decisions.remove(id) {
            None => {}
            Some(Decided::Class(class)) => expect["events"][0]["medium_class"] = json!(class),
            Some(Decided::Ts(ts)) => expect["ts"] = json!(ts),
            Some(Decided::Verdict(verdict, events)) => {
                expect = json!({ "batch": verdict, "events_count": events });
            }
        }
        check(id, &payload, &expect);
        count += 1;
    }
    assert!(decisions.is_empty(), "exceptions without a payload: {:?}", decisions.keys());
    assert!(count > 1000, "only {count} payloads in {}", folder.display());
}

/// Compares what a payload is said to mean with what it is decoded to.
fn check(id: &str, payload: &[u8], expect: &Value) {
    let told = describe(payload);
    assert_eq!(told["batch"], expect["batch"], "{id}: {told}");
    if expect["batch"] == "reject" {
        if let Some(reason) = expect.get("reason") {
            assert_eq!(&told["reason"], reason, "{id}");
        }
        return;
    }
    for field in ["ts", "dp_rank"] {
        if let Some(stated) = expect.get(field) {
            assert!(same(&told[field], stated), "{id}: {field} is {}, not {stated}", told[field]);
        }
    }
    let events = told["events"].as_array().unwrap();
    if let Some(count) = expect["events_count"].as_u64() {
        assert_eq!(events.len() as u64, count, "{id}: events");
        check_blocks(id, payload, expect);
        return;
    }
    let stated = expect["events"].as_array().unwrap();
    assert_eq!(events.len(), stated.len(), "{id}: {told}");
    for (told, stated) in events.iter().zip(stated) {
        for (field, value) in stated.as_object().unwrap() {
            if NOT_DECODED.contains(&field.as_str()) || (stated["op"] == "clear" && field == "hashes") {
                continue;
            }
            let value = if field == "token_ids" { &first_tokens(value) } else { value };
            let found = told.get(field).unwrap_or(&Value::Null);
            assert!(same(found, value), "{id}: {field} is {found}, not {value}");
        }
    }
    if let Some(reasons) = expect.get("reasons") {
        let told: Value =
            told["skipped"].as_array().unwrap().iter().map(|skip| skip["reason"].clone()).collect();
        assert_eq!(&told, reasons, "{id}");
    }
}

fn check_blocks(id: &str, payload: &[u8], expect: &Value) {
    let Some(blocks) = expect["blocks"].as_u64() else { return };
    let mut batch = Batch::default();
    decode(payload, &mut batch).unwrap();
    let count: u64 = batch
        .events
        .iter()
        .map(|event| match event {
            Event::Store(store) => u64::from(store.hashes.len),
            Event::Remove(remove) => u64::from(remove.hashes.len),
            Event::Clear(_) => 0,
        })
        .sum();
    assert_eq!(count, blocks, "{id}: blocks");
}

/// Numbers by value, everything else as it stands.
fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.to_bits() == right.to_bits(),
        _ => left == right,
    }
}

/// Bigram pages count by their first tokens.
fn first_tokens(tokens: &Value) -> Value {
    match tokens.as_array() {
        Some(list) => list.iter().map(|token| token.get(0).unwrap_or(token).clone()).collect(),
        None => tokens.clone(),
    }
}

/// The payload of a message; `None` where the file is about the frames around it.
fn payload_of(case: &Value, file: &Path) -> Option<Vec<u8>> {
    let frames = &case["frames"];
    if let Some(hex) = frames["payload_hex"].as_str() {
        return Some(bytes(hex));
    }
    if let Some(name) = frames["payload_file"].as_str() {
        return Some(std::fs::read(file.with_file_name(name)).unwrap());
    }
    let raw = frames["raw"].as_array().unwrap();
    (case["expect"]["batch"] == "accept").then(|| bytes(raw[2].as_str().unwrap()))
}

fn conformance() -> Option<PathBuf> {
    let folder = std::env::var_os("KVATLAS_CONFORMANCE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"), PathBuf::from);
    folder.join("payloads").is_dir().then_some(folder)
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
