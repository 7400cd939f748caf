//! What a command prints on standard output. A reader that has gone, or a full disk, is an error like any other.

use std::fmt::Display;
use std::io::{self, Write as _};

use super::exit::{self, Failure};

/// Prints a line, now.
pub(super) fn line(text: impl Display) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Prints `text`, now.
pub(super) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|error| {
        Failure::new(exit::CANNOT_CREATE, format!("cannot write to standard output: {error}"))
    })
}
