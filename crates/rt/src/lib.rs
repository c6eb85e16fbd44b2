//! Curtail's runtime of threads: kthreads and what they run, waiting, locks, time, blocking sockets.
//!
//! Programs depend on `curtail`, which has all of this that is for them; the rest is for Curtail's other
//! crates, and changes from version to version. A program of this crate needs `curtail-libc` as well,
//! which defines a function that kthreads call.
//!
//! A thread's way: [`thread`]`::spawn` → a queue of its kthread, from which others may steal it →
//! `thread::kthread` (it runs) → [`block`] (it waits, in a queue on the waiters' own stacks) → the
//! inbox of its kthread → `thread::kthread`. `thread/README.md` is the design.
//!
//! Under all, [`block`] is the one way to wait, for threads, requests and plain threads; [`sync`],
//! [`time`], [`socket`] (under [`net`]) and [`blocking`](mod@blocking) stand on it, and [`wait`] leads
//! the locks of `std` and C to it.

#![allow(rustdoc::private_intra_doc_links, reason = "hidden modules are read with what they hide")]

#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod blocking;
#[doc(hidden)]
pub mod cancel;
pub mod clock;
#[doc(hidden)]
pub mod contain;
#[doc(hidden)]
pub mod context;
#[doc(hidden)]
pub mod fences;
#[doc(hidden)]
pub mod forked;
pub mod fs;
#[doc(hidden)]
pub mod future;
#[doc(hidden)]
pub mod held;
mod hook;
#[doc(hidden)]
pub mod kernel;
pub mod net;
mod own_locals;
mod panics;
#[doc(hidden)]
pub mod preempt;
mod quota;
#[doc(hidden)]
pub mod signal;
#[doc(hidden)]
pub mod socket;
pub mod sync;
mod terminate;
#[doc(hidden)]
pub mod thread;
pub mod time;
pub mod timeline;
#[doc(hidden)]
pub mod topology;
#[doc(hidden)]
pub mod unarmed;
#[doc(hidden)]
pub mod user;
#[doc(hidden)]
pub mod wait;
#[doc(hidden)]
pub mod yields;

pub use blocking::blocking;
pub use cancel::{Cancelled, Cause, OnCancel, check, shield};
pub use context::{Context, RequestId, class, context};
pub use future::block_on;
pub use own_locals::{own_thread_locals, switches_by_instruction};
pub use preempt::Preempt;
pub use quota::{Quota, cpu_quota};
pub use signal::{Interruptible, Refusal, Ticks, signals};
pub use socket::Io;
pub use terminate::on_terminate;
pub use thread::{
    Builder, DaemonError, Grace, JoinHandle, KthreadStats, Look, Runtime, RuntimeBuilder, Scope,
    ScopedJoinHandle, Stall, StallPlace, Suspended, SuspendedStack, Thread, ThreadId, ThreadStack,
    current, park, park_timeout, run, scope, served_cycles, spawn, stacks, suspended, yield_now,
};
pub use topology::allowed_cores;
