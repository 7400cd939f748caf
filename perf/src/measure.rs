//! Stores, removals, bytes and answers, all structures in turn.

use crate::counting::kept_by;
use crate::oracle::Oracle;
use crate::report::{Better, Goal, Row};
use crate::structures::{Events, Kind, Question, Structure};
use crate::texts::{Names, Texts};
use crate::trace::{self, Load};
use crate::workload::{self, Op, Size, Trouble, Workload};
use std::convert::Infallible;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Events between two questions of the synthetic workload.
const QUESTION_EVERY: usize = 32;
/// Events applied at a time while bytes are counted, so that queues weigh nothing.
const COUNTED: usize = 256;
/// Steps of the workload of troubles.
const TROUBLES: usize = 4000;

/// The middle of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) }
}

/// Medians of `N` figures a structure: every round asks each structure once, so that all see the same machine.
///
/// # Errors
/// Whatever a measurement fails with.
pub fn in_turn<const N: usize, K: Copy, E>(
    rounds: usize,
    kinds: &[K],
    mut once: impl FnMut(K) -> Result<[f64; N], E>,
) -> Result<[Vec<f64>; N], E> {
    let mut all: Vec<Vec<[f64; N]>> = vec![Vec::new(); kinds.len()];
    for round in 0..rounds {
        for turn in 0..kinds.len() {
            let at = (turn + round) % kinds.len();
            all[at].push(once(kinds[at])?);
        }
    }
    Ok(std::array::from_fn(|figure| {
        all.iter().map(|rounds| median(rounds.iter().map(|round| round[figure]).collect())).collect()
    }))
}

fn rate(blocks: usize, taken: Duration) -> f64 {
    blocks as f64 / taken.as_secs_f64() / 1e6
}

/// (wrong, all) answers of a structure to the questions among `ops`.
fn check(kind: Kind, workers: usize, texts: &Texts, ops: &[Op], events: &Events) -> (usize, usize) {
    let mut structure = kind.build(workers);
    let mut oracle = Oracle::new(workers);
    let (mut applied, mut next, mut wrong, mut asked) = (0, 0, 0, 0);
    for op in ops {
        oracle.apply(op);
        if let Op::Ask { nodes } = op {
            structure.apply(events, applied..next);
            applied = next;
            asked += 1;
            wrong += usize::from(structure.ask(&Question::of(nodes, texts)) != oracle.answer(nodes));
        } else {
            next += 1;
        }
    }
    (wrong, asked)
}

fn check_all(kinds: &[Kind], workload: &Workload, ops: &[Op], events: &Events) -> Vec<(usize, usize)> {
    kinds.iter().map(|kind| check(*kind, workload.workers, &workload.texts, ops, events)).collect()
}

/// Bytes that a structure keeps for each of `held` blocks after some events.
fn bytes(kind: Kind, workers: usize, events: &Events, which: Range<usize>, held: usize) -> f64 {
    let (_structure, kept) = kept_by(|| {
        let mut structure: Box<dyn Structure> = kind.build(workers);
        for from in which.clone().step_by(COUNTED) {
            structure.apply(events, from..which.end.min(from + COUNTED));
        }
        structure.settle();
        structure
    });
    kept as f64 / held as f64
}

/// Answers under holes, orphans and blocks that come back: each trouble alone, then all at once.
pub fn troubles(kinds: &[Kind], seed: u64) -> Vec<Row> {
    let of = |case: &str, troubles: &[Trouble]| {
        let workload = workload::troubled(seed, TROUBLES, troubles);
        let events = Events::of(&workload.ops, &workload.texts);
        let wrong = check_all(kinds, &workload, &workload.ops, &events);
        let share = |(wrong, asked): &(usize, usize)| 100.0 * *wrong as f64 / *asked as f64;
        let figures = wrong.iter().map(share).collect();
        Row::new("wrong answers", case, "%", Better::Less, figures).with_wrong(wrong).with_goal(Goal::Zero)
    };
    vec![
        of("ends evicted and back", &[Trouble::Ends]),
        of("holes and back", &[Trouble::Holes]),
        of("evicted front first and back", &[Trouble::Fronts]),
        of("children before parents", &[Trouble::Ends, Trouble::Orphans]),
        of("all of them", &Trouble::ALL),
    ]
}

