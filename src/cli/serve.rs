//! `kvatlas serve`: flags and environment over the settings file, then the daemon.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum as _, value_parser};
use serde::Serialize;

use super::coordinator::Durable;
use super::exit::{self, Failure};
use super::log;
use super::output;
use crate::api::register::wish_of;
use crate::config::{ConfigError, ConfigFile, Driver, Listen, LogFormat, LogLevel, Settings};
use crate::fleet;
use crate::fleet::settings::SettingsError;
use crate::limits::{BUSY_POLL_US, REACTORS};
use crate::rt::sys;
use crate::serve::fleet::Fleet;

/// Flags of `serve`. Every one of them can also stand in the environment; a flag wins over the environment,
/// which wins over the settings file.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    /// Address to serve HTTP on: HOST:PORT or unix:PATH; may be given more than once [default: 127.0.0.1:13333]
    #[arg(long, value_name = "ADDR", env = "KVATLAS_LISTEN", value_delimiter = ',')]
    listen: Vec<Listen>,
    /// Settings file, the Conductor's conductor_config.json [default: $CONDUCTOR_CONFIG_PATH, else
    /// ~/.mooncake/conductor_config.json if it is there]
    #[arg(long, value_name = "PATH", env = "KVATLAS_CONFIG")]
    config: Option<PathBuf>,
    /// Reactors, each a pinned thread with its share of the index [default: one a core]
    #[arg(long, value_name = "N", env = "KVATLAS_REACTORS", value_parser = value_parser!(u16).range(1..=REACTORS as i64))]
    reactors: Option<u16>,
    /// End when this process does, which must be the one that started the daemon
    #[arg(long, value_name = "PID", hide = true)]
    end_with: Option<u32>,
    /// How reactors wait for the kernel [default: auto]
    #[arg(long, env = "KVATLAS_DRIVER")]
    driver: Option<Driver>,
    /// Seed of the standard block hash [default: 1337]
    #[arg(long, value_name = "SEED", env = "KVATLAS_HASH_SEED")]
    hash_seed: Option<u64>,
    /// Least severe line of the log [default: $CONDUCTOR_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL", env = "KVATLAS_LOG_LEVEL", ignore_case = true)]
    log_level: Option<LogLevel>,
    /// How the log looks [default: text]
    #[arg(long, value_name = "FORMAT", env = "KVATLAS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// Largest HTTP request body, bytes [default: 67108864]
    #[arg(long, value_name = "BYTES", env = "KVATLAS_BODY_LIMIT", value_parser = value_parser!(u32).range(1024..))]
    body_limit: Option<u32>,
    /// Close HTTP connections silent for this long, seconds [default: 75]
    #[arg(long, value_name = "SECONDS", env = "KVATLAS_IDLE_SECONDS", value_parser = value_parser!(u64).range(1..=86_400))]
    idle_seconds: Option<u64>,
    /// Most open HTTP connections of one reactor [default: 4096]
    #[arg(long, value_name = "N", env = "KVATLAS_CONNECTIONS", value_parser = value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// Messages that libzmq may hold for one subscription; 0 is unlimited [default: 20000]
    #[arg(long, value_name = "N", env = "KVATLAS_ZMQ_HWM", value_parser = value_parser!(i32).range(0..))]
    zmq_hwm: Option<i32>,
    /// Go on answering for this long after SIGTERM, seconds [default: 5]
    #[arg(long, value_name = "SECONDS", env = "KVATLAS_DRAIN_SECONDS", value_parser = value_parser!(u64).range(0..=3600))]
    drain_seconds: Option<u64>,
    /// Let an idle reactor poll for this long before it sleeps, microseconds [default: 0]
    #[arg(long, value_name = "US", env = "KVATLAS_BUSY_POLL_US", value_parser = value_parser!(u64).range(0..=u64::from(BUSY_POLL_US)))]
    busy_poll_us: Option<u64>,
    /// Drop the entries of a stream disconnected for longer, seconds; 0 keeps them [default: 0]
    #[arg(long, value_name = "SECONDS", env = "KVATLAS_STREAM_TTL")]
    stream_ttl: Option<u64>,
    /// Give a replay up that is silent for this long, milliseconds [default: 2000]
    #[arg(long, value_name = "MS", env = "KVATLAS_REPLAY_IDLE_MS", value_parser = value_parser!(u64).range(10..=600_000))]
    replay_idle_ms: Option<u64>,
    /// Write the bound addresses to this file, one a line, once all are bound: those of --listen, then those of
    /// --fleet-listen
    #[arg(long, value_name = "PATH", env = "KVATLAS_PORT_FILE")]
    port_file: Option<PathBuf>,
    /// Coordinate a fleet of LMCache MP servers too, as `kvatlas coordinator` does; the
    /// LMCACHE_MP_COORDINATOR_* variables say how
    #[arg(long, env = "KVATLAS_FLEET", value_parser = BoolishValueParser::new())]
    fleet: bool,
    /// Address of the coordinator [default: host and port of its variables, else 0.0.0.0:9300]
    #[arg(long, value_name = "ADDR", env = "KVATLAS_FLEET_LISTEN", value_delimiter = ',')]
    fleet_listen: Vec<Listen>,
    #[command(flatten)]
    durable: Durable,
    /// Print the effective settings as JSON and exit
    #[arg(long)]
    check_config: bool,
}

