//! ZMQ: which endpoints may be registered, and what arrives from them.
//!
//! | File | What stands there |
//! |---|---|
//! | [`endpoint`] | checking an endpoint before libzmq sees it |
//! | [`contexts`] | libzmq contexts, whose sockets are limited |
//! | [`stats`] | what a stream says about itself |
//! | [`subscription`] | one SUB socket and how it is drained |

pub mod contexts;
pub mod endpoint;
pub mod stats;
pub mod subscription;
