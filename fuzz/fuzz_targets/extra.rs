//! Any msgpack value as extra keys: no panic, and where JSON can spell the same keys, the same digests.
#![no_main]

use kvatlas::event::extra::{Context, digests_of_json, digests_of_msgpack};
use kvatlas::event::msgpack::{Cursor, Head};
use kvatlas::event::{Batch, Event, Span, decode, describe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (root, blocks, keys) = input;
    let blocks = usize::from(blocks % 8);
    let context = Context { blocks, root, lora: Some("sql"), seed: 1337 };

    // as they stand, sound or not
    let mut out = Vec::new();
    let raw = digests_of_msgpack(keys, Span::new(0, keys.len()), Span::NONE, context, &mut out);
    assert_eq!(out.len(), if raw.is_ok() { blocks } else { 0 });

    // inside an event, and back through JSON
    let mut payload = b"\x92\xc0\x91\x84\xa4type\xabBlockStored\xaablock_size\x01\xacblock_hashes".to_vec();
    payload.push(0x90 | blocks as u8);
    payload.extend((0..blocks).map(|hash| hash as u8));
    payload.extend_from_slice(b"\xaaextra_keys");
    payload.extend_from_slice(keys);
    let mut batch = Batch::default();
    if decode(&payload, &mut batch).is_err() {
        return;
    }
    let [Event::Store(store)] = &batch.events[..] else { return };
    let mut of_event = Vec::new();
    digests_of_msgpack(&payload, store.extra_keys, Span::NONE, context, &mut of_event).unwrap();
    if speaks_json(store.extra_keys.bytes(&payload).unwrap_or_default()) {
        let told = describe(&payload);
        let mut of_query = Vec::new();
        digests_of_json(told["events"][0].get("extra_keys"), None, context, &mut of_query).unwrap();
        assert_eq!(of_event, of_query);
    }
});

/// Whether JSON can spell all of it alike: no byte strings, extensions, floats, maps or broken strings.
fn speaks_json(keys: &[u8]) -> bool {
    let mut cursor = Cursor::new(keys, 0);
    while !cursor.rest().is_empty() {
        match cursor.head() {
            Ok(Head::Nil | Head::Bool(_) | Head::Uint(_) | Head::Negative(_) | Head::Array(_)) => {}
            Ok(Head::Str(text)) if std::str::from_utf8(text).is_ok() => {}
            _ => return false,
        }
    }
    true
}
