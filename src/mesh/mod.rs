//! Messages between reactors: a bounded ring for every pair and direction, no lock, no spinning.
//!
//! | File | What stands there |
//! |---|---|
//! | [`ring`] | one bounded ring, one writer, one reader |
//! | [`port`] | what a reactor holds: a request and a reply ring to and from every other |

pub mod port;
pub mod ring;

pub use self::port::{Port, connect};
