//! What an allocator is made from, and what a program asks for.

use crate::{CoreId, Detector, MachineError, Nanos};

/// Cores of one machine.
pub const MOST_CORES: usize = 1024;
/// Kthreads of one program.
pub const MOST_KTHREADS: u32 = 1024;
/// Programs at one time.
pub const MOST_PROGRAMS: u32 = 1024;

/// A core that is managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreInfo {
    /// The other hyper-thread of its physical core, where that is managed, too.
    pub sibling: Option<CoreId>,
}

/// The cores that are managed, and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// A core's place is its [`CoreId`].
    pub cores: Vec<CoreInfo>,
}

impl Machine {
    /// So many cores without siblings.
    #[must_use]
    pub fn of(cores: u32) -> Self {
        Self { cores: vec![CoreInfo::default(); cores as usize] }
    }

    /// So many cores, of which 0 and 1, 2 and 3, … are siblings.
    #[must_use]
    pub fn of_siblings(cores: u32) -> Self {
        let sibling = |core: u32| Some(CoreId(core ^ 1)).filter(|it| it.0 < cores);
        Self { cores: (0..cores).map(|core| CoreInfo { sibling: sibling(core) }).collect() }
    }

    pub(crate) fn validate(&self) -> Result<(), MachineError> {
        let cores = self.cores.len();
        if cores == 0 || cores > MOST_CORES {
            return Err(MachineError { core: cores, why: "a machine has 1 to 1,024 cores" });
        }
        for (core, info) in self.cores.iter().enumerate() {
            let Some(sibling) = info.sibling else { continue };
            let back = self.cores.get(sibling.index()).map(|it| it.sibling);
            if sibling.index() == core {
                return Err(MachineError { core, why: "is its own sibling" });
            }
            if back != Some(Some(CoreId(core as u32))) {
                return Err(MachineError { core, why: "is not its sibling's sibling" });
            }
        }
        Ok(())
    }
}

/// What core selection prefers (Shenango §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The sibling of a core that the program has.
    pub siblings: bool,
    /// The core that the kthread, or the program, had last.
    pub affinity: bool,
}

impl Default for Selector {
    fn default() -> Self {
        Self { siblings: true, affinity: true }
    }
}

/// How it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From one look for congestion to the next.
    pub interval: Nanos,
    /// What congestion is.
    pub detector: Detector,
    /// Which core is preferred.
    pub selector: Selector,
    /// An idler looks at the order line of every core that has no batch kthread.
    pub idler: bool,
    /// How long a kthread has for each step before the next rung of the ladder: to take an order, to
    /// follow its EVICT word, to follow a signal.
    pub grace: Nanos,
    /// How long a kthread that was woken by the kernel has until its grant is taken back.
    pub give_up: Nanos,
    /// How long a kthread is granted nothing after a grant that was refused or taken back.
    pub rest: Nanos,
    /// From one look for better places of batch kthreads to the next.
    pub rebalance: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Nanos(5_000),
            detector: Detector::Either { limit: Nanos(10_000) },
            selector: Selector::default(),
            idler: false,
            grace: Nanos(10_000),
            give_up: Nanos(1_000_000),
            rest: Nanos(1_000_000),
            rebalance: Nanos(1_000_000),
        }
    }
}

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Gets cores within microseconds of needing them.
    LatencyCritical,
    /// Runs on the cores that are free.
    Batch {
        /// Its kthreads look at the order line of the core that they are on.
        looks: bool,
    },
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is.
    pub class: Class,
    /// How many kthreads it has. A batch program may have none: then it may be on any core.
    pub kthreads: u32,
    /// Cores that it gets whenever it needs them.
    pub guaranteed: u32,
    /// Cores that it may have besides, while they are not needed for what others are guaranteed.
    pub burstable: u32,
}

impl Program {
    /// The most cores it can have at a time.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.guaranteed.saturating_add(self.burstable).min(self.kthreads)
    }
}
