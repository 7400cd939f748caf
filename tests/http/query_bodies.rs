//! Set-up: bodies of the contract, of clients in the field, and generated ones with members in any
//! order, spelling and white space, right and wrong. Claim: they mean what a naive reader of the whole
//! JSON tree makes of them, an error exactly where it sees one, and an error names its field.

use kvatlas::api::body::{
    BadRequest, Hashing, Lora, Prompt, QueryBody, RegisterBody, RemovalScope, UnregisterBody, parse_query,
};
use kvatlas::limits;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

type Query = (QueryBody, Vec<u32>, Vec<u64>);

fn query(body: &[u8], by_hash: bool) -> Result<Query, BadRequest> {
    let (mut tokens, mut hashes) = (vec![99], vec![99]);
    let query = parse_query(body, by_hash, &mut tokens, &mut hashes)?;
    Ok((query, tokens, hashes))
}

fn refused(body: &str, by_hash: bool) -> String {
    query(body.as_bytes(), by_hash).expect_err(body).to_string()
}

/// A JSON object as a list, so that repeated keys are seen.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The naive reader. `None` is an error.
fn naive(body: &[u8], by_hash: bool) -> Option<Query> {
    let Pairs(pairs) = serde_json::from_slice(body).ok()?;
    // the one value of a field, if all that are given agree
    let one = |names: &[&str]| -> Option<Option<Value>> {
        let given = pairs.iter().filter(|(key, value)| names.contains(&key.as_str()) && !value.is_null());
        let mut values: Vec<&Value> = given.map(|(_, value)| value).collect();
        values.dedup();
        (values.len() <= 1).then(|| values.first().map(|value| (*value).clone()))
    };
    let text = |names: &[&str]| -> Option<Option<String>> {
        match one(names)? {
            None => Some(None),
            Some(Value::String(text)) if text.len() < 4000 => Some(Some(text)),
            Some(_) => None,
        }
    };
    let filled = |names: &[&str]| Some(text(names)?.filter(|text| !text.is_empty()));
    let model = filled(&["model", "model_name", "modelname"])??;
    let lora_id = match one(&["lora_id"])? {
        None => None,
        Some(id) => Some(id.as_i64()?),
    };
    let lora = match (filled(&["lora_name"])?, lora_id) {
        (None, None) => Lora::Base,
        (Some(name), None) => Lora::Name(name),
        (None, Some(id)) => Lora::Id(id),
        (Some(_), Some(_)) => return None,
    };
    let block_size = one(&["block_size"])??.as_u64().filter(|size| (1..=1 << 20).contains(size))?;
    let media = match one(&["medium"])? {
        None => Vec::new(),
        Some(Value::String(medium)) => vec![medium],
        Some(Value::Array(media)) => {
            media.iter().map(|medium| medium.as_str().map(str::to_owned)).collect::<Option<_>>()?
        }
        Some(_) => return None,
    };
    let detail = match one(&["detail"])? {
        None => false,
        Some(detail) => detail.as_bool()?,
    };
    let array = |names: &[&str]| -> Option<Option<Vec<Value>>> {
        let mut given = pairs.iter().filter(|(key, value)| names.contains(&key.as_str()) && !value.is_null());
        let first = given.next().map(|(_, value)| value.as_array().cloned());
        if given.next().is_some() { None } else { first.map_or(Some(None), |array| array.map(Some)) }
    };
    let tokens = array(&["token_ids"])?;
    let hashes = array(&["seq_hashes", "block_hash", "block_hashes"])?;
    let token = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let hash = |value: &Value| match value {
        Value::String(text) => {
            text.parse::<u64>().ok().or_else(|| Some(text.parse::<i64>().ok()?.cast_unsigned()))
        }
        value => value.as_u64().or_else(|| Some(value.as_i64()?.cast_unsigned())),
    };
    let token_ids: Vec<u32> = tokens.iter().flatten().map(token).collect::<Option<_>>()?;
    let seq_hashes: Vec<u64> = hashes.iter().flatten().map(hash).collect::<Option<_>>()?;
    if tokens.is_some() == hashes.is_some() || hashes.is_some() != by_hash {
        return None;
    }
    let body = QueryBody {
        model,
        lora,
        tenant: filled(&["tenant_id"])?.unwrap_or_else(|| "default".to_owned()),
        instance_id: text(&["instance_id"])?,
        block_size: block_size as u32,
        cache_salt: filled(&["cache_salt"])?,
        additional_salt: filled(&["additional_salt", "additionalsalt"])?,
        media: if media.iter().all(String::is_empty) { None } else { Some(media) },
        detail,
        extra_keys: one(&["extra_keys"])?,
        prompt: if by_hash { Prompt::Hashes } else { Prompt::Tokens },
    };
    Some((body, token_ids, seq_hashes))
}

