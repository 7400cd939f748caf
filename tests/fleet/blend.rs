//! Set-up: a directory of fingerprints beside a naive one that compares tokens, and recorded hashes
//! (`tests/data/fleet/vectors.json`).
//! Claim: hashes are the recorded ones; a prompt finds what comparing every window by tokens finds, each key once, in
//! ascending order; steps change nothing; scopes are apart; the directory is bounded and forgets the oldest.

use std::collections::{BTreeSet, HashMap};

use kvatlas::fleet::blend::codec::{PackedFault, Unpack, unpack};
use kvatlas::fleet::blend::rolling::{Window, hash};
use kvatlas::fleet::blend::{Directory, Match, Range};
use proptest::prelude::*;
use serde_json::Value;

const CHUNK: u64 = 3;
const SCOPE: &str = "m@s";

fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|chunk| format!("{prefix}{chunk}")).collect()
}

/// Registers `tokens` with one key a chunk.
fn register(directory: &mut Directory, scope: &str, prefix: &str, tokens: &[u32]) -> u64 {
    let object_keys = keys(prefix, tokens.len() / CHUNK as usize);
    directory.register(Range { scope, tokens, object_keys: &object_keys, old_st_base: 0 })
}

fn directory() -> Directory {
    Directory::new(CHUNK, 1)
}

fn shown(matches: &[Match]) -> Vec<(&str, u64, u64)> {
    matches.iter().map(|found| (&*found.object_key, found.old_st, found.cur_st)).collect()
}

#[test]
fn hashes_are_the_recorded_ones() {
    let vectors: Value = serde_json::from_str(include_str!("../data/fleet/vectors.json")).unwrap();
    let cases = vectors["blend"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let numbers = |name: &str| -> Vec<u64> {
            case[name].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
        };
        let tokens = if case["tokens"].is_array() { numbers("tokens") } else { (0..256).collect() };
        let size = case["k"].as_u64().unwrap() as usize;
        let chunks: Vec<u64> = tokens.chunks_exact(size).map(hash).collect();
        assert_eq!(chunks, numbers("chunk_hashes"));
        let mut window = Window::new(size);
        let mut rolling = Vec::new();
        while window.seen() < tokens.len() {
            rolling.extend(window.advance(&tokens).map(|(_, hash)| hash));
        }
        assert_eq!(rolling, numbers("rolling"));
        if let Some(packed) = case.get("tokens_b64") {
            let unpacked: Vec<u64> =
                unpack(packed.as_str().unwrap()).unwrap().into_iter().map(u64::from).collect();
            assert_eq!(unpacked, tokens);
        }
    }
}

#[test]
fn what_is_stored_is_found_where_it_was() {
    let mut directory = directory();
    assert_eq!(register(&mut directory, SCOPE, "K", &[1, 2, 3, 4, 5, 6]), 2);
    assert_eq!(shown(&directory.matches(SCOPE, &[1u32, 2, 3, 4, 5, 6])), [("K0", 0, 0), ("K1", 3, 3)]);
}

#[test]
fn positions_begin_at_the_base() {
    let mut directory = directory();
    let object_keys = keys("K", 2);
    let range = Range {
        scope: SCOPE,
        tokens: &[1u32, 2, 3, 4, 5, 6, 7],
        object_keys: &object_keys,
        old_st_base: 300,
    };
    assert_eq!(directory.register(range), 2);
    assert_eq!(shown(&directory.matches(SCOPE, &[4u32, 5, 6])), [("K1", 303, 0)]);
    let far = Range {
        scope: "far",
        tokens: &[1u32, 2, 3, 4, 5, 6],
        object_keys: &object_keys,
        old_st_base: u64::MAX,
    };
    assert_eq!(directory.register(far), 2);
    assert_eq!(directory.matches("far", &[4u32, 5, 6])[0].old_st, u64::MAX);
}

#[test]
fn the_stride_decides_which_offsets_are_found() {
    let prompt = [9u32, 1, 2, 3, 4, 5, 6];
    for (stride, wanted) in [(1, vec![("K0", 0, 1), ("K1", 3, 4)]), (2, vec![("K1", 3, 4)]), (3, vec![])] {
        let mut directory = Directory::new(CHUNK, stride);
        register(&mut directory, SCOPE, "K", &[1, 2, 3, 4, 5, 6]);
        assert_eq!(shown(&directory.matches(SCOPE, &prompt)), wanted, "stride {stride}");
    }
}

