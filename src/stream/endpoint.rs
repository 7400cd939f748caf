//! Checking an endpoint before libzmq sees it: what it would bind, resolve oddly or never reach is refused
//! with a sentence that says why.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::limits::ENDPOINT_BYTES;

/// Longest path of a socket file, bytes.
const IPC_PATH_BYTES: usize = 107;
/// Longest host name and longest label of one, bytes.
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// An endpoint that can be connected to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    text: String,
    scheme: Scheme,
}

/// How an endpoint is reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// `tcp://HOST:PORT`
    Tcp,
    /// `ipc://PATH`
    Ipc,
}

impl Endpoint {
    /// As it was registered, and as libzmq takes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it is reached.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks that `endpoint` can be connected to; the error is a sentence for the one who registered it.
pub fn check(endpoint: &str) -> Result<Endpoint, String> {
    if endpoint.len() > ENDPOINT_BYTES {
        return Err(format!("endpoint is longer than {ENDPOINT_BYTES} bytes"));
    }
    if let Some(odd) = endpoint.chars().find(|c| c.is_control() || c.is_whitespace()) {
        return Err(format!("endpoint contains {odd:?}"));
    }
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        return Err(format!("endpoint {endpoint:?} is neither tcp://HOST:PORT nor ipc://PATH"));
    };
    let scheme = match scheme {
        "tcp" => tcp(rest).map(|()| Scheme::Tcp),
        "ipc" => ipc(rest).map(|()| Scheme::Ipc),
        "inproc" => Err("inproc:// reaches only into the own process; use tcp:// or ipc://".into()),
        other => Err(format!("scheme {other:?} is not supported; use tcp:// or ipc://")),
    }?;
    Ok(Endpoint { text: endpoint.into(), scheme })
}

fn tcp(rest: &str) -> Result<(), String> {
    if rest.contains([';', '/', '@', '?']) {
        return Err(format!("{rest:?} is not HOST:PORT"));
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let Some((host, after)) = inner.split_once(']') else {
            return Err("the bracket of the IPv6 address is not closed".into());
        };
        ipv6(host)?;
        return port(after.strip_prefix(':'));
    }
    let (host, last) = match rest.rsplit_once(':') {
        Some((host, last)) => (host, Some(last)),
        None => (rest, None),
    };
    if host.contains(':') {
        return Err(unbracketed(rest, host, last));
    }
    name(host)?;
    port(last)
}

/// What to write instead of an IPv6 address without brackets.
fn unbracketed(rest: &str, host: &str, last: Option<&str>) -> String {
    let address = |text: &str| text.split('%').next().is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
    let remedy = match last {
        Some(port) if address(host) => format!("tcp://[{host}]:{port}"),
        _ if address(rest) => format!("tcp://[{rest}]:PORT"),
        _ => return format!("{rest:?} has more than one colon and is no IPv6 address; write HOST:PORT"),
    };
    format!("an IPv6 address needs brackets: {remedy}")
}

fn ipv6(host: &str) -> Result<(), String> {
    let (address, zone) = host.split_once('%').map_or((host, None), |(address, zone)| (address, Some(zone)));
    if zone.is_some_and(|zone| zone.is_empty() || !zone.bytes().all(is_name_byte)) {
        return Err(format!("{host:?} has no valid zone behind its %"));
    }
    let address: Ipv6Addr = address.parse().map_err(|_| format!("{host:?} is not an IPv6 address"))?;
    if address.is_unspecified() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_unspecified()) {
        return Err(wildcard(host));
    }
    Ok(())
}

fn name(host: &str) -> Result<(), String> {
    match host {
        "" => return Err("endpoint has no host".into()),
        "*" => return Err(wildcard(host)),
        _ => {}
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return if address.is_unspecified() { Err(wildcard(host)) } else { Ok(()) };
    }
    // Resolvers read 10.1 as 10.0.0.1 and 0 as any address: nobody means that.
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("{host:?} is not an IPv4 address"));
    }
    let labels = host.strip_suffix('.').unwrap_or(host);
    let good = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_BYTES
            && label.bytes().all(is_name_byte)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // libzmq takes no underscore in front.
    if labels.len() > NAME_BYTES || labels.starts_with('_') || !labels.split('.').all(good) {
        return Err(format!("{host:?} is not a host name"));
    }
    Ok(())
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn wildcard(host: &str) -> String {
    format!("{host:?} is what a publisher binds, not where it can be reached; give its address or name")
}

fn port(text: Option<&str>) -> Result<(), String> {
    let digits = text.unwrap_or_default();
    let number = (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse::<u16>().ok())
        .flatten();
    match number {
        Some(1..) => Ok(()),
        _ => Err(format!("port must be 1 to 65535, not {digits:?}")),
    }
}

fn ipc(path: &str) -> Result<(), String> {
    match path {
        "" | "@" => Err("ipc:// needs the path of a socket file".into()),
        "*" => Err("ipc://* is what a publisher binds; give the path of its socket file".into()),
        _ if path.len() > IPC_PATH_BYTES => {
            Err(format!("the path of a socket file has at most {IPC_PATH_BYTES} bytes"))
        }
        _ => Ok(()),
    }
}
