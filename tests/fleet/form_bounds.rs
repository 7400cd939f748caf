//! Set-up: bodies with a million faults, bodies of which every fault shows megabytes, random bytes.
//! Claim: an answer stays short whatever is wrong, all faults are counted, and nothing panics.

use kvatlas::fleet::form::{self, Reject};
use proptest::prelude::*;
use serde_json::Value;

fn answer(reject: &Reject) -> (usize, Value) {
    let mut out = Vec::new();
    reject.write(&mut out);
    (out.len(), serde_json::from_slice(&out).unwrap())
}

#[test]
fn a_million_faults_are_counted_and_a_thousand_listed() {
    let events = vec!["{}"; 400_000].join(",");
    let body = format!("{{\"instance_id\":\"\",\"seq\":1,\"events\":[{events}]}}");
    let reject = form::events("", body.as_bytes()).unwrap_err();
    let Reject::Unprocessable(faults) = &reject else { panic!("{reject:?}") };
    assert_eq!(faults.count(), 1_200_000);
    let (length, answer) = answer(&reject);
    assert_eq!(answer["detail"].as_array().unwrap().len(), 1000);
    assert!(length < 200_000, "{length}");
}

#[test]
fn what_is_shown_of_a_body_is_bounded() {
    let pad = "é".repeat(400_000);
    let body = format!("{{\"pad\":\"{pad}\"}}");
    let reject = form::cache_delete("", body.as_bytes(), 1).unwrap_err();
    let (length, detail) = answer(&reject);
    // the first fault has room to show the whole, the others have not
    assert_eq!(detail["detail"][0]["input"]["pad"], pad);
    assert_eq!(detail["detail"][1]["input"], Value::Null);
    assert_eq!(detail["detail"].as_array().unwrap().len(), 3);
    assert!(length < 1_000_000, "{length}");
    let text = "x".repeat(3 << 20);
    let (length, _) = answer(&form::register("text/plain", text.as_bytes()).unwrap_err());
    assert!(length < 1000, "{length}");
    let key = format!("{{\"ip\":\"a\",\"http_port\":1,\"metadata\":{{\"{text}\":1}}}}");
    assert_eq!(form::register("", key.as_bytes()).unwrap_err().status(), 422);
}

#[test]
fn a_value_with_repeated_keys_is_shown_once() {
    let body = r#"{"ip":{"b":1,"a":[{"x":1,"x":{"y":2,"y":3}}],"b":[],"a":[{"x":1,"x":{"y":2,"y":3}},{}]},"http_port":1}"#;
    let (_, detail) = answer(&form::register("", body.as_bytes()).unwrap_err());
    let shown: Value = serde_json::from_str(r#"{"b":[],"a":[{"x":{"y":3}},{}]}"#).unwrap();
    assert_eq!(detail["detail"][0]["input"], shown);
    let mut out = Vec::new();
    form::register("", body.as_bytes()).unwrap_err().write(&mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r#""input":{"b":[],"a":[{"x":{"y":3}},{}]}"#), "{text}");
}

/// Every reader over one body.
fn read_all(kind: &str, body: &[u8]) -> [Option<Reject>; 11] {
    let text = String::from_utf8_lossy(body);
    [
        form::register(kind, body).err(),
        form::quota(kind, body).err(),
        form::config(kind, body).err(),
        form::pins(kind, body, 2).err(),
        form::prefetch(kind, body).err(),
        form::cache_delete(kind, body, 2).err(),
        form::blend_register(kind, body).err(),
        form::blend_remove(kind, body).err(),
        form::blend_match(kind, body).err(),
        form::events(kind, body).err(),
        form::pins_query(Some(&text)).err(),
    ]
}

/// Pieces of JSON, whole and broken.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"\\u",
        b"d800",
        b"\\udc00",
        b"0",
        b"1",
        b"-",
        b".",
        b"e",
        b"E+",
        b"null",
        b"NaN",
        b"-Infinity",
        b"true",
        b" ",
        b"\n",
        b"\xc3\xa9",
        b"\xff",
        b"\x00",
        b"\"ip\":",
        b"\"events\":[",
        b"\"key\":{",
        b"\"limit_gb\":",
        b"\"token_ids\":[",
        b"\"metadata\":{",
        b"\"a\"",
        b"\xef\xbb\xbf",
        b"\"ranges\":[{",
        b"\"object_keys\":[",
        b"\"tokens_b64\":\"",
        b"\"instance_id\":\"\",\"seq\":1",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_every_refusal_is_json(
        body in prop_oneof![pieces(), prop::collection::vec(any::<u8>(), 0..60)],
        kind in prop::sample::select(&["", "application/json", "text/plain"][..]),
    ) {
        for reject in read_all(kind, &body).into_iter().flatten() {
            let (_, answer) = answer(&reject);
            match reject.status() {
                422 => prop_assert!(!answer["detail"].as_array().unwrap().is_empty()),
                400 => prop_assert!(answer["detail"].is_string()),
                status => prop_assert!(false, "{}", status),
            }
        }
    }
}
