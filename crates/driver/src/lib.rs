//! The drivers that build instrumented programs: `curtail-cc` and `curtail-c++` (drop-in for clang
//! and clang++) and `cargo curtail`.
//!
//! How code gets its safepoints: C and C++ objects carry bitcode beside machine code (fat LTO
//! objects), crates are compiled to bitcode, and the pass runs in the link, over Rust, C and C++
//! alike: with ThinLTO where there are crates, else over all of it as one module.
//!
//! The machine code in C and C++ objects is instrumented as well, at compile time: so archives, `ld -r`,
//! `strip`, configure scripts and other linkers, which know nothing of bitcode, find what they expect,
//! and nothing loses its safepoints on the way.
//!
//! Everything here runs in one short-lived process and one thread, and ends by becoming (or waiting
//! for) the compiler, or by summing up what that reported.
#![forbid(unsafe_code)]

pub mod cargo;
pub mod cc;
mod exports;
pub mod keep_out;
pub mod layout;
pub mod new;
pub mod options;
mod pthreads;
pub mod report;
mod sources;
pub mod summary;
pub mod toolkit;
mod verbs;
mod words;
pub mod wrapper;

/// Prints a one-line reason, for a driver that gives up. The status is 1, as interfaces demand.
pub fn fail(program: &str, reason: &str) -> std::process::ExitCode {
    eprintln!("{program}: {reason}");
    std::process::ExitCode::FAILURE
}
