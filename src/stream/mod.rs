//! ZMQ: which endpoints may be registered, and what arrives from them.
//!
//! | File | What stands there |
//! |---|---|
//! | [`endpoint`] | checking an endpoint before libzmq sees it |
//! | [`contexts`] | libzmq contexts, whose sockets are limited |
//! | [`subscription`] | one SUB socket and how it is drained |

pub mod contexts;
pub mod endpoint;
pub mod subscription;
