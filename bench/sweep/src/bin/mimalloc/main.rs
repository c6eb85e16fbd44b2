//! mimalloc as the global allocator.
#![forbid(unsafe_code)]

use curtail_sweep::blocks;
use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    inside::main(&[Check::new("mimalloc", blocks::blocks)])
}
