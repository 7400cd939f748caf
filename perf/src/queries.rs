//! Questions of every depth, with full, half and no hit, at few and many owners: all structures hold the same
//! large index and are asked in turn.

use crate::measure::in_turn;
use crate::oracle::Oracle;
use crate::report::{Better, Goal, Row};
use crate::structures::{Events, Form, Kind, Question, Structure};
use crate::texts::{Node, Random, Texts};
use crate::workload::{Op, STEP, Workload, side_by_side, stores};
use std::convert::Infallible;
use std::time::Duration;

/// Blocks of the texts asked for.
const DEPTHS: [usize; 4] = [8, 64, 512, 4096];
/// Workers that hold them.
const OWNERS: [usize; 4] = [1, 8, 32, 256];
/// Most (block, owner) of one case; texts of it are chosen to fit.
const CASE_BLOCKS: usize = 1 << 18;
/// Most texts of one case.
const CASE_TEXTS: usize = 64;
/// Events applied at a time: those of many texts wait side by side.
const CHUNK: usize = 1 << 14;
/// CPU time that one measurement should take.
const MEASURED: Duration = Duration::from_millis(4);
/// Workers of the branchy texts, and blocks between two forks.
const BRANCHY: (usize, usize) = (32, 16);
/// Workers of a ragged text: each leaves it at a block of its own and goes on by itself.
const RAGGED: usize = 32;

/// Some questions of one kind.
struct Case {
    name: String,
    asked: Vec<Vec<Node>>,
    goal: Option<Goal>,
    form: Form,
}

struct Built {
    workload: Workload,
    cases: Vec<Case>,
}

fn goal(depth: usize, owners: usize) -> Option<Goal> {
    match (depth, owners) {
        (8 | 64, 32) => Some(Goal::Ratio(15.0)),
        (512 | 4096, 8) => Some(Goal::Ratio(12.0)),
        (64, 256) => Some(Goal::Ratio(10.0)),
        _ => None,
    }
}

fn build(seed: u64) -> Built {
    let mut texts = Texts::new(seed);
    let mut random = Random::new(seed);
    let workers = *OWNERS.last().expect("not empty");
    let mut stored: Vec<Vec<Op>> = vec![Vec::new(); workers];
    let mut cases = Vec::new();
    for depth in DEPTHS {
        for owners in OWNERS {
            let count = (CASE_BLOCKS / (depth * owners)).clamp(1, CASE_TEXTS);
            let held: Vec<_> = (0..count).map(|_| texts.fresh(None, depth)).collect();
            for text in &held {
                let first = random.below(workers);
                for worker in (first..first + owners).map(|worker| worker % workers) {
                    stored[worker].extend(stores(worker, text));
                }
            }
            let half = |text: &Vec<Node>, texts: &mut Texts| {
                let mut half = text[..depth / 2].to_vec();
                half.extend(texts.fresh(half.last().copied(), depth - depth / 2));
                half
            };
            let halves: Vec<_> = held.iter().map(|text| half(text, &mut texts)).collect();
            let misses: Vec<_> = (0..count).map(|_| texts.fresh(None, depth)).collect();
            let mut case = |what: &str, asked: &[Vec<Node>], goal, form| {
                let name = format!("{what}, depth {depth}, {owners} owners");
                cases.push(Case { name, asked: asked.to_vec(), goal, form });
            };
            case("full hit", &held, goal(depth, owners), Form::Hashes);
            case("half hit", &halves, None, Form::Hashes);
            case("miss", &misses, Some(Goal::Ratio(2.0)), Form::Hashes);
            if owners == 8 || owners == 32 {
                case("full hit from tokens", &held, None, Form::Tokens);
                case("miss from tokens", &misses, None, Form::Tokens);
            }
        }
    }
    for depth in DEPTHS {
        let count = (CASE_BLOCKS / (depth * RAGGED)).clamp(1, CASE_TEXTS);
        let held: Vec<_> = (0..count).map(|_| texts.fresh(None, depth)).collect();
        for text in &held {
            for (worker, events) in stored.iter_mut().enumerate().take(RAGGED) {
                let leaves = (depth * (worker + 1)).div_ceil(RAGGED);
                let mut own = text[..leaves].to_vec();
                own.extend(texts.fresh(own.last().copied(), STEP));
                events.extend(stores(worker, &own));
            }
        }
        let name = format!("ragged, depth {depth}, {RAGGED} owners");
        cases.push(Case { name, asked: held, goal: None, form: Form::Hashes });
    }
    for depth in [512, 4096] {
        let (ways, events) = branchy(&mut texts, depth);
        for (worker, events) in events.into_iter().enumerate() {
            stored[worker].extend(events);
        }
        let name = format!("branchy, depth {depth}");
        cases.push(Case { name, asked: ways, goal: Some(Goal::Ratio(10.0)), form: Form::Hashes });
    }
    let ops = side_by_side(stored);
    Built { workload: Workload { workers, texts, ops }, cases }
}

