//! The daemon from settings to the last answer: the control thread.
//!
//! It binds, starts the reactors, enters the registrations of the settings file, and then waits for signals.
//! The first SIGTERM or SIGINT begins the drain: `/readyz` says 503, everything else goes on for
//! `drain_seconds`; then idle connections close, answers in flight are finished, and the exit code is 0. A
//! second signal ends the drain at once.

pub mod fleet;
mod signals;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use self::fleet::Fleet;
use self::signals::Signals;
use crate::api::register::{register_static, wish_of};
use crate::cli::exit;
use crate::config::{self, Listen, Settings, StaticPublisher};
use crate::daemon::directory::{Directory, Readiness};
use crate::daemon::message::Message;
use crate::daemon::{Daemon, Setup};
use crate::fleet::coordinator::Never;
use crate::http;
use crate::limits::{FDS_PER_PUBLISHER, FDS_RESERVED, REACTORS, SHUTDOWN_SECONDS};
use crate::reactor::{self, Reactors, StartError};
use crate::rt::pin::Cpus;
use crate::rt::{self, Driver, DriverError, sys};
use crate::stream::contexts::Contexts;
use crate::stream::subscription;

/// Runs the daemon until SIGTERM or SIGINT and returns its exit code: 0 after a clean drain, 69 where an
/// address cannot be bound, 70 where a reactor failed.
///
/// The caller has parsed and checked the settings and has set up the log.
pub fn run(settings: &Settings, fleet: Option<&Fleet>) -> ExitCode {
    report((|| {
        let signals = Signals::watch().map_err(|error| (exit::INTERNAL, error.to_string()))?;
        let (reactors, directory) = start(settings)?;
        let (fleet, also) = fleet.map(fleet::start_beside).transpose()?.unzip();
        serve(settings, reactors, fleet, &also.unwrap_or_default(), &directory, &signals)
    })())
}

fn report(outcome: Result<(), Failed>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, reason)) => {
            tracing::error!("{reason}");
            ExitCode::from(code)
        }
    }
}

type Failed = (u8, String);

fn start(settings: &Settings) -> Result<(Reactors<Message>, Arc<Directory>), Failed> {
    let internal = |error: std::io::Error| (exit::INTERNAL, error.to_string());
    let allowed = Cpus::of_this_thread().map_err(internal)?.count();
    let count = settings.reactors.unwrap_or(allowed).clamp(1, REACTORS);
    let directory = Directory::new(count);
    let descriptors = sys::raise_descriptors().map_err(internal)?;
    if descriptors < FDS_RESERVED {
        let reason = format!(
            "{descriptors} file descriptors are too few to start: raise the limit (ulimit -n) to {FDS_RESERVED} and {FDS_PER_PUBLISHER} more a publisher"
        );
        return Err((exit::INTERNAL, reason));
    }
    directory.set_descriptors(descriptors);
    let setup = Setup {
        seed: settings.hash_seed,
        directory: directory.clone(),
        contexts: Contexts::new().map_err(internal)?,
        subscription: subscription::Settings {
            receive_hwm: settings.zmq_hwm,
            ..subscription::Settings::default()
        },
        replay_idle: Duration::from_millis(settings.replay_idle_ms),
        stream_ttl: Duration::from_secs(settings.stream_ttl),
    };
    let reactors = reactor::start(reactor_settings(settings, count)?, move |seat| Daemon::new(seat, &setup))
        .map_err(|error| not_started(&error))?;
    let _ = directory.counters.set(reactors.counters.clone());
    Ok((reactors, directory))
}

fn not_started(error: &StartError) -> Failed {
    let code = match error {
        StartError::Listen { .. } => exit::UNAVAILABLE,
        StartError::Driver { error: DriverError::NoEpoll(_), .. } => exit::USAGE,
        _ => exit::INTERNAL,
    };
    (code, error.to_string())
}

fn reactor_driver(driver: config::Driver) -> Driver {
    match driver {
        config::Driver::Auto => Driver::Auto,
        config::Driver::IoUring => Driver::IoUring,
        config::Driver::Epoll => Driver::Epoll,
    }
}

