//! Set-up: three daemons of 1, 2 and 4 reactors with the same registrations (engines of several families and pools,
//! one pool under two instances, tenants and models mixed within instances), which hear the same publishers; random
//! stores, removals and clears, with registrations that end and begin in between.
//! Claim: all three answer every question alike, and as a naive count of who holds what does.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::fleet::{Ask, Daemon, Engine, Pool, Source, join, settle};
use kvatlas::wire::engine::EngineEvent;
use kvatlas::wire::family::Field;
use serde_json::{Map, Value, json};

const BLOCK: usize = 2;
const SYMBOLS: usize = 3;
const DEPTH: usize = 5;
/// Instance, tenant, model, rank, and what it listens to.
const CAST: [(&str, &str, &str, u32, Feed); 13] = [
    ("i0", "default", "m1", 0, Feed::Engine("vllm-0.33.0")),
    ("i0", "default", "m1", 1, Feed::Engine("sglang-0.5.23")),
    ("i0", "default", "m1", 0, Feed::Pool(0)),
    ("i1", "default", "m1", 0, Feed::Engine("vllm-2025-09-09")),
    ("i1", "default", "m2", 1, Feed::Engine("trtllm-streaming")),
    ("i1", "default", "m1", 0, Feed::Pool(0)),
    ("i2", "t2", "m1", 0, Feed::Engine("vllm-mapbatch")),
    ("i3", "default", "m1", 0, Feed::Engine("atom-2026-08")),
    ("i3", "default", "m1", 0, Feed::Pool(1)),
    ("i4", "t2", "m2", 0, Feed::Engine("sglang-2025-06-04")),
    ("i4", "default", "m1", 0, Feed::Engine("vllm-2026-07-17")),
    ("i5", "default", "m2", 3, Feed::Engine("vllm-0.33.0")),
    ("i6", "t2", "m1", 2, Feed::Engine("sglang-0.5.20")),
];
/// The tenant that each pool's events name.
const POOL_TENANTS: [&str; 2] = ["default", "t2"];

#[derive(Clone, Copy, PartialEq)]
enum Feed {
    Engine(&'static str),
    Pool(usize),
}

type Prefix = Vec<u8>;

/// A registration, and what it holds.
struct Member {
    alive: bool,
    engine: Option<Engine>,
    /// Media by prefix; a prefix stands for its last block.
    held: HashMap<Prefix, BTreeSet<&'static str>>,
    announced: HashSet<Prefix>,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }

    fn path(&mut self) -> Prefix {
        (0..=self.roll(DEPTH)).map(|_| self.roll(SYMBOLS) as u8).collect()
    }
}

fn tokens(path: &[u8]) -> Vec<u32> {
    path.iter().flat_map(|symbol| [u32::from(*symbol) + 7, u32::from(*symbol) * 1000]).collect()
}

struct World {
    daemons: Vec<Daemon>,
    members: Vec<Member>,
    pools: Vec<Pool>,
    /// What each pool has, as it knows itself.
    objects: Vec<HashSet<(Prefix, &'static str)>>,
    dice: Dice,
}

impl World {
    fn new(seed: u64) -> Self {
        let engine = |at: usize, rank| match CAST[at].4 {
            Feed::Engine(family) => {
                Some(Engine::of_family(family, seed * 100 + at as u64, BLOCK as u32, rank))
            }
            Feed::Pool(_) => None,
        };
        let member = |(at, cast): (usize, &(&str, &str, &str, u32, Feed))| Member {
            alive: false,
            engine: engine(at, cast.3),
            held: HashMap::new(),
            announced: HashSet::new(),
        };
        let mut world = Self {
            daemons: [1, 2, 4].map(Daemon::start).into(),
            members: CAST.iter().enumerate().map(member).collect(),
            pools: (0..2).map(|at| Pool::new(&format!("pool-{at}"), BLOCK as u32)).collect(),
            objects: vec![HashSet::new(); 2],
            dice: Dice(seed),
        };
        (0..CAST.len()).for_each(|at| world.register(at));
        world
    }

    fn source(&self, at: usize) -> &dyn Source {
        match CAST[at].4 {
            Feed::Engine(_) => self.members[at].engine.as_ref().unwrap(),
            Feed::Pool(pool) => &self.pools[pool],
        }
    }

    fn daemons(&self) -> Vec<&Daemon> {
        self.daemons.iter().collect()
    }

