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
//! # The modules
//!
//! A request's way: `intake` → scheduler → `dispatcher` → ring → `worker` → `engine` (a fiber runs
//! the handler) → ring → `dispatcher`.
//!
//! Under a policy without a dispatcher: `server::threads` (the calling thread takes requests in) →
//! a thread's way → inbox → `server::threads`.
//!
//! A thread's way: `thread::spawn` → a queue of its kthread, from which others may steal it →
//! `thread::kthread` (it runs) → `block` (it waits, in a queue on the waiters' own stacks) → the
//! inbox of its kthread → `thread::kthread`. `thread/README.md` is the design.
//!
//! A pool's jobs go a request's way: [`pool`] is a server with an in-process transport.
//!
//! Under all: `block` is the one way to wait, for threads, requests and plain threads; `sync`,
//! `time`, `socket` (under [`net`]) and `blocking` stand on it, `wait` with `futex` and `pthread` lead the locks of `std` and C
//! to the runtime.

mod activation;
mod app;
mod ask;
mod block;
mod blocking;
mod calls;
mod cancel;
mod classify;
pub mod clock;
mod condclock;
mod contain;
mod context;
mod control;
mod dispatcher;
mod engine;
mod fences;
mod forked;
mod futex;
mod future;
mod identity;
mod intake;
mod jobs;
mod losses;
mod message;
pub mod net;
mod once;
mod own_words;
mod panics;
pub mod pool;
mod preempt;
mod pthread;
mod quota;
mod real;
mod record;
mod remote;
mod report;
mod response;
mod server;
mod signal;
mod sleep;
mod socket;
mod spread;
mod stats;
pub mod sync;
mod terminate;
mod thread;
pub mod time;
pub mod timeline;
mod topology;
mod unarmed;
mod user;
mod wait;
mod worker;
mod yields;

pub use app::{App, Class, ClassifyFn};
pub use blocking::blocking;
pub use calls::served_cycles;
pub use cancel::{Cancelled, Cause, OnCancel, check, shield};
pub use context::{Context, RequestId, class, context};
pub use curtail_fiber::safepoint::{
    Kind as SafepointKind, here as safepoint, kind as safepoint_kind,
};
pub use curtail_policy::{self as policy, Balance, ClassId, Nanos, Spec, WorkerId};
pub use future::block_on;
pub use identity::{own_thread_locals, switches_by_instruction};
pub use preempt::Preempt;
pub use quota::{Quota, cpu_quota};
pub use response::Response;
pub use server::{
    ChangeError, DispatcherMode, Handle, RunError, Server, ServerBuilder, StartError,
};
pub use signal::{Interruptible, Refusal, Ticks, signals};
pub use stats::{ClassStats, Cpu, Noise, Report, RequestState, RequestStats, Stats, WorkerStats};
pub use terminate::on_terminate;
pub use thread::{
    Builder, DaemonError, Grace, JoinHandle, KthreadStats, Look, Runtime, RuntimeBuilder, Scope,
    ScopedJoinHandle, Stall, StallPlace, Suspended, SuspendedStack, Thread, ThreadId, ThreadStack,
    current, park, park_timeout, run, scope, spawn, stacks, suspended, yield_now,
};
pub use topology::allowed_cores;

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
}
