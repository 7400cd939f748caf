//! Set-up: one reactor with a task that yields in an endless loop. Claim: timers, foreign wakes, sockets, other
//! tasks and the other line all go on; yielding tasks take turns; a woken task has a whole turn. Control: a
//! task that wakes itself instead starves the timers, which is why it is not done.

use crate::support;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use kvatlas::limits::{COST_EVENT, TURN_BUDGET};
use kvatlas::rt::wake::{Beat, Pulse, yield_in};
use kvatlas::rt::{Driver, Line, Signal, Turn, Wake, fair_yield, run, sleep, spawn};

/// A pump without a mesh.
async fn pump(mut pulse: Pulse, turns: Vec<Rc<Turn>>, passes: Rc<Cell<u64>>, done: Rc<Signal>) {
    while !done.is_set() {
        let beat = pulse.beat().await.unwrap();
        for turn in &turns {
            turn.renew();
        }
        if beat != Beat::Poked {
            passes.set(passes.get() + 1);
            pulse.release();
        }
    }
}

fn with_pump<F: Future>(driver: Driver, test: impl FnOnce(Arc<Wake>, Rc<Turn>, Rc<Signal>) -> F) {
    run(driver, |_| async move {
        let wake = Wake::new().unwrap();
        let pulse = Pulse::install(wake.clone()).unwrap();
        let (turn, done, passes) = (Turn::new(Line::Query), Signal::new(), Rc::default());
        let task = spawn(pump(pulse, vec![turn.clone()], passes, done.clone()));
        test(wake.clone(), turn, done.clone()).await;
        done.set();
        wake.notify();
        task.await;
    })
    .unwrap();
}

#[test]
fn an_endless_yielder_starves_nobody() {
    for driver in support::drivers() {
        with_pump(driver, |_, _, done| async move {
            let rounds = Rc::new(Cell::new(0u64));
            let yielder = spawn({
                let (rounds, done) = (rounds.clone(), done.clone());
                async move {
                    while !done.is_set() {
                        fair_yield().await;
                        rounds.set(rounds.get() + 1);
                    }
                }
            });
            // Timers.
            sleep(Duration::from_millis(5)).await;
            // Other tasks, in both lines.
            let background = spawn(async {
                for _ in 0..20 {
                    yield_in(Line::Ingest).await;
                }
            });
            background.await;
            // Foreign wakes: another thread's ring ends a wait.
            let bell = Wake::new().unwrap();
            let readable = kvatlas::rt::Readable::new(std::os::fd::AsFd::as_fd(&*bell)).unwrap();
            let foreign = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                bell.notify();
                bell
            });
            readable.wait().await.unwrap();
            let bell = foreign.join().unwrap();
            assert!(bell.clear());
            assert!(rounds.get() > 20, "it went on itself: {}", rounds.get());
            done.set();
            yielder.await;
        });
    }
}

#[test]
fn yielders_take_turns() {
    for driver in support::drivers() {
        with_pump(driver, |_, _, _| async move {
            let order = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..3)
                .map(|name| {
                    let order = order.clone();
                    spawn(async move {
                        for _ in 0..50 {
                            order.borrow_mut().push(name);
                            fair_yield().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            let order = order.borrow();
            assert_eq!(order.len(), 150);
            assert!(order.windows(3).all(|three| three[0] != three[1] && three[1] != three[2]), "{order:?}");
        });
    }
}

#[test]
fn a_turn_is_shared_and_a_yielded_task_finds_a_whole_one() {
    for driver in support::drivers() {
        with_pump(driver, |_, turn, _| async move {
            let log = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..2)
                .map(|name| {
                    let (log, turn) = (log.clone(), turn.clone());
                    let budget = turn.clone();
                    turn.spawn(async move {
                        for _ in 0..256 {
                            log.borrow_mut().push((name, budget.turns()));
                            budget.spend(COST_EVENT).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            let log = log.borrow();
            let most = (TURN_BUDGET / COST_EVENT) as usize;
            let last = log.iter().map(|&(_, turn)| turn).max().unwrap();
            for turn in 0..=last {
                let events = log.iter().filter(|&&(_, at)| at == turn).count();
                assert!(events <= most + 1, "turn {turn} had {events}");
            }
            assert!(turn.yields() >= 512 / most as u64 - 1);
            assert_eq!(turn.stalls(), 0);
        });
    }
}

#[test]
fn a_long_poll_is_a_stall() {
    with_pump(support::driver(), |_, turn, _| async move {
        turn.spawn(async { thread::sleep(Duration::from_millis(2)) }).await;
        turn.spawn(async { sleep(Duration::from_millis(2)).await }).await;
        assert_eq!(turn.stalls(), 1);
    });
}

#[test]
fn without_a_pump_nothing_waits() {
    run(support::driver(), |_| async { fair_yield().await }).unwrap();
    with_pump(support::driver(), |_, _, done| async move {
        // A task that is parked when the pump leaves still comes to its end.
        let parked = spawn(fair_yield());
        done.set();
        parked.await;
    });
}

#[test]
fn a_task_that_wakes_itself_starves_the_timers() {
    run(support::driver(), |_| async {
        let fired = Rc::new(Cell::new(false));
        let timer = spawn({
            let fired = fired.clone();
            async move {
                sleep(Duration::from_millis(1)).await;
                fired.set(true);
            }
        });
        let mut rounds = 0;
        let starved = spawn({
            let fired = fired.clone();
            poll_fn(move |context| {
                rounds += 1;
                thread::sleep(Duration::from_micros(100));
                if rounds == 100 {
                    return Poll::Ready(!fired.get());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
        });
        assert!(starved.await, "the timer was long due");
        timer.await;
        assert!(fired.get());
    })
    .unwrap();
}
