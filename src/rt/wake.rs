//! How other threads reach a reactor, and how its own tasks yield fairly.
//!
//! A task that wakes itself to yield keeps its executor from ever looking at the kernel: timers, sockets and
//! foreign wakes starve. So [`fair_yield`] parks the task's waker in a list of this thread and asks for a pass; the
//! pump wakes the list, one task of each line a pass, after the kernel was asked.
//!
//! A pass is asked for by the reactor's own eventfd, which costs three system calls and lets the timers run too. Where
//! the runtime has `rounds`, nearly all passes go by them instead, and cost one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Readable, sys};
use crate::limits::ROUNDS_UNTIMED;

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
    /// Of the future that [`rounds`] wraps.
    round: RefCell<Option<Waker>>,
    asked: Cell<bool>,
    passed: Cell<bool>,
    /// Rounds since the timers last ran; and whether the bell was rung so that they run.
    untimed: Cell<u32>,
    timed: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = Local::default();
}

impl Local {
    /// Asks for a pass of the pump after the kernel was asked.
    fn ask(&self, wake: &Wake) {
        let untimed = self.untimed.get();
        if untimed < ROUNDS_UNTIMED
            && let Some(round) = &*self.round.borrow()
        {
            self.untimed.set(untimed + 1);
            self.asked.set(true);
            round.wake_by_ref();
        } else {
            // with a round under way the executor has something to do, and may not come to its timers
            self.timed.set(!self.asked.get() && !self.passed.get());
            wake.notify();
        }
    }

    fn wake_pump(&self) {
        if let Some(pump) = self.pump.borrow_mut().take() {
            pump.wake();
        }
    }
}

/// The first future of an executor that runs in rounds: it polls this one after the tasks that are ready, when it is
/// woken, and asks the kernel, without waiting, between that and the tasks that became ready meanwhile. Timers need
/// not run in a round.
#[cfg_attr(feature = "glommio", allow(dead_code))] // its executor has no such rounds
pub(super) async fn rounds<F: Future>(first: F) -> F::Output {
    let mut first = pin!(first);
    poll_fn(|context| {
        LOCAL.with(|local| {
            if local.round.borrow().is_none() {
                local.round.replace(Some(context.waker().clone()));
            }
            if local.asked.replace(false) {
                local.passed.set(true);
                local.wake_pump();
            }
        });
        first.as_mut().poll(context).map(|output| {
            LOCAL.with(|local| local.round.take());
            output
        })
    })
    .await
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
                local.ask(wake);
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
        if !local.poked.replace(true) {
            local.wake_pump();
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
    /// A round is over: the kernel was asked, but the timers were not.
    Passed,
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

    /// Asks for a beat after the kernel was asked.
    pub fn ask(&self) {
        LOCAL.with(|local| local.ask(&self.wake));
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
                LOCAL.with(|local| {
                    local.poked.set(false);
                    local.passed.set(false);
                    if local.timed.replace(false) {
                        local.untimed.set(0);
                    }
                });
                return Poll::Ready(result.map(|()| Beat::Rung));
            }
            LOCAL.with(|local| {
                if local.passed.replace(false) {
                    local.poked.set(false);
                    return Poll::Ready(Ok(Beat::Passed));
                }
                // a round that is asked for ends the turn as well
                if !local.asked.get() && local.poked.replace(false) {
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
                local.ask(&self.wake);
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
            local.asked.set(false);
            local.passed.set(false);
            local.parked.take()
        });
        // Without a bell nobody would wake them.
        parked.into_iter().flatten().for_each(Waker::wake);
    }
}
