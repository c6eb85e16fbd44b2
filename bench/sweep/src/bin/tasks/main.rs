//! Executors, thread pools, spans and logs.
#![forbid(unsafe_code)]

mod executors;
mod logs;
mod pools;
mod spans;

use curtail_sweep::inside::{self, Check};
use std::process::ExitCode;

const CHECKS: &[Check] = &[
    Check::with_end("log", logs::log, logs::log_end),
    Check::with_end("env_logger", logs::env_logger, logs::env_logger_end),
    Check::with_end("tracing", spans::tracing, spans::tracing_end),
    Check::with_end("tracing-subscriber", spans::subscriber, spans::subscriber_end),
    Check::new("futures", executors::futures),
    Check::new("rayon", pools::rayon),
    Check::with_end("tokio", executors::tokio, executors::tokio_end),
];

fn main() -> ExitCode {
    inside::main(CHECKS)
}
