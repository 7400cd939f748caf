//! Any bytes as a payload: no panic, nothing left behind by a refusal, memory bounded by the payload.
#![no_main]

use kvatlas::event::{Batch, decode, describe};
use libfuzzer_sys::fuzz_target;

/// A vector doubles when it grows, and holds at most one element a byte.
const PER_BYTE: usize = 2;
const FLOOR: usize = 16;

fuzz_target!(|payload: &[u8]| {
    let mut batch = Batch::default();
    let refused = decode(payload, &mut batch).is_err();
    let most = PER_BYTE * payload.len() + FLOOR;
    assert!(batch.tokens.capacity() <= most && batch.hashes.capacity() <= most);
    assert!(batch.events.capacity() <= most && batch.skipped.capacity() <= most);
    if refused {
        assert!(batch.events.is_empty() && batch.tokens.is_empty() && batch.hashes.is_empty());
    }
    assert_eq!(describe(payload)["batch"] == "reject", refused);
});
