//! Reactors, and the mesh between them: one file a property, one program, so that it is linked once.

#[path = "../support/mod.rs"]
mod support;

mod connection_limits;
mod fair_yield;
mod head_of_line;
mod mesh_port;
mod mesh_ring;
mod mesh_service;
mod mesh_sleep;
mod pipelining;
