//! Set-up: reports of events that are long in one place: a string, a number, a name, blanks, members, arrays,
//! nesting, escapes, text that is no UTF-8, at the start, in an event or at the end.
//! Claim: no step of reading looks at more than a few dozen kilobytes or takes more events than it was told, however
//! long the report; what is not read in steps is left to the exact reader soon after it is seen, and what is read in
//! steps says what the exact reader says.

use kvatlas::fleet::form::{self, EventsReader, Progress};
use kvatlas::limits::{FORM_BLANKS, FORM_STEP_BYTES, KEY_TEXT_BYTES};
use proptest::prelude::*;

/// Most bytes of one event that is read in steps: eight members with a text each, and blanks between all tokens.
const EVENT: usize = 8 * (KEY_TEXT_BYTES + 4 * FORM_BLANKS + 64) + 8 * FORM_BLANKS;
/// Most bytes that a step looks at.
const STEP: usize = FORM_STEP_BYTES + EVENT;

/// Something long, as a JSON value or what stands between values.
fn long() -> impl Strategy<Value = (bool, Vec<u8>)> {
    let length = prop_oneof![Just(KEY_TEXT_BYTES), Just(FORM_BLANKS), 1..400_000_usize];
    (0..13_u8, length).prop_map(|(kind, length)| {
        let of = |piece: &str| piece.repeat(length / piece.len() + 1);
        let text = |inner: Vec<u8>| [&b"\""[..], &inner, b"\""].concat();
        match kind {
            0 => (true, text(of("a").into_bytes())),
            1 => (true, text(of("\u{e9}").into_bytes())),
            2 => (true, text(of("\\u0041").into_bytes())),
            3 => (true, text(of("ab").into_bytes())),
            4 => (true, text([of("a").as_bytes(), b"\xff"].concat())),
            5 => (true, of("1").into_bytes()),
            6 => (true, format!("0.{}", of("1")).into_bytes()),
            7 => (true, [of("[").as_bytes(), of("]").as_bytes()].concat()),
            8 => (true, format!("[{}[]]", of("[],")).into_bytes()),
            9 => (true, format!("{{{}\"a\":1}}", of("\"a\":1,")).into_bytes()),
            10 => (false, of(" \n\t").into_bytes()),
            11 => (true, text(of("\u{1}").into_bytes())),
            _ => (true, [of("\"").as_bytes(), b""].concat()),
        }
    })
}

/// A report with something long in one place, beside some usual events.
fn report() -> impl Strategy<Value = Vec<u8>> {
    (long(), 0..14_u8, 0..300_usize).prop_map(|((is_value, long), place, events)| {
        let usual = |at: usize| {
            format!(
                "{{\"type\":\"store\",\"key\":{{\"chunk_hash_hex\":\"{at:064x}\",\"model_name\":\"m\",\"kv_rank\":1}},\
                 \"bytes\":{at}}}"
            )
        };
        let events = (0..events).map(usual).collect::<Vec<_>>().join(",");
        let comma = if events.is_empty() { "" } else { "," };
        let value = if is_value { "@" } else { "@1" };
        let event = |kind: &str, hash: &str, rank: &str, bytes: &str| {
            format!(
                "{{\"type\":{kind},\"key\":{{\"chunk_hash_hex\":{hash},\"model_name\":{},\"kv_rank\":{rank},\
                 \"cache_salt\":\"\"}},\"bytes\":{bytes}}}",
                if place == 4 { value } else { "\"m\"" }
            )
        };
        let (store, hash) = ("\"store\"", "\"aa\"");
        let odd = match place {
            2 => event(value, hash, "1", "1"),
            3 => event(store, value, "1", "1"),
            5 => event(store, hash, value, "1"),
            6 => event(store, hash, "1", value),
            7 => value.to_owned(),
            _ => event(store, hash, "1", "1"),
        };
        let all = format!("[{events}{comma}{odd},{odd}]");
        let text = match place {
            0 => value.to_owned(),
            1 => format!("{{\"instance_id\":{value},\"seq\":1,\"events\":{all}}}"),
            8 => format!("{{\"instance_id\":\"a\",\"seq\":{value},\"events\":{all}}}"),
            9 => format!("{{\"instance_id\":\"a\",\"seq\":1,\"events\":{all},\"tier\":{value}}}"),
            10 => format!("{{\"instance_id\":\"a\",\"seq\":1,\"events\":{all},\"x\":{value}}}"),
            11 => format!("{{\"instance_id\":\"a\",\"seq\":1,\"events\":{all},{value}:1}}"),
            12 => format!("{{\"instance_id\":\"a\",\"seq\":1,\"events\":{all}}}{value}"),
            _ => format!("{{\"instance_id\":\"a\",\"seq\":1,\"events\":{all}}}"),
        };
        let mut body = Vec::new();
        for (index, piece) in text.split('@').enumerate() {
            if index > 0 {
                body.extend_from_slice(&long);
            }
            body.extend_from_slice(piece.as_bytes());
        }
        body
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_step_is_long(body in report(), most in 1..100_usize) {
        let mut reader = EventsReader::new("application/json", &body);
        loop {
            let before = reader.seen();
            let progress = reader.step(most);
            let looked = reader.seen() - before;
            prop_assert!(looked <= STEP, "{} bytes in a step", looked);
            match progress {
                Progress::More => {}
                Progress::Done(report) => {
                    prop_assert_eq!(Ok(report), form::events("application/json", &body));
                    prop_assert_eq!(reader.seen(), body.len());
                    break;
                }
                Progress::Unusual => break,
            }
        }
    }

    #[test]
    fn a_step_takes_as_many_events_as_it_is_told(events in 0..500_usize, most in 1..100_usize) {
        let events = vec!["{\"type\":\"delete\",\"key\":{\"chunk_hash_hex\":\"\",\"model_name\":\"\",\"kv_rank\":0},\
            \"bytes\":0}"; events].join(",");
        let body = format!("{{\"instance_id\":\"\",\"seq\":1,\"events\":[{events}]}}");
        let count = body.matches("delete").count();
        let mut reader = EventsReader::new("", body.as_bytes());
        let mut steps = 1;
        while let Progress::More = reader.step(most) {
            steps += 1;
        }
        prop_assert!(steps >= count.div_ceil(most), "{} steps for {}", steps, count);
        prop_assert_eq!(reader.seen(), body.len());
    }
}

#[test]
fn both_ways_are_gone() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut done, mut unusual) = (0, 0);
    for _ in 0..300 {
        let body = report().new_tree(&mut runner).unwrap().current();
        let mut reader = EventsReader::new("", &body);
        loop {
            match reader.step(64) {
                Progress::More => continue,
                Progress::Done(_) => done += 1,
                Progress::Unusual => unusual += 1,
            }
            break;
        }
    }
    assert!(done > 15 && unusual > 100, "{done} {unusual}");
}
