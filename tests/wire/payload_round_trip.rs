//! Set-up: random batches, encoded with `rmp` in every form that is in use: positional, keyed in any order,
//! wrapped in a byte string, the batch itself keyed; every integer in a random spelling; bad events between.
//!
//! Claim: decoding gives back exactly what was encoded.

use kvatlas::event::{Batch, Event, Span, Timestamp, decode};
use proptest::prelude::*;
use rmp::encode as put;

/// How an event is laid out.
#[derive(Clone, Copy, Debug)]
enum Form {
    Positional,
    Keyed,
    Wrapped,
}

#[derive(Clone, Debug)]
struct Stored {
    hashes: Vec<Spelled>,
    parent: Option<Spelled>,
    tokens: Option<Vec<(u32, u8)>>,
    pairs: bool,
    block_size: (u32, u8),
    medium: Option<String>,
    lora_name: Option<String>,
    lora_id: Option<i64>,
    group_idx: Option<u32>,
}

#[derive(Clone, Debug)]
enum Kind {
    Stored(Stored),
    Removed(Vec<Spelled>, Option<String>),
    Cleared(Option<String>),
    Bad(Vec<u8>),
}

/// A hash and which of its spellings to use.
#[derive(Clone, Copy, Debug)]
struct Spelled(u64, u8);

/// An unsigned integer in one of the widths that hold it.
fn write_uint(out: &mut Vec<u8>, value: u64, spelling: u8) {
    match spelling % 9 {
        0 if value < 1 << 8 => put::write_u8(out, value as u8).unwrap(),
        1 if value < 1 << 16 => put::write_u16(out, value as u16).unwrap(),
        2 if value < 1 << 32 => put::write_u32(out, value as u32).unwrap(),
        3 => put::write_u64(out, value).unwrap(),
        4 if value < 1 << 7 => put::write_i8(out, value as i8).unwrap(),
        5 if value < 1 << 15 => put::write_i16(out, value as i16).unwrap(),
        6 if value < 1 << 31 => put::write_i32(out, value as i32).unwrap(),
        7 if value < 1 << 63 => put::write_i64(out, value as i64).unwrap(),
        _ => drop(put::write_uint(out, value).unwrap()),
    }
}

fn write_hash(out: &mut Vec<u8>, Spelled(value, spelling): Spelled) {
    match spelling % 4 {
        0 => drop(put::write_sint(out, value as i64).unwrap()),
        1 => {
            let digest = [&[spelling; 24][..], &value.to_be_bytes()].concat();
            put::write_bin(out, &digest[usize::from(spelling % 25)..]).unwrap();
        }
        2 => put::write_u64(out, value).unwrap(),
        _ => write_uint(out, value, spelling / 4),
    }
}

fn write_hashes(out: &mut Vec<u8>, hashes: &[Spelled]) {
    put::write_array_len(out, hashes.len() as u32).unwrap();
    for &hash in hashes {
        write_hash(out, hash);
    }
}

fn write_text(out: &mut Vec<u8>, text: Option<&String>) {
    match text {
        Some(text) => put::write_str(out, text).unwrap(),
        None => put::write_nil(out).unwrap(),
    }
}

fn write_tokens(out: &mut Vec<u8>, stored: &Stored) {
    let Some(tokens) = &stored.tokens else { return put::write_nil(out).unwrap() };
    put::write_array_len(out, tokens.len() as u32).unwrap();
    for &(token, spelling) in tokens {
        if stored.pairs {
            put::write_array_len(out, 2).unwrap();
            write_uint(out, u64::from(token), spelling);
            write_uint(out, u64::from(spelling), 8);
        } else {
            write_uint(out, u64::from(token), spelling);
        }
    }
}