#[test]
fn a_key_is_found_once_where_it_is_first() {
    let mut directory = directory();
    register(&mut directory, SCOPE, "K", &[1, 2, 3]);
    assert_eq!(shown(&directory.matches(SCOPE, &[0u32, 1, 2, 3, 1, 2, 3])), [("K0", 0, 1)]);
}

#[test]
fn scopes_are_apart() {
    let mut directory = directory();
    register(&mut directory, "a", "A", &[1, 2, 3]);
    assert!(directory.matches("b", &[1u32, 2, 3]).is_empty());
    register(&mut directory, "b", "B", &[1, 2, 3]);
    assert_eq!(shown(&directory.matches("a", &[1u32, 2, 3])), [("A0", 0, 0)]);
    assert_eq!(shown(&directory.matches("b", &[1u32, 2, 3])), [("B0", 0, 0)]);
}

#[test]
fn short_and_strange_prompts_find_nothing() {
    let mut directory = directory();
    register(&mut directory, SCOPE, "K", &[1, 2, 3]);
    for prompt in [&[][..], &[1], &[1, 2], &[7, 8, 9], &[3, 2, 1]] {
        assert!(directory.matches::<u32>(SCOPE, prompt).is_empty());
    }
}

#[test]
fn registering_again_changes_nothing() {
    let mut directory = directory();
    assert_eq!(register(&mut directory, SCOPE, "K", &[1, 2, 3, 4, 5, 6]), 2);
    assert_eq!(register(&mut directory, SCOPE, "K", &[1, 2, 3, 4, 5, 6]), 0);
    assert_eq!(register(&mut directory, SCOPE, "other", &[4, 5, 6]), 0, "the first one counts");
    assert_eq!(shown(&directory.matches(SCOPE, &[4u32, 5, 6])), [("K1", 3, 0)]);
    assert_eq!(directory.remove("other0"), 0);
}

#[test]
fn removing_takes_all_of_a_key_and_nothing_else() {
    let mut directory = directory();
    register(&mut directory, SCOPE, "K", &[1, 2, 3, 4, 5, 6]);
    register(&mut directory, "other", "K", &[7, 8, 9]);
    assert_eq!(directory.remove("nothing"), 0);
    assert_eq!(directory.remove("K0"), 2);
    assert_eq!(directory.remove("K0"), 0);
    assert_eq!(shown(&directory.matches(SCOPE, &[1u32, 2, 3, 4, 5, 6])), [("K1", 3, 3)]);
    assert!(directory.matches("other", &[7u32, 8, 9]).is_empty());
    assert_eq!(register(&mut directory, SCOPE, "again", &[1, 2, 3]), 1);
}

#[test]
fn a_range_without_a_key_for_each_chunk_is_left_out() {
    let mut directory = directory();
    for (tokens, count) in [(&[1u32, 2, 3, 4, 5, 6][..], 1), (&[1, 2, 3], 2), (&[1, 2], 1)] {
        let object_keys = keys("K", count);
        let range = || Range { scope: SCOPE, tokens, object_keys: &object_keys, old_st_base: 0 };
        assert!(directory.publish(range()).is_none());
        assert_eq!(directory.register(range()), 0);
    }
    assert!(directory.is_empty());
}

#[test]
fn growth_and_mass_eviction_lose_nobody_else() {
    let mut directory = directory();
    let chunk = |number: u32| [1000 + 3 * number, 1001 + 3 * number, 1002 + 3 * number];
    for number in 0..400 {
        assert_eq!(register(&mut directory, SCOPE, &format!("D{number}_"), &chunk(number)), 1);
    }
    for number in 0..399 {
        assert_eq!(directory.remove(&format!("D{number}_0")), 1);
    }
    assert_eq!(directory.len(), 1);
    assert_eq!(shown(&directory.matches(SCOPE, &chunk(399))), [("D399_0", 0, 0)]);
    assert!(directory.matches(SCOPE, &chunk(0)).is_empty());
}

