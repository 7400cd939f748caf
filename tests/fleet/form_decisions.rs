//! Set-up: requests for which the reference has no answer, or one that is not wanted.
//! Claim: each is refused as the contract's decisions say, with the field named; what they allow is accepted.

use kvatlas::fleet::form::{self, Reject};
use serde_json::{Value, json};

fn answer(reject: &Reject) -> Value {
    let mut out = Vec::new();
    reject.write(&mut out);
    serde_json::from_slice(&out).unwrap()
}

/// The single fault of a refusal: its place, type and message.
fn fault<T: std::fmt::Debug>(result: Result<T, Reject>) -> (Value, String, String) {
    let reject = result.unwrap_err();
    assert_eq!(reject.status(), 422, "{reject:?}");
    let detail = answer(&reject)["detail"].clone();
    assert_eq!(detail.as_array().unwrap().len(), 1, "{detail}");
    let text = |name: &str| detail[0][name].as_str().unwrap().to_owned();
    (detail[0]["loc"].clone(), text("type"), text("msg"))
}

fn bad<T: std::fmt::Debug>(result: Result<T, Reject>) -> String {
    let reject = result.unwrap_err();
    assert_eq!(reject.status(), 400, "{reject:?}");
    answer(&reject)["detail"].as_str().unwrap().to_owned()
}

#[test]
fn limits_that_are_no_number_of_bytes() {
    for text in
        ["Infinity", "NaN", "1e308", "1e400", "\"inf\"", "\"nan\"", "8589934592", "123456789012345678901"]
    {
        let body = format!("{{\"limit_gb\":{text}}}");
        assert!(bad(form::quota("", body.as_bytes())).contains("limit_gb"), "{text}");
        let body = format!("{{\"default_limit_gb\":{text}}}");
        assert!(bad(form::config("", body.as_bytes())).contains("default_limit_gb"), "{text}");
    }
    for text in ["-Infinity", "-1", "-1e400", "\"-inf\""] {
        let body = format!("{{\"limit_gb\":{text}}}");
        let (place, kind, _) = fault(form::quota("", body.as_bytes()));
        assert_eq!((place, kind.as_str()), (json!(["body", "limit_gb"]), "greater_than_equal"));
    }
    let huge = format!("{{\"limit_gb\":1{}}}", "0".repeat(400));
    let reject = form::quota("", huge.as_bytes()).unwrap_err();
    let mut out = Vec::new();
    reject.write(&mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("float_type") && text.contains(&"0".repeat(400)), "{text}");
}

#[test]
fn limits_in_bytes_are_rounded_down() {
    let bytes = |text: &str| form::quota("", format!("{{\"limit_gb\":{text}}}").as_bytes()).unwrap().bytes();
    assert_eq!(bytes("1e-10"), 0);
    assert_eq!(bytes("0.1"), 107_374_182);
    assert_eq!(form::bytes_to_gib(107_374_182).to_string(), "0.09999999962747097");
    assert_eq!(bytes("8589934591"), 8_589_934_591 << 30);
    assert_eq!(bytes("-0.0"), 0);
}

