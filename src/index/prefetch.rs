//! Asks the processor for memory that is about to be used, without waiting for it.
#![allow(unsafe_code)] // one hint to the processor, which has no effect but on its cache

/// Asks for the cache line where `value` begins.
#[inline]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address is that of a reference, and the instruction reads nothing that a program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(value);
}
