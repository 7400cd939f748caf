//! Set-up: texts of a Conductor settings file.
//! Claim: good entries stand whatever is wrong with others; a bad one is named with its field; what is no
//! settings file at all is refused with its place; and no text does harm.

use std::path::Path;

use kvatlas::config::{ConfigError, ConfigFile, StaticPublisher};
use proptest::prelude::*;
use serde_json::{Value, json};

fn parse(text: &str) -> Result<ConfigFile, ConfigError> {
    ConfigFile::parse(text.as_bytes(), Path::new("conductor.json"))
}

fn entry() -> Value {
    json!({"endpoint": "tcp://10.0.0.1:5557", "replay_endpoint": "tcp://10.0.0.1:5558", "type": "vLLM",
        "modelname": "qwen", "lora_name": "sql", "tenant_id": "acme", "instance_id": "prefill-0",
        "block_size": 128, "dp_rank": 3, "additionalsalt": "w8a8"})
}

fn with(key: &str, value: Value) -> Value {
    let mut entry = entry();
    entry[key] = value;
    entry
}

fn one(entry: &Value) -> ConfigFile {
    parse(&json!({"kvevent_instance": {"node": entry}}).to_string()).unwrap()
}

#[test]
fn every_field_of_an_entry_is_read() {
    let file =
        parse(&json!({"http_server_port": 8080, "kvevent_instance": {"node": entry()}}).to_string()).unwrap();
    assert_eq!(file.http_server_port, Some(8080));
    assert_eq!((file.skipped.len(), file.unknown.len()), (0, 0));
    let wanted = StaticPublisher {
        name: "node".into(),
        endpoint: "tcp://10.0.0.1:5557".into(),
        replay_endpoint: "tcp://10.0.0.1:5558".into(),
        kind: "vLLM".into(),
        modelname: "qwen".into(),
        lora_name: "sql".into(),
        tenant_id: "acme".into(),
        instance_id: "prefill-0".into(),
        block_size: 128,
        dp_rank: 3,
        additionalsalt: "w8a8".into(),
        tp_size: None,
        removal_scope: None,
        hashing: None,
    };
    assert_eq!(file.publishers, [wanted]);
}

/// Written out again, an entry is a registration's body.
#[test]
fn an_entry_is_a_registration() {
    let file = one(&entry());
    assert_eq!(serde_json::to_value(&file.publishers[0]).unwrap(), entry());
}

#[test]
fn optional_fields_have_their_defaults() {
    let entry = json!({"endpoint": "tcp://h:1", "type": "SGLang", "model": "m", "block_size": 16, "tenant_id": "",
        "instance_id": null, "lora_name": null});
    let publisher = one(&entry).publishers.remove(0);
    assert_eq!(publisher.tenant_id, "default", "an empty tenant is the default one");
    assert_eq!(publisher.instance_id, "node", "without an instance the name is it");
    assert_eq!((publisher.modelname.as_str(), publisher.dp_rank), ("m", 0));
    assert_eq!((publisher.replay_endpoint.as_str(), publisher.lora_name.as_str()), ("", ""));
}

#[test]
fn two_ranks_of_one_instance_have_two_entries() {
    let file = parse(
        &json!({"kvevent_instance": {"a": with("dp_rank", json!(0)), "b": with("dp_rank", json!(1))}})
            .to_string(),
    );
    let publishers = file.unwrap().publishers;
    assert!(publishers.iter().all(|publisher| publisher.instance_id == "prefill-0"));
    assert_eq!(publishers.iter().map(|publisher| publisher.dp_rank).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_bad_entry_is_left_out_and_named_with_its_field() {
    let bad = [
        ("endpoint", Value::Null),
        ("endpoint", json!("")),
        ("endpoint", json!(5)),
        ("type", Value::Null),
        ("modelname", json!([])),
        ("block_size", Value::Null),
        ("block_size", json!(0)),
        ("block_size", json!("128")),
        ("block_size", json!(1.5)),
        ("block_size", json!(1 << 21)),
        ("dp_rank", json!(-1)),
        ("dp_rank", json!(4_294_967_296u64)),
        ("tenant_id", json!(1)),
        ("replay_endpoint", json!({})),
        ("tp_size", json!(0)),
        ("removal_scope", json!("everything")),
        ("hashing", json!("md5")),
    ];
    for (field, value) in bad {
        let entries = json!({"kvevent_instance": {"bad": with(field, value.clone()), "good": entry()}});
        let file = parse(&entries.to_string()).unwrap();
        assert_eq!(file.publishers.len(), 1, "{field} {value}");
        assert_eq!(file.publishers[0].name, "good");
        let place = format!("kvevent_instance.bad.{field}: ");
        assert!(file.skipped[0].starts_with(&place), "{:?} should name {place}", file.skipped);
    }
    let file = one(&json!("tcp://h:1"));
    assert_eq!(file.skipped, ["kvevent_instance.node: must be an object"]);
}

#[test]
fn unknown_keys_are_noted_and_harmless() {
    let mut file = json!({"kvevent_instance": {"node": with("medium_endpoints", json!({"cpu": "x"}))}});
    file["comment"] = json!("ours");
    let file = parse(&file.to_string()).unwrap();
    assert_eq!(file.publishers.len(), 1);
    assert_eq!(file.unknown, ["comment", "kvevent_instance.node.medium_endpoints"]);
}

#[test]
fn broken_json_is_refused_with_line_and_column() {
    let error = parse("{\n  \"http_server_port\": 13333,\n  oops\n}").unwrap_err();
    assert!(error.to_string().starts_with("conductor.json:3:3: not valid JSON: "), "{error}");
    assert!(matches!(error, ConfigError::Json { line: 3, column: 3, .. }));
    assert!(matches!(parse("").unwrap_err(), ConfigError::Json { .. }));
}

#[test]
fn another_shape_is_refused_with_its_field() {
    let cases = [
        (json!([]), "(file)"),
        (json!({"http_server_port": "13333"}), "http_server_port"),
        (json!({"http_server_port": 65536}), "http_server_port"),
        (json!({"kvevent_instance": []}), "kvevent_instance"),
    ];
    for (file, wanted) in cases {
        let error = parse(&file.to_string()).unwrap_err();
        assert!(matches!(&error, ConfigError::Field { field, .. } if field == wanted), "{error}");
    }
    assert_eq!(parse("{}").unwrap(), ConfigFile::default());
    let nulls = parse(r#"{"http_server_port": null, "kvevent_instance": null}"#).unwrap();
    assert_eq!(nulls, ConfigFile::default());
}

proptest! {
    #[test]
    fn no_text_does_harm(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    /// Every entry is either taken or named as left out.
    #[test]
    fn nothing_is_lost_silently(field in "endpoint|type|modelname|block_size|dp_rank|tenant_id|lora_name", number: i64) {
        let file = one(&with(&field, json!(number)));
        prop_assert_eq!(file.publishers.len() + file.skipped.len(), 1);
    }
}
