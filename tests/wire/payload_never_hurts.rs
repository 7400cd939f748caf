//! Set-up: random bytes, valid payloads cut at every byte, valid payloads with bytes changed, nesting and
//! announced lengths of every size.
//!
//! Claim: decoding never panics; a refused payload leaves nothing behind; what is accepted is sound msgpack
//! as a naive reader sees it; and memory stays within a small multiple of the payload.

use kvatlas::event::msgpack::{Cursor, Fault};
use kvatlas::event::{Batch, Refusal, decode};
use kvatlas::limits::{BATCH_EVENTS, EVENT_HASHES, EVENT_TOKENS, MSGPACK_DEPTH};
use proptest::prelude::*;
use rmp::Marker;

/// Elements that a vector may hold, reserved ones included, for each byte of the payload: growth doubles.
const PER_BYTE: usize = 2;
/// Elements that a vector may reserve for a payload of any size.
const FLOOR: usize = 16;

/// Decodes with a fresh batch and checks what must hold for every payload.
fn decode_soundly(payload: &[u8]) -> Result<Batch, Refusal> {
    let mut batch = Batch::default();
    let outcome = decode(payload, &mut batch);
    let most = PER_BYTE * payload.len() + FLOOR;
    for capacity in [
        batch.tokens.capacity(),
        batch.hashes.capacity(),
        batch.counts.capacity(),
        batch.events.capacity(),
        batch.skipped.capacity(),
        batch.envelopes.capacity(),
    ] {
        assert!(capacity <= most, "{capacity} elements for {} bytes", payload.len());
    }
    if let Err(refusal) = outcome {
        let left = [batch.events.len(), batch.skipped.len(), batch.hashes.len(), batch.tokens.len()];
        assert_eq!(left, [0; 4]);
        return Err(refusal);
    }
    assert_eq!(naive_value(payload, 0, 0), Some(payload.len()), "accepted, but no single msgpack value");
    Ok(batch)
}

/// Where the value at `at` ends, read the plain way: recursion, one byte at a time. `None` when it is not
/// sound or nests deeper than `MSGPACK_DEPTH`.
fn naive_value(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    let number = |len: usize| {
        let digits = bytes.get(at + 1..at + 1 + len)?;
        Some(digits.iter().fold(0_usize, |number, &digit| number << 8 | usize::from(digit)))
    };
    let (head, body, elements) = match Marker::from_u8(*bytes.get(at)?) {
        Marker::Reserved => return None,
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (1, 0, 0),
        Marker::U8 | Marker::I8 => (1, 1, 0),
        Marker::U16 | Marker::I16 => (1, 2, 0),
        Marker::U32 | Marker::I32 | Marker::F32 => (1, 4, 0),
        Marker::U64 | Marker::I64 | Marker::F64 => (1, 8, 0),
        Marker::FixStr(len) => (1, usize::from(len), 0),
        Marker::Str8 | Marker::Bin8 => (2, number(1)?, 0),
        Marker::Str16 | Marker::Bin16 => (3, number(2)?, 0),
        Marker::Str32 | Marker::Bin32 => (5, number(4)?, 0),
        Marker::FixExt1 => (2, 1, 0),
        Marker::FixExt2 => (2, 2, 0),
        Marker::FixExt4 => (2, 4, 0),
        Marker::FixExt8 => (2, 8, 0),
        Marker::FixExt16 => (2, 16, 0),
        Marker::Ext8 => (3, number(1)?, 0),
        Marker::Ext16 => (4, number(2)?, 0),
        Marker::Ext32 => (6, number(4)?, 0),
        Marker::FixArray(len) => (1, 0, usize::from(len)),
        Marker::Array16 => (3, 0, number(2)?),
        Marker::Array32 => (5, 0, number(4)?),
        Marker::FixMap(len) => (1, 0, 2 * usize::from(len)),
        Marker::Map16 => (3, 0, 2 * number(2)?),
        Marker::Map32 => (5, 0, 2 * number(4)?),
    };
    let mut end = at.checked_add(head)?.checked_add(body)?;
    if end > bytes.len() || (elements > 0 && depth >= MSGPACK_DEPTH) {
        return None;
    }
    for _ in 0..elements {
        end = naive_value(bytes, end, depth + 1)?;
    }
    Some(end)
}

