//! Locks, channels, caches, cells, and what is a thread's own.
#![forbid(unsafe_code)]

mod cells;
mod channels;
mod counts;
mod own;

use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

const CHECKS: &[Check] = &[
    Check::with_end("crossbeam", channels::crossbeam, channels::crossbeam_end),
    Check::with_end("parking_lot", counts::parking_lot, counts::parking_lot_end),
    Check::with_end("dashmap", counts::dashmap, counts::dashmap_end),
    Check::new("moka", counts::moka),
    Check::new("scoped-tls", own::scoped_tls),
    Check::with_end("thread_local", own::thread_local, own::thread_local_end),
    Check::new("once_cell", cells::once_cell),
    Check::with_end("arc-swap", cells::arc_swap, cells::arc_swap_end),
    Check::with_end("flume", channels::flume, channels::flume_end),
    Check::new("stacker", own::stacker),
    Check::new("signal-hook", own::signal_hook),
];

fn main() -> ExitCode {
    inside::main(CHECKS)
}
