//! Set-up: a running coordinator that is told what servers store.
//! Claim: events count as the contract says, in order; a batch with one fault changes nothing, and its refusal says
//! where the fault is.

use crate::coordinator::{Fleet, GIB, event, quiet, store};
use crate::wire::{Wire, fault, fault_in, refused, said};
use serde_json::{Value, json};

/// A batch with one event whose field, by its pointer, is something else; `null` as text takes it away.
fn with(pointer: &str, value: &str) -> String {
    let mut batch = json!({"instance_id": "i", "seq": 1, "events": [store(1, "a", 10), {
        "type": "store", "bytes": 20, "key": {
            "chunk_hash_hex": "bb", "model_name": "m", "kv_rank": 1, "object_group_id": 0, "cache_salt": "a"}}]});
    *batch.pointer_mut(pointer).unwrap() = json!("PLACE");
    batch.to_string().replace("\"PLACE\"", value)
}

#[test]
fn usage_follows_the_events() {
    let fleet = Fleet::start(quiet());
    let send = |events: Value| {
        let count = events.as_array().unwrap().len();
        let body = json!({"instance_id": "", "seq": 1, "events": events});
        assert_eq!(said(&fleet.post("/quota/events", &body)), (200, json!({"recorded": count})));
    };
    send(json!([]));
    send(json!([store(1, "a", 1500), store(2, "a", 2000), store(1, "b", 1)]));
    assert_eq!((fleet.usage("a"), fleet.usage("b")), (3500, 1));
    let exact = fleet.get("/quota/a").json()["usage_gb"].as_f64().unwrap();
    assert!((exact - 3500.0 / GIB).abs() < 1e-12);
    send(json!([store(1, "a", 500)]));
    assert_eq!(fleet.usage("a"), 2500, "the later size replaces the earlier");
    send(json!([event("lookup", 1, "a", 77), event("lookup", 9, "a", 77), event("delete", 9, "a", 77)]));
    assert_eq!(fleet.usage("a"), 2500, "nothing of this has bytes");
    send(json!([store(1, "a", 0)]));
    assert_eq!((fleet.usage("a"), fleet.metric("keys")), (2000, 3.0), "a key of no bytes is a key");
    send(json!([store(1, "a", 64), event("delete", 1, "a", 999_999)]));
    assert_eq!(
        (fleet.usage("a"), fleet.metric("keys")),
        (2000, 2.0),
        "what was stored counts, not what is sent"
    );
    // in order, in one batch
    send(json!([store(5, "c", 5), event("delete", 5, "c", 0), store(5, "c", 6), store(5, "c", 7)]));
    assert_eq!(fleet.usage("c"), 7);
    // the number of a batch is not looked at
    for seq in [7, 7, 3, 900, 1] {
        let body = json!({"instance_id": "i", "seq": seq, "events": [store(6, "d", 6)]});
        assert_eq!(said(&fleet.post("/quota/events", &body)), (200, json!({"recorded": 1})));
    }
    assert_eq!(fleet.usage("d"), 6);
}

