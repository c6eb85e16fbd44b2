//! The integration tests, one program: what it takes to link them is spent once.

#[path = "../support/mod.rs"]
mod support;

mod fiber;
mod locals;
mod suspended;