/// The fields of an event in positional order, each name with its encoded value.
fn fields(kind: &Kind) -> (&'static str, Vec<(&'static str, Vec<u8>)>) {
    let field = |name, write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        (name, out)
    };
    match kind {
        Kind::Stored(stored) => (
            "BlockStored",
            vec![
                field("block_hashes", &|out| write_hashes(out, &stored.hashes)),
                field("parent_block_hash", &|out| match stored.parent {
                    Some(parent) => write_hash(out, parent),
                    None => put::write_nil(out).unwrap(),
                }),
                field("token_ids", &|out| write_tokens(out, stored)),
                field("block_size", &|out| {
                    write_uint(out, u64::from(stored.block_size.0), stored.block_size.1);
                }),
                field("lora_id", &|out| match stored.lora_id {
                    Some(id) => drop(put::write_sint(out, id).unwrap()),
                    None => put::write_nil(out).unwrap(),
                }),
                field("medium", &|out| write_text(out, stored.medium.as_ref())),
                field("lora_name", &|out| write_text(out, stored.lora_name.as_ref())),
                field("extra_keys", &|out| put::write_nil(out).unwrap()),
                field("group_idx", &|out| match stored.group_idx {
                    Some(group) => drop(put::write_uint(out, u64::from(group)).unwrap()),
                    None => put::write_nil(out).unwrap(),
                }),
            ],
        ),
        Kind::Removed(hashes, medium) => (
            "BlockRemoved",
            vec![
                field("block_hashes", &|out| write_hashes(out, hashes)),
                field("medium", &|out| write_text(out, medium.as_ref())),
            ],
        ),
        Kind::Cleared(medium) => {
            ("AllBlocksCleared", vec![field("medium", &|out| write_text(out, medium.as_ref()))])
        }
        Kind::Bad(_) => unreachable!("bad events are bytes already"),
    }
}

fn write_event(out: &mut Vec<u8>, kind: &Kind, form: Form, turn: usize) {
    if let Kind::Bad(bytes) = kind {
        out.extend_from_slice(bytes);
        return;
    }
    let (tag, fields) = fields(kind);
    match form {
        Form::Positional => {
            put::write_array_len(out, fields.len() as u32 + 1).unwrap();
            put::write_str(out, tag).unwrap();
            for (_, value) in fields {
                out.extend_from_slice(&value);
            }
        }
        Form::Keyed => {
            let mut entries = fields;
            let mut value = Vec::new();
            put::write_str(&mut value, tag).unwrap();
            entries.insert(0, ("type", value));
            entries.push(("not_known", vec![0x92, 0xc0, 0x81, 0x01, 0xa1, b'x']));
            let places = entries.len();
            entries.rotate_left(turn % places);
            put::write_map_len(out, entries.len() as u32).unwrap();
            for (name, value) in entries {
                put::write_str(out, name).unwrap();
                out.extend_from_slice(&value);
            }
        }
        Form::Wrapped => {
            let mut inner = Vec::new();
            let form = if turn.is_multiple_of(2) { Form::Positional } else { Form::Keyed };
            write_event(&mut inner, kind, form, turn);
            put::write_bin(out, &inner).unwrap();
        }
    }
}

type Placed = (Kind, Form, usize);

fn write_batch(ts: f64, rank: Option<u32>, events: &[Placed], keyed: bool) -> Vec<u8> {
    let mut list = Vec::new();
    put::write_array_len(&mut list, events.len() as u32).unwrap();
    for (kind, form, turn) in events {
        write_event(&mut list, kind, *form, *turn);
    }
    let mut time = Vec::new();
    put::write_f64(&mut time, ts).unwrap();
    let mut number = Vec::new();
    match rank {
        Some(rank) => drop(put::write_uint(&mut number, u64::from(rank)).unwrap()),
        None => put::write_nil(&mut number).unwrap(),
    }
    let parts = [("attn_dp_rank", number), ("events", list), ("ts", time)];
    let mut out = Vec::new();
    if keyed {
        put::write_map_len(&mut out, 3).unwrap();
        for (name, value) in &parts {
            put::write_str(&mut out, name).unwrap();
            out.extend_from_slice(value);
        }
    } else {
        put::write_array_len(&mut out, 3).unwrap();
        for (_, value) in parts.iter().rev() {
            out.extend_from_slice(value);
        }
    }
    out
}

