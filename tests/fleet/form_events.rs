//! Set-up: reports of events in usual and unusual spellings, sound and faulty, whole and cut.
//! Claim: the quick reader and the exact one agree on every report, and so do reading in steps and in one go.

use kvatlas::fleet::form::{self, Events, EventsReader, Progress, Reject};
use proptest::prelude::*;

/// What a report says, read in steps of so many events and by the exact reader where it is unusual; and how many
/// steps that took, or none where it is unusual.
fn in_steps(body: &[u8], events: usize) -> (Result<Events<'_>, Reject>, Option<usize>) {
    let mut reader = EventsReader::new("application/json", body);
    for steps in 1.. {
        match reader.step(events) {
            Progress::More => {}
            Progress::Done(report) => return (Ok(report), Some(steps)),
            Progress::Unusual => return (form::events("application/json", body), None),
        }
    }
    unreachable!("the counter is endless")
}

/// One of some texts, the first ones more often.
fn one_of(usual: &'static [&'static str], rare: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![
        30 => prop::sample::select(usual).prop_map(str::to_owned),
        1 => prop::sample::select(rare).prop_map(str::to_owned),
    ]
}

fn blank() -> impl Strategy<Value = String> {
    one_of(&["", "", " "], &["\n", "\t\r ", "\u{a0}"])
}

fn key() -> impl Strategy<Value = String> {
    let hash = one_of(
        &[
            "\"chunk_hash_hex\":\"6309ed506b8721905753f5c73c070bb21c3aafbd9b474b1e231f41368b71123c\"",
            "\"chunk_hash_hex\": \"AAbb\"",
        ],
        &[
            "\"chunk_hash_hex\":\"aa b\"",
            "\"chunk_hash_hex\":\"a a\"",
            "\"chunk_hash_hex\":\" aa\\n\"",
            "\"chunk_hash_hex\":5",
            "\"x\":[1,{}]",
        ],
    );
    let model = one_of(
        &["\"model_name\":\"Qwen/Qwen3-8B\"", "\"model_name\":\"ü\""],
        &[
            "\"model_name\":\"a@b\"",
            "\"model_name\":\"\\u0061\"",
            "\"model_name\":null",
            "\"model_name\":\"\\ud800\"",
        ],
    );
    let rank = one_of(
        &["\"kv_rank\":16777472", "\"kv_rank\":0"],
        &[
            "\"kv_rank\":-1",
            "\"kv_rank\":\"7\"",
            "\"kv_rank\":18446744073709551615",
            "\"kv_rank\":18446744073709551616",
            "\"kv_rank\":1.5",
            "\"kv_rank\":01",
            "\"kv_rank\":2.0",
        ],
    );
    let group = one_of(
        &["\"object_group_id\":0", "\"object_group_id\":3"],
        &["\"object_group_id\":-3", "\"object_group_id\":null", "\"object_group_id\":NaN", "\"kv_rank\":4"],
    );
    let salt = one_of(
        &["\"cache_salt\":\"\"", "\"cache_salt\":\"user-a\"", "\"cache_salt\":\"é\""],
        &[
            "\"cache_salt\":\"a/b\"",
            "\"cache_salt\":\"\\\\\"",
            "\"cache_salt\":{}",
            "\"cache_salt\":\"\u{1}\"",
        ],
    );
    (hash, model, rank, group, salt, Just(()).prop_perturb(|(), mut random| random.random::<u32>()), blank())
        .prop_map(|(hash, model, rank, group, salt, turn, blank)| {
            let mut fields = vec![hash, model, rank, group, salt];
            if turn % 8 == 0 {
                fields.rotate_left(turn as usize / 8 % 5);
            }
            if turn % 32 == 1 {
                fields.truncate(turn as usize / 32 % 5);
            }
            format!("\"key\":{{{blank}{}{blank}}}", fields.join(","))
        })
}

fn event() -> impl Strategy<Value = String> {
    let kind = one_of(
        &["\"type\":\"store\"", "\"type\":\"lookup\"", "\"type\":\"delete\""],
        &[
            "\"type\":\"Store\"",
            "\"type\":\"st\\u006fre\"",
            "\"type\":1",
            "\"type\":\"store\",\"type\":\"x\"",
        ],
    );
    let bytes = one_of(
        &["\"bytes\":1024", "\"bytes\":0", "\"bytes\" : 77"],
        &["\"bytes\":-1", "\"bytes\":\"1\"", "\"bytes\":1e3", "\"bytes\":12345678901234567890123", "\"b\":1"],
    );
    let key = prop_oneof![30 => key(), 1 => Just("\"key\":7".to_owned())];
    (kind, key, bytes, blank(), 0..60_u8).prop_map(|(kind, key, bytes, blank, turn)| match turn {
        0 => format!("{{{bytes},{kind},{key}}}"),
        1 => format!("{{{kind},{key}}}"),
        2 => "{}".to_owned(),
        3 => format!("{{{kind},{key},{bytes},\"more\":[{{\"a\":null}}]}}"),
        _ => format!("{{{blank}{kind},{blank}{key}{blank},{bytes}{blank}}}"),
    })
}

