//! Set-up: requests and what the reference stack (FastAPI 0.116, pydantic 2) answers to them, recorded once.
//! Claim: every one of them is read as the reference reads it: the same values, or the same refusal, word for word.

use std::borrow::Cow;

use kvatlas::fleet::form::{self, Event, Reject};
use serde_json::{Map, Value, json};

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
            mine.len() == reference.len()
                && mine
                    .iter()
                    .all(|(name, value)| reference.get(name).is_some_and(|other| same(value, other)))
        }
        _ => mine == reference,
    }
}

/// A float as the recorded values spell it.
fn float(number: f64) -> Value {
    let text = format!("{number:?}");
    let text = match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    };
    json!(format!("float:{text}"))
}

fn event(event: &Event<'_>) -> Value {
    let kind = format!("{:?}", event.kind).to_lowercase();
    json!({"type": kind, "bytes": event.bytes, "key": {
        "chunk_hash_hex": event.key.hash.to_string(), "model_name": event.key.model,
        "kv_rank": event.key.kv_rank as i64, "object_group_id": event.key.group, "cache_salt": event.key.salt}})
}

fn read(form: &str, kind: &str, body: &str) -> Result<Value, Reject> {
    let bytes = body.as_bytes();
    let query = Some(body).filter(|query| !query.is_empty());
    Ok(match form {
        "register" => {
            let form = form::register(kind, bytes)?;
            let metadata: Map<String, Value> =
                form.metadata.into_iter().map(|(key, value)| (key, json!(value))).collect();
            json!({"instance_id": form.instance_id, "ip": form.ip, "http_port": form.http_port,
                "metadata": metadata, "p2p_advertised_url": form.p2p_advertised_url, "mq_port": form.mq_port})
        }
        "quota" => json!({"limit_gb": float(form::quota(kind, bytes)?.limit_gb), "tier": "l2"}),
        "config" => {
            json!({"default_limit_gb": form::config(kind, bytes)?.map(float), "tier": "l2"})
        }
        "events" => {
            let form = form::events(kind, bytes)?;
            let events: Vec<Value> = form.events.iter().map(event).collect();
            json!({"instance_id": form.instance_id, "seq": form.seq, "events": events, "tier": "l2"})
        }
        "prefetch" => {
            let form = form::prefetch(kind, bytes)?;
            let tokens: Value = serde_json::from_str(&form.token_ids).unwrap();
            json!({"instance_id": form.instance_id, "model_name": form.model_name,
                "world_size": form.world_size, "token_ids": tokens, "cache_salt": form.cache_salt})
        }
        "pins" => {
            let form = form::pins(kind, bytes, 1)?;
            json!({"model_name": form.model_name, "world_size": form.world_size,
                "token_ids": form.token_ids, "cache_salt": form.cache_salt})
        }
        "delete" => {
            let form = form::cache_delete(kind, bytes, 1)?;
            let content = form.sequence;
            json!({"instance_id": form.instance_id, "model_name": content.model_name,
                "world_size": content.world_size, "token_ids": content.token_ids,
                "cache_salt": content.cache_salt, "tier": form.tier.name(), "force": form.force})
        }
        "blend_register" => {
            let range = |range: &form::BlendRange| {
                json!({"model_scope": range.model_scope, "tokens": range.tokens,
                    "object_keys": range.object_keys, "old_st_base": range.old_st_base})
            };
            let ranges = form::blend_register(kind, bytes)?;
            json!({"ranges": ranges.iter().map(range).collect::<Vec<_>>()})
        }
        "blend_remove" => json!({"object_keys": form::blend_remove(kind, bytes)?}),
        "blend_match" => {
            let form = form::blend_match(kind, bytes)?;
            json!({"model_scope": form.model_scope, "tokens": form.tokens})
        }
        "tier" => {
            form::tier(query)?;
            json!("ok")
        }
        "list" => {
            form::pins_query(query)?;
            json!("ok")
        }
        other => panic!("{other}"),
    })
}

/// The recorded values, where the coordinator keeps another shape of them.
fn reference_value(form: &str, mut answer: Value) -> Value {
    if form == "blend_match" {
        let text = answer["tokens_b64"].take();
        let tokens = words(text.as_str().unwrap());
        return json!({"model_scope": answer["model_scope"], "tokens": tokens});
    }
    if form == "events" {
        for event in answer["events"].as_array_mut().unwrap() {
            let hash = event["key"]["chunk_hash_hex"].as_str().unwrap().to_lowercase();
            event["key"]["chunk_hash_hex"] = json!(hash);
        }
    }
    answer
}

/// Base64 of words, the slow way: as one long number, bit by bit.
fn words(text: &str) -> Vec<u32> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.chars().filter_map(|digit| DIGITS.find(digit));
    let bits: Vec<bool> =
        digits.flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1 == 1)).collect();
    let bytes: Vec<u8> = bits
        .chunks_exact(8)
        .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
        .collect();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// What the coordinator decides otherwise than the reference: integers beyond 64 bits, limits that are no number of
/// bytes, tiers that it does not account, tokens that are none, keys that are none.
fn is_decided_otherwise(form: &str, status: u64, reject: &Reject) -> bool {
    let mut out = Vec::new();
    reject.write(&mut out);
    let text = String::from_utf8(out).unwrap();
    match (form, status, reject.status()) {
        ("quota" | "config", _, 400) => text.contains("must be finite") || text.contains("not supported"),
        ("events" | "tier", 200, 400) => text.contains("not supported"),
        (_, 200, 422) => text.contains("int_parsing_size") || text.contains("value_error"),
        _ => false,
    }
}

#[test]
fn answers_are_those_of_the_reference() {
    let records = include_str!("../data/fleet/forms.jsonl");
    let (mut accepted, mut refused, mut decided) = (0, 0, 0);
    let mut wrong = Vec::new();
    for line in records.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| record[name].as_str().unwrap();
        let (form, body) = (text("form"), Cow::Borrowed(text("body")));
        let status = record["status"].as_u64().unwrap();
        let answer = record["answer"].clone();
        match read(form, text("type"), &body) {
            Ok(value) if status == 200 && same(&value, &reference_value(form, answer.clone())) => {
                accepted += 1;
            }
            Ok(value) => wrong.push(format!("{form} {body}\n  read as {value}\n  not {status} {answer}")),
            Err(reject) if is_decided_otherwise(form, status, &reject) => decided += 1,
            Err(reject) => {
                let mut out = Vec::new();
                reject.write(&mut out);
                let mine: Value = serde_json::from_slice(&out).unwrap();
                if u64::from(reject.status()) == status && same(&mine, &answer) {
                    refused += 1;
                } else {
                    wrong.push(format!(
                        "{form} {body}\n  {} {mine}\n  not {status} {answer}",
                        reject.status()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(accepted > 400 && refused > 2500 && (1..60).contains(&decided), "{accepted} {refused} {decided}");
}
