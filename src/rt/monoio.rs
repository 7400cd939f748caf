//! The seam over monoio 0.2: io_uring and epoll, one executor a thread.

use std::future::Future;
use std::io;
use std::net;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net as unix;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::monoio::buf::{IoBuf, IoBufMut};
use ::monoio::io::{AsyncReadRent, AsyncWriteRent};
use ::monoio::net::{TcpStream, UnixStream};
use ::monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use super::driver::{Chosen, Driver, DriverError, Unavailable};
use super::sys;
use super::wake::rounds;
use crate::limits::URING_ENTRIES;

/// The runtime of this build.
pub const RUNTIME: &str = "monoio";
/// The version of this build, with its runtime.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (monoio)");
/// The drivers that may be asked for.
pub const DRIVERS: &[Driver] = &[Driver::Auto, Driver::IoUring, Driver::Epoll];
/// What to do where io_uring cannot be used.
pub(super) const OTHERWISE: &str = "choose epoll";

/// Descriptors that the executors of this process never give back.
pub fn left_behind() -> usize {
    0
}

/// Runs `start(chosen)` to its end on this thread, on the driver that is wanted or falls to hand. Tasks that
/// still run then are dropped.
pub fn run<F: Future>(driver: Driver, start: impl FnOnce(Chosen) -> F) -> Result<F::Output, DriverError> {
    let mut fallback = None;
    if driver != Driver::Epoll {
        match RuntimeBuilder::<IoUringDriver>::new().with_entries(URING_ENTRIES).enable_timer().build() {
            Ok(mut runtime) => {
                return Ok(runtime.block_on(rounds(start(Chosen { name: "io_uring", fallback: None }))));
            }
            Err(error) => fallback = Some(Unavailable::new(&error)),
        }
    }
    if let (Driver::IoUring, Some(reason)) = (driver, &fallback) {
        return Err(DriverError::IoUring(reason.clone()));
    }
    let mut runtime =
        RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().map_err(DriverError::Epoll)?;
    Ok(runtime.block_on(rounds(start(Chosen { name: "epoll", fallback }))))
}

/// A task on this reactor. Dropping the handle lets it run on; awaiting it gives its result.
pub struct Task<T>(::monoio::task::JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// Starts a task on this reactor.
pub fn spawn<F: Future<Output: 'static> + 'static>(future: F) -> Task<F::Output> {
    Task(::monoio::spawn(future))
}

/// Waits at least this long.
pub async fn sleep(time: Duration) {
    ::monoio::time::sleep(time).await;
}

/// Waits until a descriptor can be read, without reading it.
pub struct Readable(UnixStream);

impl Readable {
    /// Watches a copy of `fd`, which need not be a socket and stays with its owner.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::of(fd.try_clone_to_owned()?)
    }

    /// Watches a descriptor that a library owns, through a copy of it.
    pub fn raw(fd: RawFd) -> io::Result<Self> {
        Self::of(sys::dup(fd)?)
    }

    fn of(copy: OwnedFd) -> io::Result<Self> {
        // Only the descriptor matters: nothing of a socket is ever asked of it.
        UnixStream::from_std(unix::UnixStream::from(copy)).map(Self)
    }

    /// Returns when the descriptor is readable or has ended. May be dropped while it waits: nothing is lost.
    pub async fn wait(&self) -> io::Result<()> {
        self.0.readable(false).await
    }
}

/// One connection, TCP or Unix.
pub enum Stream {
    /// Over IP.
    Tcp(TcpStream),
    /// Over a socket file.
    Unix(UnixStream),
}

impl Stream {
    /// Takes over an accepted TCP connection.
    pub fn tcp(stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(waits_by_epoll())?;
        TcpStream::from_std(stream).map(Self::Tcp)
    }

    /// Takes over an accepted Unix connection.
    pub fn unix(stream: unix::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(waits_by_epoll())?;
        UnixStream::from_std(stream).map(Self::Unix)
    }

    /// Appends what arrives into the spare capacity of `buf`, at least one byte or 0 at the end. A buffer
    /// without spare capacity reads nothing. Must not be dropped while it waits.
    pub async fn read(&mut self, buf: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let (start, end) = (buf.len(), buf.capacity());
        let part = buf.slice_mut(start..end);
        let (result, part) = match self {
            Self::Tcp(stream) => stream.read(part).await,
            Self::Unix(stream) => stream.read(part).await,
        };
        (result, part.into_inner())
    }

    /// Writes some of `buf[from..]` and says how much. Must not be dropped while it waits.
    pub async fn write(&mut self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let part = buf.slice(from..);
        let (result, part) = match self {
            Self::Tcp(stream) => stream.write(part).await,
            Self::Unix(stream) => stream.write(part).await,
        };
        (result, part.into_inner())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// io_uring gives up at once on a non-blocking descriptor, epoll needs one.
fn waits_by_epoll() -> bool {
    ::monoio::utils::is_legacy()
}
