//! Which task waits for which reply. A request carries a ticket, its reply brings the ticket back.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Slot<T> {
    /// Counts the uses of the slot, so that a late reply finds nobody.
    use_count: u32,
    waker: Option<Waker>,
    value: Option<T>,
    taken: bool,
}

/// The open tickets of one reactor.
pub struct Tickets<T> {
    slots: RefCell<(Vec<Slot<T>>, Vec<u32>)>,
}

/// A reply that has not come. Dropping it gives the ticket back; its reply is then ignored.
#[must_use = "a pending reply that is dropped is ignored when it comes"]
pub struct Pending<T> {
    tickets: Rc<Tickets<T>>,
    index: u32,
    ticket: u64,
}

impl<T> Tickets<T> {
    /// No open tickets.
    pub fn new() -> Rc<Self> {
        Rc::new(Self { slots: RefCell::default() })
    }

    /// Opens a ticket: send its number along, then await it.
    pub fn open(self: &Rc<Self>) -> Pending<T> {
        let (slots, free) = &mut *self.slots.borrow_mut();
        let index = free.pop().unwrap_or(slots.len() as u32);
        if index as usize == slots.len() {
            slots.push(Slot { use_count: 0, waker: None, value: None, taken: false });
        }
        let slot = &mut slots[index as usize];
        slot.use_count = slot.use_count.wrapping_add(1);
        slot.taken = true;
        let ticket = (u64::from(slot.use_count) << 32) | u64::from(index);
        Pending { tickets: self.clone(), index, ticket }
    }

    /// Hands in the reply to a ticket; whether somebody waits for it.
    pub fn redeem(&self, ticket: u64, value: T) -> bool {
        let (slots, _) = &mut *self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(ticket as u32 as usize) else { return false };
        if !slot.taken || u64::from(slot.use_count) != ticket >> 32 || slot.value.is_some() {
            return false;
        }
        slot.value = Some(value);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
        true
    }

    /// How many tickets are open.
    pub fn count(&self) -> usize {
        let (slots, free) = &*self.slots.borrow();
        slots.len() - free.len()
    }
}

impl<T> Pending<T> {
    /// The number that the reply must bring back.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let slot = &mut self.tickets.slots.borrow_mut().0[self.index as usize];
        if let Some(value) = slot.value.take() {
            return Poll::Ready(value);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        let unread = {
            let (slots, free) = &mut *self.tickets.slots.borrow_mut();
            let slot = &mut slots[self.index as usize];
            slot.taken = false;
            slot.waker = None;
            free.push(self.index);
            slot.value.take()
        };
        // A payload's own drop may open or close tickets.
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reply_finds_nobody() {
        let tickets = Tickets::new();
        let first = tickets.open();
        let number = first.ticket();
        drop(first);
        let second = tickets.open();
        assert!(!tickets.redeem(number, 1), "the ticket was given back");
        assert!(tickets.redeem(second.ticket(), 2));
        assert!(!tickets.redeem(second.ticket(), 3), "one reply a ticket");
        assert_eq!(tickets.count(), 1);
        drop(second);
        assert_eq!(tickets.count(), 0);
        assert!(!tickets.redeem(u64::MAX, 4));
    }
}
