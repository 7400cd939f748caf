//! CPU time of the calling thread: a shared machine takes cores away, and that is nobody's cost.
#![allow(unsafe_code)] // one system call that std does not offer

use std::time::Duration;

/// CPU time that this thread has used.
pub fn thread_cpu() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec that the call fills.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    assert_eq!(failed, 0, "every Linux has this clock");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// CPU time that `work` takes on this thread.
pub fn cpu_of(work: impl FnOnce()) -> Duration {
    let start = thread_cpu();
    work();
    thread_cpu() - start
}
