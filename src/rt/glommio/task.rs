//! Tasks, and their end with the executor: glommio forgets those that still run then, with all they own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use ::glommio::{TaskQueueHandle, spawn_local_into};

/// The tasks of this thread's executor.
#[derive(Default)]
struct Tasks {
    next: Cell<u64>,
    /// A task's waker, once it has been polled.
    alive: RefCell<HashMap<u64, Option<Waker>>>,
    /// They shall end.
    over: Cell<bool>,
}

thread_local! {
    static TASKS: Tasks = Tasks::default();
}

/// A task's place among them.
struct Place(u64);

impl Place {
    fn new() -> Self {
        TASKS.with(|tasks| {
            let id = tasks.next.get();
            tasks.next.set(id + 1);
            tasks.alive.borrow_mut().insert(id, None);
            Self(id)
        })
    }

    /// Whether the task shall end; otherwise it is woken when it shall.
    fn is_over(&self, context: &Context<'_>) -> bool {
        TASKS.with(|tasks| {
            if let Some(waker) = tasks.alive.borrow_mut().get_mut(&self.0) {
                waker.get_or_insert_with(|| context.waker().clone());
            }
            tasks.over.get()
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // the last of them may be dropped together with the thread
        let _ = TASKS.try_with(|tasks| tasks.alive.borrow_mut().remove(&self.0));
    }
}

/// A task on this reactor. Dropping the handle lets it run on; awaiting it gives its result.
pub struct Task<T>(Option<::glommio::Task<Option<T>>>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(task) = &mut self.0 else { return Poll::Pending };
        match Pin::new(task).poll(context) {
            Poll::Ready(Some(result)) => Poll::Ready(result),
            // it ended with the executor, and so shall who waits for it
            Poll::Ready(None) => {
                self.0 = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            drop(task.detach());
        }
    }
}

/// Starts a task on this reactor.
pub fn spawn<F: Future<Output: 'static> + 'static>(future: F) -> Task<F::Output> {
    let place = Place::new();
    let task = async move {
        let mut future = pin!(future);
        poll_fn(|context| {
            if place.is_over(context) { Poll::Ready(None) } else { future.as_mut().poll(context).map(Some) }
        })
        .await
    };
    // the plain spawn of glommio would poll the task here and now, within whatever its spawner has borrowed
    let task = spawn_local_into(task, TaskQueueHandle::default());
    Task(Some(task.expect("an executor has its default queue")))
}

/// Ends the tasks that still run: what they own is dropped.
pub(super) async fn end() {
    TASKS.with(|tasks| tasks.over.set(true));
    poll_fn(|context| {
        let waiting: Vec<Waker> =
            TASKS.with(|tasks| tasks.alive.borrow().values().flatten().cloned().collect());
        waiting.iter().for_each(Waker::wake_by_ref);
        if TASKS.with(|tasks| tasks.alive.borrow().is_empty()) {
            return Poll::Ready(());
        }
        // all of them come before this one
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    TASKS.with(|tasks| tasks.over.set(false));
}
