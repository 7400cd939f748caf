//! Set-up: requests and what the reference stack answers to them, recorded once; a running coordinator, and one
//! connection for all of them.
//! Claim: a body that the reference refuses is refused over HTTP with the same status and the same body, one that it
//! takes is taken unless it was decided otherwise, and the connection lives through all of it.

use crate::coordinator::{Fleet, quiet};
use crate::wire::{Wire, said};
use serde_json::Value;

/// Numbers that Python writes, as the numbers they are.
fn same(mine: &Value, reference: &Value) -> bool {
    match (mine, reference) {
        (Value::Number(mine), Value::Number(reference)) => {
            mine == reference || (mine.is_f64() && mine.as_f64() == reference.as_f64())
        }
        (Value::Array(mine), Value::Array(reference)) => {
            mine.len() == reference.len() && mine.iter().zip(reference).all(|(a, b)| same(a, b))
        }
        (Value::Object(mine), Value::Object(reference)) => {
            let other = |name: &str| reference.get(name);
            mine.len() == reference.len()
                && mine.iter().all(|(name, value)| other(name).is_some_and(|other| same(value, other)))
        }
        _ => mine == reference,
    }
}

/// Where a recorded form is sent.
fn place(form: &str) -> (&'static str, &'static str) {
    match form {
        "register" => ("POST", "/instances"),
        "quota" => ("PUT", "/quota/a"),
        "config" => ("PUT", "/quota/config"),
        "events" => ("POST", "/quota/events"),
        "prefetch" => ("POST", "/cache/prefetches"),
        "pins" => ("POST", "/cache/pins"),
        "delete" => ("POST", "/cache/delete"),
        "blend_register" => ("POST", "/blend/fingerprints"),
        "blend_remove" => ("DELETE", "/blend/fingerprints"),
        "blend_match" => ("POST", "/blend/match"),
        "tier" => ("GET", "/quota"),
        "list" => ("GET", "/cache/pins"),
        other => panic!("{other}"),
    }
}

/// What may become of a request that the reference takes: the decisions refuse some, and nobody is registered that
/// the others could be passed on to.
fn may_follow(form: &str, status: u16, answer: &Value) -> bool {
    let text = answer["detail"].to_string();
    match (form, status) {
        ("prefetch" | "delete", 404) => text.contains("no MP server registered"),
        ("quota" | "config", 400) => text.contains("must be finite") || text.contains("not supported"),
        ("events" | "tier", 400) => text.contains("not supported"),
        ("pins", 400) => text.contains("limit="),
        (_, 422) => text.contains("int_parsing_size") || text.contains("value_error"),
        (_, status) => status == 200,
    }
}

#[test]
fn answers_are_those_of_the_reference() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let (mut taken, mut refused) = (0, 0);
    for line in include_str!("../data/fleet/forms.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| record[name].as_str().unwrap();
        let (form, body) = (text("form"), text("body"));
        let (method, path) = place(form);
        let answer = match form {
            // what would not stand in a request line was recorded below HTTP
            "tier" | "list" if body.bytes().any(|byte| !byte.is_ascii_graphic()) => continue,
            "tier" | "list" => wire.ask(method, &format!("{path}?{body}"), ""),
            _ => wire.ask_as(text("type"), method, path, body.as_bytes()),
        };
        let (status, mine) = said(&answer);
        if record["status"] == 200 {
            assert!(may_follow(form, status, &mine), "{form} {body}: {status} {mine}");
            taken += 1;
        } else if status == 400 {
            assert!(may_follow(form, status, &mine), "{form} {body}: {mine}");
        } else {
            assert_eq!(u64::from(status), record["status"], "{form} {body}: {mine}");
            assert!(same(&mine, &record["answer"]), "{form} {body}:\n{mine}\n{}", record["answer"]);
            refused += 1;
        }
    }
    assert!(taken > 400 && refused > 2900, "{taken} {refused}");
    wire.goes_on();
}
