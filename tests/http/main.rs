//! The HTTP codec and the bodies that it carries: one file a property, one program, so that it is linked once.

mod http_buffer;
mod http_codec;
mod http_refusals;
mod http_responses;
mod query_bodies;
mod token_parsing;
