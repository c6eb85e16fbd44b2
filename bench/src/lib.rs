//! Benchmarks: a part of Curtail and its peers, measured in the same run, in turns.
//!
//! On a shared machine one and the same program is quicker or slower by several per cent from one
//! minute to the next. So contestants take turns within a round, and a figure is the median over
//! rounds with the ratio to ours beside it; the best round stands there too.
//!
//! * [`ring`]: our SPSC ring and rtrb;
//! * [`switch`]: fibers, coroutines, tasks, goroutines, threads: switch and start;
//! * [`dispatch`]: requests through the runtime, a thread, tokio and Go: how many a second, and how
//!   long the short ones take under load;
//! * [`preempt`]: what pre-emption costs by clock, flag and signal, against the quantum;
//! * [`sim`]: the simulator, Ciw and SimPy on the same requests, and memory of a job in flight.
//!
//! Each runs with tiny counts in tests ([`Size::Smoke`]) and with as many as it takes otherwise.

pub mod board;
pub mod dispatch;
pub mod figure;
pub mod machine;
pub mod openloop;
pub mod peers;
pub mod preempt;
pub mod ring;
pub mod sim;
pub mod switch;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Just enough to run every line once; the figures mean nothing.
    Smoke,
    /// Enough for the figures to mean something.
    Full,
}

impl Size {
    /// One or the other.
    #[must_use]
    pub fn pick<T>(self, smoke: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Full => full,
        }
    }
}
