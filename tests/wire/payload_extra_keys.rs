//! Set-up: random per-block extra keys, once as msgpack in an event (maps turned round, integers widened) and
//! once as the JSON of a query.
//!
//! Claim: both spellings give the same digests and the same cache salt; what differs gives other digests; and
//! the LoRA name, the salt and saying nothing are no extras.

use kvatlas::event::extra::{Context, digests_of_json, digests_of_msgpack};
use kvatlas::event::{Skip, Span};
use kvatlas::limits::MSGPACK_DEPTH;
use proptest::prelude::*;
use rmp::encode as put;
use serde_json::{Value, json};

/// Writes a JSON value as msgpack; `wide` chooses long spellings of numbers.
fn write(out: &mut Vec<u8>, value: &Value, wide: bool) {
    match value {
        Value::Null => put::write_nil(out).unwrap(),
        Value::Bool(value) => put::write_bool(out, *value).unwrap(),
        Value::String(text) => put::write_str(out, text).unwrap(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) if wide => put::write_u64(out, value).unwrap(),
            (Some(value), _) => drop(put::write_uint(out, value).unwrap()),
            (_, Some(value)) if wide => put::write_i64(out, value).unwrap(),
            (_, Some(value)) => drop(put::write_sint(out, value).unwrap()),
            _ => put::write_f64(out, number.as_f64().unwrap()).unwrap(),
        },
        Value::Array(list) => {
            put::write_array_len(out, list.len() as u32).unwrap();
            for value in list {
                write(out, value, wide);
            }
        }
        Value::Object(map) => {
            put::write_map_len(out, map.len() as u32).unwrap();
            for (name, value) in map.iter().rev() {
                put::write_str(out, name).unwrap();
                write(out, value, wide);
            }
        }
    }
}

type Told = (Vec<Option<u64>>, Option<String>);

fn of_msgpack(
    keys: Option<&Value>,
    infos: Option<&Value>,
    context: Context<'_>,
    wide: bool,
) -> Result<Told, Skip> {
    let mut payload = vec![0xc0];
    let mut span = |value: Option<&Value>| {
        let Some(value) = value else { return Span::NONE };
        let start = payload.len();
        write(&mut payload, value, wide);
        Span::new(start, payload.len() - start)
    };
    let (keys, infos) = (span(keys), span(infos));
    let mut out = vec![Some(7)];
    let salt =
        digests_of_msgpack(&payload, keys, infos, context, &mut out).map(|salt| salt.map(str::to_owned))?;
    assert_eq!(out.remove(0), Some(7), "what stands before is left alone");
    Ok((out, salt))
}

fn of_json(keys: Option<&Value>, infos: Option<&Value>, context: Context<'_>) -> Result<Told, String> {
    let mut out = Vec::new();
    let salt = digests_of_json(keys, infos, context, &mut out)?.map(str::to_owned);
    Ok((out, salt))
}

fn root(blocks: usize) -> Context<'static> {
    Context { blocks, root: true, lora: None, seed: 1337 }
}

/// The digests and the salt of keys that both spellings agree about.
fn told(keys: &Value, context: Context<'_>) -> Told {
    let json = of_json(Some(keys), None, context).unwrap();
    assert_eq!(of_msgpack(Some(keys), None, context, false).unwrap(), json);
    json
}

#[test]
fn a_block_that_says_nothing_has_no_digest() {
    assert_eq!(told(&json!([null, []]), root(2)), (vec![None, None], None));
    assert_eq!(of_json(None, None, root(3)).unwrap(), (vec![None; 3], None));
    assert_eq!(of_msgpack(None, None, root(3), false).unwrap(), (vec![None; 3], None));
    assert_eq!(told(&json!([null, ["x"]]), root(2)).0[0], None);
}

#[test]
fn the_last_bare_string_of_a_root_block_is_the_salt() {
    let image = "0123456789abcdef".repeat(4);
    let (digests, salt) = told(&json!([["pepper"], null]), root(2));
    assert_eq!((digests, salt.as_deref()), (vec![None, None], Some("pepper")));
    let (digests, salt) = told(&json!([[["img", 0], "pepper", image]]), root(1));
    assert_eq!(salt.as_deref(), Some("pepper"));
    assert_eq!(digests, told(&json!([[["img", 0], image]]), root(1)).0, "the salt is no extra");
    // only of a root, only of its first block
    assert_eq!(told(&json!([["pepper"]]), Context { root: false, ..root(1) }).1, None);
    let (digests, salt) = told(&json!([null, ["pepper"]]), root(2));
    assert!(salt.is_none() && digests[1].is_some());
    assert_eq!(told(&json!([[image]]), root(1)).1, None);
}

