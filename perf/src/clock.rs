//! CPU time, of the calling thread or of another process: a shared machine takes cores away, and that is nobody's cost.
#![allow(unsafe_code)] // one system call that std does not offer

use std::time::Duration;

/// What a clock shows; `None` when there is no such clock.
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec that the call fills.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) };
    (failed == 0).then(|| Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
}

/// CPU time that this thread has used.
pub fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock")
}

/// CPU time that a process has used, user and system, all threads; the clock behind `/proc/PID/stat`, in
/// nanoseconds instead of ticks.
pub fn process_cpu(process: u32) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place that the call fills.
    let failed = unsafe { libc::clock_getcpuclockid(process as libc::pid_t, &raw mut clock) };
    if failed == 0 { read(clock) } else { None }
}

/// CPU time that `work` takes on this thread.
pub fn cpu_of(work: impl FnOnce()) -> Duration {
    let start = thread_cpu();
    work();
    thread_cpu().saturating_sub(start)
}
