//! What a number may be, and where it came from.

use super::number;

/// Before the name of every variable that the coordinator shares with its predecessor.
pub(super) const PREFIX: &str = "LMCACHE_MP_COORDINATOR_";

/// Why the settings cannot be used; the text names the variable or flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number outside its range, an empty name.
    #[error("{origin}: {rule} (got {value})")]
    Range {
        /// The variable or flag.
        origin: String,
        /// What it must be.
        rule: &'static str,
        /// What it is.
        value: String,
    },
    /// A hash that cannot be computed here.
    #[error(
        "{origin}: only blake3 is supported (got {value:?}): any other algorithm hashes inside the Python process of \
         the servers and cannot be reproduced, so pins would protect nothing"
    )]
    Algorithm {
        /// The variable or flag.
        origin: String,
        /// The algorithm.
        value: String,
    },
}

/// A setting that is a number of kind `T`.
pub(super) struct Rule<T> {
    /// Name of the variable behind its prefix; in small letters and with dashes it is the flag.
    pub(super) name: &'static str,
    pub(super) holds: fn(T) -> bool,
    pub(super) says: &'static str,
}

/// A number that text can be read as.
pub(super) trait Number: Copy + std::fmt::Display {
    fn read(text: &str) -> Option<Self>;
}

impl Number for f64 {
    fn read(text: &str) -> Option<Self> {
        number::real(text)
    }
}

impl Number for i64 {
    fn read(text: &str) -> Option<Self> {
        number::whole(text)
    }
}

/// The environment, and what there is to say about it.
pub(super) struct Environment<'a> {
    pub(super) get: &'a dyn Fn(&str) -> Option<String>,
    pub(super) warnings: Vec<String>,
}

impl Environment<'_> {
    /// What the variable of this name behind the prefix says.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.get)(&variable(name))
    }

    /// What the variable says, or `default` where it is not set or no number.
    pub(super) fn number<T: Number>(&mut self, rule: &Rule<T>, default: T) -> Result<T, SettingsError> {
        let Some(text) = self.text(rule.name) else { return Ok(default) };
        let origin = variable(rule.name);
        if let Some(value) = T::read(&text) {
            return rule.check(value, origin);
        }
        self.warnings.push(format!("{origin}: {text:?} is not a number; the default {default} is used"));
        Ok(default)
    }
}

impl<T: Number> Rule<T> {
    /// What the flag says, or `before` where it is not given.
    pub(super) fn flag(&self, value: Option<T>, before: T) -> Result<T, SettingsError> {
        value.map_or(Ok(before), |value| self.check(value, flag(self.name)))
    }

    fn check(&self, value: T, origin: String) -> Result<T, SettingsError> {
        if (self.holds)(value) {
            return Ok(value);
        }
        Err(SettingsError::Range { origin, rule: self.says, value: value.to_string() })
    }
}

pub(super) fn variable(name: &str) -> String {
    format!("{PREFIX}{name}")
}

pub(super) fn flag(name: &str) -> String {
    format!("--{}", name.to_lowercase().replace('_', "-"))
}
