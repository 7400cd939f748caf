//! The fleet coordinator's reactor: alone, or beside those of the index.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use super::signals::Signals;
use super::{Failed, address, reactor_driver, report};
use crate::cli::exit;
use crate::config::{Driver, Listen};
use crate::fleet::coordinator::{Coordinator, Luggage, Never, StartError};
use crate::fleet::settings::Settings;
use crate::http;
use crate::limits::{FLEET_NICE, FLEET_STOP_MILLIS};
use crate::reactor::{self, Reactors};

/// A coordinator to be started.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// Its settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// How its reactor waits for the kernel.
    pub driver: Driver,
}

/// Runs the coordinator alone until SIGTERM or SIGINT, and returns its exit code.
pub fn run(fleet: &Fleet, port_file: Option<&std::path::Path>) -> ExitCode {
    report((|| {
        let signals = Signals::watch().map_err(|error| (exit::INTERNAL, error.to_string()))?;
        let (reactors, bound) = start(fleet, 0)?;
        if let Some(path) = port_file {
            super::write_port_file(path, &bound)?;
        }
        signals.wait(None, || reactors.is_stopping());
        tracing::info!("stopping");
        stop(reactors)
    })())
}

/// Starts the coordinator's reactor beside others, which go first where they share a core; gives it and where it
/// listens.
pub(super) fn start_beside(fleet: &Fleet) -> Result<(Reactors<Never>, Vec<Listen>), Failed> {
    start(fleet, FLEET_NICE)
}

fn start(fleet: &Fleet, nice: u8) -> Result<(Reactors<Never>, Vec<Listen>), Failed> {
    let luggage = Luggage::pack(fleet.settings.clone()).map_err(|error| {
        let code = if matches!(error, StartError::Vault(_)) { exit::CANNOT_CREATE } else { exit::INTERNAL };
        (code, error.to_string())
    })?;
    let luggage = Mutex::new(Some(luggage));
    let settings = reactor::Settings {
        name: "fleet",
        driver: reactor_driver(fleet.driver),
        pin: false,
        listen: fleet.listen.iter().map(address).collect::<Result<Vec<_>, _>>()?,
        http: http::Limits { body_bytes: fleet.settings.body_limit, ..http::Limits::default() },
        keep_alive: fleet.settings.keep_alive(),
        drain: Duration::from_millis(FLEET_STOP_MILLIS),
        nice,
        ..reactor::Settings::default()
    };
    let reactors = reactor::start(settings, move |seat| Coordinator::new(seat, &luggage))
        .map_err(|error| super::not_started(&error))?;
    let bound = super::bound(&fleet.listen, &reactors.addresses);
    for listen in &bound {
        // scripts wait for these words
        let scheme = if matches!(listen, Listen::Tcp(_)) { "http://" } else { "" };
        tracing::info!("MP coordinator listening on {scheme}{listen}");
    }
    Ok((reactors, bound))
}

/// Stops the coordinator and waits for it.
pub(super) fn stop(reactors: Reactors<Never>) -> Result<(), Failed> {
    reactors.stop();
    reactors.join().map_err(|reason| (exit::INTERNAL, reason))
}