#[test]
fn a_typed_salt_goes_before_a_bare_string() {
    let keys = json!([["bare", { "type": "CacheSaltKey", "salt": "typed" }]]);
    let (digests, salt) = told(&keys, root(1));
    assert_eq!(salt.as_deref(), Some("typed"));
    assert!(digests[0].is_some(), "the bare string is an extra then");
}

#[test]
fn the_lora_name_is_no_extra() {
    let context = Context { lora: Some("sql"), ..root(2) };
    assert_eq!(told(&json!([["sql"], ["sql"]]), context), (vec![None, None], None));
    let (digests, salt) = told(&json!([["sql", "pepper"], ["sql", "img"]]), context);
    assert_eq!((digests[0], salt.as_deref()), (None, Some("pepper")));
    assert_eq!(digests[1], told(&json!([null, ["img"]]), context).0[1]);
}

#[test]
fn different_keys_have_different_digests() {
    let keys = [
        json!([["a", 0]]),
        json!([["a", 1]]),
        json!([["a", -1]]),
        json!([["a", "0"]]),
        json!([["a", 0.0]]),
        json!([["a"], [0]]),
        json!([["a", null]]),
        json!([["a", false]]),
        json!([{ "a": 0 }]),
        json!([[["a", 0]]]),
        json!(["a", 0]),
        json!([[]]),
        json!([{}]),
    ];
    let context = Context { root: false, ..root(1) };
    let mut digests: Vec<u64> =
        keys.iter().map(|keys| told(&json!([keys]), context).0[0].expect("a digest")).collect();
    digests.push(told(&json!([keys[0]]), Context { seed: 0, ..context }).0[0].unwrap());
    let infos = json!([{ "a": 0 }]);
    digests.push(of_json(None, Some(&infos), context).unwrap().0[0].unwrap());
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

#[test]
fn bytes_are_spelled_in_json_as_their_hexadecimal_string() {
    let payload = [0x91, 0x91, 0xc4, 3, 0x00, 0xab, 0x9f];
    let mut bytes = Vec::new();
    let context = Context { root: false, ..root(1) };
    digests_of_msgpack(&payload, Span::new(0, payload.len()), Span::NONE, context, &mut bytes).unwrap();
    assert_eq!(bytes, told(&json!([["00ab9f"]]), context).0);
}

#[test]
fn a_wrong_shape_is_refused_with_a_reason() {
    for keys in [json!("zz"), json!([null]), json!([null, null, null, null]), json!({ "0": null })] {
        let why = of_json(Some(&keys), None, root(2)).unwrap_err();
        assert!(why.contains("extra_keys"), "{why}");
        assert_eq!(of_msgpack(Some(&keys), None, root(2), false), Err(Skip::BadField));
    }
    let why = of_json(None, Some(&json!(3)), root(2)).unwrap_err();
    assert!(why.contains("block_mm_infos"), "{why}");
    // the part of a block at the end of a prompt has its element too
    assert_eq!(of_json(Some(&json!([null, null, ["x"]])), None, root(2)), Ok((vec![None, None], None)));
}

#[test]
fn nesting_is_bounded() {
    let nest = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let context = Context { root: false, ..root(1) };
    let keys = json!([[nest(MSGPACK_DEPTH)]]);
    assert!(of_json(Some(&keys), None, context).is_ok());
    let keys = json!([[nest(MSGPACK_DEPTH + 1)]]);
    let why = of_json(Some(&keys), None, context).unwrap_err();
    assert!(why.contains("deep"), "{why}");
    assert!(of_msgpack(Some(&keys), None, context, false).is_err());
}

fn key() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-200_i64..200).prop_map(Value::from),
        any::<f64>().prop_map(|value| serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)),
        "[a-zé]{0,8}".prop_map(Value::from),
        Just(json!("sql")),
        Just(json!({ "type": "CacheSaltKey", "salt": "s" })),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-d]{0,3}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn both_spellings_agree(
        keys in prop::collection::vec(key(), 0..5),
        infos in prop::collection::vec(key(), 0..5),
        root in any::<bool>(),
        lora in prop::option::of(Just("sql")),
        seed in any::<u64>(),
    ) {
        let context = Context { blocks: keys.len(), root, lora, seed };
        let infos = (infos.len() == keys.len()).then(|| Value::from(infos));
        let keys = Value::from(keys);
        let json = of_json(Some(&keys), infos.as_ref(), context).unwrap();
        for wide in [false, true] {
            let msgpack = of_msgpack(Some(&keys), infos.as_ref(), context, wide).unwrap();
            prop_assert_eq!(&msgpack, &json);
        }
    }
}
