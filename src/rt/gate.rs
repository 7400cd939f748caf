//! One task at a time, first come, first served. Stays on its reactor.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A way that only one task walks at a time.
#[derive(Default, Debug)]
pub struct Gate {
    taken: Cell<bool>,
    /// Number of the next to come, and of the one whose turn it is.
    tickets: Cell<(u64, u64)>,
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
        let (mine, _) = self.tickets.get();
        self.tickets.set((mine + 1, self.tickets.get().1));
        poll_fn(|context| {
            let mut waiting = self.waiting.borrow_mut();
            let first = waiting.front().is_none_or(|(ticket, _)| *ticket >= mine);
            if first && !self.taken.get() {
                waiting.retain(|(ticket, _)| *ticket != mine);
                self.taken.set(true);
                return Poll::Ready(());
            }
            match waiting.iter_mut().find(|(ticket, _)| *ticket == mine) {
                Some((_, waker)) => waker.clone_from(context.waker()),
                None => waiting.push_back((mine, context.waker().clone())),
            }
            Poll::Pending
        })
        .await;
        Pass { gate: self.clone() }
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
