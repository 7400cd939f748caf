//! Set-up: random events, pins, quotas, listings, registrations, sweeps (whole or in steps, real or dry), answers of
//! either kind in any order, for a few keys of all shapes.
//! Claim: after every step usage, levels, pins and plans are those of a naive model that holds plain lists, and when
//! everything is deleted and unpinned, no key is left.

use crate::books::{RULES, at, keys_of, salt_names};
use kvatlas::fleet::books::{Batch, Books, Listed, Outcome, PinListing, Planner, Rules};
use kvatlas::fleet::key::{ChunkHash, Key};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A tick of the clock, milliseconds: no sum of ticks comes close to a pause.
const TICK: u64 = 333;
type Name = Key<'static>;

/// A stored key of the model.
#[derive(Clone)]
struct Item {
    key: Name,
    bytes: u64,
    flying: bool,
    sent: bool,
    /// Good answers since the last event or registration, and when the last one came.
    answers: u32,
    answered: u64,
    /// Named by a listing alone.
    listed: bool,
    /// Named by an event since the resync began.
    touched: bool,
    life: u64,
}

impl Item {
    fn stuck(&self) -> bool {
        self.answers >= 8 && !self.flying
    }
}

/// The books as anyone would write them down.
#[derive(Default)]
struct Model {
    /// By salt in the order of the first key; keys from oldest to newest.
    salts: Vec<(String, Vec<Item>)>,
    pins: HashMap<Name, u32>,
    quotas: BTreeMap<String, u64>,
    default: Option<u64>,
    resync: Option<HashSet<Name>>,
    lives: u64,
    confirmed: u64,
}

impl Model {
    fn items(&self) -> impl Iterator<Item = &Item> {
        self.salts.iter().flat_map(|(_, items)| items)
    }

    fn item(&mut self, key: &Name) -> Option<&mut Item> {
        self.salts.iter_mut().flat_map(|(_, items)| items).find(|item| item.key == *key)
    }

    fn remove(&mut self, key: &Name) -> Option<Item> {
        let items = &mut self.salts.iter_mut().find(|(salt, _)| *salt == *key.salt)?.1;
        let index = items.iter().position(|item| item.key == *key)?;
        Some(items.remove(index))
    }

    fn list(&mut self, salt: &str) -> &mut Vec<Item> {
        let index = self.salts.iter().position(|one| one.0 == salt).unwrap_or_else(|| {
            self.salts.push((salt.to_owned(), Vec::new()));
            self.salts.len() - 1
        });
        &mut self.salts[index].1
    }

    fn fresh(&mut self, key: &Name, bytes: u64) -> Item {
        self.lives += 1;
        Item {
            key: key.clone(),
            bytes,
            flying: false,
            sent: false,
            answers: 0,
            answered: 0,
            listed: false,
            touched: false,
            life: self.lives,
        }
    }

    fn renew(&mut self, key: &Name, bytes: Option<u64>) {
        let known = self.remove(key);
        let mut item = match (known, bytes) {
            (Some(known), _) => known,
            (None, Some(bytes)) => self.fresh(key, bytes),
            (None, None) => return,
        };
        item.bytes = bytes.unwrap_or(item.bytes);
        item.answers = 0;
        item.listed = false;
        item.touched |= self.resync.is_some();
        self.list(&key.salt).push(item);
    }

    fn delete(&mut self, key: &Name) {
        let gone = self.remove(key);
        self.confirmed += u64::from(gone.is_some_and(|item| item.sent));
        self.salts.retain(|(_, items)| !items.is_empty());
        if let Some(deleted) = &mut self.resync {
            deleted.insert(key.clone());
        }
    }

    fn listed(&mut self, key: &Name, bytes: u64) -> Listed {
        let running = self.resync.is_some();
        if let Some(item) = self.item(key) {
            if running && item.touched {
                return Listed::Overruled;
            }
            item.bytes = bytes;
            return Listed::Known;
        }
        if self.resync.as_ref().is_some_and(|deleted| deleted.contains(key)) {
            return Listed::Overruled;
        }
        let item = Item { listed: true, ..self.fresh(key, bytes) };
        let list = self.list(&key.salt);
        let at = list.iter().take_while(|item| item.listed).count();
        list.insert(at, item);
        Listed::Added
    }

    fn begin_resync(&mut self) {
        self.resync = Some(HashSet::new());
        self.salts.iter_mut().flat_map(|(_, items)| items).for_each(|item| item.touched = false);
    }

    fn registered(&mut self) {
        self.salts.iter_mut().flat_map(|(_, items)| items).for_each(|item| item.answers = 0);
    }

