//! Who is registered and on which reactor: shared by all reactors, behind one lock that only registrations take.
//! Queries read a [`View`](super::view::View) of it, made anew when the version changed.

use crate::index::context::ContextKey;
use crate::index::publisher::{Class, Registration};
use crate::limits::{FDS_PER_PUBLISHER, FDS_RESERVED, LEARNED_FAMILIES};
use crate::metrics::Counter;
use crate::stream::endpoint::Endpoint;
use crate::stream::stats::StreamStats;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Registrations that the daemon takes.
pub const PUBLISHERS: usize = 1 << 16;

/// Events a second that two reactors may differ by and still count as equally loaded.
const RATE_STEP: u64 = 1000;
/// Bytes that two reactors may differ by and still count as equally loaded.
const BYTES_STEP: u64 = 16 * 1024 * 1024;

/// What makes a registration the same one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// Instance.
    pub instance: String,
    /// Tenant.
    pub tenant: String,
    /// Registered rank.
    pub rank: u32,
    /// Engine or pool.
    pub class: Class,
}

/// One registration.
#[derive(Debug)]
pub struct Listing {
    /// Never used twice.
    pub id: u64,
    /// Its identity.
    pub key: Key,
    /// The reactor that has it.
    pub home: usize,
    /// Where events come from.
    pub endpoint: Endpoint,
    /// Where missed events can be asked for.
    pub replay: Option<Endpoint>,
    /// `type`, as registered.
    pub kind: String,
    /// What the index needs of it.
    pub registration: Arc<Registration>,
    /// What its stream says about itself.
    pub stats: Arc<StreamStats>,
}

/// What a registration asks for.
#[derive(Debug)]
pub struct Wish {
    /// Where events come from.
    pub endpoint: Endpoint,
    /// Where missed events can be asked for.
    pub replay: Option<Endpoint>,
    /// `type`, as given.
    pub kind: String,
    /// What the index needs of it.
    pub registration: Registration,
}

/// What became of a wish.
pub enum Registered {
    /// It was there already, with the same settings.
    Known,
    /// It is new, or another one with its key went.
    New {
        /// The registration.
        listing: Arc<Listing>,
        /// The one that it replaces.
        replaced: Option<Arc<Listing>>,
    },
    /// There are too many, or too few descriptors for one more.
    Full(&'static str),
}

/// Gauges of one reactor that anybody reads.
#[derive(Default, Debug)]
pub struct Load {
    /// Events a second, lately.
    pub rate: Counter,
    /// Heap bytes of the index.
    pub bytes: Counter,
    /// Runs of the index.
    pub runs: Counter,
    /// Contexts of the index.
    pub contexts: Counter,
    /// Blocks held, counted once an owner.
    pub blocks: Counter,
}

/// (tenant, model, block size): enough to know whom to ask.
pub type Family = (String, String, u32);

/// What stands behind the lock.
#[derive(Default)]
pub struct Books {
    next: u64,
    /// All registrations.
    pub publishers: BTreeMap<Key, Arc<Listing>>,
    /// Instance → its reactor and registrations.
    pub homes: HashMap<String, (usize, usize)>,
    /// Endpoint → ranks of the engines that are registered with it, on whatever reactor.
    ranks: HashMap<String, Vec<u32>>,
    /// Families that events brought along, and the reactors that have them; at most [`LEARNED_FAMILIES`].
    pub learned: HashMap<Family, u64>,
    /// Reactors that have further ones.
    pub unlisted: u64,
}

impl Books {
    /// Ranks of the engines that are registered with an endpoint.
    pub fn ranks(&self, endpoint: &str) -> &[u32] {
        self.ranks.get(endpoint).map_or(&[], Vec::as_slice)
    }

    fn enter_rank(&mut self, listing: &Listing) {
        if listing.key.class == Class::Engine {
            self.ranks.entry(listing.endpoint.as_str().to_owned()).or_default().push(listing.key.rank);
        }
    }

    fn leave_rank(&mut self, listing: &Listing) {
        let endpoint = listing.endpoint.as_str();
        if listing.key.class == Class::Engine
            && let Some(ranks) = self.ranks.get_mut(endpoint)
        {
            if let Some(at) = ranks.iter().position(|rank| *rank == listing.key.rank) {
                ranks.swap_remove(at);
            }
            if ranks.is_empty() {
                self.ranks.remove(endpoint);
            }
        }
    }
}

/// Whether the daemon wants traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Readiness {
    /// Not listening yet.
    Starting,
    /// Answering.
    Ready,
    /// Going away.
    Draining,
}

/// Shared by all reactors.
pub struct Directory {
    books: Mutex<Books>,
    version: AtomicU64,
    readiness: AtomicU8,
    settled: AtomicBool,
    descriptors: AtomicU64,
    /// One a reactor.
    pub loads: Vec<Arc<Load>>,
    /// One a reactor.
    pub counters: std::sync::OnceLock<Vec<Arc<crate::reactor::Counters>>>,
}

impl Directory {
    /// Nobody is registered.
    pub fn new(reactors: usize) -> Arc<Self> {
        Arc::new(Self {
            books: Mutex::new(Books { next: 1, ..Books::default() }),
            version: AtomicU64::new(1),
            readiness: AtomicU8::new(Readiness::Starting as u8),
            settled: AtomicBool::new(false),
            descriptors: AtomicU64::new(u64::MAX),
            loads: (0..reactors).map(|_| Arc::default()).collect(),
            counters: std::sync::OnceLock::new(),
        })
    }

