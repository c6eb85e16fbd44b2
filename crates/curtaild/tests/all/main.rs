//! The integration tests, one program: what it takes to link them is spent once.

mod common;
#[path = "common/process.rs"]
mod process;

mod command;
mod faults;
mod grants;
mod ports;
