//! The state of the coordinator, on the one thread that touches it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::blend::Directory;
use super::books::Books;
use super::courier::{self, Class, Courier, Failure, Order};
use super::mailbox::Post;
use super::metrics::Counts;
use super::registry::{Instance, Registry};
use super::resync::{Outcome as Listing, Resync};
use super::settings::Settings;
use super::vault::{self, Change, Saved, Vault, VaultError};
use crate::http::Request;
use crate::limits::{
    BYTES_PER_COST, FLEET_COPY_BYTES, FLEET_READ_BYTES, FLEET_RELAY_STOP_MILLIS, FLEET_SAVE_STOP_MILLIS,
    FLEET_STOP_MILLIS,
};
use crate::mesh::tickets::Tickets;
use crate::reactor::Seat;
use crate::rt::{self, Gate, Pass};

/// The coordinator has one reactor, which gets no messages.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

/// What the helper threads hand back.
#[derive(Debug)]
pub enum Letter {
    /// An order was carried out.
    Courier(u64, courier::Outcome),
    /// A change is on disk, or is not.
    Vault(u64, Result<(), vault::Failure>),
    /// Long work was done.
    Aside(u64),
}

/// What a coordinator is made of before its reactor runs.
pub struct Luggage {
    settings: Settings,
    post: Post<Letter>,
    /// The state directory, open, and the books as it knows them.
    state: Option<(Vault, Box<Books>)>,
}

/// The coordinator.
pub struct Coordinator {
    /// Its place on the reactor.
    pub seat: Seat<Never>,
    /// Its settings.
    pub settings: Settings,
    /// Who is there.
    pub registry: RefCell<Registry>,
    /// Usage, quotas, pins, and what is being evicted.
    pub books: RefCell<Books>,
    /// Fingerprints of token ranges.
    pub blend: RefCell<Directory>,
    /// What storage held at the start.
    pub resync: RefCell<Resync>,
    /// What happened so far.
    pub counts: Counts,
    /// Batches of events are applied one after the other.
    pub batches: Rc<Gate>,
    /// Quotas and pins change one after the other, so that memory and disk know the same order.
    changes: Rc<Gate>,
    /// Changes that have begun, or wait for others.
    changing: Rc<Cell<usize>>,
    /// Randomness for ids and targets.
    pub rng: RefCell<fastrand::Rng>,
    courier: Courier,
    vault: Option<Vault>,
    post: Post<Letter>,
    sent: Rc<Tickets<courier::Outcome>>,
    written: Rc<Tickets<Result<(), vault::Failure>>>,
    /// Long work is done one after the other.
    reading: Rc<Gate>,
    aside: Rc<Tickets<()>>,
    started: Instant,
    /// When the way down began.
    stopping: Cell<Option<Instant>>,
    /// Tickets of orders that clients wait for; none are sent once they were given up.
    relays: RefCell<Option<HashSet<u64>>>,
    /// Orders that were given up on the way down.
    given_up: Cell<usize>,
}

/// A change of quotas or pins that is under way, until it is answered.
pub struct Changing {
    _pass: Pass,
    _count: Counted,
}

/// One more of something, until it is dropped.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What is said of requests that are given up on the way down.
const STOPS: &str = "the coordinator stops";

/// Why the coordinator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state directory cannot be used.
    #[error("state directory: {0}")]
    Vault(#[from] VaultError),
    /// No descriptor left.
    #[error("cannot start the coordinator: {0}")]
    System(#[from] io::Error),
}

impl Luggage {
    /// Opens the state directory, where there is to be one, and reads what it holds.
    pub fn pack(settings: Settings) -> Result<Self, StartError> {
        let post = Post::new()?;
        let state = match &settings.state_dir {
            None => None,
            Some(dir) => {
                let mut books = Box::<Books>::default();
                let mut full = 0;
                let acknowledge = post.clone();
                let (vault, saved) = Vault::open(
                    dir,
                    |key, count| full += u64::from(!books.set_pins(key, count)),
                    move |ticket, outcome| acknowledge.post(Letter::Vault(ticket, outcome)),
                )?;
                restore(&mut books, saved, full);
                Some((vault, books))
            }
        };
        Ok(Self { settings, post, state })
    }

    /// Whether there is a state directory.
    pub fn is_durable(&self) -> bool {
        self.state.is_some()
    }
}

/// Work, and what comes of it.
struct Job<W, T> {
    work: Mutex<Option<W>>,
    result: Mutex<Option<T>>,
}

impl<W: FnOnce() -> T, T> Job<W, T> {
    /// Does it, unless it is done.
    fn run(&self) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(work());
        }
    }

    fn result(&self) -> Option<T> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn restore(books: &mut Books, saved: Saved, full: u64) {
    if full > 0 {
        tracing::error!(keys = full, "too many keys: these pins are left out");
    }
    if let Some(aside) = saved.set_aside {
        tracing::error!(
            reason = aside.reason,
            "the saved state is damaged and was set aside as {}: quotas and pins begin empty",
            aside.path.display()
        );
    }
    tracing::info!(quotas = saved.quotas.len(), pins = saved.pins, "state read");
    for (salt, bytes) in saved.quotas {
        if !books.set_quota(&salt, bytes) {
            tracing::error!(salt, "too many quotas: this one is left out");
        }
    }
    books.set_default(saved.default);
}