#[test]
fn beyond_the_bound_the_oldest_go() {
    let mut directory = Directory::with_most(1, 1, 4);
    for token in 0..4u32 {
        let object_keys = [format!("K{token}")];
        directory.register(Range {
            scope: SCOPE,
            tokens: &[token],
            object_keys: &object_keys,
            old_st_base: 0,
        });
    }
    directory.remove("K1");
    let both = ["same", "same", "same"];
    directory.register(Range { scope: SCOPE, tokens: &[10u32, 11, 12], object_keys: &both, old_st_base: 0 });
    assert_eq!((directory.len(), directory.dropped()), (4, 2));
    let held: BTreeSet<u64> =
        directory.matches(SCOPE, &[0u32, 1, 2, 3]).iter().map(|found| found.cur_st).collect();
    assert_eq!(held, BTreeSet::from([3]));
    directory.register(Range {
        scope: "t",
        tokens: &[1u32, 2, 3],
        object_keys: &["a", "b", "c"],
        old_st_base: 0,
    });
    assert_eq!(directory.remove("same"), 1, "its oldest went first");
    assert_eq!(shown(&directory.matches("t", &[1u32, 2, 3])), [("a", 0, 0), ("b", 1, 1), ("c", 2, 2)]);
}

#[test]
fn a_million_tokens_are_looked_through_in_steps() {
    let mut directory = Directory::new(256, 1);
    let stored: Vec<u32> = (5..5 + 256 * 8).collect();
    let object_keys = keys("K", 8);
    assert_eq!(
        directory.register(Range {
            scope: SCOPE,
            tokens: &stored,
            object_keys: &object_keys,
            old_st_base: 0
        }),
        8
    );
    let prompt: Vec<u32> = (0..1_000_000).collect();
    let mut matching = directory.find(SCOPE, &prompt);
    let mut steps = 1;
    while directory.find_step(&mut matching, 10_000) {
        steps += 1;
    }
    assert_eq!(steps, 100);
    let found = matching.into_matches();
    assert_eq!(
        found.iter().map(|found| found.cur_st).collect::<Vec<_>>(),
        (0..8).map(|at| 5 + 256 * at).collect::<Vec<_>>()
    );
}

#[test]
fn a_long_range_is_taken_in_by_steps() {
    let mut directory = Directory::new(4, 1);
    let tokens: Vec<u32> = (0..1000).collect();
    let object_keys = keys("K", 250);
    let mut publishing = directory
        .publish(Range { scope: SCOPE, tokens: &tokens, object_keys: &object_keys, old_st_base: 0 })
        .unwrap();
    let mut steps = 1;
    while directory.publish_step(&mut publishing, 36) {
        steps += 1;
    }
    assert_eq!((steps, publishing.inserted(), directory.len()), (25, 250, 250));
    let none: [&str; 0] = [];
    let mut nothing = directory
        .publish(Range { scope: SCOPE, tokens: &tokens[..3], object_keys: &none, old_st_base: 0 })
        .unwrap();
    assert!(!directory.publish_step(&mut nothing, 1));
}

