//! Learning once, after the start, what storage holds: an instance is asked to list it, page by page.
//!
//! No sockets and no clock. [`Resync::poll`] says whom to ask for what, [`Resync::replied`] takes the answer,
//! [`Resync::read`] gives its entries in steps. An instance that fails is done with, what it listed until then stays,
//! and the next one is asked that has not been; each is asked at most once. The maximum wait bounds how long a first
//! or a further instance is waited for and begun with. A listing that makes progress is not cut short by it: it is
//! bounded by its pages and by the deadline of each request.

mod page;

use std::collections::HashSet;
use std::time::Duration;

pub use page::{Entry, Listing, PageFault, PageReader, Reading};

use crate::limits::{FLEET_INSTANCES, FLEET_PAGE_ENTRIES, FLEET_RESYNC_PAGES};

/// What is to be listed; the path is `/cache/objects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whom to ask.
    pub instance: String,
    /// The query, in order, not yet percent-encoded.
    pub query: Vec<(String, String)>,
}

/// How a resync goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nobody is there to be asked: poll again at this time since the start. Polling earlier does no harm.
    Wait(Duration),
    /// Send this, and give the answer to [`Resync::replied`].
    Ask(Ask),
    /// An answer is under way, or came and is to be read with [`Resync::read`].
    Busy,
    /// There is nothing more to do.
    Over,
}

/// What a step of reading gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is more to read.
    More,
    /// A whole page. Poll for what comes next once its entries are taken in.
    Page {
        /// What it lists.
        entries: Vec<Entry>,
        /// The instance is done with, for this reason.
        failed: Option<&'static str>,
    },
    /// The instance is done with, for this reason.
    Failed(String),
    /// Nothing came that could be read.
    Nothing,
}

/// Where a resync stands, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not over.
    Running,
    /// An instance listed everything that it has.
    Done,
    /// Nobody did before the maximum wait was over.
    GaveUp,
    /// It was not wanted.
    Disabled,
}

impl Outcome {
    /// The outcome as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::GaveUp => "gave_up",
            Self::Disabled => "disabled",
        }
    }
}

/// How to resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether at all.
    pub enabled: bool,
    /// How long until the registry is looked at again.
    pub poll_interval: Duration,
    /// For how long instances are waited for and begun with.
    pub max_wait: Duration,
    /// Entries of a page, as asked for.
    pub page_size: u64,
}

/// What came of it so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pages that were read.
    pub pages: u64,
    /// Entries that can be used.
    pub entries: u64,
    /// Entries that cannot.
    pub skipped: u64,
    /// Instances that were asked.
    pub tried: u64,
    /// The instance asked last; empty before.
    pub instance: String,
}

#[derive(Debug)]
enum State {
    /// Nobody is being asked.
    Idle,
    /// The next page is to be asked for.
    Due(Place),
    /// An answer is under way.
    Asked(Place),
    /// An answer is being read.
    Reading(Place, Box<PageReader>),
    Over(Outcome),
}

/// Where in a listing.
#[derive(Debug, Default)]
struct Place {
    token: Option<String>,
    pages: u64,
    /// A token seen before, replaced at every power of two of pages: a listing that runs in a circle of any length
    /// comes by it.
    mark: Option<String>,
}

/// One resync.
#[derive(Debug)]
pub struct Resync {
    rules: Rules,
    deadline: Duration,
    tried: HashSet<String>,
    state: State,
    tally: Tally,
}

impl Resync {
    /// A resync that begins `now`, since the start.
    pub fn new(rules: Rules, now: Duration) -> Self {
        let state = if rules.enabled { State::Idle } else { State::Over(Outcome::Disabled) };
        let deadline = now.saturating_add(rules.max_wait);
        Self { rules, deadline, tried: HashSet::new(), state, tally: Tally::default() }
    }

    /// Whether nothing more will be learnt.
    pub fn over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Where it stands.
    pub fn outcome(&self) -> Outcome {
        if let State::Over(outcome) = self.state { outcome } else { Outcome::Running }
    }

