//! `kvatlas coordinator`: flags over environment, then the fleet coordinator alone.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, value_parser};
use serde::Serialize;

use super::exit::{self, Failure};
use super::log;
use super::output;
use crate::config::{Driver, LogFormat, LogLevel};
use crate::fleet::settings::{Flags, Settings, SettingsError, number};
use crate::serve::{self, fleet::Fleet};

/// Flags of `coordinator`. Each wins over its variable, LMCACHE_MP_COORDINATOR_ and its name.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CoordinatorArgs {
    /// Host to serve HTTP on [default: 0.0.0.0]
    #[arg(long)]
    host: Option<String>,
    /// Port to serve HTTP on; 0 is any free one [default: 9300]
    #[arg(long, value_parser = whole, allow_negative_numbers = true)]
    port: Option<i64>,
    /// Drop an instance that is silent for longer, seconds, more than 0; nan keeps all [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = real, allow_negative_numbers = true)]
    instance_timeout: Option<f64>,
    /// Look for silent instances this often, seconds; 0 never does [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = real, allow_negative_numbers = true)]
    health_check_interval: Option<f64>,
    /// Evict from salts over their quota this often, seconds; 0 never does [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = real, allow_negative_numbers = true)]
    eviction_check_interval: Option<f64>,
    /// Part of a salt's keys that one sweep evicts, by count, 0 to 1 [default: 0.2]
    #[arg(long, value_name = "PART", value_parser = real, allow_negative_numbers = true)]
    eviction_ratio: Option<f64>,
    /// Evict once usage is this part of the quota, above 0 to 1 [default: 1.0]
    #[arg(long, value_name = "PART", value_parser = real, allow_negative_numbers = true)]
    trigger_watermark: Option<f64>,
    /// Tokens of a chunk; must be the --chunk-size of the MP servers [default: 256]
    #[arg(long, value_name = "TOKENS", value_parser = whole, allow_negative_numbers = true)]
    chunk_size: Option<i64>,
    /// Hash of tokens; must be that of the MP servers, and only blake3 can be computed here [default: blake3]
    #[arg(long, value_name = "NAME")]
    hash_algorithm: Option<String>,
    /// Positions between two probes of a blend match; 1 finds everything [default: 1]
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    blend_probe_stride: Option<i64>,
    /// Close HTTP connections silent for this long, seconds; more than the heartbeat of the MP servers [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = whole, allow_negative_numbers = true)]
    timeout_keep_alive: Option<i64>,
    #[command(flatten)]
    durable: Durable,
    /// Largest HTTP request body, bytes [default: 268435456]
    #[arg(long, value_name = "BYTES", env = "KVATLAS_BODY_LIMIT", value_parser = value_parser!(u32).range(1024..))]
    body_limit: Option<u32>,
    /// How the reactor waits for the kernel [default: auto]
    #[arg(long, env = "KVATLAS_DRIVER")]
    driver: Option<Driver>,
    /// Least severe line of the log [default: info]
    #[arg(long, value_name = "LEVEL", env = "KVATLAS_LOG_LEVEL", ignore_case = true)]
    log_level: Option<LogLevel>,
    /// How the log looks [default: text]
    #[arg(long, value_name = "FORMAT", env = "KVATLAS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// Write the bound address to this file, once it is bound
    #[arg(long, value_name = "PATH", env = "KVATLAS_PORT_FILE")]
    port_file: Option<PathBuf>,
    /// Print the effective settings as JSON and exit
    #[arg(long)]
    check_config: bool,
}

const AFTER_HELP: &str = "\
Environment:
  LMCACHE_MP_COORDINATOR_ and HOST, PORT, INSTANCE_TIMEOUT, HEALTH_CHECK_INTERVAL,
  EVICTION_CHECK_INTERVAL, EVICTION_RATIO, TRIGGER_WATERMARK, CHUNK_SIZE, HASH_ALGORITHM,
  BLEND_PROBE_STRIDE, TIMEOUT_KEEP_ALIVE mean what the flags of these names do. A number that
  cannot be read is warned of, and the default is used. Four more have no flag:
  ENABLE_STARTUP_RESYNC  learn after the start what storage holds [default: true]
  RESYNC_POLL_INTERVAL   look for an MP server to ask this often, seconds [default: 1]
  RESYNC_MAX_WAIT        for how long one is looked for, seconds [default: 60]
  RESYNC_PAGE_SIZE       entries of a page of its listing [default: 1000]

