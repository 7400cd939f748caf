//! The product's allocator, counting the bytes that are handed out while somebody watches.
#![allow(unsafe_code)] // a global allocator is an unsafe trait; this one only counts

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

static WATCHED: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// mimalloc, as in the daemon, for everybody who is measured.
struct Counting;

#[inline]
fn count(bytes: isize) {
    // off while the clock runs: a counter shared by threads would cost each structure as often as it allocates
    if WATCHED.load(Relaxed) {
        LIVE.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call goes to mimalloc with the caller's own arguments and its answer is handed on; counting
// touches two atomics and never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the pointer came from mimalloc with this layout, as the caller vouches.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the pointer came from mimalloc with this layout, as the caller vouches.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `work` was handed out and has not given back, on whatever threads, with its outcome. Not for two
/// at a time.
pub fn kept_by<T>(work: impl FnOnce() -> T) -> (T, isize) {
    LIVE.store(0, Relaxed);
    WATCHED.store(true, Relaxed);
    let outcome = work();
    WATCHED.store(false, Relaxed);
    (outcome, LIVE.load(Relaxed))
}