#[test]
fn the_form_is_judged_before_the_tier_and_the_tier_before_the_limit() {
    let quota = |body: &str| form::quota("", body.as_bytes());
    assert_eq!(quota(r#"{"limit_gb":-1,"tier":"l1"}"#).unwrap_err().status(), 422);
    assert_eq!(bad(quota(r#"{"limit_gb":Infinity,"tier":"l1"}"#)), "tier 'l1' not supported; only 'l2'");
    assert_eq!(bad(quota(r#"{"limit_gb":1,"tier":"all"}"#)), "tier 'all' not supported; only 'l2'");
    assert_eq!(bad(form::tier(Some("tier=l2&tier=all"))), "tier 'all' not supported; only 'l2'");
    let body = br#"{"instance_id":"","seq":1,"events":[],"tier":"l1"}"#;
    assert_eq!(bad(form::events("", body)), "tier 'l1' not supported; only 'l2'");
}

#[test]
fn integers_beyond_64_bits() {
    for text in ["18446744073709551616", "-9223372036854775809", "\"99999999999999999999\"", "1e19"] {
        let body = format!(r#"{{"instance_id":"","model_name":"","world_size":1,"token_ids":[5,{text}]}}"#);
        let (place, kind, _) = fault(form::prefetch("", body.as_bytes()));
        assert_eq!((place, kind.as_str()), (json!(["body", "token_ids", 1]), "int_parsing_size"), "{text}");
    }
    for text in ["NaN", "Infinity", "1e400"] {
        let body = format!(r#"{{"instance_id":"","seq":{text},"events":[]}}"#);
        let reject = form::events("", body.as_bytes()).unwrap_err();
        let detail = answer(&reject)["detail"][0].clone();
        assert_eq!(detail["type"], "finite_number");
        assert_eq!(detail["input"], Value::Null);
    }
    let digits = format!("{{\"x\":{}}}", "1".repeat(4301));
    assert_eq!(bad(form::register("", digits.as_bytes())), "There was an error parsing the body");
}

#[test]
fn half_a_surrogate_pair_is_no_text() {
    let cases = [
        (r#"{"ip":"\ud800","http_port":1}"#, json!(["body", "ip"])),
        (r#"{"ip":"a","http_port":1,"metadata":{"k":"\udc00x"}}"#, json!(["body", "metadata", "k"])),
        (r#"{"ip":"a","http_port":1,"metadata":{"\ud800k":"x"}}"#, json!(["body", "metadata", "\u{fffd}k"])),
        (r#"{"ip":"a","http_port":"\ud800"}"#, json!(["body", "http_port"])),
    ];
    for (body, expected) in cases {
        let (place, kind, _) = fault(form::register("", body.as_bytes()));
        assert_eq!((place, kind.as_str()), (expected, "string_unicode"), "{body}");
    }
    let elsewhere = r#"{"ip":"\ud83d\ude00","http_port":1,"\ud800":"\ud800"}"#;
    assert_eq!(form::register("", elsewhere.as_bytes()).unwrap().ip, "😀");
}

#[test]
fn keys_that_are_none_refuse_the_report() {
    let long = "x".repeat(129);
    let most = "é".repeat(128);
    let read = |field: &str, text: &str| {
        let mut key = json!({"chunk_hash_hex": "aa", "model_name": "m", "kv_rank": 0});
        key[field] = serde_json::from_str(text).unwrap();
        let good = json!({"type": "lookup", "bytes": 0, "key": {"chunk_hash_hex": "", "model_name": "", "kv_rank": 0}});
        let bad = json!({"type": "store", "key": key, "bytes": 1});
        let body = json!({"instance_id": "i", "seq": 1, "events": [good, bad]}).to_string();
        form::events("", body.as_bytes()).map(|report| report.events.len())
    };
    let cases = [
        ("chunk_hash_hex", "\"abc\"".to_owned(), "chunk_hash_hex must be pairs of hexadecimal digits"),
        ("chunk_hash_hex", "\"a a\"".to_owned(), "chunk_hash_hex must be pairs of hexadecimal digits"),
        ("chunk_hash_hex", "\"zz\"".to_owned(), "chunk_hash_hex must be pairs of hexadecimal digits"),
        ("model_name", "\"a@b\"".to_owned(), "model_name must not contain '@' (got 'a@b')"),
        ("object_group_id", "-1".to_owned(), "object_group_id must be >= 0 (got -1)"),
        ("cache_salt", "\"a@b\"".to_owned(), "cache_salt must not contain frozenset({'@'}) (got 'a@b')"),
        ("cache_salt", "\"a/b\"".to_owned(), "cache_salt must not contain frozenset({'/'}) (got 'a/b')"),
        ("cache_salt", r#""a\\b""#.to_owned(), r"cache_salt must not contain frozenset({'\\'}) (got 'a\\b')"),
        (
            "cache_salt",
            "\"a\\u0000b\"".to_owned(),
            r"cache_salt must not contain frozenset({'\x00'}) (got 'a\x00b')",
        ),
        ("cache_salt", format!("\"{long}\""), "cache_salt exceeds max length 128 (got 129)"),
    ];
    for (field, text, message) in cases {
        let (place, kind, said) = fault(read(field, &text));
        assert_eq!(place, json!(["body", "events", 1, "key", field]));
        assert_eq!((kind.as_str(), said), ("value_error", format!("Value error, {message}")));
    }
    assert_eq!(read("cache_salt", &format!("\"{most}\"")), Ok(2));
    assert_eq!(read("chunk_hash_hex", "\" aA\\tbb \""), Ok(2));
    assert_eq!(read("kv_rank", "-9223372036854775808"), Ok(2));
    assert_eq!(read("kv_rank", "18446744073709551615"), Ok(2));
}

#[test]
fn tokens_of_a_pin_matter_up_to_the_last_complete_chunk() {
    let pins = |tokens: &str, chunk| {
        let body = format!(r#"{{"model_name":"m","world_size":2,"token_ids":{tokens}}}"#);
        form::pins("", body.as_bytes(), chunk)
    };
    let sequence = pins("[1,2,3,4,-1,4294967296]", 4).unwrap();
    assert_eq!((sequence.token_ids.as_slice(), sequence.chunks, sequence.given), (&[1, 2, 3, 4][..], 1, 6));
    let (place, kind, message) = fault(pins("[1,2,3,4294967296,5]", 4));
    assert_eq!((place, kind.as_str()), (json!(["body", "token_ids", 3]), "less_than_equal"));
    assert_eq!(message, "Input should be less than or equal to 4294967295");
    let (place, kind, _) = fault(pins("[1,-2,3,4,5]", 4));
    assert_eq!((place, kind.as_str()), (json!(["body", "token_ids", 1]), "greater_than_equal"));
    assert_eq!(pins("[4294967295]", 1).unwrap().token_ids, [u32::MAX]);
    let (place, _, _) = fault(pins("[1,2,3,4,null]", 4));
    assert_eq!(place, json!(["body", "token_ids", 4]));
    assert_eq!(pins("[]", 4).unwrap().chunks, 0);
}

#[test]
fn a_pin_is_judged_form_first_then_size_salt_and_model() {
    let many = format!("[{}0]", "7,".repeat(1_000_000));
    let most = format!("[{}0]", "7,".repeat(999_999));
    let pins = |tokens: &str, salt: &str, model: &str, world: u32| {
        let body = format!(
            r#"{{"model_name":"{model}","world_size":{world},"token_ids":{tokens},"cache_salt":"{salt}"}}"#
        );
        form::pins("", body.as_bytes(), 4)
    };
    assert_eq!(pins(&many, "a@b", "a@b", 0).unwrap_err().status(), 422);
    let too_many = "too many token_ids in a single request (limit=1000000, got=1000001)";
    assert_eq!(bad(pins(&many, "a@b", "a@b", 1)), too_many);
    let salt = "cache_salt must not contain frozenset({'@'}) (got 'a@b')";
    assert_eq!(bad(pins(&most, "a@b", "a@b", 1)), salt);
    assert_eq!(bad(pins("[1]", "a@b", "a@b", 1)), salt);
    assert_eq!(bad(pins("[1,2,3,4]", "", "a@b", 1)), "model_name must not contain '@' (got 'a@b')");
    assert!(pins("[1,2,3]", "", "a@b", 1).is_ok());
    assert_eq!(pins(&most, "", "m", 1).unwrap().chunks, 250_000);
}

#[test]
fn a_deletion_is_read_before_its_server_is_known() {
    let body = br#"{"instance_id":"i","model_name":"m","world_size":1,"token_ids":[1,2],"cache_salt":"a@b","tier":"l1","force":"yes"}"#;
    let form = form::cache_delete("", body, 2).unwrap();
    assert!(form.force && form.tier.name() == "l1" && form.instance_id == "i");
    assert_eq!(form.sequence.check().unwrap_err().status(), 400);
}

#[test]
fn a_prefetch_is_forwarded_with_integers_and_nothing_else() {
    let body = r#"{"instance_id":"i","model_name":"ü","world_size":"2","token_ids":["1",2.0,true,-5,18446744073709551615],"x":1}"#;
    let mut out = Vec::new();
    form::prefetch("", body.as_bytes()).unwrap().write(&mut out);
    let expected =
        r#"{"model_name":"ü","world_size":2,"token_ids":[1,2,1,-5,18446744073709551615],"cache_salt":""}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let empty = br#"{"instance_id":"i","model_name":"m","world_size":1}"#;
    assert_eq!(form::prefetch("", empty).unwrap().token_ids, "[]");
}

#[test]
fn bodies_that_are_no_text_or_too_deep() {
    let unreadable = "There was an error parsing the body";
    assert_eq!(bad(form::register("application/json", b"{\"ip\":\"\xff\"}")), unreadable);
    assert_eq!(bad(form::events("", b"{\"instance_id\":\"\xff\",\"seq\":1,\"events\":[]}")), unreadable);
    let reject = form::register("text/plain", b"\xff").unwrap_err();
    assert_eq!(answer(&reject)["detail"][0]["type"], "model_attributes_type");
    let nested = |depth: usize| {
        format!("{{\"ip\":\"a\",\"http_port\":1,\"x\":{}}}", "[".repeat(depth) + &"]".repeat(depth))
    };
    assert!(form::register("", nested(999).as_bytes()).is_ok());
    let (place, kind, _) = fault(form::register("", nested(1000).as_bytes()));
    assert_eq!((place[0].as_str(), kind.as_str()), (Some("body"), "json_invalid"));
    let endless = vec![b'['; 1 << 20];
    assert_eq!(form::register("", &endless).unwrap_err().status(), 422);
}
