//! Settings: defaults < file < environment < flags.
//!
//! The file is the Conductor's own `conductor_config.json` (`config/file.rs`); environment and flags are parsed by
//! [`crate::cli::serve`], which lays them over what the file says. The outcome is one [`Settings`], which
//! `serve --check-config` prints.

pub mod file;
pub mod listen;

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

pub use file::{ConfigError, ConfigFile, StaticPublisher};
pub use listen::{Listen, write_port_file};

use crate::limits;

/// Port of the Conductor, where nothing names another.
pub const DEFAULT_PORT: u16 = 13333;
/// Seed of the standard block hash.
pub const DEFAULT_HASH_SEED: u64 = 1337;

/// Everything the daemon can be told, after all sources are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Where HTTP is served; at least one.
    pub listen: Vec<Listen>,
    /// Number of reactors; `None` is one a core that the process may use.
    pub reactors: Option<usize>,
    /// How reactors wait for the kernel.
    pub driver: Driver,
    /// Seed of the standard block hash.
    pub hash_seed: u64,
    /// Least severe log line that is written.
    pub log_level: LogLevel,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Largest HTTP request body, bytes.
    pub body_limit: usize,
    /// How long an HTTP connection may stay silent, seconds.
    pub idle_seconds: u64,
    /// Most open HTTP connections of one reactor.
    pub connections: usize,
    /// Receive high-water mark of a subscription, messages; 0 is unlimited.
    pub zmq_hwm: i32,
    /// How long a stopping daemon goes on answering, seconds.
    pub drain_seconds: u64,
    /// How long an idle reactor polls before it sleeps, microseconds.
    pub busy_poll_us: u64,
    /// Entries of a stream disconnected for longer are dropped, seconds; 0 keeps them.
    pub stream_ttl: u64,
    /// How long a replay may stay silent before it is given up, milliseconds.
    pub replay_idle_ms: u64,
    /// Written once all listeners are bound; see [`write_port_file`].
    pub port_file: Option<PathBuf>,
    /// The settings file that was read.
    pub config_file: Option<PathBuf>,
    /// Publishers of the settings file.
    pub publishers: Vec<StaticPublisher>,
}

/// How reactors wait for the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Driver {
    /// `io_uring` where the kernel allows it, else `epoll`.
    #[default]
    Auto,
    /// `io_uring`, or the start fails.
    IoUring,
    /// `epoll`.
    Epoll,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line an entry.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Least severe log line that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures only.
    Error,
    /// Also what may need a hand.
    #[value(alias = "warning")]
    Warn,
    /// Also starts, stops and registrations.
    #[default]
    Info,
    /// Also decisions about single streams.
    Debug,
    /// Everything.
    Trace,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Tcp(format!("127.0.0.1:{DEFAULT_PORT}"))],
            reactors: None,
            driver: Driver::default(),
            hash_seed: DEFAULT_HASH_SEED,
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            body_limit: limits::HTTP_BODY_BYTES,
            idle_seconds: limits::HTTP_IDLE_SECONDS,
            connections: limits::HTTP_CONNECTIONS,
            zmq_hwm: limits::ZMQ_RECEIVE_HWM,
            drain_seconds: limits::DRAIN_SECONDS,
            busy_poll_us: 0,
            stream_ttl: 0,
            replay_idle_ms: limits::REPLAY_IDLE_MS,
            port_file: None,
            config_file: None,
            publishers: Vec::new(),
        }
    }
}

impl Settings {
    /// The defaults with a settings file laid over them. The Conductor serves its `http_server_port` on all
    /// interfaces, so a file that names the port opens them too.
    pub fn with_file(file: ConfigFile, path: PathBuf) -> Self {
        let mut settings = Self { publishers: file.publishers, config_file: Some(path), ..Self::default() };
        if let Some(port) = file.http_server_port {
            settings.listen = vec![Listen::Tcp(format!("0.0.0.0:{port}"))];
        }
        settings
    }
}