fn choose(options: &[&str]) -> impl Strategy<Value = String> + use<> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    prop::sample::select(options)
}

/// A value of a member of this kind, most often a right one.
fn value(key: &str) -> BoxedStrategy<String> {
    let (right, wrong): (&[&str], &[&str]) = match key {
        "block_size" => (&["64"], &["16", "1048576", "0", "1048577", "-1", "64.0", "null"]),
        "lora_id" => (&["null", "1", "0", "-3"], &["1.5", "\"1\""]),
        "detail" => (&["true", "false", "null"], &["0"]),
        "medium" => (&["\"GPU\"", "[\"L1\", \"cpu\"]", "[]", "null", "\"\""], &["[1]"]),
        "extra_keys" => (&["null", "[[\"image\", {\"a\": [0]}], null]", "{}"], &["[}"]),
        "token_ids" => (
            &["[]", "[1,2,3]", "[ 101, 15 , 100,55,\t89]", "[4294967295,0]"],
            &["[1,-1]", "[1.0]", "null", "[1,]"],
        ),
        "seq_hashes" | "block_hash" | "block_hashes" => (
            &["[]", "[1,18446744073709551615]", "[ -1, \"-2\", \"3\" ]"],
            &["[\"\"]", "[null]", "null", "[18446744073709551616]"],
        ),
        "unknown" => (
            &["{\"token_ids\":[-1,{\"]\":\"}\\\"\"}]}", "[[[],{}]]", "\"]}\"", "1e3", "null"],
            &["tru", "[]]"],
        ),
        "model" | "modelname" | "model_name" => (&["\"a\"", "\"\\u0061\""], &["\"b\"", "\"\"", "null"]),
        _ => (&["\"a\"", "\"b\\u00e9\\n\"", "\"b\u{e9}\\n\"", "\"\"", "null"], &["\"\n\"", "\"\\x\""]),
    };
    let any = ["null", "1", "\"x\"", "true", "[]", "{}", "[1", "nul", "01", "\u{1}"];
    prop_oneof![50 => choose(right), 2 => choose(wrong), 1 => choose(&any)].boxed()
}

fn member(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    let blank = || prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\r\n\t ")];
    (prop::sample::select(keys), blank(), blank(), blank(), 0..8_u8).prop_flat_map(
        |(key, a, b, c, escape)| {
            let spelled = match escape {
                0 => format!("\\u{:04x}{}", key.as_bytes()[0], &key[1..]),
                _ => key.to_owned(),
            };
            value(key).prop_map(move |value| format!("{a}\"{spelled}\"{b}:{c}{value}{a}"))
        },
    )
}

const OPTIONAL: &[&str] = &[
    "lora_name",
    "lora_id",
    "tenant_id",
    "instance_id",
    "cache_salt",
    "additional_salt",
    "medium",
    "detail",
    "extra_keys",
    "unknown",
    "additionalsalt",
    "modelname",
    "model_name",
    "model",
    "block_size",
];

/// A second prompt is seldom right.
const PROMPT: &[&str] = &["token_ids", "seq_hashes", "block_hash", "block_hashes"];

fn body() -> impl Strategy<Value = String> {
    let required = (member(&["model", "modelname"]), member(&["block_size"]));
    let prompt = prop_oneof![
        4 => member(&["token_ids"]),
        2 => member(&["seq_hashes", "block_hash", "block_hashes"]),
    ];
    let optional = prop::collection::vec(prop_oneof![30 => member(OPTIONAL), 1 => member(PROMPT)], 0..6);
    let members = (required, prompt, optional).prop_map(|((model, size), prompt, mut members)| {
        members.extend([model, size, prompt]);
        members
    });
    let end =
        prop_oneof![30 => Just("}"), 5 => Just("} \n"), 1 => Just(",}"), 1 => Just("}}"), 1 => Just("")];
    (members.prop_shuffle(), end).prop_map(|(members, end)| format!("{{{}{end}", members.join(",")))
}