Examples:
  kvatlas coordinator
  kvatlas coordinator --port 9400 --chunk-size 512 --state-dir state
  kvatlas coordinator --instance-timeout 120 --timeout-keep-alive 65 --check-config";

/// Flags beyond those of the reference; `serve --fleet` has them too.
#[derive(Debug, Args)]
pub struct Durable {
    /// Take along the other ranks of a victim's chunk, which are of no use without it [env: KVATLAS_EVICT_WHOLE_CHUNKS]
    #[arg(long)]
    evict_whole_chunks: bool,
    /// Plan evictions and report them, but delete nothing [env: KVATLAS_DRY_RUN_EVICTION]
    #[arg(long)]
    dry_run_eviction: bool,
    /// Keep quotas, the default limit and pins in this directory, over restarts [default: in memory] [env:
    /// KVATLAS_STATE_DIR]
    #[arg(long, value_name = "PATH")]
    state_dir: Option<PathBuf>,
}

impl Durable {
    /// Whether any of them is given.
    pub fn is_given(&self) -> bool {
        self.evict_whole_chunks || self.dry_run_eviction || self.state_dir.is_some()
    }

    /// The flags that these are.
    pub fn flags(&self) -> Flags {
        Flags {
            evict_whole_chunks: self.evict_whole_chunks,
            dry_run_eviction: self.dry_run_eviction,
            state_dir: self.state_dir.clone(),
            ..Flags::default()
        }
    }
}

/// What `--check-config` prints.
#[derive(Serialize)]
struct Effective<'a> {
    #[serde(flatten)]
    settings: &'a Settings,
    driver: Driver,
    log_level: LogLevel,
    log_format: LogFormat,
    port_file: Option<&'a PathBuf>,
}

/// Runs the coordinator, or prints its settings. Settings out of range end it with status 1 before anything is
/// bound.
pub fn run(args: &CoordinatorArgs) -> ExitCode {
    let (settings, warnings) = match args.load(|name| env::var(name).ok()) {
        Ok(loaded) => loaded,
        Err(error) => return super::report(&Failure::new(exit::SETTINGS, error.to_string())),
    };
    log::start(args.log_level(), args.log_format());
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if args.check_config {
        return args.print(&settings);
    }
    let listen = vec![settings.listen()];
    let fleet = Fleet { settings, listen, driver: args.driver() };
    serve::fleet::run(&fleet, args.port_file.as_deref())
}

impl CoordinatorArgs {
    /// Merges flags and environment; gives the settings, and what to warn of once a log stands.
    pub fn load(
        &self,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<(Settings, Vec<String>), SettingsError> {
        Settings::load(env, &self.flags())
    }

    /// How the reactor waits for the kernel.
    fn driver(&self) -> Driver {
        self.driver.unwrap_or_default()
    }

    /// Least severe line of the log.
    fn log_level(&self) -> LogLevel {
        self.log_level.unwrap_or_default()
    }

    /// How the log looks.
    fn log_format(&self) -> LogFormat {
        self.log_format.unwrap_or_default()
    }

    /// Prints the effective settings as JSON.
    fn print(&self, settings: &Settings) -> ExitCode {
        let effective = Effective {
            settings,
            driver: self.driver(),
            log_level: self.log_level(),
            log_format: self.log_format(),
            port_file: self.port_file.as_ref(),
        };
        match serde_json::to_string_pretty(&effective) {
            Ok(text) => {
                output::line(text).map_or_else(|failure| super::report(&failure), |()| ExitCode::SUCCESS)
            }
            Err(error) => {
                super::report(&Failure::new(exit::INTERNAL, format!("cannot print settings: {error}")))
            }
        }
    }

    fn flags(&self) -> Flags {
        Flags {
            host: self.host.clone(),
            port: self.port,
            instance_timeout: self.instance_timeout,
            health_check_interval: self.health_check_interval,
            eviction_check_interval: self.eviction_check_interval,
            eviction_ratio: self.eviction_ratio,
            trigger_watermark: self.trigger_watermark,
            chunk_size: self.chunk_size,
            hash_algorithm: self.hash_algorithm.clone(),
            blend_probe_stride: self.blend_probe_stride,
            timeout_keep_alive: self.timeout_keep_alive,
            body_limit: self.body_limit.map(|bytes| bytes as usize),
            ..self.durable.flags()
        }
    }
}

fn whole(text: &str) -> Result<i64, String> {
    number::whole(text).ok_or_else(|| "not a whole number".to_owned())
}

fn real(text: &str) -> Result<f64, String> {
    number::real(text).ok_or_else(|| "not a number".to_owned())
}
