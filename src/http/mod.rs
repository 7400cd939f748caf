//! HTTP/1.0 and 1.1 without sockets: bytes in, requests out; responses written into the send buffer.
//!
//! A connection owns one [`Decoder`]. It reads into [`Decoder::take_buffer`], gives the buffer back,
//! and takes steps until [`Step::NeedMore`]; answers go through [`response`], paths through [`router`].
//! [`tokens`] and [`object`] read the JSON that is too large or too hot for a general parser.

mod chunked;
mod decoder;
mod head;
pub mod object;
pub mod response;
pub mod router;
mod spares;
pub mod tokens;

pub use decoder::{Decoder, Limits, Refusal, Request, Step};
pub use head::Method;
