//! Which core a reactor runs on.

use std::io;

use super::sys;

/// The CPUs that this process may use, taken before any thread is pinned.
#[derive(Clone, Debug)]
pub struct Cpus {
    allowed: Vec<usize>,
}

impl Cpus {
    /// The CPUs that the calling thread may use: cgroup CPU sets and `taskset` are respected.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Self { allowed: sys::allowed_cpus()? })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.allowed.len()
    }

    /// The CPU of reactor `index`, when each of `reactors` can have one of its own.
    pub fn seat(&self, index: usize, reactors: usize) -> Option<usize> {
        if reactors <= self.allowed.len() { self.allowed.get(index).copied() } else { None }
    }

    /// Lets the calling thread run on all of them again: for helpers that a pinned thread starts.
    pub fn spread(&self) -> io::Result<()> {
        sys::allow_cpus(&self.allowed)
    }
}

/// Pins the calling thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    sys::allow_cpus(&[cpu])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reactor_has_a_core_of_its_own_or_none() {
        let cpus = Cpus { allowed: vec![2, 5] };
        assert_eq!((cpus.seat(0, 2), cpus.seat(1, 2)), (Some(2), Some(5)));
        assert_eq!(cpus.seat(0, 3), None);
    }

    #[test]
    fn a_thread_is_pinned_and_spread_again() {
        std::thread::spawn(|| {
            let cpus = Cpus::of_this_thread().unwrap();
            let last = *cpus.allowed.last().unwrap();
            pin(last).unwrap();
            assert_eq!(sys::allowed_cpus().unwrap(), [last]);
            cpus.spread().unwrap();
            assert_eq!(sys::allowed_cpus().unwrap(), cpus.allowed);
        })
        .join()
        .unwrap();
    }
}
