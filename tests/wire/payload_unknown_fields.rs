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
