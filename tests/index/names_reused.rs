//! Set-up: two engines that draw their block hashes from a few numbers: every number soon stands for several blocks and
//! every block has several numbers. Stores begin at the root of one of three texts, two of which share their first
//! blocks; removals name whatever they like.
//! Claim: after every event each engine is answered as a naive ledger says (a block is held while a name that denotes
//! it has a copy), a dump names only blocks that are held, and nothing a publisher does makes the shard forget
//! blocks that it has just placed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::shard::registration;
use kvatlas::event::{self, Batch};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash::{self, DEFAULT_SEED, Path};
use kvatlas::index::shard::{Shard, base_key};
use kvatlas::index::walk::Filter;
use kvatlas::wire::engine::{EngineBatch, EngineEvent, Hash, Removed, Stamp, Stored, encode_batch};
use kvatlas::wire::family::Family;
use proptest::prelude::*;

/// Blocks of a text; a block is one token.
const BLOCKS: u32 = 48;
const TEXTS: usize = 3;

fn text(number: usize) -> Vec<u32> {
    let token = |at| match number {
        2 if at < 16 => at,
        _ => number as u32 * 100 + at,
    };
    (0..BLOCKS).map(token).collect()
}

#[derive(Clone, Debug)]
enum Op {
    /// The first blocks of a text, under these names.
    Store(usize, Vec<u64>),
    Remove(Vec<u64>),
}

use Op::{Remove, Store};

/// One engine's names: copies, and the blocks denoted by them, as (rolling) hashes.
#[derive(Default)]
struct Ledger(HashMap<u64, (u32, BTreeSet<u64>)>);

impl Ledger {
    fn apply(&mut self, op: &Op, seqs: &[Vec<u64>]) {
        match op {
            Store(text, names) => {
                for (name, seq) in names.iter().zip(&seqs[*text]) {
                    let (copies, denoted) = self.0.entry(*name).or_default();
                    if *copies == 0 {
                        denoted.clear();
                    }
                    *copies += 1;
                    denoted.insert(*seq);
                }
            }
            Remove(names) => {
                for name in names {
                    if let Some((copies, _)) = self.0.get_mut(name) {
                        *copies = copies.saturating_sub(1);
                    }
                }
            }
        }
    }

    fn held(&self) -> BTreeSet<u64> {
        let live = self.0.values().filter(|(copies, _)| *copies > 0);
        live.flat_map(|(_, denoted)| denoted.iter().copied()).collect()
    }
}

struct World {
    shard: Shard,
    engines: Vec<(u32, Ledger)>,
    /// Rolling hashes of the texts.
    seqs: Vec<Vec<u64>>,
}

impl World {
    fn new() -> Self {
        let mut shard = Shard::new(DEFAULT_SEED);
        let register =
            |name: &&str| shard.add_publisher(Arc::new(registration(name)), Arc::default()).unwrap();
        let numbers: Vec<u32> = ["a", "b"].iter().map(register).collect();
        let engines = numbers.into_iter().map(|number| (number, Ledger::default())).collect();
        let seqs = (0..TEXTS).map(|number| {
            let mut previous = None;
            let mut roll = |token: u32| {
                let next = hash::next(previous, hash::local(&[token], DEFAULT_SEED), DEFAULT_SEED);
                previous = Some(next);
                next
            };
            text(number).into_iter().map(&mut roll).collect()
        });
        Self { shard, engines, seqs: seqs.collect() }
    }

