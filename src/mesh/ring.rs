//! A bounded ring with one writer and one reader.
//!
//! Positions count up without end and are masked into the slots. `head..tail` are the slots that hold a
//! message. Each side keeps its own position and a remembered one of the other, so it reads the other's cache
//! line only when the ring looks full or empty.
#![allow(unsafe_code)] // slots are handed over between two threads by the two positions

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keeps a value on cache lines of its own (two of them: the prefetcher takes pairs).
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Alone<T>(pub(super) T);

struct Slots<T> {
    head: Alone<AtomicUsize>,
    tail: Alone<AtomicUsize>,
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched by the writer only outside `head..tail` and by the reader only inside it; the
// release stores and acquire loads of the positions hand it over. Messages move between threads, hence `Send`.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: as above; nothing in it is bound to a thread.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    fn slot(&self, position: usize) -> *mut MaybeUninit<T> {
        self.cells[position & (self.cells.len() - 1)].get()
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        let (head, tail) = (*self.head.0.get_mut(), *self.tail.0.get_mut());
        let mut position = head;
        while position != tail {
            // SAFETY: slots in `head..tail` hold a message, and both sides are gone.
            unsafe { (*self.slot(position)).assume_init_drop() };
            position = position.wrapping_add(1);
        }
    }
}

/// The writing side.
pub struct Writer<T> {
    shared: Arc<Slots<T>>,
    tail: usize,
    head_seen: usize,
}

/// The reading side.
pub struct Reader<T> {
    shared: Arc<Slots<T>>,
    head: usize,
    tail_seen: usize,
}

/// A ring of `capacity` messages, rounded up to a power of two.
pub fn ring<T: Send>(capacity: usize) -> (Writer<T>, Reader<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let cells = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Slots { head: Alone::default(), tail: Alone::default(), cells });
    (Writer { shared: shared.clone(), tail: 0, head_seen: 0 }, Reader { shared, head: 0, tail_seen: 0 })
}

impl<T: Send> Writer<T> {
    /// Appends a message, or gives it back when the ring is full.
    pub fn push(&mut self, message: T) -> Result<(), T> {
        let capacity = self.shared.cells.len();
        if self.tail.wrapping_sub(self.head_seen) == capacity {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == capacity {
                return Err(message);
            }
        }
        // SAFETY: the slot is outside `head..tail`, so it is empty and only the one writer touches it.
        unsafe { (*self.shared.slot(self.tail)).write(message) };
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T: Send> Reader<T> {
    /// Takes the oldest message.
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the slot is inside `head..tail`, so it holds a message; moving `head` makes it empty, and
        // only the one reader does both.
        let message = unsafe { (*self.shared.slot(self.head)).assume_init_read() };
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(message)
    }

    /// Whether nothing is there to take.
    pub fn is_empty(&mut self) -> bool {
        if self.head == self.tail_seen {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.head == self.tail_seen
    }
}
