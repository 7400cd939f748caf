//! One connection: opened, written and read against one deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::Failure;
use super::pool::has_news;
use super::target::{Host, Server};
use crate::limits::{COURIER_ADDRESSES, COURIER_CONNECT_SECONDS, COURIER_LOOKUPS};

/// How long a write may make no progress before the answer is looked for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Lookups under way in this process.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// The time that is left; an error when there is none.
pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::new(io::ErrorKind::TimedOut, "took too long")) } else { Ok(left) }
}

/// A new connection. The addresses of a name are tried in turn, each with its part of the time.
pub(super) fn connect(server: &Server, deadline: Instant) -> Result<TcpStream, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("cannot connect to {}: {}", server.authority(), plain(&error)))
    };
    let deadline = deadline.min(Instant::now() + Duration::from_secs(COURIER_CONNECT_SECONDS));
    let addresses = addresses(server, deadline).map_err(failed)?;
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for (at, address) in addresses.iter().enumerate() {
        let part = match left(deadline) {
            Ok(left) => left / (addresses.len() - at) as u32,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        };
        // a time of nothing is an error of the call
        outcome = TcpStream::connect_timeout(address, part.max(Duration::from_millis(1)));
        if outcome.is_ok() {
            break;
        }
    }
    let stream = outcome.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

/// What an error says, without its number.
pub(super) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "took too long".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset".to_owned(),
        _ => error.to_string(),
    }
}

fn addresses(server: &Server, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    match &server.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, server.port)]),
        Host::Name(name) => look_up((name.clone(), server.port), deadline),
    }
}

/// Asks the system's resolver, which knows no deadline: on a thread that is left behind when it takes too long.
fn look_up(name: (String, u16), deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if LOOKUPS.fetch_add(1, Ordering::AcqRel) >= COURIER_LOOKUPS {
        LOOKUPS.fetch_sub(1, Ordering::AcqRel);
        return Err(io::Error::other("too many names are looked up already"));
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("courier-name".to_owned()).spawn(move || {
        let found = name.to_socket_addrs().map(|found| found.take(COURIER_ADDRESSES).collect());
        LOOKUPS.fetch_sub(1, Ordering::AcqRel);
        // nobody may be waiting any more
        let _ = sender.send(found);
    });
    if let Err(error) = thread {
        LOOKUPS.fetch_sub(1, Ordering::AcqRel);
        return Err(error);
    }
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the name was not found in time");
    receiver.recv_timeout(left(deadline)?).map_err(late)?
}

/// How far a request got.
pub(super) enum Sent {
    /// All of it.
    Whole,
    /// The server answered, or closed, before it was all written.
    Part(Option<io::Error>),
    /// Not a byte.
    Nothing(io::Error),
}

/// Writes a request. Stops when an answer comes while the server reads no further.
pub(super) fn send(stream: &mut TcpStream, request: &[u8], deadline: Instant) -> Sent {
    let mut sent = 0;
    while sent < request.len() {
        let waited = left(deadline).and_then(|left| stream.set_write_timeout(Some(left.min(PATIENCE))));
        match waited.and_then(|()| stream.write(&request[sent..])) {
            Ok(0) => return stopped(sent, io::ErrorKind::WriteZero.into()),
            Ok(written) => sent += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if has_news(stream) {
                    return Sent::Part(None);
                }
            }
            Err(error) => return stopped(sent, error),
        }
    }
    Sent::Whole
}

fn stopped(sent: usize, error: io::Error) -> Sent {
    if sent == 0 { Sent::Nothing(error) } else { Sent::Part(Some(error)) }
}

/// Appends what comes next to `buffer`; 0 at the end.
pub(super) fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
    let mut piece = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece) {
            Ok(len) => {
                buffer.extend_from_slice(&piece[..len]);
                return Ok(len);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
