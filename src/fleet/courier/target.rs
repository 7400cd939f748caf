//! Where a request goes: checked before anything is dialled.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Failure, Order};

/// All but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Longest host name, bytes.
const NAME_BYTES: usize = 253;
/// Longest part of a host name, bytes.
const LABEL_BYTES: usize = 63;

/// An address or a name that has one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Host {
    Ip(IpAddr),
    Name(String),
}

/// One server: what connections are kept by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Server {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Host {
    fn check(text: &str) -> Result<Self, Failure> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(bare) = bare {
            return match bare.parse::<Ipv6Addr>() {
                Ok(ip) => Ok(Self::Ip(ip.into())),
                Err(_) => Err(refused(text)),
            };
        }
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let fits = name.len() <= NAME_BYTES && name.split('.').all(is_label);
        if fits { Ok(Self::Name(text.to_owned())) } else { Err(refused(text)) }
    }
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_BYTES).contains(&label.len()) && label.bytes().all(plain)
}

fn refused(text: &str) -> Failure {
    let start: String = text.chars().take(NAME_BYTES).collect();
    Failure::new(format!("{start:?} is no IP address and no host name: it is not dialled"))
}

impl Server {
    /// The server of an order, when it can be one.
    pub(super) fn check(ip: &str, port: u16) -> Result<Self, Failure> {
        match port {
            0 => Err(Failure::new("port 0 cannot be dialled")),
            port => Ok(Self { host: Host::check(ip)?, port }),
        }
    }

    /// `host:port` as a `host` header has it.
    pub(super) fn authority(&self) -> String {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            Host::Ip(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Host::Name(name) => format!("{name}:{}", self.port),
        }
    }
}

/// Path and query of an order: `/cache/` and its parts, each encoded for itself.
pub(super) fn path(order: &Order) -> Result<String, Failure> {
    let mut path = String::from("/cache");
    for segment in &order.segments {
        path.push('/');
        match segment.as_str() {
            "" => return Err(Failure::new("a part of the path is empty")),
            // plain dots would be steps in the tree of paths
            "." => path.push_str("%2E"),
            ".." => path.push_str("%2E%2E"),
            part => path.extend(utf8_percent_encode(part, ENCODED)),
        }
    }
    if order.segments.is_empty() {
        return Err(Failure::new("the path has no parts"));
    }
    for (at, (name, value)) in order.query.iter().enumerate() {
        path.push(if at == 0 { '?' } else { '&' });
        let (name, value) = (utf8_percent_encode(name, ENCODED), utf8_percent_encode(value, ENCODED));
        // writing to a string cannot fail
        let _ = write!(path, "{name}={value}");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::courier::{Class, Method};
    use std::time::Duration;

    fn path_of(segments: &[&str], query: &[(&str, &str)]) -> Result<String, Failure> {
        path(&Order {
            ticket: 0,
            method: Method::Get,
            ip: String::new(),
            port: 1,
            segments: segments.iter().map(ToString::to_string).collect(),
            query: query.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            body: None,
            class: Class::Relay,
            total: Duration::ZERO,
        })
    }

    #[test]
    fn no_part_escapes() {
        assert_eq!(path_of(&["objects"], &[]).unwrap(), "/cache/objects");
        let nasty = path_of(&["prefetches", "../a?b#c%2F\r\n é"], &[]).unwrap();
        assert_eq!(nasty, "/cache/prefetches/..%2Fa%3Fb%23c%252F%0D%0A%20%C3%A9");
        assert_eq!(path_of(&["..", ".", "..."], &[]).unwrap(), "/cache/%2E%2E/%2E/...");
        assert!(path_of(&["prefetches", ""], &[]).is_err());
        assert!(path_of(&[], &[]).is_err());
        let query = path_of(&["objects"], &[("page_size", "2"), ("page_token", "a&b=c+d")]).unwrap();
        assert_eq!(query, "/cache/objects?page_size=2&page_token=a%26b%3Dc%2Bd");
    }

    #[test]
    fn only_hosts_are_dialled() {
        let authority = |ip: &str| Server::check(ip, 80).map(|server| server.authority());
        for (ip, want) in [
            ("10.0.0.1", "10.0.0.1:80"),
            ("::1", "[::1]:80"),
            ("[FE80::1]", "[fe80::1]:80"),
            ("mp-0.mp_servers.svc.", "mp-0.mp_servers.svc.:80"),
            ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:80"),
        ] {
            assert_eq!(authority(ip).unwrap(), want);
        }
        let long = "a".repeat(64);
        let bad = [
            "",
            ".",
            "..",
            "a..b",
            "a/b",
            "a@b",
            "a?b",
            "a#b",
            "a b",
            "a\r\nb",
            "a:80",
            "[::1",
            "::1]",
            "[10.0.0.1]",
            "fe80::1%eth0",
            "é",
            "a\0",
            "a\\b",
            "[]",
            &long,
        ];
        for ip in bad {
            assert!(authority(ip).is_err(), "{ip:?}");
        }
        assert!(Server::check("10.0.0.1", 0).is_err());
    }
}
