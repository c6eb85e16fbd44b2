//! Looks at a runtime of threads, and at the stacks of the process's threads, from any thread.

use super::kthread::Shared;
use super::stack_of::stack_of;
use super::stalls::{StallPlace, Stalls};
use curtail_fiber::safepoint::{Kind, kind};
use std::sync::Arc;
use std::time::Duration;

/// What others see of a runtime: see [`RuntimeBuilder::on_start`](crate::RuntimeBuilder::on_start).
#[derive(Clone)]
pub struct Look {
    kthreads: Arc<dyn AsRef<[Arc<Shared>]> + Send + Sync>,
    stalls: Arc<Stalls>,
    quantum: Option<Duration>,
}

/// A look at one kthread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KthreadStats {
    /// Its number.
    pub kthread: usize,
    /// The kernel's number of its thread.
    pub tid: u32,
    /// False: it has given its core back to the core allocator, and waits for one.
    pub has_core: bool,
    /// Threads that have started there and have not ended.
    pub alive: usize,
    /// Threads there that have not started.
    pub waiting: usize,
    /// How often threads were made to yield.
    pub preemptions: u64,
}

impl Look {
    pub(super) fn new(
        kthreads: impl AsRef<[Arc<Shared>]> + Send + Sync + 'static,
        stalls: Arc<Stalls>,
        quantum: Option<Duration>,
    ) -> Self {
        // Without safepoints that time themselves it ends nothing.
        let quantum = quantum.filter(|_| kind() == Kind::Clock);
        Self { kthreads: Arc::new(kthreads), stalls, quantum }
    }

    /// The kthreads that live; `None`: the runtime has ended.
    #[must_use]
    pub fn kthreads(&self) -> Option<Vec<KthreadStats>> {
        let all = (*self.kthreads).as_ref().iter().enumerate();
        let look = |(kthread, shared): (usize, &Arc<Shared>)| {
            let tid = shared.tid()?.cast_unsigned();
            let (alive, waiting) = (shared.alive(), shared.stealable());
            Some(KthreadStats {
                kthread,
                tid,
                has_core: !shared.is_parked(),
                alive,
                waiting,
                preemptions: shared.cuts(),
            })
        };
        let living: Vec<_> = all.filter_map(look).collect();
        (!living.is_empty()).then_some(living)
    }

    /// The quantum of threads that have none of their own; `None`: they run until they block, yield or
    /// end.
    #[must_use]
    pub fn quantum(&self) -> Option<Duration> {
        self.quantum
    }

    /// Where code stalled so far, the most frequent place first.
    #[must_use]
    pub fn stalls(&self) -> Vec<StallPlace> {
        self.stalls.list()
    }
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Look").field("kthreads", &self.kthreads()).finish_non_exhaustive()
    }
}

/// What a kernel's thread of this process is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadStack {
    /// The kernel's number of it.
    pub tid: u32,
    /// Its name, as the kernel knows it.
    pub name: String,
    /// The functions on its stack, innermost first: on a kthread, those of what runs there. Empty
    /// where it did not answer.
    pub frames: Vec<String>,
}

/// The stacks of all of the kernel's threads of this process but the caller's. (Threads and
/// requests that do not run are [`suspended`](crate::suspended).) Each is interrupted by a signal
/// for a moment (`SIGRTMIN+5`); system calls that are not restarted may return early.
#[must_use]
pub fn stacks() -> Vec<ThreadStack> {
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    let mut tids: Vec<i32> = tids.filter(|&tid| tid != me).collect();
    tids.sort_unstable();
    let look = |tid: i32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
        let name = name.trim_end().to_owned();
        Some(ThreadStack { tid: tid.cast_unsigned(), name, frames: stack_of(tid) })
    };
    tids.into_iter().filter_map(look).collect()
}
