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

/// What `curtail-verify --help` prints.
pub const USAGE: &str =
    "usage: curtail-verify PROGRAM [--bound N] [--keep-out FILE] [--json FILE] [--all]

Reads a linked, instrumented program and reports paths without a safepoint that are longer than the
bound, and safepoints in forbidden places.

  --bound N        the longest path allowed, in about machine instructions; default: three times
                   what the program was built with
  --keep-out FILE  functions that may have no safepoint, beside the built-in ones: names and globs
  --json FILE      everything as JSON; - is standard output, instead of the text
  --all            every finding in the text, not the first 20 of each kind

Exit status: 0 nothing found, 1 findings or no safepoint at all, 2 bad usage or a file that cannot be read.";
