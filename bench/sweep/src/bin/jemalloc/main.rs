//! jemalloc as the global allocator.
#![forbid(unsafe_code)]

use curtail_sweep::blocks;
use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    inside::main(&[Check::new("jemalloc", blocks::blocks)])
}
