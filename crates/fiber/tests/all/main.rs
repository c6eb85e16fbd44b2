//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../everything/mod.rs"]
mod everything;

#[path = "../support/mod.rs"]
mod support;

mod fiber;
mod locals;
mod signal;
mod suspended;
