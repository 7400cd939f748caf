//! The index of one shard: events applied from msgpack bytes, and prefixes walked.

#[path = "support/fleet.rs"]
mod fleet;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fleet::{BLOCK, Engine, Fleet, Payload, STEP, continued, fleet_texts, side_by_side, text};
use kvatlas::index::hash::{DEFAULT_SEED, Path, sequence_hashes};
use kvatlas::index::walk::Filter;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Texts that one engine stores.
const CHAINS: usize = 4096;
/// Blocks of each.
const CHAIN: usize = 64;
/// Blocks of the cache that evicts.
const CAPACITY: usize = 1 << 16;
/// Steps measured of it: stores and removals of [`STEP`] blocks.
const CHURN_STEPS: usize = 1 << 13;
/// Engines of the fleet, prefixes they share, blocks of a prefix, blocks behind it on each engine.
const FLEET: (usize, usize, usize, usize) = (64, 32, 64, 16);

/// A workload: a fleet that has heard something before, and what it hears while the clock runs.
struct Work {
    engines: usize,
    before: Vec<Payload>,
    timed: Vec<Payload>,
    /// Blocks stored and removed while the clock runs.
    blocks: u64,
    /// Blocks held in the end.
    held: u64,
}

impl Work {
    fn prepared(&self) -> Fleet {
        let mut fleet = Fleet::new(self.engines);
        fleet.hear(&self.before);
        fleet
    }
}

fn chains() -> Work {
    let engine = Engine::new(0);
    let timed = side_by_side((0..CHAINS).map(|chain| engine.stores(&text(chain as u64, CHAIN))).collect());
    let blocks = (CHAINS * CHAIN) as u64;
    Work { engines: 1, before: Vec::new(), timed, blocks, held: blocks }
}

fn removal() -> Work {
    let engine = Engine::new(0);
    let removals = (0..CHAINS).map(|chain| engine.removals(&text(chain as u64, CHAIN)));
    Work { before: chains().timed, timed: side_by_side(removals.collect()), held: 0, ..chains() }
}

fn churn() -> Work {
    let (before, timed) = fleet::churn(0, CAPACITY, CHURN_STEPS);
    let held = CAPACITY as u64;
    Work { engines: 1, before, timed, blocks: (2 * CHURN_STEPS * STEP) as u64, held }
}

fn shared() -> Work {
    let (engines, prefixes, prefix, own) = FLEET;
    let each = (0..engines).map(|number| {
        let engine = Engine::new(number);
        fleet_texts(number, prefixes, prefix, own).iter().flat_map(|text| engine.stores(text)).collect()
    });
    let timed = side_by_side(each.collect());
    let blocks = (engines * prefixes * (prefix + own)) as u64;
    Work { engines, before: Vec::new(), timed, blocks, held: blocks }
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apply");
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    let works = [("store", chains()), ("churn", churn()), ("remove", removal()), ("shared by 64", shared())];
    for (name, work) in works {
        group.throughput(Throughput::Elements(work.blocks));
        let mut fleet = work.prepared();
        fleet.hear(&work.timed);
        assert_eq!(fleet.held(), work.held, "{name}");
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                let mut taken = Duration::ZERO;
                for _ in 0..rounds {
                    let mut fleet = work.prepared();
                    let start = Instant::now();
                    fleet.hear(&work.timed);
                    taken += start.elapsed();
                    assert_eq!(fleet.held(), work.held);
                }
                taken
            });
        });
        let decoded = format!("{name}, decoding alone");
        group.bench_function(decoded, |bencher| {
            bencher.iter(|| work.timed.iter().for_each(|payload| fleet.decode(payload)));
        });
    }
    group.finish();
}

/// A fleet that holds some texts, each on all engines.
fn holding(engines: usize, texts: &[Vec<u32>]) -> Fleet {
    let mut fleet = Fleet::new(engines);
    for number in 0..engines {
        let engine = Engine::new(number);
        for text in texts {
            fleet.hear(&engine.stores(text));
        }
    }
    fleet
}

fn ask(fleet: &mut Fleet, context: u32, hashes: &[u64]) -> (usize, u32) {
    fleet.shard.query(&[context], &mut Path::of_hashes(hashes), Filter::ALL);
    found(fleet)
}

