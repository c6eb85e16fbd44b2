//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../../../spin/tests/common/mod.rs"]
mod common;

mod app;
mod exceptions;
mod locks;
mod packets;
mod preempt;
mod protocol;
mod store;
mod threads;
