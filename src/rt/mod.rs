//! The runtime seam: everything the daemon asks of an async runtime stands here, so that another one can
//! take its place.
//!
//! A reactor is one thread with one executor. Wakers never cross threads: other threads reach a reactor only
//! through its [`wake::Wake`]. I/O takes owned buffers. An operation in flight is never dropped; what has to
//! end early is ended by `shutdown(2)` on its descriptor ([`sys::shutdown`]).
//!
//! One runtime is built in: monoio, or glommio where the cargo feature of that name is on. Its module gives what
//! only a runtime can give, and nothing else of the crate names it:
//!
//! | Item | What it is |
//! |---|---|
//! | `RUNTIME`, `VERSION` | its name; the version of this build with it |
//! | `DRIVERS`, `OTHERWISE` | the drivers that may be asked for; what to do where there is no io_uring |
//! | [`run`] | an executor on this thread, from the first future to its end |
//! | [`spawn`], [`Task`] | a task of this executor, begun after its spawner has paused |
//! | [`sleep`] | time |
//! | [`left_behind`] | descriptors that executors have lost: for tests that count them |
//! | [`Readable`] | any descriptor becoming readable; a level, not an edge |
//! | [`Stream`] | a connection, read and written |

pub mod allocator;
pub mod driver;
pub mod gate;
#[cfg(feature = "glommio")]
mod glommio;
#[cfg(not(feature = "glommio"))]
mod monoio;
pub mod pin;
pub mod signal;
pub mod sys;
pub mod turn;
pub mod wake;

#[cfg(feature = "glommio")]
use self::glommio as runtime;
#[cfg(not(feature = "glommio"))]
use self::monoio as runtime;

pub use self::driver::{Chosen, Driver, DriverError};
pub use self::gate::{Gate, Pass};
pub use self::runtime::{DRIVERS, RUNTIME, Readable, Stream, Task, VERSION, left_behind, run, sleep, spawn};
pub use self::signal::Signal;
pub use self::turn::Turn;
pub use self::wake::{Line, Wake, fair_yield};
