//! Set-up: a running coordinator and bodies of registrations, right and wrong.
//! Claim: every field is judged as the contract says, all faults of a body are listed, what is registered is listed
//! as it was sent, and an id that nobody chose is a new one.

use std::collections::BTreeSet;

use crate::coordinator::{Fleet, quiet};
use crate::wire::{Wire, fault, fault_in, refused, said};
use serde_json::{Value, json};

#[test]
fn all_faults_of_a_registration_are_listed() {
    let fleet = Fleet::start(quiet());
    let body = json!({
        "mq_port": 65536, "p2p_advertised_url": 1, "metadata": {"a": 1, "b": "x"}, "instance_id": null,
        "http_port": "80.5", "ip": " \t ",
    });
    let wanted = json!([
        fault("string_type", json!(["body", "instance_id"]), "Input should be a valid string", json!(null)),
        fault_in(
            "string_too_short",
            json!(["body", "ip"]),
            "String should have at least 1 character",
            json!(" \t "),
            json!({"min_length": 1})
        ),
        fault(
            "int_parsing",
            json!(["body", "http_port"]),
            "Input should be a valid integer, unable to parse string as an integer",
            json!("80.5")
        ),
        fault("string_type", json!(["body", "metadata", "a"]), "Input should be a valid string", json!(1)),
        fault(
            "string_type",
            json!(["body", "p2p_advertised_url"]),
            "Input should be a valid string",
            json!(1)
        ),
        fault_in(
            "less_than_equal",
            json!(["body", "mq_port"]),
            "Input should be less than or equal to 65535",
            json!(65536),
            json!({"le": 65535})
        ),
    ]);
    assert_eq!(said(&fleet.post("/instances", &body)), refused(wanted));
    let missing = |name: &str| fault("missing", json!(["body", name]), "Field required", json!({"x": 1}));
    assert_eq!(
        said(&fleet.post("/instances", &json!({"x": 1}))),
        refused(json!([missing("ip"), missing("http_port")]))
    );
    assert_eq!(fleet.get("/instances").json(), json!({"instances": []}));
}

#[test]
fn ports() {
    let fleet = Fleet::start(quiet());
    let mut wire = Wire::to(fleet.address());
    let mut ask = |port: &str| {
        let body = format!(r#"{{"ip": "h", "http_port": {port}, "instance_id": "a"}}"#);
        wire.ask("POST", "/instances", &body)
    };
    for (port, wanted) in [
        ("80", 80),
        ("\"80\"", 80),
        ("\" 80 \"", 80),
        ("\"80.0\"", 80),
        ("\"1_0\"", 10),
        ("\"+80\"", 80),
        ("80.0", 80),
        ("8e1", 80),
        ("true", 1),
        ("65535", 65535),
    ] {
        assert_eq!(said(&ask(port)).0, 200, "{port}");
        assert_eq!(fleet.get("/instances").json()["instances"][0]["http_port"], wanted, "{port}");
    }
    let least = "Input should be greater than or equal to 1";
    let most = "Input should be less than or equal to 65535";
    for (port, kind, message) in [
        ("80.5", "int_from_float", "Input should be a valid integer, got a number with a fractional part"),
        ("\"abc\"", "int_parsing", "Input should be a valid integer, unable to parse string as an integer"),
        ("null", "int_type", "Input should be a valid integer"),
        ("[80]", "int_type", "Input should be a valid integer"),
        ("0", "greater_than_equal", least),
        ("false", "greater_than_equal", least),
        ("-1", "greater_than_equal", least),
        ("65536", "less_than_equal", most),
        ("1180591620717411303424", "less_than_equal", most),
        ("-1180591620717411303424", "greater_than_equal", least),
        ("NaN", "finite_number", "Input should be a finite number"),
        ("Infinity", "finite_number", "Input should be a finite number"),
        ("-Infinity", "finite_number", "Input should be a finite number"),
        ("1e400", "finite_number", "Input should be a finite number"),
        ("1e300", "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size"),
    ] {
        let (status, answer) = said(&ask(port));
        let detail = &answer["detail"];
        assert_eq!((status, detail.as_array().map(Vec::len)), (422, Some(1)), "{port}: {answer}");
        assert_eq!(
            (&detail[0]["type"], &detail[0]["msg"], &detail[0]["loc"]),
            (&json!(kind), &json!(message), &json!(["body", "http_port"])),
            "{port}"
        );
    }
    wire.goes_on();
}

#[test]
fn what_was_sent_is_listed() {
    let fleet = Fleet::start(quiet());
    let body = r#"{"instance_id": "  s\u00e9 \ud83d\ude00 ", "ip": "x", "ip": " fe80::1 ", "http_port": 8080,
        "metadata": {"rack": "old", "zone": "", "rack": "r1", "@": "{}"}, "p2p_advertised_url": " tcp://h:1 ",
        "mq_port": "5555", "further": [1, {"deep": null}]}"#;
    let answer = fleet.call("POST", "/instances", body.as_bytes());
    assert_eq!(said(&answer), (200, json!({"instance_id": "sé 😀", "re_registered": false})));
    let mut listed = fleet.get("/instances").json();
    assert!(listed["instances"][0]["registration_time"].take().is_f64());
    assert_eq!(
        listed,
        json!({"instances": [{
            "instance_id": "sé 😀", "ip": "fe80::1", "http_port": 8080, "registration_time": null,
            "metadata": {"rack": "r1", "zone": "", "@": "{}"}, "p2p_advertised_url": "tcp://h:1", "mq_port": 5555,
        }]})
    );
    for body in [
        r#"{"ip": "h\ud800", "http_port": 1}"#,
        r#"{"ip": "h", "http_port": 1, "metadata": {"\udc00": "x"}}"#,
    ] {
        let (status, answer) = said(&fleet.call("POST", "/instances", body.as_bytes()));
        assert_eq!((status, &answer["detail"][0]["type"]), (422, &json!("string_unicode")), "{body}");
    }
}

#[test]
fn ids_that_nobody_chose() {
    let fleet = Fleet::start(quiet());
    let mut ids = BTreeSet::new();
    for body in [
        json!({"ip": "h", "http_port": 1}),
        json!({"ip": "h", "http_port": 1, "instance_id": ""}),
        json!({"ip": "h", "http_port": 1, "instance_id": " \n "}),
    ] {
        let (status, answer) = said(&fleet.post("/instances", &body));
        assert_eq!((status, &answer["re_registered"]), (200, &json!(false)));
        let id = answer["instance_id"].as_str().unwrap().to_owned();
        let hex = id.strip_prefix("mp-").unwrap();
        assert!(hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{id}");
        // a UUID of version 4
        assert!(&hex[12..13] == "4" && matches!(&hex[16..17], "8" | "9" | "a" | "b"), "{id}");
        assert_eq!(
            said(&fleet.put(&format!("/instances/{id}/heartbeat"), &Value::Null)),
            (200, json!({"instance_id": id}))
        );
        ids.insert(id);
    }
    assert_eq!(ids.len(), 3);
}
