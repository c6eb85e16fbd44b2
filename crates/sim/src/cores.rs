//! Several programs on the cores of one machine, which [`curtail_alloc::Allocator`], the daemon's very
//! allocator, gives and takes: virtual time and costs around it.
//!
//! * A latency-critical program ([`Critical`]) is Shenango's runtime (§5) without a dispatcher: each
//!   kthread runs its own queue, takes in its inbox, [`INTAKE`] messages at most, then steals where
//!   the runtime's [`Thief`](curtail_policy::Thief) sends it, searches for a while and parks.
//!   Requests run to completion; an eviction cuts them.
//! * Requests go to the inbox of any of the kthreads that have a core; to one that is on its way where
//!   none has; and where all are parked, the driver says so at once, as one that watches the sockets
//!   does. (The daemon of K1 and K2 in one.)
//! * Batch, where there is any, runs on every core that no such program has. It is not simulated: what
//!   is left is its share.
//! * Each interval the allocator looks at all programs. Its orders take the time that [`HandOvers`]
//!   says, all of which counts as the heir's, as does the time to park.
//!
//! One thread's, deterministic from its seed; memory does not grow with the number of requests.

mod kthread;
mod orders;
mod program;
mod world;

use curtail_alloc::{Machine, MachineError, Refusal, Settings};
use curtail_workload::{Distribution, Request};

pub use world::share;

/// As many messages are taken in before the queue is looked at again.
pub(crate) const INTAKE: usize = 16;

/// What it takes to hand a core over, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOvers {
    /// From the order until the heir runs, where what runs on the core looks at the order line.
    pub line: u64,
    /// From the order until the heir runs, where another kthread has to park first.
    pub evict: u64,
    /// Of that, until the victim stops.
    pub notice: u64,
    /// Until a kthread runs that is woken by a system call, beside batch.
    pub kernel: u64,
    /// Until a kthread runs that is woken by a system call, on a core that sleeps.
    pub idle: u64,
    /// Until a victim stops that is signalled.
    pub signal: u64,
    /// From a kthread's decision to park until its core is free.
    pub park: u64,
    /// More for a kthread that was bound to another core.
    pub repin: u64,
}

impl HandOvers {
    /// Measured on two virtual cores: by a word in shared memory that safepoints look at. Parking is
    /// the kernel's switch to the batch thread.
    pub const FLAG: Self = Self {
        line: 3_200,
        evict: 3_200,
        notice: 1_000,
        kernel: 11_400,
        idle: 20_000,
        signal: 13_500,
        park: 2_000,
        repin: 0,
    };

    /// Measured there: whatever runs is signalled, and wakes the heir in its handler.
    pub const SIGNAL: Self = Self { line: 13_500, evict: 13_500, notice: 2_000, ..Self::FLAG };

    /// All of it as quick as a switch of Linux in Shenango's paper (§4.1.1).
    pub const SWITCH: Self = Self {
        line: 600,
        evict: 600,
        notice: 0,
        kernel: 600,
        idle: 600,
        signal: 600,
        park: 600,
        repin: 0,
    };
}

/// What runs on free cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Nothing. An idler, if the settings say so.
    None,
    /// Batch that looks at order lines.
    Looks,
    /// Batch that does not.
    Blind,
}

/// A machine, its allocator and its costs.
#[derive(Clone, Debug)]
pub struct Cores {
    /// Its cores.
    pub machine: Machine,
    /// How they are allocated.
    pub settings: Settings,
    /// What that costs.
    pub costs: HandOvers,
    /// What runs where no latency-critical program does.
    pub batch: Batch,
    /// Of what is random: which kthread is robbed, and which inbox a request goes to.
    pub seed: u64,
}

/// A latency-critical program, and what it is asked to do.
pub struct Critical<'a> {
    /// How many kthreads it has.
    pub kthreads: u32,
    /// Cores that it gets whenever it needs them.
    pub guaranteed: u32,
    /// Cores that it may have besides.
    pub burstable: u32,
    /// How long a kthread without work searches before it parks, in nanoseconds; `None`: for ever.
    pub search_ns: Option<u64>,
    /// A thread that has started stays on its kthread.
    pub pinned: bool,
    /// Its requests, in the order of time.
    pub requests: Box<dyn Iterator<Item = Request> + 'a>,
}

/// What became of a program.
#[derive(Clone, Debug)]
pub struct Served {
    /// From arrival to completion.
    pub sojourn: Distribution,
    /// Time spent in service, of all cores, in nanoseconds.
    pub used_ns: u64,
    /// Time for which cores were the program's.
    pub allocated_ns: u64,
    /// How often it was granted a core.
    pub grants: u64,
    /// How often one was taken away.
    pub evictions: u64,
    /// How often a kthread stole.
    pub thefts: u64,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self {
            sojourn: Distribution::sojourn(),
            used_ns: 0,
            allocated_ns: 0,
            grants: 0,
            evictions: 0,
            thefts: 0,
        }
    }

    /// Time used over time allocated.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.used_ns as f64 / (self.allocated_ns as f64).max(1.0)
    }
}

/// What became of all.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The programs, in their order.
    pub programs: Vec<Served>,
    /// How long it took, in nanoseconds.
    pub span_ns: u64,
    /// How many cores there are.
    pub cores: usize,
}

impl Shared {
    fn of_all(&self, ns: impl Fn(&Served) -> u64) -> f64 {
        let sum: u64 = self.programs.iter().map(ns).sum();
        sum as f64 / (self.span_ns as f64 * self.cores as f64).max(1.0)
    }

    /// The part of the machine's time that latency-critical programs spent in service.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.of_all(|it| it.used_ns)
    }

    /// The part that no such program had: batch's.
    #[must_use]
    pub fn left(&self) -> f64 {
        1.0 - self.of_all(|it| it.allocated_ns)
    }

    /// Time used over time allocated, of all programs.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.used() / (1.0 - self.left()).max(1e-12)
    }
}

/// What can't be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// The machine can't be.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The allocator does not take a program in.
    #[error("program {program}: {why}")]
    Refused {
        /// Which, from 0.
        program: usize,
        /// The reason.
        why: Refusal,
    },
}
