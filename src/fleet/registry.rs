//! The instances of the fleet: registration, heartbeats, and whose turn it is to be sent something.
//!
//! Ages come from a monotonic clock that the caller reads; the wall clock is only shown. Turns go round: each
//! instance once, in random order, before any has a second. An instance that failed is passed over while one is
//! there that did not.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::limits::{FLEET_INSTANCES, FLEET_REGISTRY_BYTES};

/// What an MP server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its id; empty asks for one.
    pub id: String,
    /// Host of its HTTP API.
    pub ip: String,
    /// Port of its HTTP API.
    pub http_port: u16,
    /// Hints, in the order in which they came.
    pub metadata: Vec<(String, String)>,
    /// Where peers fetch from it; empty without P2P.
    pub p2p_advertised_url: String,
    /// Where peers ask it; 0 without P2P.
    pub mq_port: u16,
}

impl Instance {
    fn bytes(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        // the id stands twice, once to be found by
        2 * self.id.len() + self.ip.len() + self.p2p_advertised_url.len() + metadata
    }
}

/// A registered instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// What it said of itself.
    pub instance: Instance,
    /// When it (re-)registered, seconds since 1970.
    pub registered: f64,
    /// When it was last heard of, since the start.
    pub heartbeat: Duration,
    /// The last thing sent to it failed.
    pub failed: bool,
    /// The round in which it last had its turn; the first round is 1.
    round: u64,
}

/// How a registration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The id, generated where none was given.
    pub id: String,
    /// It replaced an existing registration.
    pub re_registered: bool,
}

/// The registry takes no further instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// As many as there may be.
    #[error("the fleet has the most instances that it may have ({FLEET_INSTANCES})")]
    Instances,
    /// Their texts are long.
    #[error("the registrations of the fleet hold more than {FLEET_REGISTRY_BYTES} bytes of text")]
    Text,
}

/// All registered instances.
#[derive(Debug, Default)]
pub struct Registry {
    /// By order of first registration, which is the order of listings.
    members: BTreeMap<u64, Member>,
    places: HashMap<String, u64>,
    next_place: u64,
    bytes: usize,
    round: u64,
}

impl Registry {
    /// Nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters or replaces an instance, heard of `now` (since the start), at `wall` seconds since 1970. An existing
    /// one keeps its place in listings, and is no longer a failed one.
    pub fn register(
        &mut self,
        mut instance: Instance,
        now: Duration,
        wall: f64,
        rng: &mut fastrand::Rng,
    ) -> Result<Registered, Full> {
        if instance.id.is_empty() {
            instance.id = self.fresh_id(rng);
        }
        let id = instance.id.clone();
        let place = self.places.get(&id).copied();
        let before = place.and_then(|place| self.members.get(&place));
        let bytes = self.bytes - before.map_or(0, |member| member.instance.bytes()) + instance.bytes();
        let round = before.map_or(0, |member| member.round);
        if place.is_none() && self.members.len() >= FLEET_INSTANCES {
            return Err(Full::Instances);
        }
        if bytes > FLEET_REGISTRY_BYTES {
            return Err(Full::Text);
        }
        self.bytes = bytes;
        let at = place.unwrap_or(self.next_place);
        if place.is_none() {
            self.places.insert(id.clone(), at);
            self.next_place += 1;
        }
        self.members.insert(at, Member { instance, registered: wall, heartbeat: now, failed: false, round });
        Ok(Registered { id, re_registered: place.is_some() })
    }

    /// Notes that an instance was heard of; whether it is registered.
    pub fn heartbeat(&mut self, id: &str, now: Duration) -> bool {
        self.member_mut(id).is_some_and(|member| {
            member.heartbeat = now;
            true
        })
    }

    /// Takes an instance out, if it was there.
    pub fn remove(&mut self, id: &str) -> Option<Member> {
        let place = self.places.remove(id)?;
        let member = self.members.remove(&place)?;
        self.bytes -= member.instance.bytes();
        Some(member)
    }

    /// The instance with this id.
    pub fn get(&self, id: &str) -> Option<&Member> {
        self.places.get(id).and_then(|place| self.members.get(place))
    }

    /// All instances, in order of first registration.
    pub fn list(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// All instances from a place on, with their places: the order of [`Self::list`], the first at 0 or later.
    pub fn list_from(&self, place: u64) -> impl Iterator<Item = (u64, &Member)> {
        self.members.range(place..).map(|(place, member)| (*place, member))
    }

    /// Bytes of text that the registrations hold.
    pub fn text(&self) -> usize {
        self.bytes
    }

    /// Number of instances.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether nobody is registered.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Ids of the instances not heard of for more than `timeout` seconds; with NaN there are none.
    pub fn stale(&self, now: Duration, timeout: f64) -> impl Iterator<Item = &str> {
        let silent = move |member: &&Member| now.saturating_sub(member.heartbeat).as_secs_f64() > timeout;
        self.list().filter(silent).map(|member| member.instance.id.as_str())
    }

    /// Takes the stale instances out, and gives them.
    pub fn sweep(&mut self, now: Duration, timeout: f64) -> Vec<Member> {
        let stale: Vec<String> = self.stale(now, timeout).map(str::to_owned).collect();
        stale.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// The instance whose turn it is. A newcomer has its turn in the round that runs.
    pub fn next_target(&mut self, rng: &mut fastrand::Rng) -> Option<&Instance> {
        let any_good = self.members.values().any(|member| !member.failed);
        let mut drawn = self.draw(any_good, rng);
        if drawn.is_none() {
            self.round += 1;
            drawn = self.draw(any_good, rng);
        }
        let member = self.members.get_mut(&drawn?)?;
        member.round = self.round;
        Some(&member.instance)
    }

    /// Notes how sending something to an instance ended.
    pub fn reported(&mut self, id: &str, ok: bool) {
        if let Some(member) = self.member_mut(id) {
            member.failed = !ok;
        }
    }

    /// One of those that have not had their turn in this round, each as likely as the others.
    fn draw(&self, good_only: bool, rng: &mut fastrand::Rng) -> Option<u64> {
        let mut drawn = None;
        let waiting = |member: &Member| member.round < self.round && !(good_only && member.failed);
        for (seen, place) in
            self.members.iter().filter(|(_, member)| waiting(member)).map(|(place, _)| *place).enumerate()
        {
            if rng.usize(..=seen) == 0 {
                drawn = Some(place);
            }
        }
        drawn
    }

    fn member_mut(&mut self, id: &str) -> Option<&mut Member> {
        self.places.get(id).and_then(|place| self.members.get_mut(place))
    }

    fn fresh_id(&self, rng: &mut fastrand::Rng) -> String {
        loop {
            let id = generated_id(rng.u128(..));
            if !self.places.contains_key(&id) {
                return id;
            }
        }
    }
}

/// `mp-` and the 32 hex digits of a version 4 UUID made of `random`.
pub fn generated_id(random: u128) -> String {
    let version = (random & !(0xf << 76)) | 4 << 76;
    let variant = (version & !(0b11 << 62)) | 0b10 << 62;
    format!("mp-{variant:032x}")
}
