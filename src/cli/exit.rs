//! Exit codes, after `sysexits.h`.

/// Settings of the coordinator are out of range; the status that its reference ends with.
pub const SETTINGS: u8 = 1;
/// A bench ran, and its figures are not to be trusted: a gate failed.
pub const GATE: u8 = 2;
/// The command line or the settings are wrong.
pub const USAGE: u8 = 64;
/// The input or the question was refused.
pub const DATA: u8 = 65;
/// A file that was asked for is not there.
pub const NO_INPUT: u8 = 66;
/// Nothing listens there, or an address is taken.
pub const UNAVAILABLE: u8 = 69;
/// Something that should not happen.
pub const INTERNAL: u8 = 70;
/// A file cannot be written.
pub const CANNOT_CREATE: u8 = 73;
/// Ended by a signal: this and the signal's number, as a shell says it; 130 is Ctrl-C.
pub const SIGNAL: u8 = 128;

/// Why a command ended early.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code of the process.
    pub code: u8,
    /// For a person, on standard error.
    pub message: String,
}

impl Failure {
    /// A failure with `code`.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
