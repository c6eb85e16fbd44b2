//! What is refused, and why.

/// A machine that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("core {core}: {why}")]
pub struct MachineError {
    /// Which core of the list.
    pub core: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Why a program is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Or more than there may be.
    #[error("a program has 1 to {most} kthreads, not {asked}")]
    Kthreads {
        /// How many it has.
        asked: u32,
        /// How many it may have.
        most: u32,
    },
    /// The guaranteed cores could not be used.
    #[error("{guaranteed} guaranteed cores for {kthreads} kthreads")]
    MoreThanKthreads {
        /// What it asks for.
        guaranteed: u32,
        /// What it has.
        kthreads: u32,
    },
    /// It could never run.
    #[error("neither guaranteed nor burstable cores")]
    NoCores,
    /// Other programs have the guarantee.
    #[error("{asked} guaranteed cores, and only {left} are not promised to others")]
    Promised {
        /// What it asks for.
        asked: u32,
        /// What could be guaranteed.
        left: u32,
    },
    /// Batch programs get what is left.
    #[error("a batch program has no guaranteed cores")]
    BatchGuarantee,
    /// There is a bound for memory's sake.
    #[error("there are {most} programs already")]
    Programs {
        /// How many there may be.
        most: u32,
    },
}