    /// The books, locked.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever the books do.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Lets every reactor make its view anew.
    pub fn touch(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the daemon wants traffic.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            0 => Readiness::Starting,
            1 => Readiness::Ready,
            _ => Readiness::Draining,
        }
    }

    /// Says whether the daemon wants traffic.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.readiness.store(readiness as u8, Ordering::Release);
    }

    /// Whether the first replays of all streams were over once.
    pub fn has_settled(&self) -> bool {
        if self.settled.load(Ordering::Relaxed) {
            return true;
        }
        let waits = |listing: &Arc<Listing>| listing.replay.is_some() && !listing.stats.has_begun();
        let settled = !self.books().publishers.values().any(waits);
        self.settled.store(settled, Ordering::Relaxed);
        settled
    }

    /// Enters a registration; all of an instance live on one reactor.
    pub fn register(&self, wish: Wish) -> Registered {
        let registration = &wish.registration;
        let key = Key {
            instance: registration.instance.clone(),
            tenant: registration.tenant.clone(),
            rank: registration.rank,
            class: registration.class,
        };
        let mut books = self.books();
        let replaced = match books.publishers.get(&key) {
            Some(old) if same(old, &wish) => return Registered::Known,
            Some(old) => Some(old.clone()),
            None if books.publishers.len() >= PUBLISHERS => {
                return Registered::Full("there are too many registrations");
            }
            None if !self.has_descriptors(books.publishers.len()) => {
                return Registered::Full(
                    "too few file descriptors for one more publisher: raise the limit (ulimit -n)",
                );
            }
            None => None,
        };
        let home = match books.homes.get(&key.instance) {
            Some((home, _)) => *home,
            None => self.least_loaded(&books),
        };
        if replaced.is_none() {
            books.homes.entry(key.instance.clone()).or_insert((home, 0)).1 += 1;
        }
        let listing = Arc::new(Listing {
            id: books.next,
            key: key.clone(),
            home,
            endpoint: wish.endpoint,
            replay: wish.replay,
            kind: wish.kind,
            registration: Arc::new(wish.registration),
            stats: Arc::default(),
        });
        books.next += 1;
        books.publishers.insert(key, listing.clone());
        books.enter_rank(&listing);
        if let Some(old) = &replaced {
            books.leave_rank(old);
        }
        drop(books);
        self.touch();
        Registered::New { listing, replaced }
    }

    /// Takes out every registration that `matches`.
    pub fn unregister(&self, instance: &str, matches: impl Fn(&Listing) -> bool) -> Vec<Arc<Listing>> {
        let mut books = self.books();
        let from =
            Key { instance: instance.to_owned(), tenant: String::new(), rank: 0, class: Class::Engine };
        let gone: Vec<Arc<Listing>> = books
            .publishers
            .range(from..)
            .take_while(|(key, _)| key.instance == instance)
            .filter(|(_, listing)| matches(listing))
            .map(|(_, listing)| listing.clone())
            .collect();
        for listing in &gone {
            books.publishers.remove(&listing.key);
            books.leave_rank(listing);
            if let Some((_, left)) = books.homes.get_mut(instance) {
                *left -= 1;
                if *left == 0 {
                    books.homes.remove(instance);
                }
            }
        }
        drop(books);
        if !gone.is_empty() {
            self.touch();
        }
        gone
    }

    /// A reactor has a context that its registrations did not announce.
    pub fn learn(&self, reactor: usize, key: &ContextKey) {
        let mut books = self.books();
        let family = (key.tenant.clone(), key.model.clone(), key.block_size);
        let full = books.learned.len() >= LEARNED_FAMILIES && !books.learned.contains_key(&family);
        let Books { learned, unlisted, .. } = &mut *books;
        let known = if full { unlisted } else { learned.entry(family).or_insert(0) };
        let before = *known;
        *known |= 1 << reactor;
        let changed = *known != before;
        drop(books);
        if changed {
            self.touch();
        }
    }

    /// Whether the process may open what one more publisher takes: libzmq ends the process when it may not.
    fn has_descriptors(&self, publishers: usize) -> bool {
        let connections: u64 =
            self.counters.get().into_iter().flatten().map(|of| of.connections_open.get()).sum();
        let wanted = (publishers as u64 + 1) * FDS_PER_PUBLISHER + connections + FDS_RESERVED;
        wanted <= self.descriptors.load(Ordering::Relaxed)
    }

    /// How many descriptors the process may have open.
    pub fn set_descriptors(&self, limit: u64) {
        self.descriptors.store(limit, Ordering::Relaxed);
    }

    fn least_loaded(&self, books: &Books) -> usize {
        let mut instances = vec![0usize; self.loads.len()];
        for (home, _) in books.homes.values() {
            instances[*home] += 1;
        }
        let load = |reactor: &usize| {
            let load = &self.loads[*reactor];
            (load.rate.get() / RATE_STEP, load.bytes.get() / BYTES_STEP, instances[*reactor])
        };
        (0..self.loads.len()).min_by_key(load).unwrap_or(0)
    }
}

fn same(listing: &Listing, wish: &Wish) -> bool {
    listing.endpoint == wish.endpoint
        && listing.replay == wish.replay
        && listing.kind == wish.kind
        && *listing.registration == wish.registration
}
