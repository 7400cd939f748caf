//! The daemon from settings to the last answer: the control thread.
//!
//! It binds, starts the reactors, enters the registrations of the settings file, and then waits for signals.
//! The first SIGTERM or SIGINT begins the drain: `/readyz` says 503, everything else goes on for
//! `drain_seconds`; then idle connections close, answers in flight are finished, and the exit code is 0. A
//! second signal ends the drain at once.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::api::register::{register_static, wish_of};
use crate::cli::exit;
use crate::config::{self, Listen, Settings, StaticPublisher};
use crate::daemon::directory::{Directory, Readiness};
use crate::daemon::message::Message;
use crate::daemon::{Daemon, Setup};
use crate::http;
use crate::limits::{FDS_PER_PUBLISHER, FDS_RESERVED, REACTORS, SHUTDOWN_SECONDS};
use crate::reactor::{self, Reactors, StartError};
use crate::rt::pin::Cpus;
use crate::rt::{Driver, sys};
use crate::stream::contexts::Contexts;
use crate::stream::subscription;

/// How often the control thread looks whether a reactor died.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the daemon until SIGTERM or SIGINT and returns its exit code: 0 after a clean drain, 69 where an
/// address cannot be bound, 70 where a reactor failed.
///
/// The caller has parsed and checked the settings and has set up the log.
pub fn run(settings: &Settings) -> ExitCode {
    // registered before anything listens, so that an early signal is an orderly stop too
    let (told, signals) = mpsc::channel();
    if let Err(error) = watch_signals(told) {
        tracing::error!(%error, "cannot wait for signals");
        return ExitCode::from(exit::INTERNAL);
    }
    let outcome =
        start(settings).and_then(|(reactors, directory)| serve(settings, reactors, &directory, &signals));
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
        .map_err(|error| {
            let code =
                if matches!(error, StartError::Listen { .. }) { exit::UNAVAILABLE } else { exit::INTERNAL };
            (code, error.to_string())
        })?;
    let _ = directory.counters.set(reactors.counters.clone());
    Ok((reactors, directory))
}

fn reactor_settings(settings: &Settings, reactors: usize) -> Result<reactor::Settings, Failed> {
    let listen = settings.listen.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    Ok(reactor::Settings {
        reactors,
        driver: match settings.driver {
            config::Driver::Auto => Driver::Auto,
            config::Driver::IoUring => Driver::IoUring,
            config::Driver::Epoll => Driver::Epoll,
        },
        listen,
        http: http::Limits { body_bytes: settings.body_limit, ..http::Limits::default() },
        connections: settings.connections,
        idle: Duration::from_secs(settings.idle_seconds),
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
    directory: &Directory,
    signals: &mpsc::Receiver<i32>,
) -> Result<(), Failed> {
    for chosen in reactors.drivers.iter().take(1) {
        match &chosen.fallback {
            None => tracing::info!(driver = chosen.name, reactors = reactors.drivers.len(), "reactors run"),
            Some(why) => tracing::warn!(driver = chosen.name, "io_uring is not available: {why}"),
        }
    }
    register_all(&settings.publishers, &reactors, directory);
    let bound = bound(settings, &reactors);
    for listen in &bound {
        tracing::info!("listening on {listen}");
    }
    directory.set_readiness(Readiness::Ready);
    if let Some(path) = &settings.port_file {
        config::write_port_file(path, &bound).map_err(|error| {
            (exit::CANNOT_CREATE, format!("cannot write the port file {}: {error}", path.display()))
        })?;
    }
    let died = wait(&reactors, signals, None);
    if !died {
        directory.set_readiness(Readiness::Draining);
        tracing::info!(seconds = settings.drain_seconds, "draining");
        wait(&reactors, signals, Some(Duration::from_secs(settings.drain_seconds)));
    }
    reactors.stop();
    let joined = reactors.join();
    tracing::info!("stopped");
    joined.map_err(|reason| (exit::INTERNAL, reason))
}

/// Waits for a signal, for at most `time`, or until a reactor died; whether one did.
fn wait(reactors: &Reactors<Message>, signals: &mpsc::Receiver<i32>, time: Option<Duration>) -> bool {
    let mut left = time;
    loop {
        let step = left.map_or(LOOK, |left| left.min(LOOK));
        match signals.recv_timeout(step) {
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if reactors.is_stopping() {
            return true;
        }
        if let Some(rest) = &mut left {
            *rest = rest.saturating_sub(step);
            if rest.is_zero() {
                return false;
            }
        }
    }
}

fn watch_signals(told: mpsc::Sender<i32>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if told.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(())
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
fn bound(settings: &Settings, reactors: &Reactors<Message>) -> Vec<Listen> {
    let mut addresses = reactors.addresses.iter();
    settings
        .listen
        .iter()
        .filter_map(|listen| match listen {
            Listen::Tcp(_) => addresses.next().map(|address| Listen::Tcp(address.to_string())),
            Listen::Unix(path) => Some(Listen::Unix(path.clone())),
        })
        .collect()
}
