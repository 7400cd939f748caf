//! Sockets to accept on: one a reactor over TCP, one for all of them over a socket file.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::{LISTEN_BACKLOG, LISTEN_PATIENCE_MILLIS};
use crate::rt::Stream;

/// A socket that one reactor accepts on; never blocks.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The next connection, `WouldBlock` when none waits.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Answers are written whole; nothing is gained by waiting for more.
                stream.set_nodelay(true)?;
                Stream::tcp(stream)
            }
            Self::Unix(listener) => Stream::unix(listener.accept()?.0),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Binds `address` once for each of `reactors`; the kernel spreads connections over them.
pub(super) fn tcp(address: SocketAddr, reactors: usize) -> io::Result<(SocketAddr, Vec<Listener>)> {
    claim(address)?;
    let first = bind(address)?;
    let bound = first.local_addr()?;
    let mut listeners = vec![Listener::Tcp(first)];
    while listeners.len() < reactors {
        listeners.push(Listener::Tcp(bind(bound)?));
    }
    Ok((bound, listeners))
}

/// Fails when somebody listens on `address`. The kernel lets every process of a user share a port that is bound
/// to be shared, so that a second daemon would silently take half of the connections of the first.
fn claim(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 {
        return Ok(());
    }
    let patience = Instant::now() + Duration::from_millis(LISTEN_PATIENCE_MILLIS);
    loop {
        match open(address)?.bind(&address.into()) {
            // the kernel closes the sockets of a ring some time after its process has ended
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < patience => {
                thread::sleep(Duration::from_millis(LISTEN_PATIENCE_MILLIS / 20));
            }
            outcome => return outcome,
        }
    }
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // [::] also takes IPv4, whatever the sysctl says.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket.into())
}

/// Binds a socket file for all of `reactors`: they share one queue, since kernels refuse to spread it. A
/// file that a dead process left is replaced, one that somebody listens on is not.
pub(super) fn unix(path: &Path, reactors: usize) -> io::Result<Vec<Listener>> {
    remove_stale(path)?;
    let first = UnixListener::bind(path)?;
    first.set_nonblocking(true)?;
    let mut listeners = Vec::with_capacity(reactors);
    while listeners.len() + 1 < reactors {
        listeners.push(Listener::Unix(first.try_clone()?));
    }
    listeners.push(Listener::Unix(first));
    Ok(listeners)
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        Ok(_) => {}
    }
    let patience = Instant::now() + Duration::from_millis(LISTEN_PATIENCE_MILLIS);
    loop {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return fs::remove_file(path),
            Err(error) => return Err(error),
            // as of ports: a process that has just ended may seem to listen for a while
            Ok(_) if Instant::now() < patience => {
                thread::sleep(Duration::from_millis(LISTEN_PATIENCE_MILLIS / 20));
            }
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let live = unix(&path, 2).unwrap();
        assert_eq!(unix(&path, 1).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        drop(live);
        assert!(unix(&path, 1).is_ok());
    }

    #[test]
    fn a_socket_file_whose_process_is_just_ending_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let ending = UnixListener::bind(&path).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(LISTEN_PATIENCE_MILLIS / 5));
                drop(ending);
            });
            assert!(unix(&path, 1).is_ok());
        });
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();
        assert_eq!(unix(&path, 1).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