fn check(payload: &[u8], batch: &Batch, events: &[Placed]) {
    let mut good = batch.events.iter();
    let mut bad = batch.skipped.iter();
    let text = |span: Span| span.text(payload).map(str::to_owned);
    let values = |hashes: &[Spelled]| hashes.iter().map(|hash| hash.0).collect::<Vec<_>>();
    for (index, (kind, ..)) in events.iter().enumerate() {
        let index = index as u32;
        match kind {
            Kind::Bad(_) => assert_eq!(bad.next().unwrap().index, index),
            Kind::Stored(stored) => {
                let Some(Event::Store(found)) = good.next() else { panic!("no store at {index}") };
                assert_eq!(found.index, index);
                assert_eq!(found.hashes.of(&batch.hashes), values(&stored.hashes));
                assert_eq!(found.parent, stored.parent.map(|parent| parent.0));
                let tokens = found.tokens.map(|tokens| tokens.of(&batch.tokens).to_vec());
                let encoded =
                    stored.tokens.as_ref().map(|tokens| tokens.iter().map(|token| token.0).collect());
                assert_eq!(tokens, encoded);
                assert_eq!(found.block_size, Some(stored.block_size.0));
                assert_eq!(text(found.medium), stored.medium);
                assert_eq!(text(found.lora_name), stored.lora_name);
                assert_eq!(found.lora_id, stored.lora_id);
                assert_eq!(found.group_idx, stored.group_idx);
                assert!(!found.extra_keys.is_some());
            }
            Kind::Removed(hashes, medium) => {
                let Some(Event::Remove(found)) = good.next() else { panic!("no removal at {index}") };
                assert_eq!(found.index, index);
                assert_eq!(found.hashes.of(&batch.hashes), values(hashes));
                assert_eq!(&text(found.medium), medium);
            }
            Kind::Cleared(medium) => {
                let Some(Event::Clear(found)) = good.next() else { panic!("no clear at {index}") };
                assert_eq!((found.index, &text(found.medium)), (index, medium));
            }
        }
    }
    assert!(good.next().is_none() && bad.next().is_none());
}

fn hash() -> impl Strategy<Value = Spelled> {
    (prop_oneof![any::<u64>(), 0..300_u64, (u64::MAX - 300)..=u64::MAX], any::<u8>())
        .prop_map(|(value, spelling)| Spelled(value, spelling))
}

fn token() -> impl Strategy<Value = (u32, u8)> {
    // mostly as encoders write them: the smallest spelling
    (prop_oneof![0..300_u32, 0..160_000_u32, any::<u32>()], prop_oneof![4 => Just(8_u8), 1 => any::<u8>()])
}

fn medium() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[A-Za-zé:0-9]{0,40}")
}

fn stored() -> impl Strategy<Value = Stored> {
    (
        prop::collection::vec(hash(), 0..20),
        prop::option::of(hash()),
        prop::option::of(prop::collection::vec(token(), 0..80)),
        prop::bool::weighted(0.2),
        (1..1_000_000_u32, any::<u8>()),
        medium(),
        medium(),
        prop::option::of(any::<i64>()),
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(hashes, parent, tokens, pairs, block_size, medium, lora_name, lora_id, group_idx)| Stored {
                hashes,
                parent,
                tokens,
                pairs,
                block_size,
                medium,
                lora_name,
                lora_id,
                group_idx,
            },
        )
}

fn kind() -> impl Strategy<Value = Kind> {
    let bad = prop::sample::select(vec![
        vec![0xc0],
        vec![0x91, 0x05],
        vec![0x80],
        b"\x92\xa6future\x93\x01\x02\x81\x01\x02".to_vec(),
        b"\x93\xabBlockStored\x93\x01\x02\xa1x\xc0".to_vec(),
        b"\x95\xabBlockStored\x92\x01\x02\xc0\x93\x01\x02\xc3\x01".to_vec(),
    ]);
    prop_oneof![
        5 => stored().prop_map(Kind::Stored),
        2 => (prop::collection::vec(hash(), 0..20), medium())
            .prop_map(|(hashes, medium)| Kind::Removed(hashes, medium)),
        1 => medium().prop_map(Kind::Cleared),
        1 => bad.prop_map(Kind::Bad),
    ]
}

fn placed() -> impl Strategy<Value = Placed> {
    let form = prop::sample::select(vec![Form::Positional, Form::Keyed, Form::Wrapped]);
    (kind(), form, 0..12_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_batch_comes_back_as_it_was_encoded(
        ts in any::<f64>(),
        rank in prop::option::of(any::<u32>()),
        events in prop::collection::vec(placed(), 0..8),
        keyed in any::<bool>(),
    ) {
        let payload = write_batch(ts, rank, &events, keyed);
        let mut batch = Batch::default();
        prop_assert_eq!(decode(&payload, &mut batch), Ok(()));
        prop_assert!(matches!(batch.ts, Timestamp::Float(found) if found.to_bits() == ts.to_bits()));
        prop_assert_eq!(batch.dp_rank, rank);
        check(&payload, &batch, &events);
        // nothing of a bad event stays behind
        let kept: usize = batch.events.iter().map(|event| match event {
            Event::Store(store) => store.hashes.len as usize,
            Event::Remove(remove) => remove.hashes.len as usize,
            Event::Clear(_) => 0,
        }).sum();
        prop_assert_eq!(batch.hashes.len(), kept);
    }
}