    fn usage(&self, salt: &str) -> u128 {
        let of = self.items().filter(|item| item.key.salt == salt);
        of.map(|item| u128::from(item.bytes)).sum()
    }

    fn pinned(&self, key: &Name) -> u32 {
        self.pins.get(key).copied().unwrap_or(0)
    }

    /// The keys of a sweep and their lives; they are in flight unless it is a dry run.
    fn plan(&mut self, now: u64, rules: Rules) -> Vec<(Name, u64)> {
        let mut chosen: Vec<(Name, u64)> = Vec::new();
        for (salt, items) in &self.salts {
            let Some(limit) = self.quotas.get(salt).copied().or(self.default) else { continue };
            let used: u128 =
                items.iter().filter(|item| !item.flying).map(|item| u128::from(item.bytes)).sum();
            if used == 0 || (used as f64) < rules.watermark * limit as f64 {
                continue;
            }
            let ratio = if limit == 0 { 1.0 } else { rules.ratio };
            if ratio == 0.0 {
                continue;
            }
            let target = ((items.len() as f64 * ratio) as usize).max(1);
            let mut left = target.saturating_sub(items.iter().filter(|item| item.flying).count());
            for item in items {
                if left == 0 {
                    break;
                }
                if !self.free(item, now, rules, &chosen) {
                    continue;
                }
                if !item.stuck() {
                    left -= 1;
                }
                chosen.push((item.key.clone(), item.life));
                for other in ranks(&item.key).into_iter().filter(|_| rules.whole_chunks) {
                    if let Some(other) = items.iter().find(|item| item.key == other)
                        && self.free(other, now, rules, &chosen)
                    {
                        chosen.push((other.key.clone(), other.life));
                    }
                }
            }
        }
        if !rules.dry_run {
            for (key, _) in &chosen {
                let item = self.item(key).unwrap();
                (item.flying, item.sent) = (true, true);
            }
        }
        chosen
    }

    fn free(&self, item: &Item, now: u64, rules: Rules, chosen: &[(Name, u64)]) -> bool {
        let pause =
            (rules.interval.as_millis() as u64 * 2_u64.pow(item.answers.saturating_sub(8))).min(60_000);
        let waits = item.stuck() && now < item.answered + pause;
        let taken = item.flying || chosen.iter().any(|(key, _)| *key == item.key);
        self.pinned(&item.key) == 0 && !waits && !taken
    }

    fn answered(&mut self, batch: &[(Name, u64)], well: bool, now: u64) {
        for (key, life) in batch {
            if let Some(item) = self.item(key).filter(|item| item.life == *life && item.flying) {
                item.flying = false;
                item.answers += u32::from(well);
                if well {
                    item.answered = now;
                }
            }
        }
    }

    /// What is written of a batch: keys that were pinned or went leave it.
    fn written(&mut self, batch: &[(Name, u64)]) -> Vec<(Name, u64)> {
        let mut kept = Vec::new();
        for (key, life) in batch {
            let pinned = self.pinned(key) > 0;
            match self.item(key).filter(|item| item.life == *life) {
                Some(item) if pinned => item.flying = false,
                Some(_) => kept.push((key.clone(), *life)),
                None => {}
            }
        }
        kept
    }
}

/// The ranks of a key's chunk in a world of two or three, its own included.
fn ranks(key: &Name) -> Vec<Name> {
    let worlds = [2, 3_i128];
    let all =
        worlds.map(|world| (0..world).map(|rank| world << 24 | rank << 16 | world << 8 | rank).collect());
    let own = all.into_iter().find(|ranks: &Vec<i128>| ranks.contains(&key.kv_rank)).unwrap_or_default();
    own.into_iter().map(|kv_rank| Key { kv_rank, ..key.clone() }).collect()
}