/// A text with a fork every few blocks. Behind each fork stands a side branch that one worker took; half of the
/// workers leave the text for good at a fork of their own, spread over its whole length.
fn branchy(texts: &mut Texts, depth: usize) -> (Vec<Vec<Node>>, Vec<Vec<Op>>) {
    let (workers, stretch) = BRANCHY;
    let text = texts.fresh(None, depth);
    let mut ways = vec![text.clone()];
    let mut events: Vec<Vec<Op>> = Vec::new();
    for worker in 0..workers {
        let stays = if worker % 2 == 0 { depth } else { (depth * worker / workers).max(stretch) };
        events.push(stores(worker, &text[..stays]).collect());
    }
    for (fork, at) in (stretch..depth).step_by(stretch).enumerate() {
        let worker = (fork * 2) % workers;
        let side = texts.fresh(Some(text[at - 1]), stretch);
        events[worker].extend(stores(worker, &side));
        if fork % (depth / stretch / 8) == 0 {
            ways.push([&text[..at], &side].concat());
        }
    }
    (ways, events)
}

/// The questions in whose name one of `only` stands, or all, asked of all structures in turn.
pub fn queries(kinds: &[Kind], rounds: usize, seed: u64, only: &[String]) -> Vec<Row> {
    let Built { workload, mut cases } = build(seed);
    cases.retain(|case| only.is_empty() || only.iter().any(|text| case.name.contains(text.as_str())));
    let oracle = Oracle::after(&workload);
    eprintln!("query: {} workers, {} (block, owner) held", workload.workers, oracle.blocks());
    let mut structures: Vec<Box<dyn Structure>> =
        kinds.iter().map(|kind| kind.build(workload.workers)).collect();
    for ops in workload.ops.chunks(CHUNK) {
        let events = Events::of(ops, &workload.texts);
        for structure in &mut structures {
            structure.apply(&events, 0..events.len());
        }
    }
    let mut rows = Vec::new();
    for case in cases {
        let questions: Vec<_> = case.asked.iter().map(|text| Question::of(text, &workload.texts)).collect();
        let wrong = structures.iter_mut().map(|structure| {
            let answers = case.asked.iter().zip(&questions);
            let wrong = answers.filter(|(text, question)| structure.ask(question) != oracle.answer(text));
            (wrong.count(), questions.len())
        });
        let wrong: Vec<_> = wrong.collect();
        let times: Vec<usize> = structures
            .iter_mut()
            .map(|structure| {
                structure.time(&questions, case.form, 1);
                let once = structure.time(&questions, case.form, 3) / 3;
                (MEASURED.as_nanos() / once.as_nanos().max(1)).clamp(1, 1 << 20) as usize
            })
            .collect();
        let Ok([figures]) = in_turn(rounds, kinds, |kind| {
            let at = kinds.iter().position(|other| *other == kind).expect("one of them");
            let taken = structures[at].time(&questions, case.form, times[at]);
            Ok::<_, Infallible>([taken.as_secs_f64() * 1e6 / (times[at] * questions.len()) as f64])
        });
        let row = Row::new("query", &case.name, "us", Better::Less, figures).with_wrong(wrong);
        rows.push(match case.goal {
            Some(goal) => row.with_goal(goal),
            None => row,
        });
    }
    rows
}
