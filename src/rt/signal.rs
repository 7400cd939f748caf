//! Something that happens once on a reactor, and whom of its tasks it concerns.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Unset, then set for ever. Stays on its reactor.
#[derive(Default, Debug)]
pub struct Signal {
    set: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Signal {
    /// One that has not happened.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Makes it happen: all that wait go on.
    pub fn set(&self) {
        self.set.set(true);
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Waits until it has happened.
    pub async fn wait(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// Waits until it has happened or `other` is ready; `None` when it happened. `other` is dropped then, so
    /// it must not be I/O that could lose something.
    pub async fn wait_at_most<F: Future>(&self, other: F) -> Option<F::Output> {
        let mut other = pin!(other);
        poll_fn(|context| match self.poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => other.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Whether it has happened; otherwise the task is woken when it does.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.set.get() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
