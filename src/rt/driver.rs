//! How a reactor waits for the kernel: io_uring where it is allowed, epoll everywhere.

use std::fmt;
use std::io;
use std::str::FromStr;

use super::runtime::OTHERWISE;

/// Which driver is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Driver {
    /// io_uring, and epoll where that fails.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// epoll.
    Epoll,
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "io_uring" => Ok(Self::IoUring),
            "epoll" => Ok(Self::Epoll),
            other => Err(format!("driver is auto, io_uring or epoll, not {other:?}")),
        }
    }
}

/// Which driver a reactor runs on, and why not the wanted one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// `io_uring` or `epoll`.
    pub name: &'static str,
    /// Why io_uring was tried and could not be used.
    pub fallback: Option<Unavailable>,
}

/// Why io_uring cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unavailable {
    /// The error of `io_uring_setup`, when the kernel gave one.
    pub errno: Option<i32>,
    message: String,
}

impl Unavailable {
    /// Explains an error of setting up a ring.
    pub fn new(error: &io::Error) -> Self {
        Self::because(error.raw_os_error(), error.to_string())
    }

    /// Explains what stands in the way of a ring, as if the kernel had said `errno`.
    pub fn because(errno: Option<i32>, message: String) -> Self {
        Self { errno, message }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> String {
        let cure = match self.errno {
            Some(libc::EPERM | libc::EACCES) => {
                "a seccomp profile or the sysctl kernel.io_uring_disabled forbids it: allow io_uring_setup, \
                 io_uring_enter and io_uring_register, or "
            }
            Some(libc::ENOSYS) => {
                "the kernel has no io_uring or a seccomp profile hides it: use Linux 5.6 or newer and allow it, or "
            }
            Some(libc::ENOMEM) => {
                "the ring's memory may not be locked: raise the memlock limit (LimitMEMLOCK, ulimit -l), or "
            }
            Some(libc::EMFILE | libc::ENFILE) => {
                return "no file descriptor is left: raise the nofile limit (LimitNOFILE, ulimit -n)"
                    .to_owned();
            }
            _ => "",
        };
        format!("{cure}{OTHERWISE}")
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io_uring cannot be used ({}): {}", self.message, self.remedy())
    }
}

/// Why a reactor has no driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// io_uring was demanded and cannot be used.
    #[error("{0}")]
    IoUring(Unavailable),
    /// epoll was demanded of a runtime that has none.
    #[error(
        "driver epoll is not in this build: its runtime, {0}, waits by io_uring only; choose io_uring, or {OTHERWISE}"
    )]
    NoEpoll(&'static str),
    /// epoll itself failed.
    #[error("epoll cannot be set up: {0}")]
    Epoll(io::Error),
}
