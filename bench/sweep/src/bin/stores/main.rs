//! Databases in memory, pictures, packing in C.
#![forbid(unsafe_code)]

mod databases;
mod media;

use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

const CHECKS: &[Check] = &[
    Check::with_end("rusqlite", databases::rusqlite, databases::rusqlite_end),
    Check::with_end("redb", databases::redb, databases::redb_end),
    Check::new("image", media::image),
    Check::new("zstd", media::zstd),
];

fn main() -> ExitCode {
    inside::main(CHECKS)
}
