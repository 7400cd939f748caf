//! A store event that says nothing.

use kvatlas::event::{Slice, Span, Store};

pub(crate) fn blank_store() -> Store {
    Store {
        index: 0,
        hashes: Slice::default(),
        parent: None,
        tokens: None,
        block_size: None,
        medium: Span::NONE,
        lora_name: Span::NONE,
        lora_id: None,
        cache_salt: Span::NONE,
        extra_keys: Span::NONE,
        mm_infos: Span::NONE,
        lookahead: Span::NONE,
        block_offsets: Span::NONE,
        group_idx: None,
        spec_kind: Span::NONE,
        sliding_window: None,
        locality: Span::NONE,
        ownership: Span::NONE,
        session_id: Span::NONE,
        envelope: None,
        fault: None,
    }
}
