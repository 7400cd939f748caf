//! The daemon: everything between settings and the last answer.

use std::process::ExitCode;

use crate::config::Settings;

/// Runs the daemon until SIGTERM or SIGINT and returns its exit code: 0 after a clean drain, 69 where an
/// address cannot be bound, 70 where a reactor failed.
///
/// The caller has parsed and checked the settings and has set up the log. What is left to do here: bind
/// [`Settings::listen`], write [`Settings::port_file`] ([`crate::config::write_port_file`]), start the
/// reactors, register [`Settings::publishers`].
pub fn run(settings: Settings) -> ExitCode {
    let Settings { listen, .. } = settings;
    tracing::error!(?listen, "this build has no daemon");
    ExitCode::from(crate::cli::exit::INTERNAL)
}
