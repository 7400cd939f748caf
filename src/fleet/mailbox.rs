//! How helper threads hand results to the reactor's thread: a list and a bell.
//!
//! A letter lies in the list before the bell rings, and the bell is taken back before the list is looked at: a
//! letter that is posted in between is seen or rings again.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rt::{Readable, Wake};

/// The end that any thread posts to. Clones post to the same mailbox.
pub struct Post<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    letters: Mutex<Vec<T>>,
    bell: Arc<Wake>,
}

/// The end that one task of a reactor reads. Bounded by what those who post have under way.
pub struct Mailbox<T> {
    shared: Arc<Shared<T>>,
    readable: Readable,
}

impl<T: Send> Post<T> {
    /// The way to a mailbox that is yet to be opened; letters may come before. An error when there is no
    /// descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { shared: Arc::new(Shared { letters: Mutex::default(), bell: Wake::new()? }) })
    }

    /// Posts a letter. Never waits.
    pub fn post(&self, letter: T) {
        let first = {
            let mut letters = self.shared.letters();
            letters.push(letter);
            letters.len() == 1
        };
        // those after the first lie there when the reader comes for it
        if first {
            self.shared.bell.notify();
        }
    }

    /// The mailbox, on the thread of the reactor that reads it. There may be only one.
    pub fn open(&self) -> io::Result<Mailbox<T>> {
        let readable = Readable::new(self.shared.bell.as_fd())?;
        Ok(Mailbox { shared: self.shared.clone(), readable })
    }
}

impl<T: Send> Mailbox<T> {
    /// Waits until there is a letter. May be dropped while it waits: nothing is lost.
    pub async fn wait(&self) -> io::Result<()> {
        while self.shared.letters().is_empty() {
            self.readable.wait().await?;
            self.shared.bell.clear();
        }
        Ok(())
    }

    /// All letters, in the order in which they were posted; none when there is none.
    pub fn take(&self) -> Vec<T> {
        mem::take(&mut *self.shared.letters())
    }
}

impl<T> Shared<T> {
    fn letters(&self) -> MutexGuard<'_, Vec<T>> {
        // nothing that could panic runs under the lock
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for Post<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post")
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
