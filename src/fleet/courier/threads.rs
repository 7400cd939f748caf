//! The threads that carry orders out: each class has a lane with a queue and a bound of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::exchange::carry_out;
use super::pool::Pool;
use super::{Busy, Class, Failure, Order, Outcome};
use crate::limits::{
    COURIER_DISPATCH_THREADS, COURIER_QUEUE, COURIER_QUEUE_BYTES, COURIER_RELAY_THREADS,
    COURIER_RESYNC_THREADS, COURIER_STACK_BYTES, COURIER_THREAD_IDLE_SECONDS, COURIER_TOTAL_SECONDS,
};

/// What all threads share.
pub(super) struct Shared {
    lanes: [Lane; 3],
    pool: Pool,
    post: Box<dyn Fn(u64, Outcome) + Send + Sync>,
}

/// One class.
struct Lane {
    /// Most threads.
    threads: usize,
    state: Mutex<State>,
    /// There is something to do.
    work: Condvar,
    /// Something was done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Bytes of the bodies that wait.
    bytes: usize,
    /// Servers of the orders that threads are busy with.
    working: Vec<(String, u16)>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Waiting {
    order: Order,
    deadline: Instant,
}

impl Shared {
    pub(super) fn new(post: Box<dyn Fn(u64, Outcome) + Send + Sync>) -> Arc<Self> {
        // in the order of the classes
        let threads = [COURIER_DISPATCH_THREADS, COURIER_RELAY_THREADS, COURIER_RESYNC_THREADS];
        let lanes = threads.map(|threads| Lane {
            threads,
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        Arc::new(Self { lanes, pool: Pool::default(), post })
    }

    pub(super) fn send(shared: &Arc<Self>, order: Order) -> Result<(), Busy> {
        let class = order.class;
        let lane = &shared.lanes[class as usize];
        let mut state = lane.lock();
        let bytes = order.size();
        let full = state.waiting.len() >= COURIER_QUEUE
            || (state.bytes > 0 && state.bytes + bytes > COURIER_QUEUE_BYTES);
        if state.closed || full {
            return Err(Busy);
        }
        if state.waiting.len() >= state.idle && state.threads < lane.threads {
            match shared.spawn(class) {
                Ok(()) => state.threads += 1,
                // those that are there will come to it
                Err(_) if state.threads > 0 => {}
                Err(_) => return Err(Busy),
            }
        }
        let deadline = after(order.total);
        state.bytes += bytes;
        state.waiting.push_back(Waiting { order, deadline });
        drop(state);
        lane.work.notify_one();
        Ok(())
    }

    pub(super) fn under_way(&self, class: Class) -> usize {
        self.lanes[class as usize].lock().under_way()
    }

    pub(super) fn close(&self) {
        for lane in &self.lanes {
            lane.lock().closed = true;
            lane.work.notify_all();
        }
    }

    pub(super) fn stop(&self, grace: Duration) -> bool {
        self.close();
        let deadline = after(grace);
        // every lane is ended, whatever became of the one before
        let ended = self.lanes.each_ref().map(|lane| self.end(lane, deadline));
        ended.iter().all(|all| *all)
    }

    /// Waits for a lane, then gives up what still waits in it.
    fn end(&self, lane: &Lane, deadline: Instant) -> bool {
        let mut state = lane.lock();
        while state.under_way() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait(&lane.done, state, left);
        }
        let all = state.under_way() == 0;
        let given_up = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        drop(state);
        for waiting in given_up {
            (self.post)(
                waiting.order.ticket,
                Err(Failure::new("the coordinator stopped before it was sent")),
            );
        }
        all
    }

    fn spawn(self: &Arc<Self>, class: Class) -> io::Result<()> {
        let shared = self.clone();
        thread::Builder::new()
            .name(format!("courier-{class:?}").to_lowercase())
            .stack_size(COURIER_STACK_BYTES)
            .spawn(move || shared.work(&shared.lanes[class as usize]))
            .map(drop)
    }

    /// What a thread does until there is nothing more to do.
    fn work(&self, lane: &Lane) {
        while let Some(Waiting { order, deadline }) = self.next(lane) {
            let (ticket, server) = (order.ticket, (order.ip.clone(), order.port));
            let outcome = carry_out(&self.pool, order, deadline);
            (self.post)(ticket, outcome);
            let mut state = lane.lock();
            if let Some(at) = state.working.iter().position(|one| *one == server) {
                state.working.swap_remove(at);
            }
            drop(state);
            lane.done.notify_all();
        }
    }

    /// The next order; none when none came for a while or none will.
    fn next(&self, lane: &Lane) -> Option<Waiting> {
        let idle = Duration::from_secs(COURIER_THREAD_IDLE_SECONDS);
        let end = Instant::now() + idle;
        let mut state = lane.lock();
        loop {
            if let Some(next) = state.pick(lane.threads) {
                return Some(next);
            }
            let left = end.saturating_duration_since(Instant::now());
            // with orders left for servers that have their share of threads, those threads come to them
            if left.is_zero() || state.closed {
                state.threads -= 1;
                drop(state);
                self.pool.sweep();
                return None;
            }
            state.idle += 1;
            state = wait(&lane.work, state, left);
            state.idle -= 1;
        }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn under_way(&self) -> usize {
        self.waiting.len() + self.working.len()
    }

    /// Takes the first order whose server keeps less than half of the threads busy.
    fn pick(&mut self, threads: usize) -> Option<Waiting> {
        let share = threads.div_ceil(2);
        let at = self.waiting.iter().position(|Waiting { order, .. }| {
            let same = |one: &&(String, u16)| one.0 == order.ip && one.1 == order.port;
            self.working.iter().filter(same).count() < share
        })?;
        let next = self.waiting.remove(at)?;
        self.bytes = self.bytes.saturating_sub(next.order.size());
        self.working.push((next.order.ip.clone(), next.order.port));
        Some(next)
    }
}

impl Order {
    fn size(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }
}

fn wait<'a>(on: &Condvar, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
    on.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
}

/// When a time from now is over; a time without end is cut short, for the clock has one.
fn after(time: Duration) -> Instant {
    Instant::now() + time.min(Duration::from_secs(COURIER_TOTAL_SECONDS))
}
