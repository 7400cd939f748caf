//! Addresses that the daemon serves on, and the file that tells which ones it got.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// One address to serve HTTP on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `host:port`; the host may be a name, an IPv4 address or a bracketed IPv6 address. Port 0 is any free one.
    Tcp(String),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

/// Why an address cannot be served on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// `unix:` without a path.
    #[error("unix: needs a path, as in unix:/run/kvatlas.sock")]
    NoPath,
    /// No `:port` at the end.
    #[error("needs a port, as in 127.0.0.1:13333")]
    NoPort,
    /// The port is no number up to 65535.
    #[error("the port is not a number from 0 to 65535")]
    BadPort,
    /// Nothing in front of the port.
    #[error("needs a host before the port; 0.0.0.0 is every IPv4 interface, [::] every interface")]
    NoHost,
    /// IPv6 without brackets.
    #[error("an IPv6 address needs brackets, as in [::1]:13333")]
    Unbracketed,
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(ListenError::NoPath) } else { Ok(Self::Unix(path.into())) };
        }
        let address = text.strip_prefix("tcp://").unwrap_or(text);
        let (host, port) = address.rsplit_once(':').ok_or(ListenError::NoPort)?;
        port.parse::<u16>().map_err(|_| ListenError::BadPort)?;
        if host.is_empty() {
            return Err(ListenError::NoHost);
        }
        if host.contains(':') && address.parse::<SocketAddr>().is_err() {
            return Err(ListenError::Unbracketed);
        }
        Ok(Self::Tcp(address.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => out.write_str(address),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Writes the bound addresses to `path`, one a line, in the order in which they were asked for. A reader
/// never sees half of it: the text goes to a file beside `path`, which is then renamed.
pub fn write_port_file(path: &Path, bound: &[Listen]) -> io::Result<()> {
    let text = bound.iter().fold(String::new(), |mut text, address| {
        let _ = writeln!(text, "{address}");
        text
    });
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}