fn reactor_settings(settings: &Settings, reactors: usize) -> Result<reactor::Settings, Failed> {
    let listen = settings.listen.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    Ok(reactor::Settings {
        reactors,
        driver: reactor_driver(settings.driver),
        listen,
        http: http::Limits { body_bytes: settings.body_limit, ..http::Limits::default() },
        connections: settings.connections,
        idle: Duration::from_secs(settings.idle_seconds),
        keep_alive: Duration::from_secs(settings.idle_seconds),
        drain: Duration::from_secs(SHUTDOWN_SECONDS),
        busy_poll_us: settings.busy_poll_us as u32,
        ..reactor::Settings::default()
    })
}

fn address(listen: &Listen) -> Result<reactor::Listen, Failed> {
    match listen {
        Listen::Unix(path) => Ok(reactor::Listen::Unix(path.clone())),
        Listen::Tcp(text) => {
            let failed = |reason: String| (exit::UNAVAILABLE, format!("cannot listen on {text}: {reason}"));
            let mut found = text.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
            let first: SocketAddr = found.next().ok_or_else(|| failed("it has no address".to_owned()))?;
            Ok(reactor::Listen::Tcp(first))
        }
    }
}

fn serve(
    settings: &Settings,
    reactors: Reactors<Message>,
    fleet: Option<Reactors<Never>>,
    also: &[Listen],
    directory: &Directory,
    signals: &Signals,
) -> Result<(), Failed> {
    for chosen in reactors.drivers.iter().take(1) {
        match &chosen.fallback {
            None => {
                let (runtime, driver) = (rt::RUNTIME, chosen.name);
                tracing::info!(runtime, driver, reactors = reactors.drivers.len(), "reactors run");
            }
            Some(why) => tracing::warn!(driver = chosen.name, "io_uring is not available: {why}"),
        }
    }
    register_all(&settings.publishers, &reactors, directory);
    let bound = bound(&settings.listen, &reactors.addresses);
    for listen in &bound {
        tracing::info!("listening on {listen}");
    }
    directory.set_readiness(Readiness::Ready);
    if let Some(path) = &settings.port_file {
        write_port_file(path, &[bound.as_slice(), also].concat())?;
    }
    let died =
        signals.wait(None, || reactors.is_stopping() || fleet.as_ref().is_some_and(Reactors::is_stopping));
    // the coordinator has nothing to drain: servers register with the next one
    let fleet = fleet.map_or(Ok(()), fleet::stop);
    if !died {
        directory.set_readiness(Readiness::Draining);
        tracing::info!(seconds = settings.drain_seconds, "draining");
        signals.wait(Some(Duration::from_secs(settings.drain_seconds)), || reactors.is_stopping());
    }
    reactors.stop();
    let joined = reactors.join();
    tracing::info!("stopped");
    joined.map_err(|reason| (exit::INTERNAL, reason)).and(fleet)
}

fn write_port_file(path: &Path, bound: &[Listen]) -> Result<(), Failed> {
    config::write_port_file(path, bound).map_err(|error| {
        (exit::CANNOT_CREATE, format!("cannot write the port file {}: {error}", path.display()))
    })
}

/// Enters the registrations of the settings file; a bad one is skipped with a message.
fn register_all(publishers: &[StaticPublisher], reactors: &Reactors<Message>, directory: &Directory) {
    for publisher in publishers {
        match wish_of(publisher) {
            Ok(wish) => {
                if let Some((home, message)) = register_static(directory, wish)
                    && reactors.port.send(home, message).is_err()
                {
                    tracing::error!(entry = publisher.name, "the reactors take no further registration");
                }
            }
            Err(bad) => tracing::error!(entry = publisher.name, "entry skipped: {bad}"),
        }
    }
    reactors.port.flush();
}

/// The addresses that are listened on, ports filled in, in the order of the settings.
fn bound(listen: &[Listen], addresses: &[SocketAddr]) -> Vec<Listen> {
    let mut addresses = addresses.iter();
    listen
        .iter()
        .filter_map(|listen| match listen {
            Listen::Tcp(_) => addresses.next().map(|address| Listen::Tcp(address.to_string())),
            Listen::Unix(path) => Some(Listen::Unix(path.clone())),
        })
        .collect()
}
