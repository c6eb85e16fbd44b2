//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../everything/mod.rs"]
mod everything;

mod fiber;
mod locals;
mod signal;
mod suspended;
