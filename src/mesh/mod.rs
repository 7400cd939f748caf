//! Messages between reactors: a bounded ring for every pair and direction, no lock, no spinning.
//!
//! | File | What stands there |
//! |---|---|
//! | [`ring`] | one bounded ring, one writer, one reader |
//! | [`port`] | what a reactor holds: a request and a reply ring to and from every other |
//! | [`tickets`] | which task waits for which reply |

pub mod port;
pub mod ring;
pub mod tickets;

pub use self::port::{Port, connect};
pub use self::tickets::{Pending, Tickets};