fn check(body: &[u8]) -> Result<(), TestCaseError> {
    for by_hash in [false, true] {
        let result = query(body, by_hash);
        if let Err(error) = &result {
            prop_assert!(!error.message.is_empty());
        }
        prop_assert_eq!(result.ok(), naive(body, by_hash));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_query_means_what_the_naive_reader_makes_of_it(body in body()) {
        check(body.as_bytes())?;
    }

    #[test]
    fn a_damaged_query_is_refused_where_the_naive_reader_refuses_it(
        body in body(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
    ) {
        let mut body = body.into_bytes();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        check(&body)?;
    }

    #[test]
    fn random_bytes_are_answered(body in prop::collection::vec(any::<u8>(), 0..100)) {
        check(&body)?;
        prop_assert!(RegisterBody::parse(&body).is_err());
        prop_assert!(UnregisterBody::parse(&body).is_err());
    }
}

#[test]
fn the_contract_registers() {
    let body = br#"{
  "endpoint": "tcp://1.1.1.1:5557",
  "replay_endpoint": "tcp://1.1.1.1:5558",
  "type": "vLLM",
  "modelname": "deepseek",
  "lora_name": "sql-adapter",
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 128,
  "dp_rank": 0,
  "additionalsalt": "w8a8"
}"#;
    let expected = RegisterBody {
        endpoint: "tcp://1.1.1.1:5557".to_owned(),
        replay_endpoint: Some("tcp://1.1.1.1:5558".to_owned()),
        kind: "vLLM".to_owned(),
        model: "deepseek".to_owned(),
        lora_name: Some("sql-adapter".to_owned()),
        tenant_id: "default".to_owned(),
        instance_id: "vllm-prefill-node1".to_owned(),
        block_size: 128,
        dp_rank: 0,
        additional_salt: Some("w8a8".to_owned()),
        hashing: Hashing::Engine,
        tp_size: None,
        removal_scope: None,
    };
    assert_eq!(RegisterBody::parse(body), Ok(expected));
}

#[test]
fn the_contract_unregisters() {
    let body = br#"{
  "type": "vLLM",
  "modelname": "deepseek",
  "lora_name": "sql-adapter",
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 128,
  "dp_rank": 0
}"#;
    let expected = UnregisterBody {
        kind: Some("vLLM".to_owned()),
        tenant_id: "default".to_owned(),
        instance_id: "vllm-prefill-node1".to_owned(),
        dp_rank: Some(0),
    };
    assert_eq!(UnregisterBody::parse(body), Ok(expected));
    let all = UnregisterBody::parse(br#"{"instance_id": "a", "tenant_id": null}"#).unwrap();
    assert_eq!((all.kind, all.tenant_id.as_str(), all.dp_rank), (None, "default", None));
}

#[test]
fn the_contract_queries() {
    let by_tokens = br#"{
  "model": "deepseek",
  "lora_name": "sql-adapter",
  "token_ids": [101, 15, 100, 55, 89],
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 64,
  "cache_salt": "w8a8"
}"#;
    let by_hash = br#"{
  "model": "deepseek",
  "lora_name": "sql-adapter",
  "seq_hashes": [1234567890, 9876543210],
  "tenant_id": "default",
  "instance_id": "vllm-prefill-node1",
  "block_size": 64,
  "cache_salt": "w8a8"
}"#;
    let mut expected = QueryBody {
        model: "deepseek".to_owned(),
        lora: Lora::Name("sql-adapter".to_owned()),
        tenant: "default".to_owned(),
        instance_id: Some("vllm-prefill-node1".to_owned()),
        block_size: 64,
        cache_salt: Some("w8a8".to_owned()),
        additional_salt: None,
        media: None,
        detail: false,
        extra_keys: None,
        prompt: Prompt::Tokens,
    };
    assert_eq!(query(by_tokens, false), Ok((expected.clone(), vec![101, 15, 100, 55, 89], vec![])));
    expected.prompt = Prompt::Hashes;
    assert_eq!(query(by_hash, true), Ok((expected, vec![], vec![1_234_567_890, 9_876_543_210])));
}

