//! The daemon that is measured: one that the bench starts, or a running one.

use std::fs;
use std::time::Instant;

use clap::ValueEnum as _;

use super::connection::Connection;
use super::patience::Patience;
use super::{Common, usage};
use crate::bench::report::Measured;
use crate::bench::seen::{Usage, cpu_of_stat, of_reactors, resident_of_status};
use crate::cli::client::Target;
use crate::cli::daemon::Daemon;
use crate::cli::exit::Failure;
use crate::cli::stop::Stop;

/// The daemon that is measured.
pub(super) struct Subject {
    /// Where it answers.
    pub(super) target: Target,
    /// Kept for its end.
    _own: Option<Daemon>,
    is_own: bool,
    process: Option<u32>,
    /// Its counters are asked for here.
    pages: Connection,
}

/// What reactors did so far: turns, and polls of more than a millisecond.
pub(super) struct Turns {
    pub(super) turns: Vec<u64>,
    pub(super) stalls: Vec<u64>,
}

/// What its process had used at some time.
#[derive(Clone, Copy)]
pub(super) struct Look {
    at: Instant,
    usage: Option<Usage>,
}

impl Subject {
    /// Starts one, or finds the one that was named.
    pub(super) fn find(common: &Common, stop: &Stop, patience: &Patience) -> Result<Self, Failure> {
        if let Some(target) = &common.target {
            let pages = Connection::open(target, patience)?;
            let (target, process) = (target.clone(), common.server_pid);
            let subject = Self { target, _own: None, is_own: false, process, pages };
            if let Some(process) = process
                && subject.usage().is_none()
            {
                return Err(usage("--server-pid", &format!("there is no process {process} on this machine")));
            }
            return Ok(subject);
        }
        let mut flags = Vec::new();
        if let Some(reactors) = common.reactors {
            flags.extend(["--reactors".to_owned(), reactors.to_string()]);
        }
        if let Some(driver) = common.driver.and_then(|driver| driver.to_possible_value()) {
            flags.extend(["--driver".to_owned(), driver.get_name().to_owned()]);
        }
        let (daemon, target) = Daemon::start(stop, &flags)?;
        let pages = Connection::open(&target, patience)?;
        let process = Some(daemon.id());
        Ok(Self { target, _own: Some(daemon), is_own: true, process, pages })
    }

    /// What its process has used; `None` where nobody can tell.
    pub(super) fn usage(&self) -> Option<Usage> {
        let process = self.process?;
        let read = |file| fs::read_to_string(format!("/proc/{process}/{file}")).ok();
        let cpu = cpu_of_stat(&read("stat")?)?;
        Some(Usage { cpu, resident: resident_of_status(&read("status")?)? })
    }

    /// What its reactors did.
    pub(super) fn turns(&mut self) -> Result<Turns, Failure> {
        let page = self.pages.get("/metrics")?;
        let page = String::from_utf8_lossy(&page);
        let of = |name| of_reactors(&page, name);
        Ok(Turns { turns: of("reactor_turns_total"), stalls: of("reactor_stalls_total") })
    }

    /// What its process has used, and when.
    pub(super) fn look(&self) -> Look {
        Look { at: Instant::now(), usage: self.usage() }
    }

    /// For the report: from `before` until now.
    pub(super) fn measured(&self, reactors: usize, before: Look) -> Measured {
        let target = (!self.is_own).then(|| self.target.to_string());
        let now = self.look();
        Measured::new(target, reactors, now.at - before.at, before.usage, now.usage)
    }
}