/// Stores and removals of the synthetic fleet, and what it weighs.
pub fn synthetic(kinds: &[Kind], rounds: usize, seed: u64, size: Size, names: Names) -> Vec<Row> {
    let mut made = workload::synthetic(seed, size);
    made.all.texts.names = names;
    let (workload, stores) = (&made.all, made.removals);
    let events = Events::of(&workload.ops, &workload.texts);
    let blocks = workload.blocks() / 2;
    eprintln!("synthetic: {} workers, {blocks} blocks stored and removed", workload.workers);
    let asked = workload::with_questions(&workload.ops, &made.asked, QUESTION_EVERY);
    let wrong = check_all(kinds, workload, &asked, &events);
    let name = &called("synthetic", names);
    let row = |case: &str, figures: Vec<f64>| {
        Row::new(name, case, "M blocks/s", Better::More, figures).with_wrong(wrong.clone())
    };
    let Ok([stored, removed]) = in_turn(rounds, kinds, |kind| {
        let mut structure = kind.build(workload.workers);
        let stored = structure.apply(&events, 0..stores);
        let removed = structure.apply(&events, stores..events.len());
        Ok::<_, Infallible>([rate(blocks, stored), rate(blocks, removed)])
    });
    let Ok([heard, heard_gone]) = in_turn(rounds, kinds, |kind| {
        let mut structure = kind.build(workload.workers);
        let stored = structure.hear(&events.payloads[..stores]);
        let removed = structure.hear(&events.payloads[stores..]);
        Ok::<_, Infallible>([rate(blocks, stored), rate(blocks, removed)])
    });
    let full = bytes_of(kinds, workload, &events, 0..stores);
    let half = bytes_of(kinds, workload, &events, 0..stores + (events.len() - stores) / 2);
    vec![
        row("store, decoded events", stored).with_goal(Goal::Ratio(5.0)),
        row("remove, decoded events", removed).with_goal(Goal::Ratio(5.0)),
        row("store, from msgpack", heard),
        row("remove, from msgpack", heard_gone),
        Row::new(name, "bytes a (block, owner), full", "B", Better::Less, full),
        Row::new(name, "bytes a (block, owner), half removed", "B", Better::Less, half),
    ]
}

/// The name of a workload, which says so where engines name blocks by hashes of their own.
fn called(workload: &str, names: Names) -> String {
    match names {
        Names::Standard => workload.to_owned(),
        Names::Own => format!("{workload}, own hashes"),
    }
}

fn bytes_of(kinds: &[Kind], workload: &Workload, events: &Events, which: Range<usize>) -> Vec<f64> {
    let mut oracle = Oracle::new(workload.workers);
    let ops = workload.ops.iter().filter(|op| !matches!(op, Op::Ask { .. }));
    ops.take(which.end).for_each(|op| oracle.apply(op));
    kinds.iter().map(|kind| bytes(*kind, workload.workers, events, which.clone(), oracle.blocks())).collect()
}

/// A conversation trace: stores and removals together, and what is kept after the churn.
///
/// # Errors
/// The trace cannot be read.
pub fn traced(
    kinds: &[Kind],
    rounds: usize,
    file: &Path,
    load: Load,
    names: Names,
) -> Result<Vec<Row>, String> {
    let open = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut workload = trace::play(BufReader::new(open), load)?;
    workload.texts.names = names;
    let events = Events::of(&workload.ops, &workload.texts);
    let blocks = workload.blocks();
    let name = called(&format!("trace, {} workers", load.workers), names);
    eprintln!("{name}: {blocks} blocks stored and removed in {} events", events.len());
    let wrong = check_all(kinds, &workload, &workload.ops, &events);
    let Ok([applied, heard]) = in_turn(rounds, kinds, |kind| {
        let all = 0..events.len();
        let applied = kind.build(load.workers).apply(&events, all);
        let heard = kind.build(load.workers).hear(&events.payloads);
        Ok::<_, Infallible>([rate(blocks, applied), rate(blocks, heard)])
    });
    let kept = bytes_of(kinds, &workload, &events, 0..events.len());
    let row = |case: &str, figures| {
        Row::new(&name, case, "M blocks/s", Better::More, figures).with_wrong(wrong.clone())
    };
    let after = "bytes a (block, owner), after churn";
    Ok(vec![
        row("store and remove, decoded events", applied).with_goal(Goal::Ratio(3.0)),
        row("store and remove, from msgpack", heard),
        Row::new(&name, after, "B", Better::Less, kept.clone())
            .with_goal(Goal::RatioTo(Kind::Compressed.name(), 6.0)),
        Row::new(&name, "the same, against a fixed goal", "B", Better::Less, kept)
            .with_goal(Goal::Below(24.0)),
    ])
}