#[test]
fn keys_are_told_apart_by_every_part_and_by_no_spelling() {
    let fleet = Fleet::start(quiet());
    let key = |hash: &str, model: &str, rank: Value, more: Value| {
        let mut key = json!({"chunk_hash_hex": hash, "model_name": model, "kv_rank": rank});
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"type": "store", "key": key, "bytes": 1})
    };
    let same = [
        key("AaBb", "m", json!(1), json!({})),
        key("aabb", "m", json!(1), json!({"object_group_id": 0})),
        key("aa bb", "m", json!("1"), json!({"cache_salt": ""})),
        key(" aa\t\n bb\r", "m", json!(1.0), json!({"object_group_id": "0"})),
        key("aa\u{b}bb\u{c}", "m", json!(true), json!({"object_group_id": false})),
    ];
    fleet.report(&json!(same));
    assert_eq!((fleet.usage("_default"), fleet.metric("keys")), (1, 1.0));
    let others = [
        key("aabbcc", "m", json!(1), json!({})),
        key("aabb", "M", json!(1), json!({})),
        key("aabb", "m", json!(2), json!({})),
        key("aabb", "m", json!(-1), json!({})),
        key("aabb", "m", json!(u64::MAX), json!({})),
        key("aabb", "m", json!(i64::MIN), json!({})),
        key("aabb", "m", json!(1), json!({"object_group_id": 1})),
        key("aabb", "m", json!(1), json!({"object_group_id": u64::MAX})),
        key("aabb", "m", json!(1), json!({"cache_salt": "é"})),
        key("aabb", "", json!(1), json!({})),
        key("", "m", json!(1), json!({})),
        key(&"ab".repeat(1000), "m", json!(1), json!({})),
    ];
    fleet.report(&json!(others));
    assert_eq!((fleet.usage("_default"), fleet.metric("keys")), (12, 13.0));
    fleet.report(&json!(others));
    assert_eq!((fleet.usage("_default"), fleet.metric("keys")), (12, 13.0));
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn one_fault_refuses_the_batch() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let integer = "Input should be a valid integer";
    let text = "Input should be a valid string";
    let at = |part: &str| json!(["body", "events", 1, part]);
    let key = |part: &str| json!(["body", "events", 1, "key", part]);
    let value = |place, message: &str, input: Value| {
        json!([fault_in(
            "value_error",
            place,
            &format!("Value error, {message}"),
            input,
            json!({"error": {}})
        )])
    };
    let hex = "chunk_hash_hex must be pairs of hexadecimal digits";
    let kinds = "'store', 'lookup' or 'delete'";
    let kind = |input: Value| {
        json!([fault_in(
            "enum",
            at("type"),
            &format!("Input should be {kinds}"),
            input,
            json!({"expected": kinds})
        )])
    };
    let least = |place, least: u8, input: Value| {
        let message = format!("Input should be greater than or equal to {least}");
        json!([fault_in("greater_than_equal", place, &message, input, json!({"ge": least}))])
    };
    let beyond = "Unable to parse input string as an integer, exceeded maximum size";
    let cases = [
        ("/events/1/type", "\"STORE\"", kind(json!("STORE"))),
        ("/events/1/type", "null", kind(json!(null))),
        ("/events/1/type", "\"evict\"", kind(json!("evict"))),
        ("/events/1/bytes", "-1", least(at("bytes"), 0, json!(-1))),
        ("/events/1/bytes", "null", json!([fault("int_type", at("bytes"), integer, json!(null))])),
        (
            "/events/1/bytes",
            "1.5",
            json!([fault(
                "int_from_float",
                at("bytes"),
                "Input should be a valid integer, got a number with a fractional part",
                json!(1.5)
            )]),
        ),
        (
            "/events/1/bytes",
            "NaN",
            json!([fault("finite_number", at("bytes"), "Input should be a finite number", json!(null))]),
        ),
        (
            "/events/1/bytes",
            "1e400",
            json!([fault("finite_number", at("bytes"), "Input should be a finite number", json!(null))]),
        ),
        ("/events/1/key/chunk_hash_hex", "\"abc\"", value(key("chunk_hash_hex"), hex, json!("abc"))),
        ("/events/1/key/chunk_hash_hex", "\"zz\"", value(key("chunk_hash_hex"), hex, json!("zz"))),
        ("/events/1/key/chunk_hash_hex", "\"a a\"", value(key("chunk_hash_hex"), hex, json!("a a"))),
        ("/events/1/key/chunk_hash_hex", "\"ａａ\"", value(key("chunk_hash_hex"), hex, json!("ａａ"))),
        (
            "/events/1/key/chunk_hash_hex",
            "7",
            json!([fault("string_type", key("chunk_hash_hex"), text, json!(7))]),
        ),
        (
            "/events/1/key/model_name",
            "\"m@x\"",
            value(key("model_name"), "model_name must not contain '@' (got 'm@x')", json!("m@x")),
        ),
        (
            "/events/1/key/cache_salt",
            "\"a@b\"",
            value(
                key("cache_salt"),
                "cache_salt must not contain frozenset({'@'}) (got 'a@b')",
                json!("a@b"),
            ),
        ),
        (
            "/events/1/key/cache_salt",
            "\"a/b\"",
            value(
                key("cache_salt"),
                "cache_salt must not contain frozenset({'/'}) (got 'a/b')",
                json!("a/b"),
            ),
        ),
        (
            "/events/1/key/object_group_id",
            "-1",
            value(key("object_group_id"), "object_group_id must be >= 0 (got -1)", json!(-1)),
        ),
        (
            "/events/1/key/object_group_id",
            "null",
            json!([fault("int_type", key("object_group_id"), integer, json!(null))]),
        ),
        ("/events/1/key/kv_rank", "null", json!([fault("int_type", key("kv_rank"), integer, json!(null))])),
        (
            "/events/1/key/kv_rank",
            "\"18446744073709551616\"",
            json!([fault("int_parsing_size", key("kv_rank"), beyond, json!("18446744073709551616"))]),
        ),
        (
            "/events/1/key",
            "[]",
            json!([fault_in(
                "dataclass_type",
                at("key"),
                "Input should be a dictionary or an instance of EncodedObjectKey",
                json!([]),
                json!({"class_name": "EncodedObjectKey"})
            )]),
        ),
        (
            "/events/1",
            "7",
            json!([fault(
                "model_attributes_type",
                json!(["body", "events", 1]),
                "Input should be a valid dictionary or object to extract fields from",
                json!(7)
            )]),
        ),
        (
            "/events",
            "{}",
            json!([fault("list_type", json!(["body", "events"]), "Input should be a valid list", json!({}))]),
        ),
        ("/seq", "0", least(json!(["body", "seq"]), 1, json!(0))),
        ("/seq", "false", least(json!(["body", "seq"]), 1, json!(false))),
        (
            "/instance_id",
            "null",
            json!([fault("string_type", json!(["body", "instance_id"]), text, json!(null))]),
        ),
    ];
    for (pointer, spelled, faults) in cases {
        assert_eq!(
            said(&wire.ask("POST", "/quota/events", &with(pointer, spelled))),
            refused(faults),
            "{pointer} {spelled}"
        );
    }
    let surrogate =
        said(&wire.ask("POST", "/quota/events", &with("/events/1/key/model_name", "\"\\udfff\"")));
    assert_eq!((surrogate.0, &surrogate.1["detail"][0]["type"]), (422, &json!("string_unicode")));
    let huge = "9".repeat(100);
    for pointer in ["/seq", "/events/1/bytes", "/events/1/key/kv_rank", "/events/1/key/object_group_id"] {
        let (status, answer) = said(&wire.ask("POST", "/quota/events", &with(pointer, &huge)));
        assert_eq!((status, &answer["detail"][0]["type"]), (422, &json!("int_parsing_size")), "{pointer}");
        // its digits come back, all of them
        assert!(wire.ask("POST", "/quota/events", &with(pointer, &huge)).text().contains(&huge));
    }
    let missing = said(&wire.ask("POST", "/quota/events", r#"{"events": [{}, {"key": {}}]}"#));
    let lacks = |place: Value, input: Value| fault("missing", place, "Field required", input);
    let (batch, second) = (json!({"events": [{}, {"key": {}}]}), json!({"key": {}}));
    assert_eq!(
        missing,
        refused(json!([
            lacks(json!(["body", "instance_id"]), batch.clone()),
            lacks(json!(["body", "seq"]), batch),
            lacks(json!(["body", "events", 0, "type"]), json!({})),
            lacks(json!(["body", "events", 0, "key"]), json!({})),
            lacks(json!(["body", "events", 0, "bytes"]), json!({})),
            lacks(at("type"), second.clone()),
            lacks(key("chunk_hash_hex"), json!({})),
            lacks(key("model_name"), json!({})),
            lacks(key("kv_rank"), json!({})),
            lacks(at("bytes"), second),
        ]))
    );
    assert_eq!(said(&wire.ask("GET", "/quota", "")), (200, json!({"total_gb": 0.0, "by_cache_salt": []})));
    assert_eq!((fleet.metric("keys"), fleet.metric("event_batches_total")), (0.0, 0.0));
}

#[test]
fn salts_of_a_key_have_a_length() {
    let fleet = Fleet::start(quiet());
    let salt = "é".repeat(128);
    fleet.report(&json!([store(1, &salt, 5)]));
    assert_eq!(fleet.get("/quota").json()["by_cache_salt"][0]["cache_salt"], json!(salt));
    let longer = "é".repeat(129);
    let body = json!({"instance_id": "i", "seq": 1, "events": [store(1, &longer, 5)]});
    let message = "Value error, cache_salt exceeds max length 128 (got 129)";
    let place = json!(["body", "events", 0, "key", "cache_salt"]);
    let wanted = json!([fault_in("value_error", place, message, json!(longer), json!({"error": {}}))]);
    assert_eq!(said(&fleet.post("/quota/events", &body)), refused(wanted));
}
