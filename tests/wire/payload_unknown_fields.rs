//! Set-up: batches with fields that no known generation of a publisher sends.
//! Claim: each is passed over and counted, whatever its shape and place, and nothing else is lost.

use kvatlas::event::{self, Batch, Event};
use rmp::encode::{write_array_len, write_map_len, write_nil, write_str, write_uint};

fn stored(out: &mut Vec<u8>, extra: &[&str]) {
    write_map_len(out, 5 + extra.len() as u32).unwrap();
    write_str(out, "type").unwrap();
    write_str(out, "BlockStored").unwrap();
    for name in extra {
        write_str(out, name).unwrap();
        write_array_len(out, 1).unwrap();
        write_nil(out).unwrap();
    }
    write_str(out, "block_hashes").unwrap();
    write_array_len(out, 1).unwrap();
    write_uint(out, 7).unwrap();
    write_str(out, "parent_block_hash").unwrap();
    write_nil(out).unwrap();
    write_str(out, "token_ids").unwrap();
    write_array_len(out, 2).unwrap();
    write_uint(out, 1).unwrap();
    write_uint(out, 2).unwrap();
    write_str(out, "block_size").unwrap();
    write_uint(out, 2).unwrap();
}

#[test]
fn unknown_fields_are_counted_and_cost_nothing() {
    let mut batch = Batch::default();
    for (trailing, extra) in [(0, 0), (0, 2), (3, 0), (2, 1)] {
        let names = ["future_field", "x"];
        let mut payload = Vec::new();
        write_array_len(&mut payload, 3 + trailing).unwrap();
        write_uint(&mut payload, 1).unwrap();
        write_array_len(&mut payload, 2).unwrap();
        stored(&mut payload, &names[..extra]);
        write_array_len(&mut payload, 4).unwrap();
        write_str(&mut payload, "AllBlocksCleared").unwrap();
        write_nil(&mut payload).unwrap();
        write_uint(&mut payload, 9).unwrap();
        write_nil(&mut payload).unwrap();
        write_uint(&mut payload, 0).unwrap();
        for _ in 0..trailing {
            write_map_len(&mut payload, 0).unwrap();
        }
        event::decode(&payload, &mut batch).unwrap();
        assert_eq!(batch.unknown_fields, trailing + extra as u32 + 2, "{trailing} {extra}");
        assert!(matches!(batch.events[..], [Event::Store(_), Event::Clear(_)]));
        assert!(batch.skipped.is_empty());
    }
}

/// The fields of RFC #1527, and those that a generation of the pool sends beside them, each with a value it may have.
const KNOWN: [(&str, &[u8]); 21] = [
    ("event_id", &[1]),
    ("timestamp", &[0xcf, 0, 0, 1, 0x94, 0xed, 0x27, 0xdc, 0]),
    ("model_name", &[0xa1, b'm']),
    ("block_size", &[2]),
    ("additional_salt", &[0xc0]),
    ("lora_name", &[0xc0]),
    ("tenant_id", &[0xa1, b't']),
    ("backend_id", &[0xa1, b'b']),
    ("group_id", &[0xc0]),
    ("medium", &[0xa3, b'c', b'p', b'u']),
    ("dp_rank", &[0]),
    ("object_key", &[0xa1, b'7']),
    ("block_hashes", &[0x91, 7]),
    ("connector_block_hash", &[0xc0]),
    ("cache_prefix", &[0xa1, b'p']),
    ("tp_rank", &[3]),
    ("head_or_tp_rank", &[3]),
    ("pcp_rank", &[0]),
    ("dcp_rank", &[0xc0]),
    ("pp_rank", &[0xa1, b'0']),
    ("layer_id", &[0xff]),
];

/// A batch of one RFC map with these fields.
fn rfc(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = vec![0x92, 1, 0x91];
    write_map_len(&mut out, 2 + fields.len() as u32).unwrap();
    for (name, value) in [("event_type", &b"\xa6stored"[..]), ("seq_hashes", &[0x91, 7])].iter().chain(fields)
    {
        write_str(&mut out, name).unwrap();
        out.extend_from_slice(value);
    }
    out
}

#[test]
fn what_the_envelope_has_is_known() {
    let mut batch = Batch::default();
    for fields in KNOWN.iter().map(std::slice::from_ref).chain([&KNOWN[..], &[]]) {
        event::decode(&rfc(fields), &mut batch).unwrap();
        assert!(batch.skipped.is_empty(), "{fields:?} {:?}", batch.skipped);
        assert_eq!((batch.events.len(), batch.unknown_fields), (1, 0), "{fields:?}");
    }
    event::decode(&rfc(&[("timestamps", &[1]), ("pcp", &[0]), ("layer_ids", &[0xc0])]), &mut batch).unwrap();
    assert_eq!((batch.events.len(), batch.unknown_fields), (1, 3));
}

#[test]
fn the_rank_of_an_object_has_two_names() {
    let mut batch = Batch::default();
    let (nil, three, four): (&[u8], &[u8], &[u8]) = (&[0xc0], &[3], &[4]);
    for (rank, head_or_rank, expected) in [
        (None, Some(three), Some(3)),
        (Some(nil), Some(three), Some(3)),
        (Some(four), Some(three), Some(4)),
        (Some(four), Some(nil), Some(4)),
        (Some(four), None, Some(4)),
        (Some(nil), Some(nil), None),
        (None, None, None),
    ] {
        let fields = [("tp_rank", rank), ("head_or_tp_rank", head_or_rank)];
        let mut fields: Vec<_> =
            fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        for _ in 0..2 {
            event::decode(&rfc(&fields), &mut batch).unwrap();
            assert_eq!(batch.envelopes[0].tp_rank, expected, "{fields:?}");
            fields.reverse();
        }
    }
}
