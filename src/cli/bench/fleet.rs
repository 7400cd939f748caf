//! The publishers of a bench: bound, registered under a tenant of their own, and unregistered whatever happens.

use std::time::{Duration, Instant};

use serde_json::json;

use super::patience::Patience;
use super::{Common, internal};
use crate::bench::load::payload;
use crate::cli::client::{Client, Target};
use crate::cli::exit::{self, Failure};
use crate::cli::query::ask;
use crate::cli::stop::Stop;
use crate::limits::BENCH_SUBSCRIBE_SECONDS;
use crate::wire::family::Family;
use crate::wire::publisher::{Publisher, PublisherOptions};

/// Model of the benches.
pub(super) const MODEL: &str = "bench";
/// Longest wait for an answer to a registration.
const REQUEST: Duration = Duration::from_secs(10);
/// Longest wait for an answer to a good-bye: who does not answer one is asked no further.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the publishers of a bench have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) publishers: u32,
    pub(super) family: &'static Family,
    pub(super) block_size: u32,
    /// Messages that may wait in the socket of one.
    pub(super) send_hwm: i32,
    /// Whether they answer replay requests.
    pub(super) replay: bool,
}

/// Running publishers. Dropped, their instances are unregistered.
pub(super) struct Fleet {
    pub(super) publishers: Vec<Publisher>,
    pub(super) tenant: String,
    goodbye: Client,
    client: Client,
    patience: Patience,
    registered: usize,
}

/// The instance of a publisher.
pub(super) fn instance(number: usize) -> String {
    format!("bench-{number}")
}

impl Fleet {
    /// Binds the publishers, registers them and waits until the daemon listens to all of them.
    pub(super) fn start(
        plan: Plan,
        target: &Target,
        common: &Common,
        (stop, patience): (&Stop, &Patience),
    ) -> Result<Self, Failure> {
        let tenant = format!("bench-{:08x}", fastrand::u32(..));
        let (client, goodbye) = (Client::new(target.clone(), REQUEST), Client::new(target.clone(), GOODBYE));
        let patience = patience.clone();
        let mut fleet = Self { publishers: Vec::new(), tenant, goodbye, client, patience, registered: 0 };
        for number in 0..plan.publishers {
            fleet.add(number, plan, common)?;
            stop.check()?;
        }
        fleet.joined(stop)?;
        Ok(fleet)
    }

    fn add(&mut self, number: u32, plan: Plan, common: &Common) -> Result<(), Failure> {
        // the ports were checked before
        let port = if common.base_port == 0 { 0 } else { u32::from(common.base_port) + number };
        let any = |port| format!("tcp://{}:{port}", common.bind);
        let options = PublisherOptions {
            replay: plan.replay.then(|| any(0)),
            replay_shape: plan.family.replay,
            // what nobody can ask for need not be kept
            buffer_steps: if plan.replay { 10_000 } else { 0 },
            send_hwm: plan.send_hwm,
            ..PublisherOptions::new(any(port))
        };
        let publisher = Publisher::bind(options)
            .map_err(|error| Failure::new(exit::UNAVAILABLE, format!("--bind: {error}")))?;
        let reach = |endpoint: &str| {
            let port = endpoint.rsplit_once(':').map_or("", |(_, port)| port);
            format!("tcp://{}:{port}", common.advertised())
        };
        let body = json!({"endpoint": reach(publisher.endpoint()), "replay_endpoint": publisher.replay_endpoint().map(reach),
            "type": plan.family.engine, "modelname": MODEL, "tenant_id": self.tenant, "instance_id": instance(number as usize),
            "block_size": plan.block_size, "dp_rank": 0});
        // counted first: a registration whose answer was lost must go as well
        self.registered += 1;
        self.publishers.push(publisher);
        ask(&self.client, "/register", &body).map(drop)
    }

    fn joined(&self, stop: &Stop) -> Result<(), Failure> {
        let end = Instant::now() + Duration::from_secs(BENCH_SUBSCRIBE_SECONDS);
        for publisher in &self.publishers {
            while !publisher.wait_subscriber(Duration::ZERO).map_err(|error| internal(&error))? {
                if Instant::now() > end {
                    let endpoint = publisher.endpoint();
                    let reason = format!(
                        "the daemon has not subscribed to {endpoint} within {BENCH_SUBSCRIBE_SECONDS} s: --bind and --advertise say where it finds the publishers"
                    );
                    return Err(Failure::new(exit::UNAVAILABLE, reason));
                }
                stop.pause()?;
            }
        }
        Ok(())
    }
}

/// An empty batch: once its number is seen, everything before it is applied.
pub(super) fn mark(publisher: &Publisher, family: &Family) -> Result<u64, Failure> {
    publisher.send(payload(family, &[], super::now())).map_err(|error| internal(&error))
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // whoever answers nothing hears no good-bye either
        let registered = if self.patience.is_silent() { 0 } else { self.registered };
        for number in 0..registered {
            let body = json!({"instance_id": instance(number), "tenant_id": self.tenant});
            // the bench has its outcome already; a daemon that is gone has forgotten them too
            if let Err(failure) = ask(&self.goodbye, "/unregister", &body)
                && failure.code == exit::UNAVAILABLE
            {
                break;
            }
        }
    }
}
