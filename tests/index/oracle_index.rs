//! Set-up: a handful of publishers (engines that hash alike, hash apart, hash by a seed of the moment, hash without
//! chaining, name one block twice, use another engine's names for other blocks; pools; standard-hash engines) of
//! some instances send random stores, removals, placeholders, clears
//! and orphans into one shard, in steps of random size; or a crowd of engines that mostly store the same texts on one
//! medium.
//! Claim: after every event each query answers exactly as the naive model does, also one of two contexts at once, and when everybody has left,
//! the shard owns as many bytes as in the beginning.

mod blank;
mod check;
mod dice;
mod model;

use crate::shard::registration;
use blank::blank_store;
use dice::Dice;
use kvatlas::event::{Batch, Clear, Envelope, Event, Remove, Slice, Span, Store};
use kvatlas::index::apply::Cursor;
use kvatlas::index::hash;
use kvatlas::index::publisher::{Class, Registration};
use kvatlas::index::shard::Shard;
use kvatlas::metrics::PublisherStats;
use model::{Lane, Model};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

const SEED: u64 = 1337;
const BLOCK: usize = 2;
/// A prefix, one symbol a block.
type Symbols = Vec<u8>;

/// How an engine hashes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hashing {
    /// Chained, with a seed of its own or a shared one; the salt is part of the root.
    Chained(u64),
    /// Chained, but the salt is ignored: one name stands in several contexts.
    Saltless(u64),
    /// Over the block's tokens alone: one name stands at several places.
    Content,
    /// Chained, and the look-ahead makes two names of one block.
    Lookahead,
    /// The contract's own hashes; sends no tokens.
    Standard,
    /// The contract's own hashes, with tokens: the salt is ignored, too.
    Rolling,
    /// Chained with a seed that every restart draws anew.
    Seeded(u64),
    /// The names of `Chained(1)`, for other blocks.
    Impostor,
}

struct Sender {
    hashing: Hashing,
    pool: bool,
    rank: u32,
    number: u32,
    stats: Arc<PublisherStats>,
}

/// Salts of the contexts that root events choose from.
const SALTS: [&str; 2] = ["", "salt"];

fn tokens(symbols: &[u8]) -> Vec<u32> {
    symbols.iter().flat_map(|symbol| (0..BLOCK as u32).map(move |at| u32::from(*symbol) * 10 + at)).collect()
}

fn locals(symbols: &[u8]) -> Vec<u64> {
    symbols.iter().map(|symbol| hash::local(&tokens(&[*symbol]), SEED)).collect()
}

fn seqs(symbols: &[u8]) -> Vec<u64> {
    let mut seq = None;
    locals(symbols)
        .into_iter()
        .map(|local| {
            let next = hash::next(seq, local, SEED);
            seq = Some(next);
            next
        })
        .collect()
}

struct World {
    shard: Shard,
    model: Model,
    senders: Vec<Sender>,
    dice: Dice,
    payload: Vec<u8>,
    /// Many engines, each with one medium, but for a few.
    crowd: bool,
}

/// Engines of a crowd: more than are compared at once anywhere.
const CROWD: usize = 21;

impl World {
    fn new(seed: u64) -> Self {
        let mut world = World {
            shard: Shard::new(SEED),
            model: Model::new(SEED),
            senders: Vec::new(),
            dice: Dice(seed),
            payload: Vec::new(),
            crowd: false,
        };
        let cast = [
            ("i0", 0, false, Hashing::Chained(1)),
            ("i0", 1, false, Hashing::Chained(1)),
            ("i0", 0, true, Hashing::Standard),
            ("i1", 0, false, Hashing::Chained(2)),
            ("i1", 0, true, Hashing::Standard),
            ("i2", 3, false, Hashing::Standard),
            ("i2", 4, false, Hashing::Content),
            ("i1", 7, false, Hashing::Lookahead),
            ("i3", 0, false, Hashing::Saltless(3)),
            ("i3", 1, false, Hashing::Chained(1)),
            ("i4", 0, false, Hashing::Seeded(seed | 1)),
            ("i2", 5, false, Hashing::Impostor),
            ("i4", 1, false, Hashing::Rolling),
            ("i0", 2, false, Hashing::Rolling),
        ];
        for (instance, rank, pool, hashing) in cast {
            world.register(instance, rank, pool, hashing);
        }
        world
    }

    fn crowd(seed: u64) -> Self {
        let (shard, model) = (Shard::new(SEED), Model::new(SEED));
        let (senders, payload) = (Vec::new(), Vec::new());
        let mut world = World { shard, model, senders, dice: Dice(seed), payload, crowd: true };
        for number in 0..CROWD {
            world.register(&format!("i{number}"), 0, false, Hashing::Chained(1));
        }
        world
    }

