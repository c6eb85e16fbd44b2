//! The integration tests, one program: what it takes to link them is spent once.

mod common;

mod allocations;
mod hostile;
mod replay;
mod rules;