#[test]
fn clients_in_the_field_are_understood() {
    let motor = json!({
        "endpoint": "tcp://10.0.0.1:5558", "type": "vLLM", "modelname": "m", "block_size": 128,
        "instance_id": "vllm-union-3", "dp_rank": 1, "store_backend": "x", "medium_endpoints": {"cpu": "tcp://a:1"},
    });
    let registered = RegisterBody::parse(motor.to_string().as_bytes()).unwrap();
    assert_eq!((registered.dp_rank, registered.replay_endpoint), (1, None));
    let motor =
        json!({"type": "vLLM", "modelname": "m", "block_size": 128, "instance_id": "i", "dp_rank": 1});
    assert_eq!(UnregisterBody::parse(motor.to_string().as_bytes()).unwrap().dp_rank, Some(1));
    let motor = br#"{"model": "m", "block_size": 2, "token_ids": [1, 2], "hit_detail": true}"#;
    assert_eq!(query(motor, false).unwrap().1, [1, 2]);
    let escaped = br#"{"mod\u0065l": "m", "block_size": 2, "tok\u0065n_ids": [1, 2], "medium": "L1"}"#;
    let (body, tokens, _) = query(escaped, false).unwrap();
    assert_eq!((body.media, tokens), (Some(vec!["L1".to_owned()]), vec![1, 2]));
    let pool = json!({
        "endpoint": "e", "type": "Mooncake", "model": "m", "model_name": "m", "block_size": 1, "instance_id": "i",
        "dp_rank": 0, "additional_salt": "", "hashing": "standard", "tp_size": 8, "removal_scope": "object",
    });
    let pool = RegisterBody::parse(pool.to_string().as_bytes()).unwrap();
    assert_eq!((pool.hashing, pool.tp_size), (Hashing::Standard, Some(8)));
    assert_eq!((pool.removal_scope, pool.additional_salt), (Some(RemovalScope::Object), None));
}