fn report() -> impl Strategy<Value = Vec<u8>> {
    let head = one_of(
        &["\"instance_id\":\"server-1\",\"seq\":1", "\"seq\":9 , \"instance_id\":\"\""],
        &["\"instance_id\":1,\"seq\":0", "\"seq\":1", "\"seq\":\"2\",\"instance_id\":\"x\\n\"", "\"a\":1"],
    );
    let tail = one_of(
        &[",\"tier\":\"l2\"}", "}", "}\n"],
        &[",\"tier\":\"l1\"}", ",\"tier\":5}", "", "}x", ",}", ",\"seq\":4}", "]"],
    );
    let cut = prop_oneof![20 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let byte = prop_oneof![20 => Just(None), 1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(Some)];
    (head, prop::collection::vec(event(), 0..12), tail, blank(), cut, byte).prop_map(
        |(head, events, tail, blank, cut, byte)| {
            let text = format!("{blank}{{{head},\"events\":[{}]{tail}", events.join(","));
            let mut text = text.into_bytes();
            if let Some((at, byte)) = byte {
                let at = at.index(text.len());
                text[at] = byte;
            }
            if let Some(cut) = cut {
                text.truncate(cut.index(text.len()));
            }
            text
        },
    )
}

/// A report as servers send it.
fn usual(events: usize) -> String {
    let event = |at: usize| {
        format!(
            "{{\"type\": \"store\", \"key\": {{\"chunk_hash_hex\": \"{at:064x}\", \"model_name\": \"Qwen/Qwen3-8B\", \
             \"kv_rank\": 16777472, \"object_group_id\": 0, \"cache_salt\": \"user-a\"}}, \"bytes\": {at}}}"
        )
    };
    let events: Vec<String> = (0..events).map(event).collect();
    format!(
        "{{\"instance_id\": \"server-1\", \"seq\": 1, \"events\": [{}], \"tier\": \"l2\"}}",
        events.join(", ")
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quick_and_exact_agree(body in report(), most in 1..40_usize) {
        let exact = form::events("application/json", &body);
        let (steps, _) = in_steps(&body, most);
        prop_assert_eq!(&steps, &exact);
        let owned = form::events("application/json", &body).map(Events::into_owned);
        prop_assert_eq!(&owned, &exact);
    }
}

#[test]
fn both_outcomes_are_reached() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..500 {
        let body = report().new_tree(&mut runner).unwrap().current();
        match form::events("", &body) {
            Ok(report) => accepted += usize::from(!report.events.is_empty()),
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 50 && refused > 50, "{accepted} {refused}");
}

#[test]
fn a_usual_report_is_read_whole_in_small_steps() {
    let body = usual(5000);
    let (result, steps) = in_steps(body.as_bytes(), 50);
    let report = result.unwrap();
    assert_eq!(report.events.len(), 5000);
    assert!(steps.is_some_and(|steps| (100..110).contains(&steps)), "{steps:?}");
    assert_eq!(report.events[4711].bytes, 4711);
    assert_eq!(report.events[4711].key.hash.to_string(), format!("{:064x}", 4711));
    assert_eq!(form::events("application/json", body.as_bytes()).unwrap(), report);
}

#[test]
fn text_of_usual_events_is_borrowed() {
    let body = usual(3);
    let place = body.as_bytes().as_ptr_range();
    let report = in_steps(body.as_bytes(), 10).0.unwrap();
    for event in &report.events {
        assert!(place.contains(&event.key.model.as_ptr()) && place.contains(&event.key.salt.as_ptr()));
    }
}

#[test]
fn one_bad_event_refuses_the_whole_report() {
    let body = usual(50).replacen("\"bytes\": 31}", "\"bytes\": -1}", 1);
    let (Err(Reject::Unprocessable(faults)), None) = in_steps(body.as_bytes(), 10) else {
        panic!("accepted")
    };
    assert_eq!(faults.count(), 1);
}

#[test]
fn a_reader_that_is_done_reads_no_more() {
    for body in [usual(1), "[]".to_owned()] {
        let mut reader = EventsReader::new("", body.as_bytes());
        while let Progress::More = reader.step(10) {}
        let seen = reader.seen();
        assert!(matches!(reader.step(10), Progress::Unusual));
        assert_eq!(reader.seen(), seen);
    }
}
