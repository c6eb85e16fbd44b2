//! What safepoints cost and how well they keep time: a suite of programs in C, C++ and Rust
//! (`programs/`), or of libraries in C that others wrote (`outside/`), built with and without safepoints, run in turns and compared.
//!
//! One thread measures, pinned to a core that it shares with the program it waits for. The runner is
//! never instrumented; the programs know nothing of it.

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod compile;
pub mod figures;
pub mod measure;
pub mod options;
pub mod outside;
pub mod suite;
pub mod table;