#[test]
fn an_error_of_a_query_names_its_field() {
    for (body, error) in [
        (r#"{"token_ids": [1, 2, 3, -4]}"#, "token_ids[3]: expected an unsigned 32-bit integer"),
        (r#"{"token_ids": "x"}"#, "token_ids: expected an array, each element an unsigned 32-bit integer"),
        (r#"{"token_ids": [], "block_hash": []}"#, "token_ids: not together with seq_hashes"),
        (r#"{"token_ids": [], "token_ids": []}"#, "token_ids: given twice"),
        (r#"{"seq_hashes": [], "block_hashes": []}"#, "block_hashes: given twice"),
        (r#"{"seq_hashes": [1, "x"]}"#, "seq_hashes[1]: expected a 64-bit integer or a string of one"),
        (r#"{"model": "m", "block_size": 1}"#, "token_ids: required"),
        (r#"{"model": "m", "token_ids": []}"#, "block_size: required"),
        (r#"{"block_size": 1, "token_ids": []}"#, "model: required"),
        (r#"{"model": "", "block_size": 1, "token_ids": []}"#, "model: must not be empty"),
        (r#"{"model": "m", "block_size": 0, "token_ids": []}"#, "block_size: expected 1 to 1048576"),
        (r#"{"model": 5}"#, "model: expected a string"),
        (r#"{"model": "a", "modelname": "b"}"#, "modelname: given twice with different values"),
        (r#"{"lora_name": "a", "lora_id": 1, "token_ids": []}"#, "lora_id: not together with lora_name"),
        ("[]", "invalid JSON at line 1 column 1: expected an object"),
        ("{\"a\": 1,\n  \"b\" 2}", "invalid JSON at line 2 column 7: expected `:`"),
        ("{\"a\":\n [1 2]}", "invalid JSON at line 2 column 5: expected `,` or `]`"),
        ("{\"token_ids\":\n[1,\n 2 3]}", "invalid JSON at line 3 column 4: expected `,` or `]`"),
        ("{} x", "invalid JSON at line 1 column 4: expected nothing after the object"),
    ] {
        assert_eq!(refused(body, false), error, "{body}");
    }
    assert_eq!(refused(r#"{"model": "m", "block_size": 1}"#, true), "seq_hashes: required");
}

#[test]
fn an_error_of_a_registration_names_its_field() {
    let whole = json!({
        "endpoint": "e", "type": "vLLM", "modelname": "m", "instance_id": "i", "block_size": 1, "dp_rank": 0,
    });
    for field in ["endpoint", "type", "modelname", "instance_id", "block_size", "dp_rank"] {
        let mut body = whole.clone();
        body[field] = Value::Null;
        let error = RegisterBody::parse(body.to_string().as_bytes()).expect_err(field);
        assert_eq!(error.to_string(), format!("{field}: required"));
    }
    for (field, value, message) in [
        ("endpoint", json!(""), "must not be empty"),
        ("instance_id", json!(""), "must not be empty"),
        ("modelname", json!(""), "must not be empty"),
        ("dp_rank", json!(-1), "expected an unsigned 32-bit integer"),
        ("block_size", json!("128"), "expected an unsigned 32-bit integer"),
        ("block_size", json!(0), "expected 1 to 1048576"),
        ("hashing", json!("engine"), "expected \"standard\""),
        ("tp_size", json!(0), "expected at least 1"),
        ("removal_scope", json!("all"), "expected \"medium\" or \"object\""),
        ("instance_id", json!("i".repeat(5000)), "expected at most 4096 bytes"),
    ] {
        let mut body = whole.clone();
        body[field] = value;
        let error = RegisterBody::parse(body.to_string().as_bytes()).expect_err(field);
        assert_eq!((&*error.field, error.message.as_str()), (field, message));
    }
    let error = RegisterBody::parse(br#"{"modelname": "a", "model_name": "b"}"#).unwrap_err();
    assert_eq!(error.to_string(), "model_name: given twice with different values");
}

/// The bound of a name is on the name, however it is spelled.
#[test]
fn a_name_of_so_many_bytes_is_a_name() {
    let most = limits::BODY_FIELD_BYTES;
    let spelled = |name: &str, escaped: bool| {
        let escape = |unit: u16| format!("\\u{unit:04x}");
        if escaped { name.encode_utf16().map(escape).collect() } else { name.replace('"', "\\\"") }
    };
    let registration = [("type", "v"), ("endpoint", "e"), ("modelname", "m"), ("instance_id", "i")];
    for letter in ["i", "é", "𝄞", "\""] {
        let longest = letter.repeat(most / letter.len());
        for (name, fits) in [(longest.clone(), true), (format!("{longest}i"), false)] {
            for escaped in [false, true] {
                let text = spelled(&name, escaped);
                let outcome = |error: Option<String>, field: &str| match error {
                    None => assert!(fits, "{field} {} {escaped}", name.len()),
                    Some(error) => {
                        assert!(!fits, "{field} {} {escaped}: {error}", name.len());
                        assert_eq!(error, format!("{field}: expected at most {most} bytes"));
                    }
                };
                for field in
                    ["model", "tenant_id", "instance_id", "lora_name", "cache_salt", "additional_salt"]
                {
                    let rest = if field == "model" { "" } else { r#""model": "m", "# };
                    let body = format!(r#"{{{rest}"block_size": 1, "token_ids": [], "{field}": "{text}"}}"#);
                    outcome(query(body.as_bytes(), false).err().map(|error| error.to_string()), field);
                }
                for field in ["endpoint", "replay_endpoint", "type", "modelname", "instance_id", "lora_name"]
                {
                    let others = registration.iter().filter(|(other, _)| *other != field);
                    let others: Vec<_> =
                        others.map(|(other, value)| format!(r#""{other}": "{value}", "#)).collect();
                    let others = others.concat();
                    let body = format!(r#"{{{others}"block_size": 1, "dp_rank": 0, "{field}": "{text}"}}"#);
                    let read = RegisterBody::parse(body.as_bytes());
                    outcome(read.err().map(|error| error.to_string()), field);
                }
            }
        }
    }
}

#[test]
fn deep_and_large_members_cost_nothing() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let body = format!(r#"{{"x": {deep}, "model": "m", "block_size": 1, "token_ids": [1]}}"#);
    assert_eq!(query(body.as_bytes(), false).unwrap().1, [1]);
    let body = format!(r#"{{"extra_keys": {deep}}}"#);
    assert_eq!(refused(&body, false), "extra_keys: expected JSON that is less deep");
    let large = "1,".repeat(limits::BODY_EXTRA_KEYS_BYTES / 2);
    let body = format!(r#"{{"extra_keys": [{large}1]}}"#);
    assert!(refused(&body, false).starts_with("extra_keys: expected at most"));
}