/// Key `number` of 48: two salts, two models, worlds of 1, 2 and 3, hashes of two lengths.
fn name(number: u8) -> Name {
    let number = number % 48;
    let ranks = [1 << 24 | 1 << 8, 33_554_944, 33_620_481, 50_332_416, 50_397_953, 50_463_490];
    let chunk = number / 6;
    Key {
        hash: if chunk & 4 == 0 {
            crate::books::hash(u64::from(chunk & 1))
        } else {
            ChunkHash::of_bytes(&[chunk & 1])
        },
        model: if number.is_multiple_of(12) { "other" } else { "model" }.into(),
        kv_rank: ranks[usize::from(number % 6)],
        group: u64::from(number.is_multiple_of(17)),
        salt: if chunk & 2 == 0 { "a" } else { "" }.into(),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Store(u8, u64),
    Lookup(u8),
    Delete(u8),
    Pin(u8),
    Unpin(u8),
    DropPins(u8),
    Quota(bool, Option<u64>),
    Default(Option<u64>),
    Wait(u64),
    Plan {
        ratio: f64,
        watermark: f64,
        whole: bool,
        dry: bool,
        step: usize,
    },
    /// Sweep and answer at once, so often.
    Rounds(u8, bool),
    Write(usize),
    Answer(usize, bool),
    Register,
    Resync(bool),
    Listed(u8, u64),
}

fn ops() -> impl Strategy<Value = Op> {
    let size = || prop_oneof![Just(0_u64), 1..200_u64, Just(u64::MAX)];
    let limit = || prop::option::of(prop_oneof![Just(0_u64), 1..2000_u64]);
    let ratio = prop::sample::select(vec![0.0, 0.05, 0.2, 0.5, 1.0]);
    let watermark = prop::sample::select(vec![0.5, 0.8, 1.0]);
    let plan = (ratio, watermark, any::<bool>(), prop::bool::weighted(0.2), 0..40_usize);
    prop_oneof![
        20 => (any::<u8>(), size()).prop_map(|(key, bytes)| Op::Store(key, bytes)),
        6 => any::<u8>().prop_map(Op::Lookup),
        6 => any::<u8>().prop_map(Op::Delete),
        2 => any::<u8>().prop_map(Op::Pin),
        3 => any::<u8>().prop_map(Op::Unpin),
        1 => any::<u8>().prop_map(Op::DropPins),
        2 => (any::<bool>(), limit()).prop_map(|(salt, limit)| Op::Quota(salt, limit)),
        1 => limit().prop_map(Op::Default),
        4 => prop_oneof![1..4_u64, 100..200_u64].prop_map(Op::Wait),
        10 => plan.prop_map(|(ratio, watermark, whole, dry, step)| Op::Plan { ratio, watermark, whole, dry, step }),
        3 => (1..12_u8, prop::bool::weighted(0.9)).prop_map(|(rounds, well)| Op::Rounds(rounds, well)),
        3 => any::<usize>().prop_map(Op::Write),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(batch, well)| Op::Answer(batch, well)),
        1 => Just(Op::Register),
        2 => any::<bool>().prop_map(Op::Resync),
        8 => (any::<u8>(), size()).prop_map(|(key, bytes)| Op::Listed(key, bytes)),
    ]
}

/// Both, and what is under way.
#[derive(Default)]
struct Pair {
    books: Books,
    model: Model,
    now: u64,
    batches: Vec<(Batch, Vec<(Name, u64)>)>,
}

