//! The allocator of a test that counts the bytes that each thread holds, and all of them.
#![allow(unreachable_pub)] // a part of a test
#![allow(unsafe_code)] // a global allocator is an unsafe trait; this one only counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

static ALL: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counting.
struct Counting;

fn count(bytes: isize) {
    ALL.fetch_add(bytes, Relaxed);
    // a thread that is going away frees what nobody measures
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments, and its answer is handed
// on; counting touches a const-initialised thread-local without destructor, so it never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the pointer came from `System` with this layout, as the caller vouches.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the pointer came from `System` with this layout, as the caller vouches.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread was handed out and has not given back.
#[allow(dead_code)] // a part of some tests
pub fn live() -> isize {
    LIVE.with(Cell::get)
}

/// Bytes that the process was handed out and has not given back.
#[allow(dead_code)] // a part of some tests
pub fn live_in_all() -> isize {
    ALL.load(Relaxed)
}
