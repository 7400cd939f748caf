//! (room under construction)

pub mod decode;

use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    ExitCode::SUCCESS
}
