//! The seam over glommio 0.9: io_uring only, one executor a thread.
//!
//! glommio offers no wait for a descriptor as such. But a stream of it begins to watch its descriptor (`POLL_ADD`)
//! when it is made, and a read first waits for the end of that watch and only then calls `recv(2)`. So a stream made
//! of any descriptor, socket or not, and read with an empty buffer, is ready when the descriptor is readable, whatever
//! `recv` says then, and takes nothing from it. Such a stream serves for one wait.
#![allow(unsafe_code)] // streams are made of descriptors only by an unsafe call, which gets one that it may own

mod task;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net as unix;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::glommio::net::TcpStream;
use ::glommio::{GlommioError, LocalExecutorBuilder, Placement, ReactorErrorKind, timer};
use futures_io::{AsyncRead, AsyncWrite};

pub use self::task::{Task, spawn};
use super::driver::{Chosen, Driver, DriverError, Unavailable};
use super::sys;
use crate::limits::{STREAM_READ_BYTES, URING_ENTRIES};

/// The runtime of this build.
pub const RUNTIME: &str = "glommio";
/// The version of this build, with its runtime.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (glommio)");
/// The drivers that may be asked for.
pub const DRIVERS: &[Driver] = &[Driver::Auto, Driver::IoUring];
/// What to do where io_uring cannot be used.
pub(super) const OTHERWISE: &str = "take a build without the feature glommio, which can use epoll";

/// How many executors there have been.
static EXECUTORS: AtomicUsize = AtomicUsize::new(0);

/// Descriptors that the executors of this process never give back: glommio loses an event counter with each.
pub fn left_behind() -> usize {
    EXECUTORS.load(Ordering::Relaxed)
}

thread_local! {
    /// Where bytes arrive, before they are appended to the buffer of who reads: glommio reads into initialised
    /// memory only.
    static ARRIVED: RefCell<Box<[u8]>> = RefCell::new(vec![0; STREAM_READ_BYTES].into());
}

/// Runs `start(chosen)` to its end on this thread. Tasks that still run then are dropped.
pub fn run<F: Future>(driver: Driver, start: impl FnOnce(Chosen) -> F) -> Result<F::Output, DriverError> {
    if driver == Driver::Epoll {
        return Err(DriverError::NoEpoll(RUNTIME));
    }
    // glommio itself panics where a seccomp profile forbids io_uring
    sys::try_io_uring().map_err(|error| DriverError::IoUring(Unavailable::new(&error)))?;
    // no files are read here: memory registered for that is of no use
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .ring_depth(URING_ENTRIES as usize)
        .io_memory(0)
        .make()
        .map_err(|error| DriverError::IoUring(explain(error)))?;
    EXECUTORS.fetch_add(1, Ordering::Relaxed);
    let start = start(Chosen { name: "io_uring", fallback: None });
    Ok(executor.run(async {
        let result = start.await;
        task::end().await;
        result
    }))
}

fn explain(error: GlommioError<()>) -> Unavailable {
    let message = error.to_string();
    match error {
        GlommioError::ReactorError(ReactorErrorKind::MemLockLimit(..)) => {
            Unavailable::because(Some(libc::ENOMEM), message)
        }
        other => Unavailable::because(io::Error::from(other).raw_os_error(), message),
    }
}

/// Waits at least this long.
pub async fn sleep(time: Duration) {
    timer::sleep(time).await;
}

/// Waits until a descriptor can be read, without reading it.
pub struct Readable(OwnedFd);

impl Readable {
    /// Watches a copy of `fd`, which need not be a socket and stays with its owner.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        fd.try_clone_to_owned().map(Self)
    }

    /// Watches a descriptor that a library owns, through a copy of it.
    pub fn raw(fd: RawFd) -> io::Result<Self> {
        sys::dup(fd).map(Self)
    }

    /// Returns when the descriptor is readable or has ended. May be dropped while it waits: nothing is lost.
    pub async fn wait(&self) -> io::Result<()> {
        let mut watch = watched(self.0.try_clone()?);
        poll_fn(|context| Pin::new(&mut watch).poll_read(context, &mut []).map(|_| Ok(()))).await
    }
}

/// One connection, TCP or Unix. A TCP stream of glommio asks nothing of its descriptor but `recv` and `send`; its
/// Unix stream does the same, and hides the descriptor.
pub struct Stream(TcpStream);

impl Stream {
    /// Takes over an accepted TCP connection.
    #[allow(clippy::unnecessary_wraps)] // it can fail on other runtimes
    pub fn tcp(stream: net::TcpStream) -> io::Result<Self> {
        Ok(Self(watched(stream.into())))
    }

    /// Takes over an accepted Unix connection.
    #[allow(clippy::unnecessary_wraps)] // it can fail on other runtimes
    pub fn unix(stream: unix::UnixStream) -> io::Result<Self> {
        Ok(Self(watched(stream.into())))
    }

    /// Appends what arrives into the spare capacity of `buf`, at least one byte or 0 at the end. A buffer
    /// without spare capacity reads nothing. Must not be dropped while it waits.
    pub async fn read(&mut self, mut buf: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let spare = (buf.capacity() - buf.len()).min(STREAM_READ_BYTES);
        if spare == 0 {
            return (Ok(0), buf);
        }
        let result = poll_fn(|context| {
            ARRIVED.with_borrow_mut(|arrived| {
                let part = &mut arrived[..spare];
                Pin::new(&mut self.0).poll_read(context, part).map_ok(|read| {
                    buf.extend_from_slice(&part[..read]);
                    read
                })
            })
        });
        (result.await, buf)
    }

    /// Writes some of `buf[from..]` and says how much. Must not be dropped while it waits.
    pub async fn write(&mut self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let result = poll_fn(|context| Pin::new(&mut self.0).poll_write(context, &buf[from..]));
        (result.await, buf)
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A stream that begins to watch `fd`.
fn watched(fd: OwnedFd) -> TcpStream {
    // SAFETY: the descriptor is given up by its owner. Nothing is asked of it but `recv` and `send`, which fail where
    // it is no socket.
    unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) }
}
