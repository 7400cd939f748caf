//! What `/services`, `/metrics` and `/proc` say.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::log::Progress;

/// Clock ticks of a second in `/proc`: part of Linux' interface.
const TICKS: u64 = 100;

/// One stream, as `/services` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Stream {
    /// How far it can be trusted.
    pub state: String,
    /// Number of the last batch begun.
    pub last_sequence: Option<u64>,
    /// ZMQ messages.
    pub messages: u64,
    /// Batches applied.
    pub batches: u64,
    /// Store events applied.
    pub stores: u64,
    /// Removal events applied.
    pub removes: u64,
    /// Blocks that stores named.
    pub blocks_stored: u64,
    /// Blocks that removals named.
    pub blocks_removed: u64,
    /// Blocks held.
    pub blocks_held: u64,
    /// Jumps of the sequence number.
    pub gaps: u64,
    /// Numbers that never came.
    pub missed: u64,
    /// Batches that only a replay brought.
    pub replayed: u64,
    /// Events skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Payloads refused, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// A registered publisher.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    /// Its tenant.
    #[serde(rename = "TenantID")]
    pub tenant: String,
    /// Its instance.
    #[serde(rename = "InstanceID")]
    pub instance: String,
    /// The reactor that listens to it.
    pub reactor: usize,
    /// Its stream.
    pub stream: Stream,
}

#[derive(Deserialize)]
struct Services {
    services: Vec<Service>,
}

impl Stream {
    /// How far its batches are applied.
    pub fn progress(&self) -> Progress {
        Progress { last: self.last_sequence, blocks: self.blocks_stored + self.blocks_removed }
    }

    /// What was lost, refused or skipped: batches and events.
    pub fn lost(&self) -> u64 {
        self.missed + self.skipped.values().sum::<u64>() + self.refused.values().sum::<u64>()
    }
}

/// The services of a tenant; an error says what is wrong with the answer.
pub fn services(body: &[u8], tenant: &str) -> Result<Vec<Service>, String> {
    let all: Services = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(all.services.into_iter().filter(|service| service.tenant == tenant).collect())
}

/// What a counter of `/metrics` says of each reactor.
pub fn of_reactors(page: &str, name: &str) -> Vec<u64> {
    let value = |line: &str| {
        let rest = line.strip_prefix("kvatlas_")?.strip_prefix(name)?.strip_prefix("{reactor=\"")?;
        let (reactor, value) = rest.split_once("\"} ")?;
        Some((reactor.parse::<usize>().ok()?, value.parse::<u64>().ok()?))
    };
    let found: BTreeMap<usize, u64> = page.lines().filter_map(value).collect();
    found.into_values().collect()
}

/// CPU time of a process by its `/proc/PID/stat`, all threads, user and system.
pub fn cpu_of_stat(stat: &str) -> Option<Duration> {
    // the name in brackets may hold anything
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    Some(Duration::from_millis((user + system) * (1000 / TICKS)))
}

/// Resident bytes by `/proc/PID/status`.
pub fn resident_of_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu: Duration,
    /// Resident memory, bytes.
    pub resident: u64,
}
