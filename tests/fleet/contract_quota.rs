//! Set-up: a running coordinator, its budgets set, read and removed.
//! Claim: every answer of `/quota` is the one that the contract gives, to the last digit.

use crate::coordinator::{Fleet, GIB, event, quiet, store};
use crate::wire::{Wire, error, fault, fault_in, refused, said};
use serde_json::{Value, json};

/// The same after a way over text: what reads numbers here does not round the last digit as others do.
fn read(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn status(salt: &str, limit: f64, exists: bool, usage: f64) -> Value {
    json!({"cache_salt": salt, "quota_limit_gb": limit, "quota_exists": exists, "usage_gb": usage})
}

fn at_least_zero(name: &str, input: Value) -> (u16, Value) {
    let message = "Input should be greater than or equal to 0";
    refused(json!([fault_in(
        "greater_than_equal",
        json!(["body", name]),
        message,
        input,
        json!({"ge": 0.0})
    )]))
}

fn no_tier(place: &str, input: Value) -> (u16, Value) {
    let expected = "'l1', 'l2' or 'all'";
    let context = json!({"expected": expected});
    refused(json!([fault_in(
        "enum",
        json!([place, "tier"]),
        &format!("Input should be {expected}"),
        input,
        context
    )]))
}

#[test]
fn the_default_limit() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    assert_eq!(wire.ask("GET", "/quota/config", "").text(), r#"{"default_limit_gb":null}"#);
    for (sent, echoed, stored) in [
        ("0", "0.0", "0.0"),
        ("2.5", "2.5", "2.5"),
        ("null", "null", "null"),
        ("1e-10", "1e-10", "0.0"),
        ("0.1", "0.1", "0.09999999962747097"),
        ("\"2.5\"", "2.5", "2.5"),
        ("\"1_0\"", "10.0", "10.0"),
        ("true", "1.0", "1.0"),
        ("-0.0", "-0.0", "0.0"),
        ("5", "5.0", "5.0"),
    ] {
        let answer =
            wire.ask("PUT", "/quota/config", &format!(r#"{{"default_limit_gb": {sent}, "tier": "l2"}}"#));
        assert_eq!(
            (answer.status, answer.text()),
            (200, format!(r#"{{"default_limit_gb":{echoed}}}"#).as_str())
        );
        assert_eq!(
            wire.ask("GET", "/quota/config", "").text(),
            format!(r#"{{"default_limit_gb":{stored}}}"#)
        );
    }
    // absent is null
    for body in ["{}", r#"{"limit_gb": 5}"#] {
        assert_eq!(said(&wire.ask("PUT", "/quota/config", r#"{"default_limit_gb": 5}"#)).0, 200);
        assert_eq!(wire.ask("PUT", "/quota/config", body).text(), r#"{"default_limit_gb":null}"#);
        assert_eq!(wire.ask("GET", "/quota/config", "").text(), r#"{"default_limit_gb":null}"#);
    }
    // `config` is no salt
    assert_eq!(said(&wire.ask("GET", "/quota", "")), (200, json!({"total_gb": 0.0, "by_cache_salt": []})));
}

#[test]
fn a_quota_from_the_first_to_the_last() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    assert_eq!(said(&wire.ask("GET", "/quota/a", "")), (200, status("a", 0.0, false, 0.0)));
    assert_eq!(
        wire.ask("PUT", "/quota/a", r#"{"limit_gb": 10}"#).text(),
        r#"{"cache_salt":"a","limit_gb":10.0,"status":"ok"}"#
    );
    assert_eq!(said(&wire.ask("GET", "/quota/a", "")), (200, status("a", 10.0, true, 0.0)));
    let answer = wire.ask("PUT", "/quota/a", r#"{"limit_gb": 0.1, "limit_gb": "0.2", "x": 1}"#);
    assert_eq!(said(&answer), (200, json!({"cache_salt": "a", "limit_gb": 0.2, "status": "ok"})));
    assert_eq!(
        said(&wire.ask("GET", "/quota/a", "")),
        (200, read(&status("a", 214_748_364.0 / GIB, true, 0.0)))
    );
    // zero is a quota
    assert_eq!(said(&wire.ask("PUT", "/quota/a", r#"{"limit_gb": 0}"#)).0, 200);
    assert_eq!(said(&wire.ask("GET", "/quota/a", "")), (200, status("a", 0.0, true, 0.0)));
    for outcome in ["removed", "not_found"] {
        let wanted = format!(r#"{{"cache_salt":"a","limit_gb":0.0,"status":"{outcome}"}}"#);
        assert_eq!(wire.ask("DELETE", "/quota/a?tier=l2", "").text(), wanted);
    }
    assert_eq!(said(&wire.ask("GET", "/quota/a", "")), (200, status("a", 0.0, false, 0.0)));
    // the default limit is not shown
    assert_eq!(said(&wire.ask("PUT", "/quota/config", r#"{"default_limit_gb": 2.5}"#)).0, 200);
    assert_eq!(said(&wire.ask("GET", "/quota/a", "")), (200, status("a", 0.0, false, 0.0)));
}

#[test]
fn limits_that_are_none() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for (path, name) in [("/quota/a", "limit_gb"), ("/quota/config", "default_limit_gb")] {
        let mut ask = |value: &str| said(&wire.ask("PUT", path, &format!(r#"{{"{name}": {value}}}"#)));
        for (value, input) in
            [("-1", json!(-1)), ("-0.5", json!(-0.5)), ("\"-1\"", json!("-1")), ("-Infinity", json!(null))]
        {
            assert_eq!(ask(value), at_least_zero(name, input), "{value}");
        }
        let beyond = error(400, &format!("{name} must be finite and less than 8589934592 GiB"));
        for value in ["Infinity", "NaN", "\"inf\"", "\"NaN\"", "1e400", "1e308", "8589934592"] {
            assert_eq!(ask(value), beyond, "{value}");
        }
        let place = json!(["body", name]);
        let text = "Input should be a valid number, unable to parse string as a number";
        assert_eq!(ask("\"x\""), refused(json!([fault("float_parsing", place.clone(), text, json!("x"))])));
        let number = "Input should be a valid number";
        assert_eq!(ask("[]"), refused(json!([fault("float_type", place.clone(), number, json!([]))])));
        assert_eq!(ask("{}"), refused(json!([fault("float_type", place.clone(), number, json!({}))])));
        let surrogate = "Input should be a valid string, unable to parse raw data as a unicode string";
        assert_eq!(
            ask("\"\\ud800\""),
            refused(json!([fault("string_unicode", place.clone(), surrogate, json!("\u{fffd}"))]))
        );
        if name == "limit_gb" {
            assert_eq!(ask("null"), refused(json!([fault("float_type", place, number, json!(null))])));
        }
    }
    let missing =
        json!([fault("missing", json!(["body", "limit_gb"]), "Field required", json!({"tier": "l2"}))]);
    assert_eq!(said(&wire.ask("PUT", "/quota/a", r#"{"tier": "l2"}"#)), refused(missing));
    assert_eq!(said(&wire.ask("GET", "/quota", "")), (200, json!({"total_gb": 0.0, "by_cache_salt": []})));
    assert_eq!(said(&wire.ask("GET", "/quota/config", "")), (200, json!({"default_limit_gb": null})));
}

#[test]
fn tiers() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    for tier in ["l1", "all"] {
        let wanted = error(400, &format!("tier '{tier}' not supported; only 'l2'"));
        for (method, path) in [("GET", "/quota"), ("GET", "/quota/a"), ("DELETE", "/quota/a")] {
            assert_eq!(
                said(&wire.ask(method, &format!("{path}?tier={tier}"), "")),
                wanted,
                "{method} {path}"
            );
            assert_eq!(
                said(&wire.ask(method, &format!("{path}?tier=l2&tier={tier}&tier={tier}"), "")),
                wanted
            );
        }
        for (path, name) in [("/quota/a", "limit_gb"), ("/quota/config", "default_limit_gb")] {
            let body = format!(r#"{{"{name}": 1, "tier": "{tier}"}}"#);
            assert_eq!(said(&wire.ask("PUT", path, &body)), wanted);
            // what is no form is said first
            let body = format!(r#"{{"{name}": -1, "tier": "{tier}"}}"#);
            assert_eq!(said(&wire.ask("PUT", path, &body)), at_least_zero(name, json!(-1)));
        }
        let body = format!(r#"{{"instance_id": "i", "seq": 1, "events": [], "tier": "{tier}"}}"#);
        assert_eq!(said(&wire.ask("POST", "/quota/events", &body)), wanted);
    }
    for (method, path) in [("GET", "/quota"), ("GET", "/quota/a"), ("DELETE", "/quota/a")] {
        assert_eq!(said(&wire.ask(method, &format!("{path}?tier=L2"), "")), no_tier("query", json!("L2")));
        assert_eq!(said(&wire.ask(method, &format!("{path}?tier="), "")), no_tier("query", json!("")));
        assert_eq!(
            said(&wire.ask(method, &format!("{path}?tier=l1&tier=a+b%21"), "")),
            no_tier("query", json!("a b!"))
        );
        assert_eq!(wire.ask(method, &format!("{path}?tier=x&tier=l2&other=1&&=&tier"), "").status, 422);
        assert_eq!(wire.ask(method, &format!("{path}?tier=x&tier=l2&other=1&&="), "").status, 200);
        assert_eq!(wire.ask(method, &format!("{path}?"), "").status, 200);
    }
    for input in [json!("L2"), json!(null), json!(1), json!(["l2"])] {
        let body = json!({"limit_gb": 1, "default_limit_gb": 1, "tier": input}).to_string();
        assert_eq!(said(&wire.ask("PUT", "/quota/a", &body)), no_tier("body", input.clone()));
        assert_eq!(said(&wire.ask("PUT", "/quota/config", &body)), no_tier("body", input));
    }
    assert_eq!(said(&wire.ask("GET", "/quota", "")), (200, json!({"total_gb": 0.0, "by_cache_salt": []})));
}

#[test]
fn salts_of_every_kind() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let long = "s".repeat(300);
    for (segment, salt) in [
        ("_default", ""),
        ("a%40b", "a@b"),
        ("a@b", "a@b"),
        ("a%5Cb", "a\\b"),
        ("%00", "\0"),
        ("%20", " "),
        ("a+b", "a+b"),
        ("%25", "%"),
        ("%5Fdefault", ""),
        ("_Default", "_Default"),
        ("events", "events"),
        ("%F0%9D%92%B3", "𝒳"),
        (long.as_str(), long.as_str()),
    ] {
        let answer = wire.ask("PUT", &format!("/quota/{segment}"), r#"{"limit_gb": 1}"#);
        assert_eq!(
            said(&answer),
            (200, json!({"cache_salt": salt, "limit_gb": 1.0, "status": "ok"})),
            "{segment}"
        );
        let answer = wire.ask("GET", &format!("/quota/{segment}"), "");
        assert_eq!(said(&answer), (200, status(salt, 1.0, true, 0.0)), "{segment}");
        assert_eq!(
            said(&wire.ask("GET", "/quota", "")).1["by_cache_salt"],
            json!([status(salt, 1.0, true, 0.0)])
        );
        let answer = wire.ask("DELETE", &format!("/quota/{segment}"), "");
        assert_eq!(said(&answer), (200, json!({"cache_salt": salt, "limit_gb": 0.0, "status": "removed"})));
    }
    // reserved for reading and writing only
    let answer = wire.ask("DELETE", "/quota/config", "");
    assert_eq!(said(&answer), (200, json!({"cache_salt": "config", "limit_gb": 0.0, "status": "not_found"})));
}

#[test]
fn the_list_is_of_usage_and_quotas_by_code_point() {
    let fleet = Fleet::start(quiet());
    // U+FFFD is before U+1D4B3, though not as UTF-16
    for salt in ["𝒳", "%EF%BF%BD", "b", "Z", "_default"] {
        assert_eq!(fleet.put(&format!("/quota/{salt}"), &json!({"limit_gb": 1})).status, 200);
    }
    fleet.report(&json!([
        store(1, "a", 1500),
        store(2, "b", 500),
        store(3, "_default", 7),
        store(4, "config", 1)
    ]));
    let shown = |bytes: f64| bytes / GIB;
    assert_eq!(
        said(&fleet.get("/quota")),
        (
            200,
            read(&json!({"total_gb": shown(2008.0), "by_cache_salt": [
                status("", 1.0, true, 0.0),
                status("Z", 1.0, true, 0.0),
                // of this name and never to be addressed by it
                status("_default", 0.0, false, shown(7.0)),
                status("a", 0.0, false, shown(1500.0)),
                status("b", 1.0, true, shown(500.0)),
                status("config", 0.0, false, shown(1.0)),
                status("\u{fffd}", 1.0, true, 0.0),
                status("𝒳", 1.0, true, 0.0),
            ]}))
        )
    );
    assert_eq!(said(&fleet.get("/quota/_default")), (200, status("", 1.0, true, 0.0)));
    let gone = json!([
        event("delete", 1, "a", 0),
        event("delete", 2, "b", 99),
        event("delete", 3, "_default", 0),
        store(4, "config", 0)
    ]);
    fleet.report(&gone);
    for salt in ["𝒳", "%EF%BF%BD", "Z", "_default"] {
        assert_eq!(fleet.delete(&format!("/quota/{salt}")).status, 200);
    }
    assert_eq!(
        said(&fleet.get("/quota")),
        (200, json!({"total_gb": 0.0, "by_cache_salt": [status("b", 1.0, true, 0.0)]}))
    );
}
