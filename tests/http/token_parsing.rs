//! Set-up: integer arrays in JSON: generated in every spelling, damaged, and random bytes. Claim: the
//! fast ways agree with the naive one on tokens, length and error, and all with a general JSON parser.

use kvatlas::http::tokens::{Error, What, parse, parse_hashes, parse_naive, parse_words};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// What a general parser makes of the array at the front of `input`: elements and length.
fn general<T: for<'a> Deserialize<'a>>(input: &[u8]) -> Option<(Vec<T>, usize)> {
    let mut stream = serde_json::Deserializer::from_slice(input).into_iter::<Vec<T>>();
    let elements = stream.next()?.ok()?;
    Some((elements, stream.byte_offset()))
}

fn check_tokens(input: &[u8]) -> Result<(), TestCaseError> {
    let (mut fast, mut naive) = (vec![7], vec![8, 9]);
    let result = parse(input, &mut fast);
    prop_assert_eq!(result, parse_naive(input, &mut naive));
    prop_assert_eq!(&fast, &naive);
    let mut words = vec![10];
    prop_assert_eq!(result, parse_words(input, &mut words));
    prop_assert_eq!(&fast, &words);
    prop_assert_eq!(result.ok().map(|taken| (fast, taken)), general::<u32>(input));
    Ok(())
}

fn hash_of(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| Some(number.as_i64()?.cast_unsigned())),
        // no test writes a string with leading zeros or a plus
        Value::String(text) => {
            text.parse::<u64>().ok().or_else(|| Some(text.parse::<i64>().ok()?.cast_unsigned()))
        }
        _ => None,
    }
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![30 => Just(""), 10 => Just(" "), 1 => Just("  "), 1 => Just("\r\n\t")]
}

/// What is between two tokens of one array, mostly the same.
fn separator() -> impl Strategy<Value = &'static str> {
    let usual = [",", ", ", ",\n", ",\t", ",\r\n  "];
    prop_oneof![40 => prop::sample::select(usual[..2].to_vec()), 1 => prop::sample::select(usual[2..].to_vec())]
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..200_000_u32).prop_map(|token| token.to_string()),
        2 => any::<u32>().prop_map(|token| token.to_string()),
        2 => (0..10_u32).prop_map(|digits| 10_u32.pow(digits).to_string()),
        1 => Just("0".to_owned()),
        1 => Just("4294967295".to_owned()),
    ]
}

fn odd() -> impl Strategy<Value = String> {
    let odd = [
        "-0",
        "-1",
        "1.0",
        "1e3",
        "1E3",
        "\"1\"",
        "null",
        "true",
        "00",
        "01",
        "0000001",
        "4294967296",
        "99999999999999999999999",
        "",
        "[1]",
        "{}",
        "1 2",
        "1:",
        "0x1",
        "+1",
        "1.",
        "\u{e9}",
        "12345678.5",
    ];
    prop_oneof![token(), prop::sample::select(odd.to_vec()).prop_map(str::to_owned)]
}

fn array(element: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let elements = prop::collection::vec((blank(), element, blank()), 0..60);
    (blank(), elements, blank(), prop_oneof![Just(""), Just("  "), Just(","), Just("}x"), Just("1")])
        .prop_map(|(before, elements, inside, after)| {
            let elements: Vec<String> =
                elements.iter().map(|(a, element, b)| format!("{a}{element}{b}")).collect();
            format!("{before}[{}{inside}]{after}", elements.join(","))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_array_of_tokens_is_read(tokens in prop::collection::vec(any::<u32>(), 0..200), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_vec_pretty(&tokens) } else { serde_json::to_vec(&tokens) }.unwrap();
        let mut out = Vec::new();
        prop_assert_eq!(parse(&text, &mut out), Ok(text.len()));
        prop_assert_eq!(out, tokens);
    }

    #[test]
    fn all_agree_where_one_byte_of_a_long_array_is_changed(
        tokens in prop::collection::vec((token(), separator()), 1..120),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![3 => prop::sample::select(b"0123456789, \n\t\r].-e\x00\x0b\x1a\x2a\xa0".to_vec()), 1 => any::<u8>()],
    ) {
        let mut text = b"[".to_vec();
        for (token, separator) in &tokens {
            text.extend(token.bytes().chain(separator.bytes()));
        }
        text.extend(b"1]}");
        check_tokens(&text)?;
        let at = at.index(text.len());
        text[at] = byte;
        check_tokens(&text)?;
    }

    #[test]
    fn all_agree_on_arrays_in_every_spelling(text in array(token())) {
        check_tokens(text.as_bytes())?;
    }

    #[test]
    fn all_agree_on_arrays_with_odd_elements(text in array(odd())) {
        check_tokens(text.as_bytes())?;
    }

    #[test]
    fn all_agree_on_damaged_arrays(
        text in array(token()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text = text.into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text.truncate(cut.index(2 * text.len()));
        check_tokens(&text)?;
    }

    #[test]
    fn all_agree_on_random_bytes(
        text in prop::collection::vec(
            prop_oneof![4 => prop::sample::select(b"0123456789,, []-.e\"".to_vec()), 1 => any::<u8>()], 0..80,
        ),
    ) {
        check_tokens(&text)?;
        check_tokens(&[b"[".as_slice(), &text].concat())?;
    }

    #[test]
    fn hashes_agree_with_a_general_parser(
        elements in prop::collection::vec(
            prop_oneof![
                any::<u64>().prop_map(|hash| hash.to_string()),
                any::<i64>().prop_map(|hash| hash.to_string()),
                any::<u64>().prop_map(|hash| format!("\"{hash}\"")),
                any::<i64>().prop_map(|hash| format!("\"{hash}\"")),
                prop::sample::select(
                    "-9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 1.0 1e2 -0 \
                     \"\" \"-\" \"x\" \"1x\" \"18446744073709551616\" \"-9223372036854775809\" null [] 01 0"
                        .split(' ').collect::<Vec<_>>(),
                ).prop_map(str::to_owned),
            ],
            0..6,
        ),
    ) {
        let text = format!("[{}]", elements.join(", "));
        let mut out = Vec::new();
        let result = parse_hashes(text.as_bytes(), &mut out);
        let expected = general::<Value>(text.as_bytes())
            .and_then(|(values, taken)| Some((values.iter().map(hash_of).collect::<Option<Vec<u64>>>()?, taken)));
        prop_assert_eq!(result.ok().map(|taken| (out, taken)), expected);
    }
}

#[test]
fn an_error_names_its_place() {
    let mut out = Vec::new();
    for (text, offset, index, what) in [
        ("", 0, 0, What::NotAnArray),
        (" {}", 1, 0, What::NotAnArray),
        ("null", 0, 0, What::NotAnArray),
        ("[", 1, 0, What::Unfinished),
        ("[1,2,3,4,5,6,7,-8]", 15, 7, What::NotAnInteger),
        ("[1,2,3,4,5,6,4294967296]", 13, 6, What::NotAnInteger),
        ("[1, 2, 3, 4 5, 6, 7, 8]", 12, 3, What::NoSeparator),
        ("[1, 2, ]", 7, 2, What::NotAnInteger),
        ("[100, 200", 9, 1, What::Unfinished),
        ("[100, 200,", 10, 2, What::Unfinished),
    ] {
        assert_eq!(parse(text.as_bytes(), &mut out), Err(Error { offset, index, what }), "{text}");
        assert_eq!(out.len(), index, "{text}");
    }
}