/// The valid payloads among the project's own.
fn valid() -> Vec<Vec<u8>> {
    include_str!("../data/payloads.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|case| case["expect"]["batch"] != "reject")
        .map(|case| {
            let hex = case["payload_hex"].as_str().unwrap();
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        })
        .collect()
}

#[test]
fn a_cut_payload_is_refused_wherever_it_is_cut() {
    for payload in valid() {
        assert!(decode_soundly(&payload).is_ok());
        for cut in 0..payload.len() {
            let refusal = decode_soundly(&payload[..cut]).unwrap_err();
            assert_eq!(refusal, Refusal::Truncated, "cut at {cut} of {}", payload.len());
        }
    }
}

#[test]
fn nesting_is_bounded_and_costs_no_stack() {
    for open in [&[0x91][..], &[0x81, 0xc0], &[0xdc, 0, 1], &[0xdf, 0, 0, 0, 1, 0x01]] {
        for depth in [1, MSGPACK_DEPTH - 2, MSGPACK_DEPTH - 1, MSGPACK_DEPTH, 100_000] {
            // [nil, [], nil, {…}]: the value stands inside one container
            let payload = [&[0x94, 0xc0, 0x90, 0xc0][..], &open.repeat(depth), &[0xc0]].concat();
            let outcome = decode_soundly(&payload).map(|batch| batch.events.len());
            let expected = if depth < MSGPACK_DEPTH { Ok(0) } else { Err(Refusal::Malformed) };
            assert_eq!(outcome, expected, "{depth} deep");
        }
    }
    // inside an event that is bad anyhow, and inside one that comes in a byte string
    let deep = [&[0x92, 0xc0, 0x91, 0x92, 0x05][..], &[0x91; 10_000], &[0xc0]].concat();
    assert_eq!(decode_soundly(&deep).map(|_| ()), Err(Refusal::Malformed));
}

#[test]
fn announced_lengths_reserve_nothing() {
    for marker in [0xdd_u8, 0xdf, 0xdb, 0xc6] {
        for len in [2_u32, 1 << 16, 1 << 30, u32::MAX] {
            let announced = [&[marker][..], &len.to_be_bytes()].concat();
            for before in [
                &b"\x93\xc0"[..],
                b"\x92\xc0\x91",
                b"\x92\xc0\x91\x95\xabBlockStored",
                b"\x92\xc0\x91\x95\xabBlockStored\x91\x01\xc0",
                b"\x92\xc0\x91\x82\xa4type\xabBlockStored\xaaextra_keys",
                b"\x92\xc0\x91\x82\xaaevent_type\xa6stored\xaaseq_hashes",
            ] {
                let payload = [before, &announced].concat();
                assert!(decode_soundly(&payload).is_err(), "{payload:02x?}");
            }
        }
    }
}

#[test]
fn an_event_beyond_the_limits_is_skipped_and_a_batch_beyond_them_refused() {
    let stored = |hashes: usize, tokens: usize| {
        let mut payload = b"\x92\xc0\x91\x95\xabBlockStored".to_vec();
        for (len, rest) in [(hashes, &[0xc0][..]), (tokens, &[0x01])] {
            payload.push(0xdd);
            payload.extend((len as u32).to_be_bytes());
            payload.extend(std::iter::repeat_n(1, len));
            payload.extend(rest);
        }
        payload
    };
    let outcome =
        |payload: &[u8]| decode_soundly(payload).map(|batch| (batch.events.len(), batch.skipped.len()));
    assert_eq!(outcome(&stored(EVENT_HASHES, 1)), Ok((1, 0)));
    assert_eq!(outcome(&stored(EVENT_HASHES + 1, 1)), Ok((0, 1)));
    assert_eq!(outcome(&stored(1, EVENT_TOKENS)), Ok((1, 0)));
    assert_eq!(outcome(&stored(1, EVENT_TOKENS + 1)), Ok((0, 1)));
    let batch = |events: usize| {
        [&[0x92, 0xc0, 0xdd][..], &(events as u32).to_be_bytes(), &vec![0xc0; events]].concat()
    };
    assert_eq!(outcome(&batch(BATCH_EVENTS)), Ok((0, BATCH_EVENTS)));
    assert_eq!(outcome(&batch(BATCH_EVENTS + 1)), Err(Refusal::NotABatch));
}

#[test]
fn scratch_holds_nothing_of_the_payload_before() {
    let mut batch = Batch::default();
    for payload in valid() {
        decode(&payload, &mut batch).unwrap();
        let mut fresh = Batch::default();
        decode(&payload, &mut fresh).unwrap();
        assert_eq!(format!("{batch:?}"), format!("{fresh:?}"));
    }
    assert_eq!(decode(b"\x07", &mut batch), Err(Refusal::NotABatch));
    assert_eq!(format!("{batch:?}"), format!("{:?}", Batch::default()));
}

/// Bytes that look like msgpack more often than chance would have it.
fn likely_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(0x91_u8),
        Just(0x92),
        Just(0x93),
        Just(0x81),
        Just(0xc0),
        Just(0xc4),
        Just(0xdc),
        Just(0xde),
        Just(0xa1),
        0_u8..4,
        any::<u8>(),
    ];
    prop::collection::vec(byte, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_do_no_harm(payload in likely_bytes()) {
        let _ = decode_soundly(&payload);
        let _ = decode_soundly(&[&b"\x93\xc0\x91"[..], &payload].concat());
        let _ = decode_soundly(&[&b"\x93\xc0\x91\x98\xabBlockStored"[..], &payload].concat());
        let _ = decode_soundly(&[&b"\x92\xc0\x91\x84\xa4type\xabBlockStored"[..], &payload].concat());
    }

    #[test]
    fn changed_payloads_do_no_harm(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let payloads = valid();
        let mut payload = payloads[pick.index(payloads.len())].clone();
        for (place, byte) in changes {
            let place = place.index(payload.len());
            payload[place] = byte;
        }
        let _ = decode_soundly(&payload);
    }

    #[test]
    fn skipping_agrees_with_the_naive_reader(bytes in likely_bytes(), outer in 0..MSGPACK_DEPTH) {
        let mut cursor = Cursor::new(&bytes, 0);
        let skipped = cursor.skip(outer);
        let naive = naive_value(&bytes, 0, outer);
        prop_assert_eq!(skipped.ok().map(|()| cursor.at()), naive);
        prop_assert!(!matches!(skipped, Err(Fault::Type)));
    }
}
