//! Set-up: requests with lists of tokens, in usual and unusual spellings.
//! Claim: the short way for long prompts and the exact reader agree.

use kvatlas::fleet::form;
use proptest::prelude::*;

fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        60 => any::<u32>().prop_map(|token| token.to_string()),
        20 => (0..200_000_u32).prop_map(|token| format!(" {token}")),
        1 => prop::sample::select(
            &["-1", "4294967296", "18446744073709551615", "99999999999999999999", "\"5\"", "7.0", "true", "null", "1.5",
              "01", "-0", "", "[]", "1e2", "NaN", "5 "][..]
        ).prop_map(str::to_owned),
    ]
}

fn body() -> impl Strategy<Value = String> {
    let field = |usual: &'static [&'static str], rare: &'static [&'static str]| prop_oneof![15 => prop::sample::select(usual), 1 => prop::sample::select(rare)];
    let head = field(
        &[
            "{\"instance_id\":\"i\",\"model_name\":\"m/x\",",
            "{ \"model_name\" : \"é\" ,\"instance_id\":\"\",",
        ],
        &[
            "{",
            "\u{feff}{\"model_name\":\"m\",",
            "{\"model_name\":\"\\u0061\",",
            "{\"model_name\":1,",
            "{\"x\":[{}],",
            "{\"model_name\":\"a@b\",\"instance_id\":\"i\",",
            "{\"model_name\":\"a\u{1}\",",
        ],
    );
    let world = field(
        &["\"world_size\":1,", "\"world_size\": 8 ,"],
        &[
            "\"world_size\":0,",
            "\"world_size\":\"2\",",
            "\"world_size\":1.0,",
            "\"world_size\":01,",
            "\"world_size\":-1,",
            "\"world_size\":123456789012345678901,",
            "\"world_size\":12345678901234567890,",
            "",
        ],
    );
    let tail = field(
        &["\"cache_salt\":\"user\"}", "\"cache_salt\":\"\" } "],
        &[
            "\"cache_salt\":null}",
            "\"cache_salt\":\"a/b\"}",
            "\"token_ids\":[5]}",
            "\"a\":1}",
            "}",
            "\"cache_salt\":\"\"",
            "\"cache_salt\":\"\\\"\"}",
            "\"cache_salt\":\"\"}x",
            "\"cache_salt\":\"\\ud800\"}",
        ],
    );
    (head, world, prop::collection::vec(token(), 0..60), tail).prop_map(|(head, world, tokens, tail)| {
        format!("{head}{world}\"token_ids\":[{}],{tail}", tokens.join(","))
    })
}

/// A JSON array without the blanks in it.
fn packed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_short_way_and_the_exact_one_agree(body in body(), chunk in 1..9_usize) {
        let exact = form::pins_exact("", body.as_bytes(), chunk)
            .and_then(|sequence| sequence.check().map(|()| sequence));
        prop_assert_eq!(form::pins("", body.as_bytes(), chunk), exact);
        let mut short = form::prefetch("", body.as_bytes());
        if let Ok(form) = &mut short {
            form.token_ids = packed(&form.token_ids);
        }
        prop_assert_eq!(short, form::prefetch_exact("", body.as_bytes()));
    }
}

#[test]
fn a_million_tokens_are_read() {
    let text: Vec<String> = (0..1_000_000_u32).map(|token| (token % 151_936).to_string()).collect();
    let body = format!("{{\"model_name\":\"m\",\"world_size\":1,\"token_ids\":[{}]}}", text.join(", "));
    let sequence = form::pins("application/json", body.as_bytes(), 256).unwrap();
    assert_eq!((sequence.chunks, sequence.given), (3906, 1_000_000));
    assert!(sequence.token_ids.iter().zip(0..).all(|(token, at)| *token == at % 151_936));
}
