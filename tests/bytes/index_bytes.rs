//! Set-up: engines store, evict and leave, from seeded payloads, under an allocator that counts the bytes that
//! each thread holds.
//! Claim: what a shard says it owns is what the allocator has handed out, within [`PART`]; it stays flat
//! over rounds of stores and removals, and is back at its start value when everybody has left.

use crate::counting::live;
use crate::fleet::{self, Engine, Fleet, Payload, fleet_texts, side_by_side, text};

/// Most that the shard's own count may differ from the allocator's, as a part of it.
const PART: f64 = 0.01;
/// Bytes beyond that, a shard: scratch of walks and events, maps of contexts.
const ONCE: f64 = 16.0 * 1024.0;
/// Bytes beyond that, an engine: its registration, statistics and lanes.
const AN_ENGINE: f64 = 2048.0;

/// A fleet, and what there was when it began.
struct Watched {
    fleet: Fleet,
    live: isize,
}

impl Watched {
    /// The batch that decodes has its full size before the watch begins.
    fn new(engines: usize, payloads: &[&[Payload]]) -> Self {
        let mut fleet = Fleet::new(0);
        for payload in payloads.iter().copied().flatten() {
            fleet.decode(payload);
        }
        let mut watched = Self { fleet, live: live() };
        assert_eq!(watched.fleet.shard.owned_bytes(), 0);
        watched.fleet.register(engines);
        watched
    }

    fn owned(&self) -> f64 {
        self.fleet.shard.owned_bytes() as f64
    }

    fn handed_out(&self) -> f64 {
        (live() - self.live) as f64
    }

    fn check(&self, what: &str) {
        let (owned, handed_out) = (self.owned(), self.handed_out());
        let most = PART * handed_out + ONCE + AN_ENGINE * self.fleet.stats.len() as f64;
        assert!((owned - handed_out).abs() <= most, "{what}: owns {owned}, handed out {handed_out}");
    }

    /// Bytes a (block, owner), for whoever reads.
    fn print(&self, what: &str) {
        let held = self.fleet.held() as f64;
        let (owned, handed_out) = (self.owned(), self.handed_out());
        println!(
            "{what}: {held} blocks held, {:.1} bytes each ({:.1} handed out)",
            owned / held,
            handed_out / held
        );
    }

    fn leave(mut self) {
        self.fleet.leave();
        assert_eq!(self.fleet.held(), 0);
        assert_eq!(self.fleet.shard.owned_bytes(), 0);
        self.check("all left");
    }
}

#[test]
fn unshared_chains() {
    let engine = Engine::new(0);
    let texts: Vec<_> = (0..1024).map(|chain| text(chain, 64)).collect();
    let stores = side_by_side(texts.iter().map(|text| engine.stores(text)).collect());
    let removals = side_by_side(texts.iter().map(|text| engine.removals(text)).collect());
    let mut watched = Watched::new(1, &[&stores, &removals]);
    for (part, payloads) in stores.chunks(stores.len() / 8).enumerate() {
        watched.fleet.hear(payloads);
        watched.check(&format!("{part}/8 stored"));
    }
    watched.print("unshared chains of 64");
    for (part, payloads) in removals.chunks(removals.len() / 8).enumerate() {
        watched.fleet.hear(payloads);
        watched.check(&format!("{part}/8 removed"));
    }
    assert_eq!(watched.fleet.held(), 0);
    watched.leave();
}

#[test]
fn shared_prefixes() {
    const ENGINES: usize = 64;
    // tables grow by doubling: one size just fits, the next has just grown
    let cases = [
        ("14 x 64 blocks", 14, 64, 0),
        ("15 x 64 blocks", 15, 64, 0),
        ("20 x 64 blocks", 20, 64, 0),
        ("16 x 64 blocks, then 16 of their own", 16, 64, 16),
    ];
    for (what, prefixes, prefix, own) in cases {
        let each = (0..ENGINES).map(|number| {
            let engine = Engine::new(number);
            let texts = fleet_texts(number, prefixes, prefix, own);
            texts.iter().flat_map(|text| engine.stores(text)).collect()
        });
        let stores = side_by_side(each.collect());
        let mut watched = Watched::new(ENGINES, &[&stores]);
        for payloads in stores.chunks(stores.len() / 4) {
            watched.fleet.hear(payloads);
            watched.check(what);
        }
        watched.print(&format!("64 owners share {what}"));
        watched.leave();
    }
}

#[test]
fn churn_stays_flat() {
    const CAPACITY: usize = 8192;
    let (fill, steps) = fleet::churn(0, CAPACITY, 16 * 1024);
    let mut watched = Watched::new(1, &[&fill, &steps]);
    watched.fleet.hear(&fill);
    let mut owned = Vec::new();
    for payloads in steps.chunks(steps.len() / 16) {
        watched.fleet.hear(payloads);
        assert_eq!(watched.fleet.held(), CAPACITY as u64);
        watched.check("churn");
        owned.push(watched.owned());
    }
    watched.print("churn");
    let (early, late) = owned.split_at(owned.len() / 2);
    let most = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
    let (early, late) = (most(early), most(late));
    assert!(late <= early * 1.05, "owned grows: {owned:?}");
    watched.leave();
}

#[test]
fn rounds_of_everything_leave_nothing_behind() {
    let engine = Engine::new(0);
    let rounds = (0..12).map(|round| {
        // texts of this round and of the last one come back, in another order
        let texts: Vec<_> = (0..160).map(|chain| text((round / 2 * 1000) + chain, 53)).collect();
        let stores = side_by_side(texts.iter().map(|text| engine.stores(text)).collect());
        let removals = texts.iter().rev().map(|text| engine.removals(text));
        (stores, side_by_side(removals.collect()))
    });
    let rounds: Vec<_> = rounds.collect();
    let all: Vec<&[Payload]> =
        rounds.iter().flat_map(|(stores, removals)| [&stores[..], &removals[..]]).collect();
    let mut watched = Watched::new(1, &all);
    let mut left = Vec::new();
    for (stores, removals) in &rounds {
        watched.fleet.hear(stores);
        watched.check("stored");
        watched.fleet.hear(removals);
        assert_eq!(watched.fleet.held(), 0);
        watched.check("removed");
        left.push(watched.owned());
    }
    // what is left are blocks just removed, and they are bounded
    let most = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
    assert!(most(&left[2..]) <= most(&left[..2]) * 1.1, "owned grows: {left:?}");
    watched.leave();
}
