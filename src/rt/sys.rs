//! The few system calls that std does not offer.
#![allow(unsafe_code)] // libc calls only; each is checked and touches nothing but its arguments

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Which half of a socket [`shutdown`] ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Nothing more is read: a waiting read ends.
    Read,
    /// Nothing more is written: the peer reads the end.
    Write,
    /// Both.
    Both,
}

/// A new event counter, non-blocking and closed on exec.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before use.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just created and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether this thread may use io_uring: makes a ring, asks what it can do, and closes it.
pub fn try_io_uring() -> io::Result<()> {
    // As the kernel has them: 120 bytes of parameters; a head of 16 bytes and 8 for each operation of a probe.
    const PARAMETERS: usize = 120 / 4;
    const OPERATIONS: u32 = 256;
    const REGISTER_PROBE: libc::c_uint = 8;
    let mut parameters = [0u32; PARAMETERS];
    // SAFETY: `parameters` has the size that the kernel fills; the result is checked before use.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just created and nobody else owns it.
    let ring = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let mut probe = [0u64; 2 + OPERATIONS as usize];
    let (number, probe) = (ring.as_raw_fd(), probe.as_mut_ptr());
    // SAFETY: `probe` has room for as many operations as are asked for.
    if unsafe { libc::syscall(libc::SYS_io_uring_register, number, REGISTER_PROBE, probe, OPERATIONS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A second descriptor for what `fd` names; an error when `fd` is not open.
pub fn dup(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a descriptor that is not open is an error of the call.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` was just created and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Ends one or both halves of a socket; reads, writes, accepts and waits on it return. Errors are of no
/// interest: a socket that is not connected any more has ended already. The caller vouches that `fd` still
/// names the socket that is meant.
pub fn shutdown(fd: RawFd, half: Half) {
    let how = match half {
        Half::Read => libc::SHUT_RD,
        Half::Write => libc::SHUT_WR,
        Half::Both => libc::SHUT_RDWR,
    };
    // SAFETY: no pointers; a descriptor that is not a socket is an error of the call.
    unsafe { libc::shutdown(fd, how) };
}

/// Sends what the buffer of a connected socket takes at once, and says how much; `WouldBlock` when that is
/// nothing. A peer that has gone is an error, never a signal. The caller vouches that `fd` still names the socket
/// that is meant.
pub fn send_now(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length are those of a slice that outlives the call, which only reads it.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Appends what has come on a connected socket to the spare capacity of `buffer`, and says how much, 0 at the end or
/// without spare capacity; `WouldBlock` when nothing has. The caller vouches that `fd` still names the socket that is
/// meant.
pub fn receive_now(fd: RawFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    // SAFETY: pointer and length are those of the spare capacity, which the call writes to and nobody else uses.
    let came = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
    let came = usize::try_from(came).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the call has written so many bytes, which is at most the spare capacity.
    unsafe { buffer.set_len(buffer.len() + came) };
    Ok(came)
}

/// The CPUs that the calling thread may run on, ascending.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: a CPU set is plain bits; all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for writes of its own size.
    if unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every index is below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Lets the calling thread run on `cpus` only; CPUs beyond the kernel's set are ignored.
pub fn allow_cpus(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: a CPU set is plain bits; all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is valid for reads of its own size.
    if unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Lets other threads on the same core go before the calling one: adds `nice` (0 to 19) to its niceness.
pub fn stand_back(nice: u8) -> io::Result<()> {
    // SAFETY: no pointers. Linux keeps a niceness per thread, and id 0 is the calling one.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, libc::c_int::from(nice.min(19))) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks for SIGTERM once the thread that started this process has ended; at once when `parent` has gone already.
pub fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: no pointers; the signal number is a valid one.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the process to end with has gone"));
    }
    Ok(())
}

/// Whether memory touched from now on may come in huge pages, for the whole process and those that it starts. Without
/// effect, and without harm, where the kernel knows no such switch.
pub fn allow_huge_pages(allow: bool) {
    // SAFETY: no pointers; an unknown option is an error of the call.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!allow), 0, 0, 0) };
}

/// Raises the limit on open descriptors as far as the process may, and says what it is then.
pub fn raise_descriptors() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `raised` is a valid rlimit that the call only reads.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0;
    Ok(if done { raised.rlim_cur } else { limit.rlim_cur })
}