impl Coordinator {
    /// Builds the coordinator on its reactor. `luggage` is there once.
    pub fn new(seat: Seat<Never>, luggage: &Mutex<Option<Luggage>>) -> Rc<Self> {
        let luggage = luggage.lock().ok().and_then(|mut luggage| luggage.take());
        let Luggage { settings, post, state } = luggage.expect("one reactor takes it");
        let (vault, books) =
            state.map_or_else(|| (None, Box::default()), |(vault, books)| (Some(vault), books));
        let deliver = post.clone();
        let mut rng = fastrand::Rng::new();
        let resync = Resync::new(settings.resync_rules(), Duration::ZERO);
        Rc::new(Self {
            seat,
            registry: RefCell::default(),
            books: RefCell::new(*books),
            blend: RefCell::new(Directory::new(settings.chunk_size, settings.blend_probe_stride)),
            resync: RefCell::new(resync),
            counts: Counts::default(),
            batches: Gate::new(),
            changes: Gate::new(),
            changing: Rc::default(),
            rng: RefCell::new(rng.fork()),
            courier: Courier::start(move |ticket, outcome| deliver.post(Letter::Courier(ticket, outcome))),
            vault,
            post,
            sent: Tickets::new(),
            written: Tickets::new(),
            reading: Gate::new(),
            aside: Tickets::new(),
            started: Instant::now(),
            stopping: Cell::new(None),
            relays: RefCell::new(Some(HashSet::new())),
            given_up: Cell::new(0),
            settings,
        })
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Seconds since 1970.
    pub fn wall() -> f64 {
        SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
    }

    /// Whether nothing may be evicted yet: what was saved is known, what storage holds is not.
    pub fn is_holding(&self) -> bool {
        self.vault.is_some() && self.resync_state() == Listing::Running
    }

    /// Where the resync stands. It runs until the last page that came is in the books.
    pub fn resync_state(&self) -> Listing {
        if self.books.borrow().resyncing() { Listing::Running } else { self.resync.borrow().outcome() }
    }

    /// Carries an order out; its ticket is filled in here. On the way down one that a client waits for is given up.
    pub async fn send(&self, mut order: Order) -> courier::Outcome {
        let pending = self.sent.open();
        let (ticket, relay) = (pending.ticket(), order.class == Class::Relay);
        order.ticket = ticket;
        if relay {
            match &mut *self.relays.borrow_mut() {
                Some(relays) => relays.insert(ticket),
                None => return Err(Failure(STOPS.to_owned())),
            };
        }
        let outcome = match self.courier.send(order) {
            Ok(()) => pending.await,
            Err(busy) => {
                self.counts.busy.add(1);
                Err(Failure(busy.to_string()))
            }
        };
        if let Some(relays) = &mut *self.relays.borrow_mut() {
            relays.remove(&ticket);
        }
        outcome
    }

    /// Enters a change of quotas or pins, when those before it are answered. It lasts until what this gives is dropped.
    pub async fn change(&self) -> Changing {
        let count = Counted::new(&self.changing);
        Changing { _pass: self.changes.enter().await, _count: count }
    }

    /// Whether changes are under way that become durable, and there is time for it.
    pub(super) fn is_saving(&self) -> bool {
        self.vault.is_some() && self.changing.get() > 0 && !self.is_late()
    }

    /// Whether the way down takes so long that nothing more is saved.
    fn is_late(&self) -> bool {
        self.stopping.get().is_some_and(|began| began.elapsed().as_millis() >= FLEET_SAVE_STOP_MILLIS.into())
    }

    /// Makes a change durable, where there is a state directory. The caller has [entered](Self::change) it and changes
    /// the books afterwards.
    pub async fn save(&self, _entered: &Changing, change: impl FnOnce() -> Change) -> Result<(), String> {
        let Some(vault) = &self.vault else { return Ok(()) };
        if self.is_late() {
            return Err(STOPS.to_owned());
        }
        let pending = self.written.open();
        let outcome = match vault.change(pending.ticket(), change()) {
            Ok(()) => pending.await.map_err(|failure| failure.to_string()),
            Err(busy) => Err(busy.to_string()),
        };
        if outcome.is_err() {
            self.counts.save_errors.add(1);
        }
        outcome
    }

    /// What `form` makes of the content type and the body of a request. A long body is read on a thread of its own,
    /// so that others are answered meanwhile; what is left over of it should end there, too.
    pub async fn read<T: Send + 'static>(
        &self,
        request: &Request<'_>,
        form: impl FnOnce(&str, &[u8]) -> T + Send + 'static,
    ) -> T {
        if request.body.len() <= FLEET_READ_BYTES {
            return form(request.content_type, request.body);
        }
        let _turn = self.reading.enter().await;
        let content_type = request.content_type.to_owned();
        let mut body = Vec::with_capacity(request.body.len());
        for piece in request.body.chunks(FLEET_COPY_BYTES) {
            body.extend_from_slice(piece);
            self.seat.turn.spend((piece.len() / BYTES_PER_COST) as u32).await;
        }
        self.run(move || form(&content_type, &body)).await
    }

