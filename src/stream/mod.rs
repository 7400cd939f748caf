//! ZMQ: which endpoints may be registered, and what arrives from them.
//!
//! | File | What stands there |
//! |---|---|
//! | [`endpoint`] | checking an endpoint before libzmq sees it |
//! | [`contexts`] | libzmq contexts, whose sockets are limited |
//! | [`past`] | what was applied lately |
//! | [`replay`] | one request to a replay endpoint, and its answer |
//! | [`sequence`] | the decisions about one numbered stream |
//! | [`stats`] | what a stream says about itself |
//! | [`subscription`] | one SUB socket and how it is drained |

pub mod contexts;
pub mod endpoint;
pub mod past;
pub mod replay;
pub mod sequence;
pub mod stats;
pub mod subscription;
pub mod topics;
pub mod trust;
