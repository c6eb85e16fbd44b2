//! Where the kernel runs the workers, beside the threads of an executor on the same cores.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::mem::size_of;
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::pool::kernel";

/// The highest nice value.
const NICEST: i32 = 19;

/// Where the kernel runs the workers.
#[derive(Clone)]
pub(super) struct Placing {
    /// The cores that the workers may move between; none: each is pinned to its own.
    floats: Option<CpuSet>,
    /// What a worker asks the kernel's scheduler for.
    asks: Asks,
}

/// What a worker asks the kernel's scheduler for.
#[derive(Clone, Copy)]
pub(super) struct Asks {
    /// So much at a time.
    pub slice: Option<Duration>,
    /// So much less than other threads: added to its nice value.
    pub nice: u32,
}

impl Placing {
    /// `pinned`: to the cores that the server has given them. Otherwise they may go wherever the
    /// calling thread may.
    pub(super) fn new(pinned: bool, asks: Asks) -> Self {
        Self { floats: if pinned { None } else { sched_getaffinity(None).ok() }, asks }
    }

    /// For the calling thread, a worker. What fails leaves it as it is: it runs anyway.
    pub(super) fn apply(&self) {
        if let Some(cores) = &self.floats
            && let Err(error) = sched_setaffinity(None, cores)
        {
            tracing::warn!(target: LOG, %error, "a pool's worker cannot move between cores");
        }
        self.asks.make();
    }
}

impl Asks {
    /// Asks for longer slices than other threads have, and for less weight. A thread of the executor
    /// that wakes up has a shorter slice, and so it runs at once in place of the worker, if it has not
    /// had its share of the core yet. With equal weights it often has: it has just run for the request
    /// before. Then it would wait for the kernel's next tick, milliseconds.
    fn make(self) {
        let mut attributes = Attributes::default();
        let size = size_of::<Attributes>();
        let to = &raw mut attributes;
        // SAFETY: the kernel writes at most `size` bytes into `attributes`, of the calling thread (0).
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, to, size, 0) };
        // Only of the kernel's fair scheduler: elsewhere these words mean something else.
        if got != 0 || !matches!(attributes.policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
            return;
        }
        attributes.size = size as u32;
        attributes.nice = (attributes.nice + self.nice as i32).min(NICEST);
        if let Some(slice) = self.slice {
            // Before Linux 6.12 the kernel takes no notice of it.
            attributes.runtime = slice.as_nanos() as u64;
        }
        let from = &raw const attributes;
        // SAFETY: the kernel reads `attributes.size` bytes of it, and changes the calling thread alone.
        let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, from, 0) };
        if set != 0 {
            let error = std::io::Error::last_os_error();
            tracing::debug!(
                target: LOG, %error, "a pool's worker keeps the usual slice and weight"
            );
        }
    }
}

/// The kernel's `struct sched_attr`, in its first version (48 bytes).
#[derive(Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<Attributes>() == 48);