    fn apply(&mut self, engine: usize, op: &Op, budget: usize) {
        let spell = |names: &[u64]| names.iter().map(|name| Hash::Unsigned(*name)).collect::<Vec<_>>();
        let tokens;
        let names;
        let event = match op {
            Store(number, of) => {
                tokens = text(*number)[..of.len()].to_vec();
                names = spell(of);
                let stored = Stored::plain(&names, None, &tokens, 1);
                EngineEvent::Stored(Stored { medium: Some("GPU"), ..stored })
            }
            Remove(of) => {
                names = spell(of);
                EngineEvent::Removed(Removed::plain(&names, Some("GPU")))
            }
        };
        let family = Family::named("vllm-0.33.0").unwrap();
        let batch = EngineBatch { stamp: Stamp::Seconds(0.0), events: &[event], rank: None };
        let payload = encode_batch(family, &batch);
        let mut batch = Batch::default();
        event::decode(&payload, &mut batch).unwrap();
        let mut cursor = Cursor::default();
        while !self.shard.apply(self.engines[engine].0, &payload, &batch, &mut cursor, budget) {}
        self.engines[engine].1.apply(op, &self.seqs);
    }

    fn check(&mut self) {
        let context = self.shard.find_context(&base_key(&registration("a"))).unwrap();
        let held: Vec<BTreeSet<u64>> = self.engines.iter().map(|(_, ledger)| ledger.held()).collect();
        for seqs in &self.seqs {
            self.shard.query(&[context], &mut Path::of_hashes(seqs), Filter::ALL);
            for (name, held) in ["a", "b"].iter().zip(&held) {
                let instance = self.shard.find_instance(name).unwrap();
                let found = self.shard.answer().hits().find(|hit| hit.instance == instance);
                let expected = seqs.iter().take_while(|seq| held.contains(seq)).count();
                assert_eq!(found.map_or(0, |hit| hit.longest as usize), expected, "engine {name}");
            }
        }
        for mapping in self.shard.mappings(usize::MAX) {
            let held = &held[usize::from(mapping.instance == "b")];
            assert!(mapping.mappings.iter().all(|(_, seq)| held.contains(seq)), "a dump names what is held");
        }
    }
}

/// What first showed it: a name taken back from a run whose new blocks nobody holds yet.
#[test]
fn blocks_just_placed_are_kept() {
    let ops = [
        Store(1, vec![12, 2, 20, 22, 6, 19, 29, 11, 9, 26, 10, 16]),
        Remove(vec![20, 16, 29, 12, 19, 2]),
        Store(1, vec![10, 21, 9, 6, 14, 27, 23]),
        Remove(vec![10, 14, 21, 26, 9, 6]),
        Remove(vec![22, 6, 23, 9, 10]),
        Store(2, vec![9, 21]),
        Store(2, vec![7027, 10, 9, 7024, 14, 6]),
        Store(0, vec![7031, 7030, 19, 23]),
        Remove(vec![27, 11]),
        Store(1, vec![7037, 7036, 27, 7034, 7033, 16]),
        Store(0, vec![7042, 22, 7040, 26, 29]),
        Store(2, vec![22, 29, 7046, 7045, 2, 6]),
        Store(1, vec![20, 7055, 7054, 7053, 6, 10, 7050, 2, 5000]),
    ];
    for budget in [1, 3, 64] {
        let mut world = World::new();
        for op in &ops {
            world.apply(0, op, budget);
            world.check();
        }
    }
}

fn ops(names: u64) -> impl Strategy<Value = Vec<(usize, Op, usize)>> {
    let few = |most: usize| {
        let all: Vec<u64> = (0..names).collect();
        (proptest::sample::subsequence(all, 1..=most), any::<prop::sample::Index>()).prop_map(
            |(mut some, by)| {
                // an event names a block once, in any order
                let by = by.index(some.len());
                some.rotate_left(by);
                some.reverse();
                some
            },
        )
    };
    let op = prop_oneof![
        3 => (0..TEXTS, few(16)).prop_map(|(text, names)| Store(text, names)),
        2 => few(8).prop_map(Remove),
    ];
    proptest::collection::vec((0..2_usize, op, 1..20_usize), 1..150)
}

proptest! {
    #[test]
    fn answers_are_those_of_a_ledger(ops in (17_u64..60).prop_flat_map(ops)) {
        let mut world = World::new();
        for (engine, op, budget) in &ops {
            world.apply(*engine, op, *budget);
            world.check();
        }
    }
}
