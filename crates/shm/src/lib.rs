//! Memory and messages between the core allocator (`curtaild`) and the programs on its cores.
//!
//! Two kinds of shared memory, each written by one side and mapped read-only by the other:
//!
//! | | written by | read by | holds |
//! |---|---|---|---|
//! | [`Board`] | the daemon | all programs ([`BoardView`]) | a word for each kthread (run, park, evict), an order for each core |
//! | [`Page`] | one program | the daemon ([`PageView`]) | what each kthread has in its queues, and whether it runs |
//!
//! Both sides write the [`Rings`] of a program whose packets the daemon receives, and the [`PollPages`] of
//! one whose safepoints the daemon may reach.
//!
//! All are memfds whose size is sealed before the other side maps them. They are passed over a Unix
//! socket ([`session`]), which also tells either side of the other's end.
//!
//! **What the peer wrote is never trusted.** It may write anything at any moment. Fields are atomic,
//! read once, and checked on the copy; lengths are taken from the header once, when the memory is
//! mapped, against the sealed size. A peer that lies harms itself only.
//!
//! **Time** in shared memory is `CLOCK_MONOTONIC` in nanoseconds ([`monotonic_ns`]).
//!
//! Source: Shenango §4.2 and §5 (its IOKernel's shared memory); the design differs in that a core
//! changes hands by [`BoardView::order`], which the thread on that core follows by itself.

//! **When a core changes hands**, words and states are all that both sides use ([`SlotLine`],
//! [`State`]), and how kthreads follow them is [`follow`]. With `--cfg loom` the crate is that alone,
//! for the model checker.

#[cfg(not(loom))]
mod board;
pub mod follow;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod heading;
#[cfg(not(loom))]
pub mod kthreads;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod page;
#[cfg(not(loom))]
mod parcel;
#[cfg(not(loom))]
mod poll_pages;
#[cfg(not(loom))]
mod rings;
#[cfg(not(loom))]
pub mod session;
mod slot;
mod state;
mod sync;
mod word;

#[cfg(not(loom))]
pub use board::{Board, BoardView, Order};
#[cfg(not(loom))]
pub use fork::leave_to_parent;
#[cfg(not(loom))]
pub use memory::{MapError, Memory};
#[cfg(not(loom))]
pub use page::{Lie, Look, Page, PageLine, PageView, Spec};
#[cfg(not(loom))]
pub use parcel::{Answer, Arrival, MOST_BYTES, PeerWords};
#[cfg(not(loom))]
pub use poll_pages::{LentPage, POLL_AT, PollPages, PollWords};
#[cfg(not(loom))]
pub use rings::{DaemonEnd, Gauge, KthreadEnd, RING_CAPACITY, Receiver, Rings, Sender};
pub use slot::{CoreIndex, Slot, SlotLine};
pub use state::State;
pub use word::{Ask, Word};

/// What a program is to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Gets cores within microseconds of needing them.
    LatencyCritical,
    /// Gets what is left.
    Batch {
        /// Its threads follow the orders of the core that they are on, at their safepoints.
        looks: bool,
    },
}

/// Now: `CLOCK_MONOTONIC` in nanoseconds. About 25 ns; no system call.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
