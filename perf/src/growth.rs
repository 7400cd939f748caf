//! What a query and a store cost our shard while it grows from one million blocks to many.

use crate::measure::median;
use crate::report::{Better, Goal, Row};
use crate::structures::ours::Ours;
use crate::structures::{Events, Form, Question, Structure};
use crate::texts::{Node, Random, Texts};
use crate::workload::{Op, side_by_side, stores};
use kvatlas::limits::HUGE_PAGES_FROM;
use kvatlas::rt::sys::allow_huge_pages;
use std::time::Duration;

/// Workers; each text is held by one of them.
const WORKERS: usize = 64;
/// Blocks of a text.
const TEXT: usize = 64;
/// Blocks stored at a time, and held when the first figures are taken.
const STEP: usize = 1 << 20;
/// Texts of a step that are asked for.
const ASKED: usize = 512;
/// Rounds of questions a measurement.
const TIMES: usize = 8;
/// Measurements, of which the middle is told: one alone takes a few milliseconds, and whoever else runs takes part.
const MEASURED: usize = 21;

fn step(seed: u64) -> (Events, Vec<Question>) {
    let mut random = Random::new(seed);
    let mut texts = Texts::new(seed);
    let mut stored: Vec<Vec<Op>> = vec![Vec::new(); WORKERS];
    let mut asked: Vec<Vec<Node>> = Vec::new();
    for number in 0..STEP / TEXT {
        let text = texts.fresh(None, TEXT);
        let worker = random.below(WORKERS);
        stored[worker].extend(stores(worker, &text));
        if number % (STEP / TEXT / ASKED) == 0 {
            asked.push(text);
        }
    }
    let questions = asked.iter().map(|text| Question::of(text, &texts)).collect();
    (Events::of(&side_by_side(stored), &texts), questions)
}

/// Grows a shard to about so many blocks; what it costs in the end over what it cost at the beginning.
pub fn growth(seed: u64, blocks: usize) -> Vec<Row> {
    let mut shard = Ours::new(WORKERS);
    let steps = (blocks / STEP).max(2);
    let mut questions: Vec<Question> = Vec::new();
    let mut measured: Vec<(f64, f64)> = Vec::new();
    for number in 0..steps {
        let (events, mut asked) = step(seed.wrapping_add(number as u64));
        let stored: Duration = shard.apply(&events, 0..events.len());
        // as a reactor does
        if shard.bytes() >= HUGE_PAGES_FROM {
            allow_huge_pages(true);
        }
        // questions from all over the index: as many a step as keeps their number the same
        let keep = ASKED / (number + 1);
        questions.truncate(ASKED - keep);
        asked.truncate(keep.max(1));
        questions.splice(0..0, asked);
        if number == 0 || number + 2 >= steps {
            shard.time(&questions, Form::Hashes, 1);
            let mut once = || shard.time(&questions, Form::Hashes, TIMES).as_secs_f64();
            let taken = median((0..MEASURED).map(|_| once()).collect());
            let query = taken * 1e6 / (TIMES * questions.len()) as f64;
            measured.push((query, stored.as_secs_f64() * 1e9 / STEP as f64));
            eprintln!("growth: {} M blocks: query {query:.3} us", number + 1);
        }
    }
    let (first, last) = (measured[0], measured[measured.len() - 1]);
    let name = format!("growth, {} M blocks over 1 M", steps * STEP / 1_000_000);
    let row = |case: &str, unit, figure| Row::new(&name, case, unit, Better::Less, vec![figure]);
    vec![
        row("query of a hit, at 1 M", "us", first.0),
        row("query of a hit, at the end", "us", last.0),
        row("query of a hit, growth", "times", last.0 / first.0).with_goal(Goal::Below(2.0)),
        row("store, first 1 M", "ns", first.1),
        row("store, last 1 M", "ns", last.1),
        row("store, growth", "times", last.1 / first.1).with_goal(Goal::Below(3.0)),
    ]
}