    /// Does long work on a thread of its own; one such work is done at a time.
    pub async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let _turn = self.reading.enter().await;
        self.run(work).await
    }

    /// What `look` finds in an answer of a server; in a long one on a thread of its own.
    pub async fn look<T: Send + 'static>(
        &self,
        reply: courier::Reply,
        look: impl FnOnce(courier::Reply) -> T + Send + 'static,
    ) -> T {
        if reply.body.len() <= FLEET_READ_BYTES { look(reply) } else { self.aside(move || look(reply)).await }
    }

    /// Lets go of what was read of a request; of a long one, which may be many small things, on a thread of its own.
    pub async fn discard<T: Send + 'static>(&self, request: &Request<'_>, read: T) {
        if request.body.len() > FLEET_READ_BYTES {
            self.aside(move || drop(read)).await;
        }
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let pending = self.aside.open();
        let (ticket, post) = (pending.ticket(), self.post.clone());
        let job = Arc::new(Job { work: Mutex::new(Some(work)), result: Mutex::new(None) });
        let mine = job.clone();
        let thread = thread::Builder::new().name("fleet-read".to_owned()).spawn(move || {
            mine.run();
            // only now may the result be taken: who takes it must not end what the work still holds
            drop(mine);
            post.post(Letter::Aside(ticket));
        });
        match thread {
            Ok(_) => pending.await,
            Err(error) => {
                tracing::warn!(%error, "no thread to read a request on");
                job.run();
            }
        }
        job.result().expect("the work was done")
    }

    /// Where a registered instance is dialled.
    pub fn address(&self, id: &str) -> Option<(String, u16)> {
        let registry = self.registry.borrow();
        let Instance { ip, http_port, .. } = &registry.get(id)?.instance;
        Some((ip.clone(), *http_port))
    }

    /// Hands what helper threads bring to the tasks that wait for it. Runs for ever.
    pub(super) async fn carry_mail(self: Rc<Self>) {
        let mailbox = match self.post.open() {
            Ok(mailbox) => mailbox,
            Err(error) => return tracing::error!(%error, "the coordinator cannot hear its helper threads"),
        };
        // on the way down too: requests in flight still wait for theirs
        while mailbox.wait().await.is_ok() {
            for letter in mailbox.take() {
                match letter {
                    Letter::Courier(ticket, outcome) => self.sent.redeem(ticket, outcome),
                    Letter::Vault(ticket, outcome) => self.written.redeem(ticket, outcome),
                    Letter::Aside(ticket) => self.aside.redeem(ticket, ()),
                };
            }
        }
    }

    /// Notes when the way down begins, and gives up what clients wait for a moment later.
    pub(super) async fn note_stop(self: Rc<Self>) {
        self.seat.stopping.wait().await;
        self.stopping.set(Some(Instant::now()));
        let some = |relays: &Option<HashSet<u64>>| relays.as_ref().is_some_and(|relays| !relays.is_empty());
        let end = Instant::now() + Duration::from_millis(FLEET_RELAY_STOP_MILLIS);
        while Instant::now() < end && some(&self.relays.borrow()) {
            rt::sleep(Duration::from_millis(5)).await;
        }
        let relays = self.relays.take().unwrap_or_default();
        self.give_up(relays.len());
        for ticket in relays {
            self.sent.redeem(ticket, Err(Failure(STOPS.to_owned())));
        }
    }

    /// Whether requests to servers are given up: no word of each, they are counted.
    pub(super) fn gives_up(&self) -> bool {
        self.relays.borrow().is_none()
    }

    /// Counts orders that are given up.
    pub(super) fn give_up(&self, orders: usize) {
        self.given_up.set(self.given_up.get() + orders);
    }

    /// Lets dispatches under way end, for what is left of a moment.
    pub(super) async fn finish(&self) {
        self.courier.close();
        let began = self.stopping.get().unwrap_or_else(Instant::now);
        let deadline = began + Duration::from_millis(FLEET_STOP_MILLIS);
        while self.courier.under_way(Class::Dispatch) > 0 && Instant::now() < deadline {
            rt::sleep(Duration::from_millis(5)).await;
        }
        self.give_up(self.courier.under_way(Class::Dispatch));
        self.courier.stop(Duration::ZERO);
        if self.given_up.get() > 0 {
            let requests = self.given_up.get();
            tracing::warn!(requests, "stopping: requests to MP servers are given up");
        }
        // every answer is out: what is waited for here is the writer that lets go of the file
        if let Some(vault) = &self.vault {
            let grace = if self.is_late() { 0 } else { FLEET_STOP_MILLIS };
            vault.stop(Duration::from_millis(grace));
        }
    }
}
