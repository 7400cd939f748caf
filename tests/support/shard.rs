//! What the tests of the index register.

use kvatlas::index::publisher::{Class, Registration};

/// An engine with blocks of one token.
pub(crate) fn registration(instance: &str) -> Registration {
    Registration {
        tenant: "default".into(),
        instance: instance.into(),
        rank: 0,
        class: Class::Engine,
        model: "m".into(),
        lora_name: String::new(),
        block_size: 1,
        additional_salt: String::new(),
        standard_hashes: false,
        tp_size: None,
        removal_scope: None,
    }
}
