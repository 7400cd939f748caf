//! How other threads reach a reactor, and how its own tasks yield fairly.
//!
//! A task that wakes itself to yield keeps its executor from ever looking at the kernel: timers, sockets and
//! foreign wakes starve. So [`fair_yield`] parks the task's waker in a list of this thread and pokes the
//! reactor's own eventfd; the pump wakes the list, one task of each line a turn, after the kernel was asked.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Readable, sys};

/// The bell of one reactor: any thread may ring it.
#[derive(Debug)]
pub struct Wake {
    event: File,
}

impl Wake {
    /// A new bell, not rung.
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { event: File::from(sys::eventfd()?) }))
    }

    /// Rings: the reactor's pump makes a pass soon. Ringing twice before it does is ringing once.
    pub fn notify(&self) {
        // The only possible error is a full counter, and then it is rung already.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Takes back all rings; whether there was one.
    pub fn clear(&self) -> bool {
        (&self.event).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for Wake {
    /// Readable while rung: for threads that wait with `poll(2)`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Who waits in line with whom: the lines take turns, so a long one delays only its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Line {
    /// Somebody waits for the answer.
    #[default]
    Query,
    /// Events and other work in the background.
    Ingest,
}

/// What belongs to the reactor of this thread.
#[derive(Default)]
struct Local {
    wake: RefCell<Option<Arc<Wake>>>,
    parked: RefCell<[VecDeque<Waker>; 2]>,
    poked: Cell<bool>,
    pump: RefCell<Option<Waker>>,
}

thread_local! {
    static LOCAL: Local = Local::default();
}

/// Lets the kernel and the other tasks of this reactor have their turn, then goes on. Returns at once on a
/// thread without a [`Pulse`].
pub async fn fair_yield() {
    yield_in(Line::Query).await;
}

/// [`fair_yield`] in a line of choice.
pub async fn yield_in(line: Line) {
    let mut parked = false;
    poll_fn(|context| {
        if parked {
            return Poll::Ready(());
        }
        parked = true;
        LOCAL.with(|local| {
            let wake = local.wake.borrow();
            let Some(wake) = &*wake else { return Poll::Ready(()) };
            let list = &mut local.parked.borrow_mut()[line as usize];
            if list.is_empty() {
                wake.notify();
            }
            list.push_back(context.waker().clone());
            Poll::Pending
        })
    })
    .await;
}

/// Asks for a pass of this reactor's pump after the tasks that are ready now: before the reactor sleeps.
/// Costs no system call. Does nothing on a thread without a [`Pulse`].
pub fn poke() {
    LOCAL.with(|local| {
        if !local.poked.replace(true)
            && let Some(pump) = local.pump.borrow_mut().take()
        {
            pump.wake();
        }
    });
}

/// What the pump of a reactor waits on: the bell, and [`poke`].
pub struct Pulse {
    wake: Arc<Wake>,
    bell: Rc<Readable>,
    // Kept over beats that a poke ends: a wait in flight is not dropped.
    ringing: Option<Pin<Box<dyn Future<Output = io::Result<()>>>>>,
}

/// Why a pump runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beat {
    /// A task of this reactor asked for it by [`poke`].
    Poked,
    /// The bell was rung; the kernel was asked since the last such beat.
    Rung,
}

impl Pulse {
    /// Makes `wake` the bell of this thread's reactor.
    pub fn install(wake: Arc<Wake>) -> io::Result<Self> {
        let bell = Rc::new(Readable::new(wake.as_fd())?);
        LOCAL.with(|local| local.wake.replace(Some(wake.clone())));
        Ok(Self { wake, bell, ringing: None })
    }

    /// Waits for the next reason to run.
    pub async fn beat(&mut self) -> io::Result<Beat> {
        let bell = &self.bell;
        let ringing = self.ringing.get_or_insert_with(|| {
            let bell = bell.clone();
            Box::pin(async move { bell.wait().await })
        });
        let beat = poll_fn(|context| {
            if let Poll::Ready(result) = ringing.as_mut().poll(context) {
                LOCAL.with(|local| local.poked.set(false));
                return Poll::Ready(result.map(|()| Beat::Rung));
            }
            LOCAL.with(|local| {
                if local.poked.replace(false) {
                    return Poll::Ready(Ok(Beat::Poked));
                }
                local.pump.replace(Some(context.waker().clone()));
                Poll::Pending
            })
        })
        .await?;
        if beat == Beat::Rung {
            self.ringing = None;
            self.wake.clear();
        }
        Ok(beat)
    }

    /// Wakes the first task of each line, and rings when others still wait. One a beat: it finds a whole turn
    /// before it.
    pub fn release(&self) {
        LOCAL.with(|local| {
            let (first, more) = {
                let mut lines = local.parked.borrow_mut();
                let first = lines.each_mut().map(VecDeque::pop_front);
                (first, lines.iter().any(|line| !line.is_empty()))
            };
            first.into_iter().flatten().for_each(Waker::wake);
            if more {
                self.wake.notify();
            }
        });
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        let parked = LOCAL.with(|local| {
            local.wake.take();
            local.pump.take();
            local.poked.set(false);
            local.parked.take()
        });
        // Without a bell nobody would wake them.
        parked.into_iter().flatten().for_each(Waker::wake);
    }
}