#[test]
fn a_directory_that_changes_between_steps_stays_right() {
    let mut directory = directory();
    register(&mut directory, SCOPE, "A", &[1, 2, 3]);
    register(&mut directory, SCOPE, "B", &[4, 5, 6]);
    let prompt = [1u32, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut matching = directory.find(SCOPE, &prompt);
    assert!(directory.find_step(&mut matching, 3));
    directory.remove("A0");
    directory.remove("B0");
    register(&mut directory, SCOPE, "C", &[7, 8, 9]);
    while directory.find_step(&mut matching, 3) {}
    assert_eq!(shown(&matching.into_matches()), [("A0", 0, 0), ("C0", 0, 6)]);
}

#[test]
fn packed_tokens_that_are_none_are_refused() {
    assert_eq!(unpack(""), Ok(vec![]));
    assert_eq!(unpack("AQAAAP////8="), Ok(vec![1, u32::MAX]));
    for bad in [
        "not valid base64 !!!",
        "AQAAA",
        "AQAAAA",
        "AQAAAA=",
        "=",
        "====",
        "AQAA\nAA==",
        "AQAAAA==AQAAAA==",
        "é",
    ] {
        assert_eq!(unpack(bad), Err(PackedFault::Base64), "{bad}");
    }
    assert_eq!(unpack("AQ=="), Err(PackedFault::Length(1)));
    assert_eq!(unpack("AQAAAAI="), Err(PackedFault::Length(5)));
    assert_eq!(
        PackedFault::Length(5).to_string(),
        "tokens_b64 must hold whole 32-bit tokens: 5 bytes are no multiple of 4"
    );
}

#[derive(Clone, Debug)]
enum Act {
    Register(u8, Vec<u32>),
    Remove(u8),
    Find(u8, Vec<u32>),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let tokens = |most| proptest::collection::vec(0..3u32, 0..most);
    let act = prop_oneof![
        3 => (0..2u8, tokens(12)).prop_map(|(scope, tokens)| Act::Register(scope, tokens)),
        1 => (0..40u8).prop_map(Act::Remove),
        2 => (0..2u8, tokens(40)).prop_map(|(scope, tokens)| Act::Find(scope, tokens)),
    ];
    proptest::collection::vec(act, 1..60)
}

proptest! {
    #[test]
    fn windows_are_compared_as_if_by_tokens(acts in acts(), stride in 1..4u64, step in 1..9usize) {
        let mut directory = Directory::new(CHUNK, stride);
        // by scope and tokens: key and old position
        let mut naive: HashMap<(u8, Vec<u32>), (String, u64)> = HashMap::new();
        let mut registered = 0;
        for act in acts {
            match act {
                Act::Register(scope, tokens) => {
                    let chunks: Vec<&[u32]> = tokens.chunks_exact(CHUNK as usize).collect();
                    let object_keys: Vec<String> =
                        (0..chunks.len()).map(|chunk| format!("{}", (registered + chunk) % 40)).collect();
                    registered += chunks.len();
                    let before = naive.len();
                    for (chunk, tokens) in chunks.iter().enumerate() {
                        naive.entry((scope, tokens.to_vec()))
                            .or_insert_with(|| (object_keys[chunk].clone(), 7 + 3 * chunk as u64));
                    }
                    let scope = scope.to_string();
                    let range = Range { scope: &scope, tokens: &tokens, object_keys: &object_keys, old_st_base: 7 };
                    let mut publishing = directory.publish(range).unwrap();
                    while directory.publish_step(&mut publishing, step) {}
                    prop_assert_eq!(publishing.inserted() as usize, naive.len() - before);
                }
                Act::Remove(key) => {
                    let before = naive.len();
                    naive.retain(|_, (held, _)| *held != key.to_string());
                    prop_assert_eq!(directory.remove(&key.to_string()) as usize, before - naive.len());
                }
                Act::Find(scope, tokens) => {
                    let mut wanted: Vec<(&str, u64, u64)> = Vec::new();
                    for (position, window) in tokens.windows(CHUNK as usize).enumerate().step_by(stride as usize) {
                        if let Some((key, old_st)) = naive.get(&(scope, window.to_vec()))
                            && wanted.iter().all(|(seen, ..)| seen != key)
                        {
                            wanted.push((key, *old_st, position as u64));
                        }
                    }
                    let scope = scope.to_string();
                    let mut matching = directory.find(&scope, &tokens);
                    while directory.find_step(&mut matching, step) {}
                    let found = matching.into_matches();
                    prop_assert_eq!(shown(&found), wanted);
                }
            }
            prop_assert_eq!(directory.len(), naive.len());
        }
    }

    #[test]
    fn packed_tokens_come_back(tokens in proptest::collection::vec(any::<u32>(), 0..200), step in 1..50usize) {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let packed = pack(&bytes);
        prop_assert_eq!(unpack(&packed), Ok(tokens.clone()));
        let mut unpacking = Unpack::new(&packed);
        let stepped = loop {
            if let Some(done) = unpacking.step(step) {
                break done;
            }
        };
        prop_assert_eq!(stepped, Ok(tokens));
    }
}

/// Base64, bit by bit.
fn pack(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0usize, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = if at <= group.len() { alphabet[bits >> (18 - 6 * at) & 63] } else { b'=' };
            text.push(char::from(digit));
        }
    }
    text
}