    fn register(&mut self, instance: &str, rank: u32, pool: bool, hashing: Hashing) {
        let stats = Arc::new(PublisherStats::default());
        let registration = Registration {
            rank,
            class: if pool { Class::Pool } else { Class::Engine },
            block_size: BLOCK as u32,
            standard_hashes: hashing == Hashing::Standard,
            ..registration(instance)
        };
        let number = self.shard.add_publisher(Arc::new(registration), stats.clone()).expect("registers");
        self.senders.push(Sender { hashing, pool, rank, number, stats });
        let publisher = model::Publisher::new(instance, rank, pool);
        self.model.publishers.push(Some(publisher));
    }

    fn names(&mut self, at: usize, symbols: &[u8], salt: usize) -> Vec<u64> {
        let chained = |seed: u64, salt: usize| {
            let mut previous = seed.wrapping_mul(77).wrapping_add(salt as u64);
            symbols
                .iter()
                .map(|symbol| {
                    previous = hash::rolling(previous, u64::from(*symbol), seed);
                    previous
                })
                .collect::<Vec<u64>>()
        };
        match self.senders[at].hashing {
            Hashing::Chained(seed) | Hashing::Seeded(seed) => chained(seed, salt),
            Hashing::Impostor => chained(1, salt),
            Hashing::Saltless(seed) => chained(seed, 0),
            Hashing::Content => symbols.iter().map(|symbol| 1000 + u64::from(*symbol)).collect(),
            Hashing::Lookahead => {
                let last = self.dice.roll(2) as u64;
                let mut names = chained(9, salt);
                if let Some(name) = names.last_mut() {
                    *name ^= last;
                }
                names
            }
            Hashing::Standard | Hashing::Rolling => seqs(symbols),
        }
    }

    fn span(&mut self, text: &str) -> Span {
        let start = self.payload.len();
        self.payload.extend_from_slice(text.as_bytes());
        Span::new(start, text.len())
    }

