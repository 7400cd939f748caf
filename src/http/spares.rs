//! Large receive buffers that no request needs just now.
//!
//! A long prompt takes hundreds of kilobytes, most connections are idle, and a buffer that is given back to the
//! allocator comes again as pages that the kernel clears. So the connections of a thread share a few: what is lent
//! from here was filled by a body before, however little a head that asks for it keeps of its promise.

use std::cell::RefCell;

use crate::limits::{HTTP_KEPT_BYTES, HTTP_SPARE_BYTES, HTTP_SPARES_BYTES};

thread_local! {
    static SPARES: RefCell<Spares> = const { RefCell::new(Spares { buffers: Vec::new(), bytes: 0 }) };
}

struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Room of all of them together.
    bytes: usize,
}

/// A buffer with room for `least` bytes, if there is one; empty.
pub(super) fn take(least: usize) -> Option<Vec<u8>> {
    SPARES.with_borrow_mut(|spares| {
        // the one used last is the one that caches still know
        let at = spares.buffers.iter().rposition(|buffer| buffer.capacity() >= least)?;
        let buffer = spares.buffers.remove(at);
        spares.bytes -= buffer.capacity();
        Some(buffer)
    })
}

/// Keeps a large buffer for others, unless it is too large or there are enough.
pub(super) fn give(mut buffer: Vec<u8>) {
    let bytes = buffer.capacity();
    if !(HTTP_KEPT_BYTES..=HTTP_SPARE_BYTES).contains(&bytes) {
        return;
    }
    // a connection may end after its thread's spares did
    let _ = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        if spares.bytes + bytes <= HTTP_SPARES_BYTES {
            buffer.clear();
            spares.bytes += bytes;
            spares.buffers.push(buffer);
        }
    });
}
