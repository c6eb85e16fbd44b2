//! Reads a linked, instrumented program and says what is wrong with its safepoints: paths that are
//! longer than the bound, and safepoints where none may be.
//!
//! It believes machine code only. The pass leaves notes (`notes`) on which functions it instrumented
//! and on loops that it knows to be short; everything else is decoded. The file is untrusted
//! input: nothing in it may make the verifier panic.
#![forbid(unsafe_code)]

mod above;
pub mod charges;
pub mod code;
mod copies;
pub mod cost;
pub mod finding;
pub mod flow;
pub mod forbid;
pub mod frames;
pub mod handlers;
pub mod image;
pub mod lines;
pub mod loops;
pub mod names;
pub mod nests;
pub mod notes;
pub mod paths;
pub mod probes;
pub mod program;
pub mod report;
pub mod tables;
pub mod unwind;
