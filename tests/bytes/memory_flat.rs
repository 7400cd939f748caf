//! Set-up: an engine stores and removes a million blocks under a prefix that stays; an engine restarts a thousand
//! times, and others come and go a thousand times, with blocks; all under an allocator that counts.
//! Claim: neither what the shard says it owns nor what the allocator has handed out grows: the rounds of the
//! second half need no more than those of the first.

use std::sync::Arc;

use crate::counting::live;
use crate::fleet::{Engine, Fleet, continued, registration, side_by_side, text};
use kvatlas::metrics::PublisherStats;

/// Names purged in one step.
const PURGE_STEP: usize = 256;
/// How much more the second half of all rounds may need than the first: tombstones and growth by halves.
const SLACK: f64 = 1.02;

/// Owned and handed out after every round.
struct Rounds {
    owned: Vec<f64>,
    handed_out: Vec<f64>,
}

impl Rounds {
    /// With room for all notes: they are handed out as well.
    fn new(rounds: usize) -> Self {
        Self { owned: Vec::with_capacity(rounds), handed_out: Vec::with_capacity(rounds) }
    }

    fn note(&mut self, fleet: &Fleet) {
        self.owned.push(fleet.shard.owned_bytes() as f64);
        self.handed_out.push(live() as f64);
    }

    fn are_flat(&self, what: &str) {
        let most = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
        for (name, rounds) in [("owned", &self.owned), ("handed out", &self.handed_out)] {
            let (early, late) = rounds.split_at(rounds.len() / 2);
            let (early, late) = (most(early), most(late));
            println!("{what}: {name} {early}, then {late}");
            assert!(early > 0.0 && late <= early * SLACK, "{what}: {name} grows from {early} to {late}");
        }
    }
}

/// A publisher ends and begins again, under a number of its own.
fn renew(fleet: &mut Fleet, at: usize, name: usize) {
    fleet.shard.remove_publisher(fleet.publishers[at]);
    while !fleet.shard.purge(PURGE_STEP) {}
    join(fleet, at, name);
}

fn join(fleet: &mut Fleet, at: usize, name: usize) {
    fleet.stats[at] = Arc::new(PublisherStats::default());
    let joined = fleet.shard.add_publisher(Arc::new(registration(name)), fleet.stats[at].clone());
    fleet.publishers[at] = joined.expect("there is room");
}

#[test]
fn a_million_blocks_come_and_go() {
    const ROUNDS: u64 = 140;
    const TEXTS: u64 = 75;
    const OWN: usize = 96;
    let (engine, prefix) = (Engine::new(0), text(0, 8));
    let mut fleet = Fleet::new(1);
    fleet.hear(&engine.stores(&prefix));
    let kept = fleet.held();
    let mut rounds = Rounds::new(ROUNDS as usize);
    for round in 0..ROUNDS {
        let texts: Vec<_> =
            (1..=TEXTS).map(|number| continued(&prefix, round * TEXTS + number, OWN)).collect();
        fleet.hear(&side_by_side(texts.iter().map(|text| engine.stores(text)).collect()));
        assert_eq!(fleet.held(), kept + TEXTS * OWN as u64);
        fleet.hear(&side_by_side(texts.iter().map(|text| engine.removals(text)).collect()));
        assert_eq!(fleet.held(), kept);
        rounds.note(&fleet);
    }
    let removed = fleet.stats[0].blocks_removed.get();
    assert!(removed >= 1_000_000, "{removed}");
    rounds.are_flat("a million blocks");
}

#[test]
fn a_thousand_restarts() {
    let (stays, restarts) = (Engine::new(0), Engine::new(1));
    let (prefix, mut fleet) = (text(0, 16), Fleet::new(2));
    fleet.hear(&stays.stores(&prefix));
    let mut rounds = Rounds::new(1000);
    for round in 0..1000 {
        let held = continued(&prefix, 1 + round, 48);
        fleet.hear(&restarts.stores(&held));
        assert_eq!(fleet.stats[1].blocks_held.get(), 64);
        renew(&mut fleet, 1, 1);
        assert_eq!(fleet.shard.sizes(), (1, 1), "the prefix stays whole");
        rounds.note(&fleet);
    }
    rounds.are_flat("restarts");
}

#[test]
fn a_thousand_guests() {
    const GUESTS: usize = 4;
    let engines: Vec<_> = (0..=GUESTS).map(Engine::new).collect();
    let (prefix, mut fleet) = (text(0, 16), Fleet::new(1 + GUESTS));
    fleet.hear(&engines[0].stores(&prefix));
    let mut rounds = Rounds::new(1000);
    for round in 0..1000 {
        for (at, engine) in engines.iter().enumerate().skip(1) {
            // each is an instance that was never heard of
            renew(&mut fleet, at, 1 + round * GUESTS + at);
            let held = continued(&prefix, (1 + round * GUESTS + at) as u64, 16);
            fleet.hear(&engine.stores(&held));
        }
        assert_eq!(fleet.held(), 16 + 32 * GUESTS as u64);
        rounds.note(&fleet);
    }
    rounds.are_flat("guests");
    fleet.leave();
    assert_eq!(fleet.shard.owned_bytes(), 0);
}
