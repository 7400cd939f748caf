//! The runtime seam: everything the daemon asks of an async runtime stands here, so that another one can
//! take its place.
//!
//! A reactor is one thread with one executor. Wakers never cross threads: other threads reach a reactor only
//! through its [`wake::Wake`]. I/O takes owned buffers. An operation in flight is never dropped; what has to
//! end early is ended by `shutdown(2)` on its descriptor ([`sys::shutdown`]).

pub mod driver;
pub mod gate;
mod monoio;
pub mod pin;
pub mod signal;
pub mod sys;
pub mod turn;
pub mod wake;

pub use self::driver::{Chosen, Driver, DriverError};
pub use self::gate::{Gate, Pass};
pub use self::monoio::{Readable, Stream, Task, run, sleep, spawn};
pub use self::signal::Signal;
pub use self::turn::Turn;
pub use self::wake::{Line, Wake, fair_yield};
