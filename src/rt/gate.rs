//! One task at a time, first come, first served. Stays on its reactor.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A way that only one task walks at a time.
#[derive(Default, Debug)]
pub struct Gate {
    taken: Cell<bool>,
    /// Number of the next to come.
    next: Cell<u64>,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
}

/// The way is taken until this is dropped.
pub struct Pass {
    gate: Rc<Gate>,
}

impl Gate {
    /// A free way.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// The way, when it is free and nobody waits.
    pub fn try_enter(self: &Rc<Self>) -> Option<Pass> {
        if self.taken.get() || !self.waiting.borrow().is_empty() {
            return None;
        }
        self.taken.set(true);
        Some(Pass { gate: self.clone() })
    }

    /// Waits for the way.
    pub async fn enter(self: &Rc<Self>) -> Pass {
        if let Some(pass) = self.try_enter() {
            return pass;
        }
        let mine = self.next.get();
        self.next.set(mine + 1);
        let waiting = Waiting { gate: self, ticket: mine };
        poll_fn(|context| waiting.poll(context)).await;
        Pass { gate: self.clone() }
    }
}

/// A place in the line; dropping it leaves the line.
struct Waiting<'a> {
    gate: &'a Gate,
    ticket: u64,
}

impl Waiting<'_> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut line = self.gate.waiting.borrow_mut();
        let first = line.front().is_none_or(|(ticket, _)| *ticket >= self.ticket);
        if first && !self.gate.taken.get() {
            self.gate.taken.set(true);
            return Poll::Ready(());
        }
        match line.iter_mut().find(|(ticket, _)| *ticket == self.ticket) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => line.push_back((self.ticket, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut line = self.gate.waiting.borrow_mut();
        line.retain(|(ticket, _)| *ticket != self.ticket);
        // whoever is next may have been passed over for this place
        if !self.gate.taken.get()
            && let Some((_, waker)) = line.front()
        {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.taken.set(false);
        if let Some((_, waker)) = self.gate.waiting.borrow().front() {
            waker.wake_by_ref();
        }
    }
}
