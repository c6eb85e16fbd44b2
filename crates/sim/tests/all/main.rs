//! The integration tests, one program: what it takes to link them is spent once.

mod common;

mod auto;
mod closed_forms;
mod conventions;
mod cores;
mod darc;
mod disturb;
mod golden;
mod own;
mod replay;
mod threads;
