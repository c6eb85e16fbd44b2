//! The command `curtail`: runs, drives and measures servers on the runtime, and says what there is.
//!
//! Each verb is one module; all of them run on the main thread (which `bench` and `serve` lend to
//! the dispatcher). Exit codes: 0 success, 2 bad usage, 1 failure, the last two with one line on
//! standard error.
#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod args;
mod bench;
mod calibrate;
mod catalogue;
mod compare;
mod cores;
#[cfg(feature = "kv")]
mod demo;
mod doctor;
mod failure;
#[cfg(feature = "kv")]
mod kv;
mod load;
mod log;
mod manual;
mod measured;
mod output;
mod report;
mod serve;
mod sim;
mod top;
mod trace;
mod typed;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Curtail: a runtime for requests that take microseconds.
#[derive(Parser)]
#[command(name = "curtail", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it in a process")]
enum Verb {
    /// Measure the runtime in this process: an open-loop generator on the dispatcher's core
    Bench(bench::Bench),
    /// Simulate: the same policies in virtual time, ideal or with costs
    Sim(Box<sim::Sim>),
    /// Measure what things cost on this machine, for `sim --costs calibrated`
    Calibrate(calibrate::Calibrate),
    /// The runtime against the simulator, under the same requests
    Compare(Box<compare::Compare>),
    /// Run a server
    Serve(serve::Serve),
    /// Drive a server with an open-loop load
    Load(load::Load),
    /// Start a program of threads under a core allocator, if there is one
    Run(cores::Run),
    /// Start any program as batch: it gets what is left of the cores of a core allocator
    Batch(cores::Batch),
    /// Look at a running server, live
    Top(top::Top),
    /// Record what a running program does, for Perfetto
    Trace(trace::Trace),
    /// See it work: LevelDB, driven under several policies; a table and a page
    #[cfg(feature = "kv")]
    Demo(demo::Demo),
    /// What policies there are
    Policies(catalogue::Policies),
    /// What workloads there are
    Workloads(catalogue::Workloads),
    /// What this machine offers, what Curtail uses of it, and what would make it better
    Doctor(doctor::Doctor),
    /// Show results: as a table, a page, a picture
    Report(report::Report),
    /// Write manuals and completions of all commands, for packages
    #[command(hide = true)]
    Manual(manual::Manual),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::parse_error(&error),
    };
    log::listen();
    let outcome = match cli.verb {
        Verb::Bench(bench) => bench.run(),
        Verb::Sim(sim) => sim.run(),
        Verb::Calibrate(calibrate) => calibrate.run(),
        Verb::Compare(compare) => compare.run(),
        Verb::Serve(serve) => serve.run(),
        Verb::Load(load) => load.run(),
        Verb::Run(run) => run.run(),
        Verb::Batch(batch) => batch.run(),
        Verb::Top(top) => top.run(),
        Verb::Trace(trace) => trace.run(),
        #[cfg(feature = "kv")]
        Verb::Demo(demo) => demo.run(),
        Verb::Policies(policies) => policies.run(),
        Verb::Workloads(workloads) => workloads.run(),
        Verb::Doctor(doctor) => doctor.run(),
        Verb::Report(report) => report.run(),
        Verb::Manual(manual) => manual.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
    }
}
