//! What the coordinator can be told: defaults < environment < flags.
//!
//! The variables are `LMCACHE_MP_COORDINATOR_*`, read as they always were: a number that is none warns and leaves the
//! default, one outside its range ends the start, also where a flag would replace it. What this coordinator has beyond
//! its predecessor is in `KVATLAS_EVICT_WHOLE_CHUNKS`, `KVATLAS_DRY_RUN_EVICTION` and `KVATLAS_STATE_DIR`.

pub mod number;
mod rule;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use rule::SettingsError;
use rule::{Environment, Rule, flag, variable};

use super::resync;
use crate::config::Listen;
use crate::limits::FLEET_BODY_BYTES;

/// Port of the coordinator, where nothing names another.
pub const DEFAULT_PORT: u16 = 9300;
/// The one hash of tokens that is computed here.
pub const HASH_ALGORITHM: &str = "blake3";

/// Everything the coordinator can be told, after all sources are merged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Host to listen on; empty is every interface.
    pub host: String,
    /// Port to listen on; 0 is any free one.
    pub port: u16,
    /// An instance silent for longer is dropped, seconds; NaN keeps all.
    #[serde(serialize_with = "number_or_name")]
    pub instance_timeout: f64,
    /// Between two looks for silent instances, seconds; 0 never looks.
    #[serde(serialize_with = "number_or_name")]
    pub health_check_interval: f64,
    /// Between two sweeps of eviction, seconds; 0 never sweeps.
    #[serde(serialize_with = "number_or_name")]
    pub eviction_check_interval: f64,
    /// Part of a salt's keys that a sweep evicts, 0 to 1.
    pub eviction_ratio: f64,
    /// Part of the quota from which on is evicted, above 0 to 1.
    pub trigger_watermark: f64,
    /// Tokens a chunk, at least 1.
    pub chunk_size: u64,
    /// Always [`HASH_ALGORITHM`].
    pub hash_algorithm: &'static str,
    /// Positions between two probes of a blend match, at least 1.
    pub blend_probe_stride: u64,
    /// An idle connection is closed after so long, seconds, at least 1.
    pub timeout_keep_alive: u64,
    /// Whether to learn after the start what storage holds.
    pub enable_startup_resync: bool,
    /// Between two looks for an instance to learn from, seconds.
    #[serde(serialize_with = "number_or_name")]
    pub resync_poll_interval: f64,
    /// For how long one is looked for, seconds.
    #[serde(serialize_with = "number_or_name")]
    pub resync_max_wait: f64,
    /// Entries of a page of a listing, at least 1.
    pub resync_page_size: u64,
    /// Evict the other ranks of a victim's chunk too.
    pub evict_whole_chunks: bool,
    /// Plan evictions and report them, and delete nothing.
    pub dry_run_eviction: bool,
    /// Where quotas and pins survive a restart; `None` keeps them in memory.
    pub state_dir: Option<PathBuf>,
    /// Largest request body, bytes.
    pub body_limit: usize,
}