impl Pair {
    fn plan(&mut self, rules: Rules, step: usize) {
        let mut planner = Planner::new(&mut self.books, at(self.now), rules);
        while !planner.step(&mut self.books, if step == 0 { usize::MAX } else { step }) {}
        let plan = planner.into_plan();
        let expected = self.model.plan(self.now, rules);
        let chosen = crate::books::victims(&self.books, &plan);
        assert_eq!(chosen, expected.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
        if !rules.dry_run {
            self.batches.extend(plan.batches.into_iter().map(|batch| (batch, expected.clone())));
        }
    }

    fn answer(&mut self, index: usize, well: bool) {
        let (batch, keys) = self.batches.swap_remove(index);
        let outcome = if well { Outcome::Ok } else { Outcome::Failed };
        self.books.answered(&batch, outcome, at(self.now));
        self.model.answered(&keys, well, self.now);
    }

    fn write(&mut self, index: usize) {
        let (batch, keys) = &mut self.batches[index];
        *keys = self.model.written(keys);
        let mut body = Vec::new();
        assert_eq!(self.books.write_batch(batch, &mut body), keys.len());
        let written = keys_of(&self.books, batch);
        assert_eq!(written, keys.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let shown = |key: &Name| {
            serde_json::json!({
                "chunk_hash_hex": key.hash.to_string(), "model_name": key.model, "kv_rank": key.kv_rank as i64,
                "object_group_id": key.group, "cache_salt": key.salt,
            })
        };
        assert_eq!(body["keys"], written.iter().map(shown).collect::<serde_json::Value>());
    }

    fn go(&mut self, op: &Op) {
        let (books, model) = (&mut self.books, &mut self.model);
        match *op {
            Op::Store(key, bytes) => {
                books.store(&name(key), bytes);
                model.renew(&name(key), Some(bytes));
            }
            Op::Lookup(key) => {
                books.lookup(&name(key));
                model.renew(&name(key), None);
            }
            Op::Delete(key) => {
                books.delete(&name(key));
                model.delete(&name(key));
            }
            Op::Pin(key) => {
                let count = model.pins.entry(name(key)).or_default();
                *count += 1;
                assert_eq!(books.pin(&name(key)), Some(*count));
            }
            Op::Unpin(key) => {
                let left = model.pinned(&name(key)).checked_sub(1);
                assert_eq!(books.unpin(&name(key)), left);
                model.pins.insert(name(key), left.unwrap_or(0));
            }
            Op::DropPins(key) => {
                assert_eq!(books.drop_pins(&name(key)), model.pins.remove(&name(key)).unwrap_or(0));
            }
            Op::Quota(salt, limit) => {
                let salt = if salt { "a" } else { "" };
                let before = model.quotas.remove(salt);
                assert_eq!(books.quota(salt), before);
                if let Some(limit) = limit {
                    books.set_quota(salt, limit);
                    model.quotas.insert(salt.to_owned(), limit);
                } else {
                    assert_eq!(books.remove_quota(salt), before.is_some());
                }
            }
            Op::Default(limit) => {
                books.set_default(limit);
                model.default = limit;
            }
            Op::Wait(ticks) => self.now += ticks * TICK,
            Op::Plan { ratio, watermark, whole, dry, step } => {
                self.plan(Rules { ratio, watermark, whole_chunks: whole, dry_run: dry, ..RULES }, step);
            }
            Op::Rounds(rounds, well) => {
                for _ in 0..rounds {
                    self.plan(RULES, 0);
                    while !self.batches.is_empty() {
                        self.answer(0, well);
                    }
                }
            }
            Op::Write(index) if !self.batches.is_empty() => self.write(index % self.batches.len()),
            Op::Answer(index, well) if !self.batches.is_empty() => {
                self.answer(index % self.batches.len(), well);
            }
            Op::Write(_) | Op::Answer(..) => {}
            Op::Register => {
                books.registered(at(self.now));
                model.registered();
            }
            Op::Resync(true) => {
                books.begin_resync();
                model.begin_resync();
            }
            Op::Resync(false) => {
                books.end_resync();
                model.resync = None;
            }
            Op::Listed(key, bytes) => {
                assert_eq!(books.listed(&name(key), bytes), model.listed(&name(key), bytes));
            }
        }
    }

    fn compare(&self) {
        let (books, model) = (&self.books, &self.model);
        for salt in ["a", "", "c"] {
            assert_eq!(books.usage(salt), model.usage(salt));
        }
        assert_eq!(books.total(), model.usage("a") + model.usage(""));
        let mut salts: BTreeSet<&str> = model.quotas.keys().map(String::as_str).collect();
        salts.extend(["a", ""].iter().filter(|salt| model.usage(salt) > 0));
        assert_eq!(salt_names(books), salts.into_iter().collect::<Vec<_>>());
        let counters = books.counters();
        let pinned: HashMap<Name, u32> =
            model.pins.iter().filter(|pin| *pin.1 > 0).map(|(key, count)| (key.clone(), *count)).collect();
        assert_eq!(counters.keys, model.items().count());
        assert_eq!(counters.in_flight, model.items().filter(|item| item.flying).count());
        assert_eq!(counters.backed_off, model.items().filter(|item| item.stuck()).count());
        assert_eq!((counters.pinned, counters.confirmed), (pinned.len(), model.confirmed));
        let mut listing = PinListing::new(None, None, 0, 100);
        while !books.list_pins(&mut listing, 100) {}
        assert_eq!(listing.into_parts().1.into_iter().collect::<HashMap<_, _>>(), pinned);
    }

    /// The whole order, when everything has landed; then everything goes.
    fn end(mut self) {
        while !self.batches.is_empty() {
            self.answer(0, false);
        }
        self.go(&Op::Register);
        for salt in [true, false] {
            self.go(&Op::Quota(salt, Some(0)));
        }
        self.plan(Rules { dry_run: true, ..RULES }, 0);
        for key in 0..48 {
            self.go(&Op::DropPins(key));
        }
        self.plan(Rules { dry_run: true, ..RULES }, 3);
        (0..48).for_each(|key| self.go(&Op::Delete(key)));
        self.compare();
        assert_eq!(self.books.counters().keys, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_books_are_the_model(ops in prop::collection::vec(ops(), 0..150)) {
        let mut pair = Pair::default();
        for op in &ops {
            pair.go(op);
            pair.compare();
        }
        pair.end();
    }
}