fn ask_tokens(fleet: &mut Fleet, context: u32, tokens: &[u32], scratch: &mut Vec<u64>) -> (usize, u32) {
    let mut path = Path::of_tokens(tokens, &[], BLOCK as u32, DEFAULT_SEED, scratch);
    fleet.shard.query(&[context], &mut path, Filter::ALL);
    found(fleet)
}

/// Instances found, and the longest walk among them.
fn found(fleet: &Fleet) -> (usize, u32) {
    let hits = fleet.shard.answer().hits();
    (hits.len(), hits.map(|hit| hit.longest).max().unwrap_or(0))
}

fn walk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("walk");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(700));
    for depth in [8, 64, 512, 4096] {
        for owners in [1, 8, 32, 256] {
            let held = text(1, depth);
            let mut fleet = holding(owners, std::slice::from_ref(&held));
            let context = fleet.context();
            let half = continued(&held[..depth / 2 * BLOCK], 2, depth / 2);
            let case = format!("{depth}x{owners}");
            let all = (owners, depth as u32);
            let cases = [
                ("full", &held, all),
                ("half", &half, (owners, depth as u32 / 2)),
                ("miss", &text(3, depth), (0, 0)),
            ];
            for (name, asked, expected) in cases {
                let hashes = sequence_hashes(asked, BLOCK, DEFAULT_SEED);
                assert_eq!(ask(&mut fleet, context, &hashes), expected, "{name} {case}");
                group.bench_function(BenchmarkId::new(name, &case), |bencher| {
                    bencher.iter(|| ask(&mut fleet, context, black_box(&hashes)));
                });
            }
            let mut scratch = Vec::new();
            assert_eq!(ask_tokens(&mut fleet, context, &held, &mut scratch), all);
            group.bench_function(BenchmarkId::new("full, tokens", &case), |bencher| {
                bencher.iter(|| ask_tokens(&mut fleet, context, black_box(&held), &mut scratch));
            });
        }
    }
    group.finish();
}

/// Blocks between two forks of the tree, forks at each, levels.
const TREE: (usize, usize, usize) = (8, 4, 5);

/// Every way from the root of the tree to a leaf.
fn tree() -> Vec<Vec<u32>> {
    let (stretch, forks, levels) = TREE;
    let mut ways = vec![Vec::new()];
    for level in 0..levels as u64 {
        let longer = ways.iter().zip(0_u64..).flat_map(|(way, number)| {
            (0..forks as u64).map(move |fork| {
                let seed = level << 32 | number << 8 | fork;
                continued(way, 1 << 60 | seed, stretch)
            })
        });
        ways = longer.collect();
    }
    ways
}

fn branches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tree");
    let ways = tree();
    let (stretch, _, levels) = TREE;
    for owners in [1, 32] {
        let mut fleet = Fleet::new(owners);
        for number in 0..owners {
            let engine = Engine::new(number);
            // each engine comes by another way first, so that runs fork at every level
            for at in 0..ways.len() {
                fleet.hear(&engine.stores(&ways[(at + number * 37) % ways.len()]));
            }
        }
        let context = fleet.context();
        let asked: Vec<Vec<u64>> = ways.iter().map(|way| sequence_hashes(way, BLOCK, DEFAULT_SEED)).collect();
        for hashes in &asked {
            assert_eq!(ask(&mut fleet, context, hashes), (owners, (stretch * levels) as u32));
        }
        let mut at = 0;
        group.bench_function(
            BenchmarkId::new("any leaf", format!("{}x{owners}", stretch * levels)),
            |bencher| {
                bencher.iter(|| {
                    at = (at + 389) % asked.len();
                    ask(&mut fleet, context, &asked[at])
                });
            },
        );
    }
    group.finish();
}

/// A publisher goes: per block.
fn leave(criterion: &mut Criterion) {
    let work = shared();
    let mut group = criterion.benchmark_group("leave");
    group.sample_size(10).throughput(Throughput::Elements(work.blocks));
    group.bench_function("all 64", |bencher| {
        bencher.iter_batched_ref(
            || {
                let mut fleet = work.prepared();
                fleet.hear(&work.timed);
                fleet
            },
            |fleet| {
                fleet.leave();
                assert_eq!(fleet.held(), 0);
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, apply, walk, branches, leave);
criterion_main!(benches);