/// What the command line says; `None` and `false` leave what the environment says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// `--host`
    pub host: Option<String>,
    /// `--port`
    pub port: Option<i64>,
    /// `--instance-timeout`, seconds
    pub instance_timeout: Option<f64>,
    /// `--health-check-interval`, seconds
    pub health_check_interval: Option<f64>,
    /// `--eviction-check-interval`, seconds
    pub eviction_check_interval: Option<f64>,
    /// `--eviction-ratio`
    pub eviction_ratio: Option<f64>,
    /// `--trigger-watermark`
    pub trigger_watermark: Option<f64>,
    /// `--chunk-size`, tokens
    pub chunk_size: Option<i64>,
    /// `--hash-algorithm`
    pub hash_algorithm: Option<String>,
    /// `--blend-probe-stride`, positions
    pub blend_probe_stride: Option<i64>,
    /// `--timeout-keep-alive`, seconds
    pub timeout_keep_alive: Option<i64>,
    /// `--evict-whole-chunks`
    pub evict_whole_chunks: bool,
    /// `--dry-run-eviction`
    pub dry_run_eviction: bool,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--body-limit`, bytes
    pub body_limit: Option<usize>,
}

const PORT: Rule<i64> =
    Rule { name: "PORT", holds: |port| u16::try_from(port).is_ok(), says: "must be from 0 to 65535" };
const INSTANCE_TIMEOUT: Rule<f64> = Rule {
    name: "INSTANCE_TIMEOUT",
    holds: |seconds| seconds > 0.0 || seconds.is_nan(),
    says: "must be more than 0 seconds",
};
const HEALTH_CHECK_INTERVAL: Rule<f64> = not_negative("HEALTH_CHECK_INTERVAL");
const EVICTION_CHECK_INTERVAL: Rule<f64> = not_negative("EVICTION_CHECK_INTERVAL");
const EVICTION_RATIO: Rule<f64> =
    Rule { name: "EVICTION_RATIO", holds: |part| (0.0..=1.0).contains(&part), says: "must be from 0 to 1" };
const TRIGGER_WATERMARK: Rule<f64> = Rule {
    name: "TRIGGER_WATERMARK",
    holds: |part| part > 0.0 && part <= 1.0,
    says: "must be above 0 and at most 1",
};
const CHUNK_SIZE: Rule<i64> = positive("CHUNK_SIZE");
const BLEND_PROBE_STRIDE: Rule<i64> = positive("BLEND_PROBE_STRIDE");
const TIMEOUT_KEEP_ALIVE: Rule<i64> = positive("TIMEOUT_KEEP_ALIVE");
const RESYNC_POLL_INTERVAL: Rule<f64> = Rule {
    name: "RESYNC_POLL_INTERVAL",
    holds: |seconds| seconds > 0.0,
    says: "must be more than 0 seconds",
};
const RESYNC_MAX_WAIT: Rule<f64> = not_negative("RESYNC_MAX_WAIT");
const RESYNC_PAGE_SIZE: Rule<i64> = positive("RESYNC_PAGE_SIZE");
const ALGORITHM: &str = "HASH_ALGORITHM";

const fn not_negative(name: &'static str) -> Rule<f64> {
    Rule { name, holds: |seconds| seconds >= 0.0, says: "must be 0 seconds or more" }
}

const fn positive(name: &'static str) -> Rule<i64> {
    Rule { name, holds: |number| number >= 1, says: "must be at least 1" }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".to_owned(),
            port: DEFAULT_PORT,
            instance_timeout: 30.0,
            health_check_interval: 10.0,
            eviction_check_interval: 5.0,
            eviction_ratio: 0.2,
            trigger_watermark: 1.0,
            chunk_size: 256,
            hash_algorithm: HASH_ALGORITHM,
            blend_probe_stride: 1,
            timeout_keep_alive: 10,
            enable_startup_resync: true,
            resync_poll_interval: 1.0,
            resync_max_wait: 60.0,
            resync_page_size: 1000,
            evict_whole_chunks: false,
            dry_run_eviction: false,
            state_dir: None,
            body_limit: FLEET_BODY_BYTES,
        }
    }
}

impl Settings {
    /// Merges all sources; gives the settings, and what to warn of once a log stands. `env` gives the value of a
    /// variable, where it is set.
    pub fn load(
        env: impl Fn(&str) -> Option<String>,
        flags: &Flags,
    ) -> Result<(Self, Vec<String>), SettingsError> {
        let mut env = Environment { get: &env, warnings: Vec::new() };
        let mut settings = Self::of_environment(&mut env)?;
        settings.lay_over(flags)?;
        let from_env = env.text(ALGORITHM).map(|algorithm| (variable(ALGORITHM), algorithm));
        let from_flag = flags.hash_algorithm.clone().map(|algorithm| (flag(ALGORITHM), algorithm));
        for (origin, value) in from_env.iter().chain(&from_flag) {
            if value.is_empty() {
                let value = "an empty text".to_owned();
                return Err(SettingsError::Range { origin: origin.clone(), rule: "must name a hash", value });
            }
        }
        match from_flag.or(from_env) {
            Some((origin, value)) if value != HASH_ALGORITHM => {
                Err(SettingsError::Algorithm { origin, value })
            }
            _ => Ok((settings, env.warnings)),
        }
    }

    fn of_environment(env: &mut Environment<'_>) -> Result<Self, SettingsError> {
        let rest = Self::default();
        if (env.get)("KVATLAS_STATE_DIR").is_some_and(|dir| dir.is_empty()) {
            env.warnings
                .push("KVATLAS_STATE_DIR is empty: quotas and pins are not kept over restarts".to_owned());
        }
        let own = |env: &Environment<'_>, name: &str| (env.get)(name).filter(|text| !text.is_empty());
        let own_truth = |env: &Environment<'_>, name: &str| match own(env, name) {
            None => Ok(false),
            Some(value) => number::clear_truth(&value).ok_or_else(|| SettingsError::Range {
                origin: name.to_owned(),
                rule: "must be true or false",
                value,
            }),
        };
        Ok(Self {
            host: env.text("HOST").unwrap_or(rest.host),
            port: env.number(&PORT, rest.port.into())? as u16,
            instance_timeout: env.number(&INSTANCE_TIMEOUT, rest.instance_timeout)?,
            health_check_interval: env.number(&HEALTH_CHECK_INTERVAL, rest.health_check_interval)?,
            eviction_check_interval: env.number(&EVICTION_CHECK_INTERVAL, rest.eviction_check_interval)?,
            eviction_ratio: env.number(&EVICTION_RATIO, rest.eviction_ratio)?,
            trigger_watermark: env.number(&TRIGGER_WATERMARK, rest.trigger_watermark)?,
            chunk_size: env.number(&CHUNK_SIZE, rest.chunk_size as i64)? as u64,
            blend_probe_stride: env.number(&BLEND_PROBE_STRIDE, rest.blend_probe_stride as i64)? as u64,
            enable_startup_resync: env
                .text("ENABLE_STARTUP_RESYNC")
                .map_or(rest.enable_startup_resync, |text| number::truth(&text)),
            resync_poll_interval: env.number(&RESYNC_POLL_INTERVAL, rest.resync_poll_interval)?,
            resync_max_wait: env.number(&RESYNC_MAX_WAIT, rest.resync_max_wait)?,
            resync_page_size: env.number(&RESYNC_PAGE_SIZE, rest.resync_page_size as i64)? as u64,
            timeout_keep_alive: env.number(&TIMEOUT_KEEP_ALIVE, rest.timeout_keep_alive as i64)? as u64,
            evict_whole_chunks: own_truth(env, "KVATLAS_EVICT_WHOLE_CHUNKS")?,
            dry_run_eviction: own_truth(env, "KVATLAS_DRY_RUN_EVICTION")?,
            state_dir: own(env, "KVATLAS_STATE_DIR").map(PathBuf::from),
            hash_algorithm: rest.hash_algorithm,
            body_limit: rest.body_limit,
        })
    }

    fn lay_over(&mut self, flags: &Flags) -> Result<(), SettingsError> {
        if let Some(host) = &flags.host {
            self.host.clone_from(host);
        }
        self.port = PORT.flag(flags.port, self.port.into())? as u16;
        for (rule, flag, place) in [
            (INSTANCE_TIMEOUT, flags.instance_timeout, &mut self.instance_timeout),
            (HEALTH_CHECK_INTERVAL, flags.health_check_interval, &mut self.health_check_interval),
            (EVICTION_CHECK_INTERVAL, flags.eviction_check_interval, &mut self.eviction_check_interval),
            (EVICTION_RATIO, flags.eviction_ratio, &mut self.eviction_ratio),
            (TRIGGER_WATERMARK, flags.trigger_watermark, &mut self.trigger_watermark),
        ] {
            *place = rule.flag(flag, *place)?;
        }
        for (rule, flag, place) in [
            (CHUNK_SIZE, flags.chunk_size, &mut self.chunk_size),
            (BLEND_PROBE_STRIDE, flags.blend_probe_stride, &mut self.blend_probe_stride),
            (TIMEOUT_KEEP_ALIVE, flags.timeout_keep_alive, &mut self.timeout_keep_alive),
        ] {
            *place = rule.flag(flag, *place as i64)? as u64;
        }
        self.evict_whole_chunks |= flags.evict_whole_chunks;
        self.dry_run_eviction |= flags.dry_run_eviction;
        if let Some(dir) = &flags.state_dir {
            self.state_dir = Some(dir.clone());
        }
        self.body_limit = flags.body_limit.unwrap_or(self.body_limit);
        Ok(())
    }

    /// Where to listen. IPv6 addresses may come with brackets or without.
    pub fn listen(&self) -> Listen {
        let host = if self.host.is_empty() { "0.0.0.0" } else { &self.host };
        let bare = host.contains(':') && !host.starts_with('[');
        Listen::Tcp(if bare { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) })
    }

    /// Pause between two looks for silent instances; `None` where nobody looks.
    pub fn health_pause(&self) -> Option<Duration> {
        pause(self.health_check_interval)
    }

    /// Pause between two sweeps of eviction; `None` where there are none.
    pub fn eviction_pause(&self) -> Option<Duration> {
        pause(self.eviction_check_interval)
    }

    /// How long an idle connection is kept.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.timeout_keep_alive).min(LONGEST)
    }

    /// How to resync.
    pub fn resync_rules(&self) -> resync::Rules {
        resync::Rules {
            enabled: self.enable_startup_resync,
            poll_interval: duration(self.resync_poll_interval),
            max_wait: duration(self.resync_max_wait),
            page_size: self.resync_page_size,
        }
    }
}

/// Longer than any process runs, and short enough to be added to any time.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

fn pause(seconds: f64) -> Option<Duration> {
    (seconds > 0.0).then(|| duration(seconds))
}

/// JSON has no infinity and no NaN; they are written as their names.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn number_or_name<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.is_finite() { serializer.serialize_f64(*number) } else { serializer.collect_str(number) }
}