const AFTER_HELP: &str = "\
The settings file is the Conductor's:
  {\"http_server_port\": 13333,
   \"kvevent_instance\": {\"prefill-0\": {\"endpoint\": \"tcp://10.0.0.1:5557\", \"type\": \"vLLM\",
                                      \"modelname\": \"qwen\", \"block_size\": 128, \"dp_rank\": 0}}}
Its http_server_port is served on all interfaces (0.0.0.0), as the Conductor does, unless --listen says
otherwise; without that key only 127.0.0.1:13333 is.

Examples:
  kvatlas serve --listen 0.0.0.0:13333 --listen unix:/run/kvatlas.sock
  kvatlas serve --config conductor_config.json --check-config";

/// What was read, and what there is to say about it once a log stands.
struct Loaded {
    settings: Settings,
    warnings: Vec<String>,
    unknown: Vec<String>,
}

/// Runs the daemon, or prints its settings.
pub fn run(args: &ServeArgs) -> ExitCode {
    if let Some(Err(error)) = args.end_with.map(sys::end_with) {
        return super::report(&Failure::new(exit::INTERNAL, format!("--end-with: {error}")));
    }
    let loaded = match args.load() {
        Ok(loaded) => loaded,
        Err(error) => return super::report(&failure(&error)),
    };
    let Loaded { mut settings, mut warnings, unknown } = loaded;
    let fleet = match args.fleet(settings.driver, &mut warnings) {
        Ok(fleet) => fleet,
        Err(error) => return super::report(&Failure::new(exit::SETTINGS, error.to_string())),
    };
    log::start(settings.log_level, settings.log_format);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    for key in unknown {
        tracing::debug!("unknown key {key} in the settings file");
    }
    if args.check_config {
        settings.publishers.retain(|publisher| {
            let checked = wish_of(publisher);
            if let Err(bad) = &checked {
                tracing::error!(entry = publisher.name, "entry skipped: {bad}");
            }
            checked.is_ok()
        });
        return print(&settings, fleet.as_ref());
    }
    crate::serve::run(&settings, fleet.as_ref())
}

/// What `--check-config` prints.
#[derive(Serialize)]
struct Effective<'a> {
    #[serde(flatten)]
    settings: &'a Settings,
    fleet: Option<&'a Fleet>,
}

fn print(settings: &Settings, fleet: Option<&Fleet>) -> ExitCode {
    match serde_json::to_string_pretty(&Effective { settings, fleet }) {
        Ok(text) => output::line(text).map_or_else(|failure| super::report(&failure), |()| ExitCode::SUCCESS),
        Err(error) => super::report(&Failure::new(exit::INTERNAL, format!("cannot print settings: {error}"))),
    }
}