    /// What came of it so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What to do now, with these instances registered. Which of them is asked next is left to chance.
    pub fn poll<'a>(
        &mut self,
        now: Duration,
        registered: impl IntoIterator<Item = &'a str>,
        rng: &mut fastrand::Rng,
    ) -> Step {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.begin(now, registered, rng),
            State::Due(place) => self.ask(place),
            State::Over(outcome) => {
                self.state = State::Over(outcome);
                Step::Over
            }
            busy => {
                self.state = busy;
                Step::Busy
            }
        }
    }

    /// Takes the answer to what [`Step::Ask`] said: status and body, or why there is none. Says why where the
    /// instance is done with; otherwise [`Self::read`] or [`Self::poll`] goes on.
    pub fn replied(&mut self, reply: Result<(u16, Vec<u8>), String>) -> Result<(), String> {
        let State::Asked(place) = &mut self.state else { return Ok(()) };
        let place = std::mem::take(place);
        self.state = State::Idle;
        let (status, body) = reply?;
        // MP servers refuse pages above their ceiling instead of cutting them
        if status == 422 && place.pages == 0 && self.rules.page_size > FLEET_PAGE_ENTRIES {
            self.rules.page_size = FLEET_PAGE_ENTRIES;
            self.state = State::Due(place);
            return Ok(());
        }
        if !(200..300).contains(&status) {
            return Err(format!("it answered {status}"));
        }
        self.state = State::Reading(place, Box::new(PageReader::new(body)));
        Ok(())
    }

    /// Reads on in the page that came, at most about `entries` entries.
    pub fn read(&mut self, entries: usize) -> Read {
        let State::Reading(place, reader) = &mut self.state else { return Read::Nothing };
        let listing = match reader.step(entries) {
            Reading::More => return Read::More,
            Reading::Done(listing) => listing,
        };
        let place = std::mem::take(place);
        self.state = State::Idle;
        let listing = match listing {
            Ok(listing) => listing,
            Err(fault) => return Read::Failed(fault.to_string()),
        };
        self.tally.pages += 1;
        self.tally.entries += listing.entries.len() as u64;
        self.tally.skipped += listing.skipped;
        let mut failed = None;
        self.state = match listing.next.map(|token| place.advance(token)) {
            None => State::Over(Outcome::Done),
            Some(Ok(place)) => State::Due(place),
            Some(Err(reason)) => {
                failed = Some(reason);
                State::Idle
            }
        };
        Read::Page { entries: listing.entries, failed }
    }

    fn begin<'a>(
        &mut self,
        now: Duration,
        registered: impl IntoIterator<Item = &'a str>,
        rng: &mut fastrand::Rng,
    ) -> Step {
        let untried = registered.into_iter().filter(|id| !self.tried.contains(*id));
        let mut drawn = None;
        for (seen, id) in untried.enumerate() {
            if rng.usize(..=seen) == 0 {
                drawn = Some(id);
            }
        }
        match drawn {
            Some(id) if now <= self.deadline && self.tried.len() < FLEET_INSTANCES => {
                self.tried.insert(id.to_owned());
                self.tally.tried += 1;
                id.clone_into(&mut self.tally.instance);
                self.ask(Place::default())
            }
            None if now < self.deadline => {
                Step::Wait(now.saturating_add(self.rules.poll_interval).min(self.deadline))
            }
            _ => {
                self.state = State::Over(Outcome::GaveUp);
                Step::Over
            }
        }
    }

    fn ask(&mut self, place: Place) -> Step {
        let mut query = vec![("page_size".to_owned(), self.rules.page_size.to_string())];
        query.extend(place.token.clone().map(|token| ("page_token".to_owned(), token)));
        self.state = State::Asked(place);
        Step::Ask(Ask { instance: self.tally.instance.clone(), query })
    }
}

impl Place {
    /// The place behind a page whose `next_page_token` is `token`, or why there is none.
    fn advance(mut self, token: String) -> Result<Self, &'static str> {
        self.pages += 1;
        if self.mark.as_ref() == Some(&token) {
            return Err("its pages run in a circle");
        }
        if self.pages >= FLEET_RESYNC_PAGES {
            return Err("its pages do not end");
        }
        if self.pages.is_power_of_two() {
            self.mark = Some(token.clone());
        }
        self.token = Some(token);
        Ok(self)
    }
}
