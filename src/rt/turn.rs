//! How long a reactor works before it looks at the kernel again.
//!
//! All tasks of a line (queries, ingest) share one budget a turn. A turn ends when the pump makes its pass, which the first
//! spending of a turn asks for; so it ends after the tasks that were ready together. Tasks that find the
//! budget used yield, and go on one a turn, first come, first served.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::wake::{Line, poke, yield_in};
use super::{Task, spawn};
use crate::limits::{INGEST_SHARE, INGEST_SHARE_ASKED, STALL_MICROS, TURN_BUDGET, TURNS_ASKED};

/// The budget of one line of a reactor, shared by its tasks.
#[derive(Default, Debug)]
pub struct Turn {
    line: Line,
    used: Cell<u32>,
    /// Turns for which queries are expected still.
    asked: Cell<u32>,
    /// What the clock said in this turn, if it was asked; 0 is no time.
    now_ms: Cell<u64>,
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

    /// Events get a part of a turn, so that a query behind them waits for little; a smaller one while queries
    /// come, since shorter turns cost more of them.
    fn budget(&self) -> u32 {
        match self.line {
            Line::Query => TURN_BUDGET,
            Line::Ingest if self.asked.get() > 0 => TURN_BUDGET / INGEST_SHARE_ASKED,
            Line::Ingest => TURN_BUDGET / INGEST_SHARE,
        }
    }

    /// Begins a new turn: the pump's pass. Says whether anything was spent in the last one.
    pub fn renew(&self) -> bool {
        self.turns.set(self.turns.get() + 1);
        self.asked.set(self.asked.get().saturating_sub(1));
        self.now_ms.set(0);
        self.used.take() > 0
    }

    /// Queries were answered just now: more of them are expected for [`TURNS_ASKED`] turns.
    pub fn expect_queries(&self) {
        self.asked.set(TURNS_ASKED);
    }

    /// Milliseconds since the Unix epoch, read once a turn: for work that is spent for afterwards.
    pub fn now_ms(&self) -> u64 {
        if self.now_ms.get() == 0 {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            self.now_ms.set(since.map_or(0, |since| since.as_millis() as u64));
        }
        self.now_ms.get()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of one cost that a turn takes before it is over.
    fn steps(turn: &Turn) -> u32 {
        let cost = TURN_BUDGET / 256;
        (1..=1000).find(|_| turn.charge(cost)).unwrap_or(0)
    }

    #[test]
    fn events_have_a_smaller_share_for_a_while_after_each_query() {
        let ingest = Turn::new(Line::Ingest);
        assert_eq!(steps(&ingest), 256 / INGEST_SHARE);
        ingest.expect_queries();
        assert_eq!(ingest.budget(), TURN_BUDGET / INGEST_SHARE_ASKED);
        for _ in 1..TURNS_ASKED {
            ingest.renew();
            assert_eq!(ingest.budget(), TURN_BUDGET / INGEST_SHARE_ASKED);
        }
        ingest.renew();
        assert_eq!(steps(&ingest), 256 / INGEST_SHARE);
    }

    #[test]
    fn the_share_of_queries_is_always_whole() {
        let queries = Turn::new(Line::Query);
        queries.expect_queries();
        assert_eq!(steps(&queries), 256);
        assert!(queries.renew());
        assert!(!queries.renew());
    }
}