fn failure(error: &ConfigError) -> Failure {
    let code = if matches!(error, ConfigError::Unreadable { .. }) { exit::NO_INPUT } else { exit::USAGE };
    Failure::new(code, error.to_string())
}

impl ServeArgs {
    fn load(&self) -> Result<Loaded, ConfigError> {
        let (mut settings, mut warnings, unknown) = match self.read_file()? {
            Some((mut file, path)) => {
                let skipped = std::mem::take(&mut file.skipped);
                let unknown = std::mem::take(&mut file.unknown);
                let skipped = skipped.into_iter().map(|what| format!("{}: skipped: {what}", path.display()));
                let skipped = skipped.collect();
                (Settings::with_file(file, path), skipped, unknown)
            }
            None => (Settings::default(), Vec::new(), Vec::new()),
        };
        self.overlay(&mut settings);
        if self.log_level.is_none()
            && let Some(level) = env_text("CONDUCTOR_LOG_LEVEL")
        {
            match LogLevel::from_str(&level, true) {
                Ok(level) => settings.log_level = level,
                Err(_) => warnings.push(format!("CONDUCTOR_LOG_LEVEL: no such level: {level}")),
            }
        }
        Ok(Loaded { settings, warnings, unknown })
    }

    /// The coordinator, where there is to be one.
    fn fleet(&self, driver: Driver, warnings: &mut Vec<String>) -> Result<Option<Fleet>, SettingsError> {
        if !self.fleet {
            if !self.fleet_listen.is_empty() || self.durable.is_given() {
                warnings.push("flags of the coordinator do nothing without --fleet".to_owned());
            }
            return Ok(None);
        }
        let (settings, more) =
            fleet::settings::Settings::load(|name| env::var(name).ok(), &self.durable.flags())?;
        warnings.extend(more);
        let listen =
            if self.fleet_listen.is_empty() { vec![settings.listen()] } else { self.fleet_listen.clone() };
        Ok(Some(Fleet { settings, listen, driver }))
    }

    /// The settings file, unless it is the default one and not there.
    fn read_file(&self) -> Result<Option<(ConfigFile, PathBuf)>, ConfigError> {
        let named = self.config.clone().or_else(|| env_text("CONDUCTOR_CONFIG_PATH").map(PathBuf::from));
        if let Some(path) = named {
            return Ok(Some((ConfigFile::read(&path)?, path)));
        }
        let Some(home) = env_text("HOME") else { return Ok(None) };
        let path = PathBuf::from(home).join(".mooncake").join("conductor_config.json");
        match ConfigFile::read(&path) {
            Ok(file) => Ok(Some((file, path))),
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Lays what flags and environment say over `settings`.
    fn overlay(&self, settings: &mut Settings) {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        if !self.listen.is_empty() {
            settings.listen.clone_from(&self.listen);
        }
        settings.reactors = self.reactors.map(usize::from);
        put(&mut settings.driver, self.driver);
        put(&mut settings.hash_seed, self.hash_seed);
        put(&mut settings.log_level, self.log_level);
        put(&mut settings.log_format, self.log_format);
        put(&mut settings.body_limit, self.body_limit.map(|bytes| bytes as usize));
        put(&mut settings.idle_seconds, self.idle_seconds);
        put(&mut settings.connections, self.connections.map(|count| count as usize));
        put(&mut settings.zmq_hwm, self.zmq_hwm);
        put(&mut settings.drain_seconds, self.drain_seconds);
        put(&mut settings.busy_poll_us, self.busy_poll_us);
        put(&mut settings.stream_ttl, self.stream_ttl);
        put(&mut settings.replay_idle_ms, self.replay_idle_ms);
        settings.port_file.clone_from(&self.port_file);
    }
}

/// A variable of the environment; `None` for unset and empty.
fn env_text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}