    fn medium(&mut self, at: usize) -> &'static str {
        match self.senders[at].hashing {
            // where one name stands at several places, a single lane keeps "the latest" plain
            Hashing::Content | Hashing::Saltless(_) | Hashing::Rolling => "GPU",
            _ if self.crowd && !self.dice.one_in(40) => "GPU",
            _ => ["GPU", "CPU", "DISK", "GPU", "MARS"][self.dice.roll(5)],
        }
    }

    fn lane(&mut self, at: usize) -> Lane {
        let pool = self.senders[at].pool;
        let other =
            !pool && !self.crowd && self.senders[at].hashing == Hashing::Chained(1) && self.dice.one_in(4);
        let rank = if pool { 0 } else { self.senders[at].rank + u32::from(other) };
        let backend = if pool { ["b0", "b1"][self.dice.roll(2)] } else { "" };
        (rank, backend.to_owned(), self.medium(at).to_owned())
    }

    fn envelope(&mut self, lane: &Lane, batch: &mut Batch) -> Option<u32> {
        if lane.1.is_empty() {
            return None;
        }
        let backend_id = self.span(&lane.1);
        batch.envelopes.push(Envelope {
            event_id: None,
            model_name: Span::NONE,
            block_size: None,
            additional_salt: Span::NONE,
            lora_name: Span::NONE,
            tenant_id: Span::NONE,
            backend_id,
            group_id: Span::NONE,
            dp_rank: None,
            object_key: Span::NONE,
            has_object_key: false,
            connector_hash: Span::NONE,
            base_block_idx: None,
            tp_rank: None,
        });
        Some(batch.envelopes.len() as u32 - 1)
    }

    fn apply(&mut self, at: usize, lane: &Lane, mut batch: Batch) {
        batch.dp_rank = Some(lane.0);
        let mut cursor = Cursor::default();
        for step in 0.. {
            let budget = 1 + self.dice.roll(4);
            if self.shard.apply(self.senders[at].number, &self.payload, &batch, &mut cursor, budget) {
                break;
            }
            assert!(step < 10_000, "a batch ends");
        }
        self.payload.clear();
    }

    /// Most of a crowd store one text, some of them only its first blocks.
    fn flood(&mut self) {
        let path = self.dice.path(7, 5);
        for at in 0..self.senders.len() {
            if !self.dice.one_in(5) {
                let blocks = if self.dice.one_in(4) { 1 + self.dice.roll(path.len()) } else { path.len() };
                self.store_path(at, 0, &path[..blocks], 0);
            }
        }
    }

    fn store(&mut self) {
        let at = self.dice.roll(self.senders.len());
        // a name without chaining stands at several places of one context; which one a salt means is open
        let plain = matches!(self.senders[at].hashing, Hashing::Content | Hashing::Standard);
        let salts = if plain { 1 } else { SALTS.len() };
        let salt = self.dice.roll(salts);
        let path = self.dice.path(7, 5);
        let from = if self.dice.one_in(3) { self.dice.roll(path.len()) } else { 0 };
        self.store_path(at, salt, &path, from);
    }

    fn store_path(&mut self, at: usize, salt: usize, path: &[u8], mut from: usize) {
        let lane = self.lane(at);
        let plain = matches!(self.senders[at].hashing, Hashing::Content | Hashing::Standard);
        let mut names = self.names(at, path, salt);
        // which of its places a waiting unchained name will mean is open: no orphans there
        if plain && from > 0 && self.model.denotes(at, names[from - 1]).is_empty() {
            from = 0;
        }
        if self.dice.one_in(25) {
            // a repeat, or a block that names itself as parent
            let (one, other) = (self.dice.roll(names.len()), self.dice.roll(names.len()));
            names[one] = names[other];
        }
        let parent = from.checked_sub(1).map(|above| names[above]);
        let symbols = &path[from..];
        let names = names[from..].to_vec();
        let blocks: Symbols = match self.senders[at].hashing {
            Hashing::Impostor => symbols.iter().map(|symbol| (symbol + 1) % 5).collect(),
            _ => symbols.to_vec(),
        };
        let mut batch = Batch { hashes: names.clone(), tokens: tokens(&blocks), ..Batch::default() };
        let standard = self.senders[at].hashing == Hashing::Standard;
        let envelope = self.envelope(&lane, &mut batch);
        let (medium, cache_salt) = (self.span(&lane.2), self.span(SALTS[salt]));
        let all = Slice { start: 0, len: batch.tokens.len() as u32 };
        batch.events.push(Event::Store(Store {
            parent: if standard && self.dice.one_in(2) { None } else { parent },
            hashes: Slice { start: 0, len: names.len() as u32 },
            tokens: (!standard).then_some(all),
            block_size: Some(BLOCK as u32),
            medium,
            cache_salt: if envelope.is_some() { Span::NONE } else { cache_salt },
            envelope,
            ..blank_store()
        }));
        let context = if envelope.is_some() { 0 } else { salt };
        if standard {
            let distinct: BTreeSet<u64> = names.iter().copied().collect();
            // known names without tokens are placeholders, unless an envelope makes them standard
            let known =
                envelope.is_none() && names.iter().all(|name| !self.model.denotes(at, *name).is_empty());
            if distinct.len() == names.len() {
                if known {
                    self.model.placeholder(at, &lane, &names);
                } else {
                    self.model.store_by_hash(at, &lane, &names, context);
                }
            }
        } else {
            let named = (!SALTS[salt].is_empty() && envelope.is_none()).then_some(salt);
            self.model.store(at, &lane, parent, &names, &locals(&blocks), context, named);
        }
        self.apply(at, &lane, batch);
    }

    fn some_names(&mut self, at: usize) -> Vec<u64> {
        let salt = self.dice.roll(SALTS.len());
        let path = self.dice.path(7, 5);
        let mut names = self.names(at, &path, salt);
        if self.dice.one_in(2) {
            let keep = self.dice.roll(names.len());
            names = vec![names[keep]];
        }
        if self.dice.one_in(10) {
            names.push(4242);
        }
        if self.dice.one_in(3) {
            names.reverse();
        }
        names
    }

    fn placeholder(&mut self) {
        let at = self.dice.roll(self.senders.len());
        let several = |hashing| {
            matches!(hashing, Hashing::Standard | Hashing::Content | Hashing::Saltless(_) | Hashing::Rolling)
        };
        if several(self.senders[at].hashing) {
            return;
        }
        let mut lane = self.lane(at);
        "CPU".clone_into(&mut lane.2);
        let names = self.some_names(at);
        let mut batch = Batch { hashes: names.clone(), ..Batch::default() };
        let medium = self.span("cpu");
        batch.events.push(Event::Store(Store {
            hashes: Slice { start: 0, len: names.len() as u32 },
            tokens: Some(Slice::default()),
            block_size: Some(0),
            medium,
            ..blank_store()
        }));
        let distinct: BTreeSet<u64> = names.iter().copied().collect();
        if distinct.len() == names.len() {
            self.model.placeholder(at, &lane, &names);
        }
        self.apply(at, &lane, batch);
    }

    fn remove(&mut self) {
        let at = self.dice.roll(self.senders.len());
        let lane = self.lane(at);
        let names = self.some_names(at);
        let mut batch = Batch { hashes: names.clone(), ..Batch::default() };
        let counted = self.dice.one_in(6);
        if counted {
            batch.counts = names.iter().map(|_| self.dice.roll(2) as u32).collect();
        }
        let envelope = self.envelope(&lane, &mut batch);
        let object = envelope.is_some() && self.dice.one_in(3);
        if object {
            batch.envelopes[0].has_object_key = true;
        }
        let medium = self.span(&lane.2);
        let hashes = Slice { start: 0, len: names.len() as u32 };
        batch.events.push(Event::Remove(Remove {
            index: 0,
            hashes,
            remaining: counted.then_some(hashes),
            medium,
            group_idx: None,
            spec_kind: Span::NONE,
            locality: Span::NONE,
            envelope,
            fault: None,
        }));
        let everywhere: Vec<Lane> =
            self.model.lanes(at).into_iter().filter(|other| other.0 == lane.0 && other.1 == lane.1).collect();
        for (name, left) in names.iter().zip(0..) {
            let left = counted.then(|| batch.counts[left as usize]);
            let lanes = if object { everywhere.clone() } else { vec![lane.clone()] };
            let removed = self.model.remove(at, &lanes, *name, left);
            if !removed && self.senders[at].pool {
                self.model.remove(at, &everywhere, *name, left);
            }
        }
        self.apply(at, &lane, batch);
    }

    fn clear(&mut self) {
        let at = self.dice.roll(self.senders.len());
        let lane = self.lane(at);
        let mut batch = Batch::default();
        let envelope = self.envelope(&lane, &mut batch);
        let by_medium = self.dice.one_in(2);
        let medium = if by_medium { self.span(&lane.2) } else { Span::NONE };
        batch.events.push(Event::Clear(Clear { index: 0, medium, envelope }));
        self.model.clear(at, |other| {
            other.0 == lane.0 && (lane.1.is_empty() || other.1 == lane.1) && (!by_medium || other.2 == lane.2)
        });
        self.apply(at, &lane, batch);
    }

    fn unregister(&mut self) {
        let at = self.dice.roll(self.senders.len());
        let Some(publisher) = self.model.publishers[at].clone() else { return };
        let (rank, pool, mut hashing) = (publisher.rank, publisher.pool, self.senders[at].hashing);
        if matches!(hashing, Hashing::Seeded(_)) {
            hashing = Hashing::Seeded(self.dice.0 | 1);
        }
        self.shard.remove_publisher(self.senders[at].number);
        // what it held is taken away later, and must not count meanwhile
        self.register(&publisher.instance, rank, pool, hashing);
        let fresh = self.senders.pop().expect("registered");
        self.senders[at] = fresh;
        self.model.publishers[at] = self.model.publishers.pop().expect("registered");
    }

    fn step(&mut self) {
        if self.dice.one_in(3) {
            self.shard.purge(1 + self.dice.roll(5));
        }
        match self.dice.roll(20) {
            0..=6 if self.crowd => self.flood(),
            0..=9 => self.store(),
            10..=11 => self.placeholder(),
            12..=17 => self.remove(),
            18 => self.clear(),
            _ => self.unregister(),
        }
    }

    fn leave(&mut self) {
        while !self.senders.is_empty() {
            let at = self.dice.roll(self.senders.len());
            let sender = self.senders.swap_remove(at);
            self.shard.remove_publisher(sender.number);
            if self.dice.one_in(2) {
                self.shard.purge(3);
            }
        }
        while !self.shard.purge(7) {}
    }
}

/// Plays so many steps, checks after each, and lets everybody leave: then all memory is given back.
fn play(mut world: World, steps: usize) {
    let empty = Shard::new(SEED).owned_bytes();
    for _ in 0..steps {
        world.step();
        world.check();
    }
    world.leave();
    assert_eq!(world.shard.owned_bytes(), empty, "bytes return to the start value");
    assert_eq!(world.shard.sizes(), (0, 0));
}

proptest! {
    #[test]
    fn every_answer_is_the_models(seed in any::<u64>(), steps in 1usize..160) {
        play(World::new(seed), steps);
    }

    #[test]
    fn every_answer_of_a_crowd_is_the_models(seed in any::<u64>(), steps in 1usize..40) {
        play(World::crowd(seed), steps);
    }
}
