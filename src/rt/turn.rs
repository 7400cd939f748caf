//! How long a reactor works before it looks at the kernel again.
//!
//! All tasks of a line (queries, ingest) share one budget a turn. A turn ends when the pump makes its pass, which the first
//! spending of a turn asks for; so it ends after the tasks that were ready together. Tasks that find the
//! budget used yield, and go on one a turn, first come, first served.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::wake::{Line, poke, yield_in};
use super::{Task, spawn};
use crate::limits::{INGEST_SHARE, STALL_MICROS, TURN_BUDGET};

/// The budget of one line of a reactor, shared by its tasks.
#[derive(Default, Debug)]
pub struct Turn {
    line: Line,
    used: Cell<u32>,
    turns: Cell<u64>,
    yields: Cell<u64>,
    stalls: Cell<u64>,
}

impl Turn {
    /// A fresh turn.
    pub fn new(line: Line) -> Rc<Self> {
        Rc::new(Self { line, ..Self::default() })
    }

    /// Accounts for work just done (see the `COST_…` limits) and yields when the turn is over.
    pub async fn spend(&self, cost: u32) {
        if self.charge(cost) {
            self.yields.set(self.yields.get() + 1);
            yield_in(self.line).await;
        }
    }

    /// Accounts for work just done and says whether the turn is over: then the caller should soon
    /// `spend(0)`, where it can wait.
    pub fn charge(&self, cost: u32) -> bool {
        let used = self.used.get();
        if used == 0 {
            poke();
        }
        self.used.set(used.saturating_add(cost.max(1)));
        self.used.get() >= self.budget()
    }

    /// Events get a part of a turn, so that a query behind them waits for little.
    fn budget(&self) -> u32 {
        match self.line {
            Line::Query => TURN_BUDGET,
            Line::Ingest => TURN_BUDGET / INGEST_SHARE,
        }
    }

    /// Begins a new turn: the pump's pass.
    pub fn renew(&self) {
        self.used.set(0);
        self.turns.set(self.turns.get() + 1);
    }

    /// Starts a task on this reactor whose every poll is timed: a long one is counted as a stall.
    pub fn spawn<F: Future<Output: 'static> + 'static>(self: &Rc<Self>, future: F) -> Task<F::Output> {
        let turn = self.clone();
        spawn(async move {
            let mut future = pin!(future);
            poll_fn(|context| {
                let start = Instant::now();
                let poll = future.as_mut().poll(context);
                if start.elapsed() > Duration::from_micros(STALL_MICROS) {
                    turn.stalls.set(turn.stalls.get() + 1);
                }
                poll
            })
            .await
        })
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Times that a task found its turn used up.
    pub fn yields(&self) -> u64 {
        self.yields.get()
    }

    /// Polls of tasks that took longer than [`STALL_MICROS`].
    pub fn stalls(&self) -> u64 {
        self.stalls.get()
    }
}
