//! Set-up: a running coordinator that is told which chunks are stored, and asked to find them in prompts.
//! Claim: what is registered is found at any offset until it is removed, scopes are apart, and what is malformed is
//! refused with the place of the fault.

use crate::coordinator::{Fleet, quiet};
use crate::wire::{fault, fault_in, refused, said};
use serde_json::{Value, json};

/// Base64 of the tokens as little-endian words.
fn packed(tokens: &[u32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > group.len() { '=' } else { digit.into() });
        }
    }
    out
}

fn register(fleet: &Fleet, ranges: &Value) -> (u16, Value) {
    said(&fleet.post("/blend/fingerprints", &json!({"ranges": ranges})))
}

fn find(fleet: &Fleet, scope: &str, tokens: &[u32]) -> Value {
    let (status, answer) =
        said(&fleet.post("/blend/match", &json!({"model_scope": scope, "tokens_b64": packed(tokens)})));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn remove(fleet: &Fleet, keys: &Value) -> (u16, Value) {
    said(&fleet.call("DELETE", "/blend/fingerprints", json!({"object_keys": keys}).to_string().as_bytes()))
}

#[test]
fn chunks_are_found_at_any_offset_until_they_are_removed() {
    let fleet = Fleet::start(quiet());
    let tokens: Vec<u32> = (100..108).collect();
    let range = json!({"model_scope": "m", "tokens": tokens, "object_keys": ["k0", "k1"], "old_st_base": 40});
    assert_eq!(register(&fleet, &json!([range])), (200, json!({"inserted": 2})));
    assert_eq!(register(&fleet, &json!([range])), (200, json!({"inserted": 0})), "again it is nothing new");
    let hit = |key: &str, old: u32, new: u32| json!({"object_key": key, "old_st": old, "cur_st": new});
    assert_eq!(find(&fleet, "m", &tokens), json!({"matches": [hit("k0", 40, 0), hit("k1", 44, 4)]}));
    let moved = [&[1, 2, 3], &tokens[4..], &[9], &tokens[..4]].concat();
    assert_eq!(find(&fleet, "m", &moved), json!({"matches": [hit("k1", 44, 3), hit("k0", 40, 8)]}));
    for (scope, prompt) in [("other", tokens.as_slice()), ("m", &tokens[..3]), ("m", &[]), ("m", &[7; 20])] {
        assert_eq!(find(&fleet, scope, prompt), json!({"matches": []}));
    }
    assert_eq!(remove(&fleet, &json!(["k1", "unknown"])), (200, json!({"removed": 1})));
    assert_eq!(find(&fleet, "m", &tokens), json!({"matches": [hit("k0", 40, 0)]}));
    assert_eq!(remove(&fleet, &json!(["k1"])), (200, json!({"removed": 0})));
    assert_eq!(remove(&fleet, &json!([])), (200, json!({"removed": 0})));
    assert_eq!(fleet.metric("blend_fingerprints") as u64, 1);
}

#[test]
fn ranges_whose_keys_do_not_fit_are_left_out() {
    let fleet = Fleet::start(quiet());
    let range = |tokens: u32, keys: &[&str]| json!({"model_scope": "m", "tokens": (0..tokens).collect::<Vec<_>>(), "object_keys": keys, "old_st_base": 0});
    let ranges = json!([range(8, &["a"]), range(7, &["b"]), range(3, &["c"]), range(0, &[])]);
    assert_eq!(register(&fleet, &ranges), (200, json!({"inserted": 1})));
    assert_eq!(
        find(&fleet, "m", &[0, 1, 2, 3]),
        json!({"matches": [{"object_key": "b", "old_st": 0, "cur_st": 0}]})
    );
    assert_eq!(said(&fleet.post("/blend/fingerprints", &json!({}))), (200, json!({"inserted": 0})));
}

#[test]
fn what_is_malformed() {
    let fleet = Fleet::start(quiet());
    let least = |place: Value| {
        let message = "Input should be greater than or equal to 0";
        fault_in("greater_than_equal", place, message, json!(-1), json!({"ge": 0}))
    };
    let range = json!({"tokens": [1, -1], "object_keys": [5], "old_st_base": -1});
    assert_eq!(
        register(&fleet, &json!([range])),
        refused(json!([
            fault("missing", json!(["body", "ranges", 0, "model_scope"]), "Field required", range),
            least(json!(["body", "ranges", 0, "tokens", 1])),
            fault(
                "string_type",
                json!(["body", "ranges", 0, "object_keys", 0]),
                "Input should be a valid string",
                json!(5)
            ),
            least(json!(["body", "ranges", 0, "old_st_base"])),
        ]))
    );
    let list = json!([fault(
        "list_type",
        json!(["body", "object_keys"]),
        "Input should be a valid list",
        json!("k")
    )]);
    assert_eq!(remove(&fleet, &json!("k")), refused(list));
    for text in ["%%%", "AAA", "AAAAAA", "AAAA=", "é", "=AAAA", "AAAAA"] {
        let (status, answer) =
            said(&fleet.post("/blend/match", &json!({"model_scope": "m", "tokens_b64": text})));
        let wrong = &answer["detail"][0];
        assert_eq!(
            (status, &wrong["type"], &wrong["loc"]),
            (422, &json!("value_error"), &json!(["body", "tokens_b64"])),
            "{text}"
        );
    }
}

/// A directory that grew and lost almost all of it still finds the rest.
#[test]
fn growth_and_removal_of_many() {
    let fleet = Fleet::start(quiet());
    let tokens: Vec<u32> = (0..1600).map(|at| at * 7919 % 100_003).collect();
    let keys: Vec<String> = (0..400).map(|chunk| format!("k{chunk}")).collect();
    let range = json!({"model_scope": "m", "tokens": tokens, "object_keys": keys, "old_st_base": 0});
    assert_eq!(register(&fleet, &json!([range])), (200, json!({"inserted": 400})));
    assert_eq!(find(&fleet, "m", &tokens)["matches"].as_array().unwrap().len(), 400);
    assert_eq!(remove(&fleet, &json!(keys[..399])), (200, json!({"removed": 399})));
    let left = json!({"matches": [{"object_key": "k399", "old_st": 1596, "cur_st": 1596}]});
    assert_eq!(find(&fleet, "m", &tokens), left);
}
