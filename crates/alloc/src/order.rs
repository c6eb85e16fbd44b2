//! What the allocator asks its driver to do.

use crate::{CoreId, KthreadId};

/// How a core changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// What runs there looks at the core's order line, and wakes the heir by itself: store the order.
    Line,
    /// Nothing there looks: store the word and wake the heir by a system call at once.
    Kernel,
    /// From that kthread, which has to park first and wakes the heir then: store the heir's word, then
    /// EVICT with the heir into the victim's.
    Evict(KthreadId),
}

/// What is to be done, now and in this order.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The kthread has the core from now on: its word becomes RUN.
    Grant {
        /// Who gets it.
        kthread: KthreadId,
        /// The core that it gets.
        core: CoreId,
        /// The way in which it gets the core.
        by: HandOver,
        /// The kthread is not bound to this core: bind it first.
        repin: bool,
    },
    /// The kthread did not come, or the one it waited for is gone: wake it by a system call.
    Wake {
        /// The kthread to wake.
        kthread: KthreadId,
    },
    /// The kthread did not follow its EVICT word: signal it.
    Signal {
        /// The kthread to signal.
        kthread: KthreadId,
    },
    /// The kthread does not leave a core that is not its own: bind it to a core that is shared by all
    /// such kthreads. It is granted none until it has parked.
    MoveToShared {
        /// The kthread to bind.
        kthread: KthreadId,
    },
    /// The kthread did not come although it was woken: its word becomes PARK.
    Revoke {
        /// Whose grant is void.
        kthread: KthreadId,
    },
    /// A batch kthread: bind it to that core, where it runs whenever the core is free.
    Place {
        /// The kthread to bind.
        kthread: KthreadId,
        /// The core to bind it to.
        core: CoreId,
    },
}

impl Order {
    /// Whom it is about.
    #[must_use]
    pub const fn kthread(&self) -> KthreadId {
        match *self {
            Self::Grant { kthread, .. }
            | Self::Wake { kthread }
            | Self::Signal { kthread }
            | Self::MoveToShared { kthread }
            | Self::Revoke { kthread }
            | Self::Place { kthread, .. } => kthread,
        }
    }

    /// The kthreads whose words it writes.
    pub(crate) fn writes(&self) -> [Option<KthreadId>; 2] {
        match *self {
            Self::Grant { kthread, by: HandOver::Evict(victim), .. } => {
                [Some(kthread), Some(victim)]
            }
            Self::Grant { kthread, .. } | Self::Revoke { kthread } => [Some(kthread), None],
            _ => [None, None],
        }
    }
}