    fn register(&mut self, at: usize) {
        let (instance, tenant, model, rank, feed) = CAST[at];
        let mut body = match feed {
            Feed::Engine(_) => self.members[at].engine.as_ref().unwrap().registration(instance),
            Feed::Pool(pool) => self.pools[pool].registration(instance),
        };
        body["tenant_id"] = json!(tenant);
        body["modelname"] = json!(model);
        body["dp_rank"] = json!(rank);
        self.daemons.iter().for_each(|daemon| daemon.register(&body));
        join(&self.daemons(), &[self.source(at)]);
        let member = &mut self.members[at];
        (member.alive, member.held, member.announced) = (true, HashMap::new(), HashSet::new());
    }

    fn unregister(&mut self, at: usize) {
        let (instance, tenant, _, rank, feed) = CAST[at];
        let kind = match feed {
            Feed::Engine(_) => self.members[at].engine.as_ref().unwrap().family.engine,
            Feed::Pool(_) => "Mooncake",
        };
        let body = json!({ "instance_id": instance, "tenant_id": tenant, "dp_rank": rank, "type": kind });
        for daemon in &self.daemons {
            let answer = daemon.post("/unregister", &body);
            let removed = json!([format!("{instance}|{tenant}|{rank}")]);
            assert_eq!(answer.json()["removed_instances"], removed);
        }
        let member = &mut self.members[at];
        (member.alive, member.held, member.announced) = (false, HashMap::new(), HashSet::new());
    }

    fn act(&mut self) {
        let at = self.dice.roll(CAST.len());
        match self.dice.roll(40) {
            0 if self.members[at].alive => self.unregister(at),
            0..3 if !self.members[at].alive => self.register(at),
            _ if !self.members[at].alive => {}
            _ => match CAST[at].4 {
                Feed::Engine(_) => self.engine(at),
                Feed::Pool(pool) => self.pool(pool),
            },
        }
    }

    fn engine(&mut self, at: usize) {
        let (path, choice) = (self.dice.path(), self.dice.roll(20));
        let from = self.dice.roll(path.len());
        let medium = self.dice.roll(3);
        let member = &mut self.members[at];
        let engine = member.engine.as_ref().unwrap();
        // the first generations name no medium
        let named = engine.family.stored.contains(&Field::Medium);
        let medium = if named { ["GPU", "CPU", "DISK"][medium] } else { "GPU" };
        let blocks = from..path.len();
        match choice {
            0 => {
                engine.clear();
                (member.held, member.announced) = (HashMap::new(), HashSet::new());
            }
            1..7 => {
                engine.remove(&tokens(&path), blocks.clone(), medium);
                for end in blocks {
                    member.held.entry(path[..=end].into()).or_default().remove(medium);
                }
            }
            _ => {
                // a parent must have been announced, and a second copy would need a second removal
                let held =
                    |end: usize| member.held.get(&path[..=end]).is_some_and(|media| media.contains(medium));
                if (from > 0 && !member.announced.contains(&path[..from])) || blocks.clone().any(held) {
                    return;
                }
                let (tokens, hashes) = (tokens(&path), engine.hashes(&tokens(&path)));
                let stored = engine.stored(&hashes, &tokens, blocks.clone(), medium);
                engine.events(&[EngineEvent::Stored(stored)]);
                for end in blocks {
                    member.held.entry(path[..=end].into()).or_default().insert(medium);
                    member.announced.insert(path[..=end].into());
                }
            }
        }
    }

    fn pool(&mut self, pool: usize) {
        let (path, store) = (self.dice.path(), self.dice.roll(3) > 0);
        let from = self.dice.roll(path.len());
        let medium = ["cpu", "disk"][self.dice.roll(2)];
        let tenant = POOL_TENANTS[pool];
        let objects = &mut self.objects[pool];
        for end in from..path.len() {
            let prefix: Prefix = path[..=end].into();
            if store && !objects.insert((prefix.clone(), medium)) {
                continue;
            }
            if store {
                self.pools[pool].store(&tokens(&path), end..end + 1, medium, tenant);
            } else {
                // this generation of the master says only that an object is gone altogether
                self.pools[pool].remove(&tokens(&path), end..end + 1, medium, tenant);
                objects.retain(|(other, _)| *other != prefix);
            }
            for (member, _) in self
                .members
                .iter_mut()
                .zip(CAST)
                .filter(|(member, cast)| member.alive && cast.4 == Feed::Pool(pool))
            {
                let media = member.held.entry(prefix.clone()).or_default();
                if store {
                    media.insert(if medium == "cpu" { "CPU" } else { "DISK" });
                } else {
                    media.clear();
                }
            }
        }
    }

    fn settle(&self) {
        let sources: Vec<&dyn Source> = (0..CAST.len()).map(|at| self.source(at)).collect();
        settle(&self.daemons(), &sources);
    }

