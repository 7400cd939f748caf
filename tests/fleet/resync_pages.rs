//! Set-up: pages of a listing, read in steps, beside a naive reading of the whole text.
//! Claim: steps change nothing; a page that ends early is refused whole, and so is what is no page; depth is only
//! length; no bytes hurt.

use kvatlas::fleet::resync::{Listing, PageFault, PageReader, Reading};
use proptest::prelude::*;
use serde_json::{Value, json};

fn entry(hash: &str, bytes: u64) -> Value {
    json!({"key": {"chunk_hash_hex": hash, "model_name": "m", "kv_rank": 16_777_472, "object_group_id": 0,
        "cache_salt": "s"}, "size_bytes": bytes})
}

fn page(entries: &[Value], next: &Value) -> Vec<u8> {
    let page = json!({"adapter": "s3", "entries": entries, "next_page_token": next});
    serde_json::to_vec(&page).unwrap()
}

/// Reads a page in steps.
fn read(body: &[u8], step: usize) -> Result<Listing, PageFault> {
    let mut reader = PageReader::new(body.to_vec());
    for _ in 0..=body.len() + 4 {
        if let Reading::Done(done) = reader.step(step) {
            return done;
        }
    }
    panic!("the reader does not come to an end");
}

#[test]
fn a_page_is_read_in_steps() {
    let entries: Vec<Value> = (0..5000).map(|number| entry(&format!("{number:08x}"), number)).collect();
    let mut reader = PageReader::new(page(&entries, &json!("T")));
    let mut steps = 1;
    let listing = loop {
        match reader.step(100) {
            Reading::More => steps += 1,
            Reading::Done(listing) => break listing.unwrap(),
        }
    };
    assert!((50..53).contains(&steps), "{steps}");
    assert_eq!((listing.entries.len(), listing.next.as_deref()), (5000, Some("T")));
    assert!(listing.entries.iter().enumerate().all(|(at, entry)| entry.bytes == at as u64));
}

#[test]
fn a_deep_page_is_only_long() {
    let deep = "[".repeat(1_000_000);
    assert!(read(format!("{{\"x\": {deep}").as_bytes(), 10).is_err());
    let closed =
        format!("{{\"x\": {deep}{}, \"entries\": [{deep}{}]}}", "]".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(read(closed.as_bytes(), 10).unwrap().skipped, 1);
}

#[test]
fn things_that_are_no_page_are_told_apart() {
    for other in ["[]", "5", "\"text\"", "null", " true "] {
        assert_eq!(read(other.as_bytes(), 1), Err(PageFault::NoObject), "{other}");
    }
    for broken in [
        "",
        "{",
        "{]",
        "nope",
        "{\"a\"}",
        "{\"a\": 1,}",
        "{\"a\": 1} x",
        "{a: 1}",
        "{\"entries\": [1 2]}",
        "{\"entries\": [1,]}",
        "{\"entries\": [,1]}",
        "{,\"a\": 1}",
        "{\"a\": }",
        "{\"a\" 1}",
        "{\"a\": \"",
        "{\"a\\",
    ] {
        assert!(matches!(read(broken.as_bytes(), 1), Err(PageFault::Json(_))), "{broken}");
    }
    assert_eq!(read(b"{\"entries\": {}}", 1), Err(PageFault::Entries));
    assert_eq!(read(b"{\"next_page_token\": {}}", 1), Err(PageFault::Token));
}

/// Any JSON, not too deep.
fn any_json() -> impl Strategy<Value = Value> {
    let text = r#"[a-c"\\{}\[\]:, é\n]{0,5}"#;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(text, inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Entries of which many are good.
fn any_entry() -> impl Strategy<Value = Value> {
    let good = ("[0-9a-f]{0,6}", any::<u16>(), any::<i32>()).prop_map(|(hash, bytes, rank)| {
        json!({"key": {"chunk_hash_hex": hash, "model_name": "m", "kv_rank": rank}, "size_bytes": bytes})
    });
    prop_oneof![3 => good, 1 => any_json()]
}

/// The good entries of a page as parsing it whole finds them.
fn naive(page: &Value) -> (Vec<(String, i64, u64)>, usize) {
    let entries = page["entries"].as_array().unwrap();
    let good = entries.iter().filter_map(|entry| {
        let key = entry.get("key")?;
        let hash = key.get("chunk_hash_hex")?.as_str()?;
        let rank = key.get("kv_rank")?.as_i64()?;
        key.get("model_name")?.as_str()?;
        (hash.len() % 2 == 0).then_some((hash.to_owned(), rank, entry.get("size_bytes")?.as_u64()?))
    });
    let good: Vec<_> = good.collect();
    let skipped = entries.len() - good.len();
    (good, skipped)
}

proptest! {
    #[test]
    fn a_page_read_in_steps_is_the_page_read_whole(
        entries in proptest::collection::vec(any_entry(), 0..20),
        other in any_json(), token in proptest::option::of(".{0,4}"), step in 1..9usize, pretty: bool
    ) {
        let page = json!({"other": other, "entries": entries, "next_page_token": token});
        let text = if pretty { serde_json::to_string_pretty(&page) } else { serde_json::to_string(&page) }.unwrap();
        let listing = read(text.as_bytes(), step).unwrap();
        let (good, skipped) = naive(&page);
        let found: Vec<(String, i64, u64)> = listing.entries.iter()
            .map(|entry| (entry.key.hash.to_string(), entry.key.kv_rank as i64, entry.bytes)).collect();
        prop_assert_eq!(found, good);
        prop_assert_eq!(listing.skipped as usize, skipped);
        prop_assert_eq!(listing.next, token);
    }

    #[test]
    fn a_page_that_ends_early_is_refused(
        entries in proptest::collection::vec(any_entry(), 0..6), other in any_json(), cut in any::<prop::sample::Index>()
    ) {
        let text = json!({"other": other, "entries": entries, "next_page_token": "T"}).to_string();
        prop_assert!(read(&text.as_bytes()[..cut.index(text.len())], 3).is_err());
    }

    #[test]
    fn no_bytes_hurt(start in r#"\{"(entries|x)": ?"#, bytes in proptest::collection::vec(any::<u8>(), 0..60),
        text in r#"[\[\]{}",:\\ 0a]{0,40}"#, step in 1..5usize
    ) {
        for body in [&bytes[..], text.as_bytes(), &[start.as_bytes(), &bytes].concat(), &[start.as_bytes(), text.as_bytes()].concat()] {
            let _ = read(body, step);
        }
    }
}
