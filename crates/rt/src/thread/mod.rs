//! Threads: one kind for everything that runs, requests included. `crate::block` is how they wait.
//!
//! * `tcb`: the control block, and queues of them; `overflow`: one that several take from;
//! * `kthread`: the kernel's thread that runs them: its queues, the way from one to the next, batch
//!   threads;
//! * `runtime`: several kthreads, from beginning to end; `scheduler`: a kthread's place among them; `bits`:
//!   how they are asked to come;
//! * `spawn`, `join`, `scope`, `park`: what users call;
//! * `grace`: what tasks have: stacks, thread-locals, and a grace inside of locks;
//! * `task`: what gets its stack when it starts: a server's requests;
//! * `resumer`: who runs tasks one at a time: a worker's engine; `serving`: that engine, as its kthread's
//!   run queue;
//! * `kthread_pool`: a runtime's kthreads for a server;
//! * `parker`: how a kthread sleeps; `elastic`: kthreads under a core allocator;
//! * `watchdog`, `stack_of`, `stalls`: a kthread that is stuck is reported, and counted by place;
//! * `suspended`: the stacks of what is suspended; `unwind`: from a stack to its functions.

mod bits;
mod common;
mod elastic;
mod fifo;
mod grace;
mod join;
mod kthread;
mod kthread_pool;
mod look;
mod overflow;
mod park;
mod parker;
mod resumer;
mod runtime;
mod scheduler;
mod scope;
mod serving;
mod spares;
mod spawn;
mod stack_of;
mod stalls;
mod suspended;
mod task;
mod tcb;
mod unwind;
mod watchdog;

pub use elastic::DaemonError;
pub use elastic::{AllocatorClient, AllocatorConfig, Elastic, Port, Sent};
pub use grace::Grace;
pub use grace::TaskSettings;
pub use join::JoinHandle;
pub use kthread::{GapCounts, InProgress, KThread, Quanta, Shared};
pub use kthread_pool::{KthreadPool, KthreadReport, KthreadState, Plan};
pub use look::{KthreadStats, Look, ThreadStack, stacks};
pub(crate) use park::Token;
pub use park::{Thread, ThreadId, current, park, park_timeout};
pub use parker::{Bell, Parker};
pub(crate) use resumer::preempted;
pub use resumer::{Left, Resumer};
pub use runtime::inherited_kthreads;
pub use runtime::{Runtime, RuntimeBuilder, run};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use serving::{RunQueue, announce_if_parked, heed, is_to_stop, is_wanted};
pub use spares::{SPARES, Stuck};
pub use spawn::{Builder, spawn};
pub use stalls::StallPlace;
pub use stalls::Stalls;
pub use suspended::{Suspended, SuspendedStack, suspended};
pub(crate) use task::cause;
pub use task::served_cycles;
pub use task::{Task, TaskVtable};
pub use tcb::Tcb;
pub use watchdog::Stall;
pub use watchdog::{Watch, Watched, Watching};

/// Lets others run that are ready; returns when it is the caller's turn again. A plain thread asks
/// the kernel for the same.
pub fn yield_now() {
    match KThread::current_tcb() {
        Some(tcb) => KThread::here().yield_now(tcb),
        None => std::thread::yield_now(),
    }
}

/// Runs `f` as if the calling thread were none of Curtail's: what waits in it waits in the kernel, and a
/// thread that it starts is one of the kernel's.
pub fn as_plain_thread(f: impl FnOnce()) {
    match KThread::try_here() {
        Some(here) => here.as_plain_thread(f),
        None => f(),
    }
}

/// The kernel's numbers of the kthreads of the runtime that the caller runs in: how many, as far as there
/// is room. In a signal's handler, too.
pub fn kthread_tids(places: &mut [libc::pid_t]) -> usize {
    let peers = KThread::try_here()
        .and_then(|here| here.scheduler.as_ref())
        .map(scheduler::KthreadScheduler::peers);
    let tids = peers.unwrap_or_default().iter().filter_map(|peer| peer.tid());
    places.iter_mut().zip(tids).map(|(place, tid)| *place = tid).count()
}

/// Runs `f` without the limit of a [`crate::time::timeout`] around the caller; cancellation does not
/// end its waits.
pub fn without_limit<T>(f: impl FnOnce() -> T) -> T {
    let tcb = KThread::current_tcb();
    let limit = tcb.map(|tcb| {
        tcb.cancel.shield();
        tcb.limit.replace(crate::block::Deadline::NEVER)
    });
    let result = f();
    if let (Some(tcb), Some(limit)) = (tcb, limit) {
        tcb.cancel.unshield();
        tcb.limit.set(limit);
    }
    result
}
