//! Curtail: a runtime for services whose requests take microseconds.
//!
//! Write an ordinary blocking handler ([`App`]), give it a policy and a transport, and [`Server::run`]
//! it. Built with `cargo curtail build`, long requests yield at compiler-inserted safepoints every
//! microsecond or two, so that short ones never wait behind them; built plainly, the same program
//! runs each request to completion, and says so.
//!
//! ```no_run
//! use curtail::{App, Response, Server, WorkerId};
//!
//! struct Echo;
//!
//! impl App for Echo {
//!     type Worker = ();
//!     fn setup_worker(&self, _: WorkerId) {}
//!     fn handle(&self, _: &(), request: &[u8], response: &mut Response) {
//!         response.write(request);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let udp = curtail::net::open("udp://127.0.0.1:4000")?;
//! let report = Server::builder(Echo).transport(udp).build()?.run()?;
//! println!("{} requests", report.classes[0].completed);
//! # Ok(())
//! # }
//! ```
//!
//! Or write a program of threads: [`run`] runs a closure and all that it [`spawn`]s as threads that
//! cost tens of nanoseconds. They wait by blocking calls with std's signatures ([`sync`], [`net`],
//! [`time`], [`park`], [`scope`]), and a thread that waits leaves its kthread (the kernel's thread)
//! to others. The same calls work in handlers.
//!
//! ```
//! let squares = curtail::run(|| {
//!     let threads: Vec<_> = (1..=1_000_u64).map(|n| curtail::spawn(move || n * n)).collect();
//!     threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<u64>()
//! });
//! assert_eq!(squares, 333_833_500);
//! ```
//!
//! Or give closures to a [`pool`], beside tokio or any other executor, so that long ones do not hold
//! up what is short.
//!
//! # Where it works
//!
//! | | |
//! |---|---|
//! | machine | x86-64 Linux with glibc; no other target builds |
//! | Rust | 1.95 or later, stable |
//! | pre-emption | of programs that `cargo curtail` has built, with clang and lld of the LLVM that `rustc -vV` names; of others by signal, where asked for; else requests run to completion, and the program says so |
//! | rights | none: no root, no kernel module |
//!
//! `cargo curtail` comes with Curtail's tools, from a clone or as a package. Everything else is ordinary:
//! `cargo build`, `cargo test`, stable Rust.
//!
//! # Features
//!
//! * `cxx`: for handlers that call C++. An exception that leaves the handler fails that request, as a
//!   panic does. Links the C++ runtime. Off by default.
//!
//! # The crates
//!
//! This one has no code of its own. What it re-exports is in crates for it alone, whose own names change
//! from version to version:
//!
//! * `curtail-rt`: threads, waiting, locks, time, sockets;
//! * `curtail-libc`: the functions of C that are defined instead of libc's, by which the locks of `std`
//!   and C lead to the runtime;
//! * `curtail-server`: servers. A [`pool`] (`curtail-pool`) is one with an in-process transport.

#![forbid(unsafe_code)]

#[cfg(target_feature = "crt-static")]
compile_error!(
    "Curtail defines some of libc's functions and passes the rest on to the shared one: build without \
     +crt-static"
);

pub use curtail_fiber::safepoint::{
    Kind as SafepointKind, here as safepoint, kind as safepoint_kind,
};
pub use curtail_policy::{self as policy, ClassId, Nanos, Spec, WorkerId};
#[doc(inline)]
pub use curtail_pool as pool;
#[doc(inline)]
pub use curtail_rt::{
    Builder, Cancelled, Cause, Context, DaemonError, Grace, Interruptible, Io, JoinHandle,
    KthreadStats, Look, OnCancel, Preempt, Quota, Refusal, RequestId, Runtime, RuntimeBuilder,
    Scope, ScopedJoinHandle, Stall, StallPlace, Suspended, SuspendedStack, Thread, ThreadId,
    ThreadStack, Ticks, allowed_cores, block_on, check, class, clock, cpu_quota, current, fs, net,
    on_terminate, own_thread_locals, park, park_timeout, run, scope, served_cycles, shield,
    signals, spawn, stacks, suspended, switches_by_instruction, sync, time, timeline, yield_now,
};
// The functions, and not the modules of these names.
#[doc(inline)]
pub use curtail_rt::{blocking::blocking, context::context, held::critical_time};
#[doc(inline)]
pub use curtail_server::{
    App, ChangeError, Class, ClassStats, ClassifyFn, Cpu, DispatcherMode, Handle, Noise, Report,
    RequestState, RequestStats, Response, RunError, Server, ServerBuilder, StartError, Stats,
    WorkerStats,
};

// The functions of C that it defines are part of every program.
use curtail_libc as _;

/// As [`std::thread_local!`]: each thread and request has thread-locals of its own.
#[macro_export]
macro_rules! uthread_local {
    ($($items:tt)*) => {
        ::std::thread_local! { $($items)* }
    };
}

/// The programs of the book and of the README, as tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/src/server.md")]
    struct Servers;
    #[doc = include_str!("../../../docs/src/threads.md")]
    struct Threads;
    #[doc = include_str!("../../../docs/src/pool.md")]
    struct Pool;
    #[doc = include_str!("../../../docs/src/transports.md")]
    struct Transports;
    #[doc = include_str!("../../../docs/src/cancellation.md")]
    struct Cancellation;
    #[doc = include_str!("../../../docs/src/large.md")]
    struct LargeData;
}
