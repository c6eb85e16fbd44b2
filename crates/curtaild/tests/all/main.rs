//! The integration tests, one program: what it takes to link them is spent once.

mod common;
#[path = "common/process.rs"]
mod process;
#[path = "../../../net/tests/common/mod.rs"]
mod wire;

mod command;
mod faults;
mod grants;
mod packets;
mod ports;