    /// Who of an instance may hold blocks of a tenant and model.
    fn holders(&self, instance: &str, tenant: &str) -> Vec<(&Member, &'static str, Option<u32>)> {
        let of = |(member, cast): (_, &(&'static str, &'static str, &'static str, u32, Feed))| {
            let (rank, named) = match cast.4 {
                Feed::Engine(_) => (Some(cast.3), cast.1),
                // `default` in an event is the registered tenant
                Feed::Pool(pool) if POOL_TENANTS[pool] == "default" => (None, cast.1),
                Feed::Pool(pool) => (None, POOL_TENANTS[pool]),
            };
            (cast.0 == instance && named == tenant).then_some((member, cast.2, rank))
        };
        let alive = self.members.iter().zip(&CAST).filter(|(member, _)| member.alive);
        alive.filter_map(of).collect()
    }

    fn entry(&self, instance: &str, tenant: &str, model: &str, path: &[u8]) -> Value {
        let holders = self.holders(instance, tenant);
        let mut media = BTreeMap::from([("GPU", 0), ("CPU", 0), ("DISK", 0)]);
        let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
        for (member, cast) in self.members.iter().zip(CAST) {
            if member.alive && (cast.0, cast.1) == (instance, tenant) && matches!(cast.4, Feed::Engine(_)) {
                ranks.insert(cast.3, 0);
            }
        }
        let mut longest = 0;
        for end in 0..path.len() {
            let (mut on, mut of) = (BTreeSet::new(), BTreeSet::new());
            for (member, _, rank) in holders.iter().filter(|(_, other, _)| *other == model) {
                if let Some(held) = member.held.get(&path[..=end]).filter(|held| !held.is_empty()) {
                    on.extend(held.iter().copied());
                    of.extend(*rank);
                }
            }
            if on.is_empty() {
                break;
            }
            longest += BLOCK;
            for medium in on {
                *media.get_mut(medium).unwrap() += BLOCK;
            }
            for rank in of {
                *ranks.entry(rank).or_default() += BLOCK;
            }
        }
        let ranks: Map<String, Value> =
            ranks.into_iter().map(|(rank, tokens)| (rank.to_string(), tokens.into())).collect();
        let [gpu, cpu, disk] = ["GPU", "CPU", "DISK"].map(|medium| media[medium]);
        json!({ "longest_matched": longest, "GPU": gpu, "DP": ranks, "CPU": cpu, "DISK": disk })
    }

    fn expected(&self, tenant: &str, model: &str, path: &[u8], instance: Option<&str>) -> Value {
        let registered = self.members.iter().zip(CAST).filter(|(member, _)| member.alive);
        let registered = registered.filter(|(_, cast)| cast.1 == tenant).map(|(_, cast)| cast.0);
        let holding = CAST.iter().map(|cast| cast.0).filter(|instance| {
            let holds = |member: &Member| member.held.values().any(|media| !media.is_empty());
            self.holders(instance, tenant).iter().any(|(member, ..)| holds(member))
        });
        let all = || registered.chain(holding).collect();
        let named: BTreeSet<&str> = instance.map_or_else(all, |instance| [instance].into());
        let entries: Map<String, Value> = named
            .into_iter()
            .map(|instance| (instance.to_owned(), self.entry(instance, tenant, model, path)))
            .collect();
        if entries.is_empty() { json!({}) } else { json!({ tenant: entries }) }
    }

    fn check(&mut self) -> usize {
        let mut hits = 0;
        for tenant in ["default", "t2", "t3"] {
            for model in ["m1", "m2"] {
                for _ in 0..4 {
                    let path = self.dice.path();
                    let instance = ["i0", "i1", "i2", "i3", "i4", "i9"][self.dice.roll(6)];
                    for instance in [None, Some(instance)] {
                        let question = json!({
                            "model": model, "block_size": BLOCK, "tenant_id": tenant,
                            "token_ids": tokens(&path), "instance_id": instance,
                        });
                        let expected = self.expected(tenant, model, &path, instance);
                        for daemon in &self.daemons {
                            let answer = daemon.ask(&question);
                            let reactors = daemon.directory.loads.len();
                            assert_eq!(answer, expected, "{reactors} reactors: {question}");
                        }
                        hits += usize::from(expected.to_string().contains("\"longest_matched\":4"));
                    }
                }
            }
        }
        hits
    }
}

#[test]
fn any_number_of_reactors_counts_alike() {
    for seed in [1, 2, 3] {
        let mut world = World::new(seed);
        let mut hits = 0;
        for _ in 0..6 {
            (0..60).for_each(|_| world.act());
            world.settle();
            hits += world.check();
        }
        assert!(hits > 20, "{hits} answers had something to say");
    }
}
