//! Rings between threads and between processes.
//!
//! * [`spsc`]: one producer, one consumer; inboxes of workers and the way back to the dispatcher;
//! * [`shm`]: the same ring, bit for bit, in memory that two processes share and neither trusts;
//! * [`frames`]: frames of bytes in such memory, of any length;
//! * [`mpsc`]: many producers, one consumer; requests of the same process, and jobs of pools;
//! * [`StealRing`]: one owner, many thieves; threads that have not started;
//! * [`Inbox`]: many senders, one receiver, linked through what is sent; wake-ups of threads;
//! * [`BiasedLock`]: what its owner lends while it is away; a worker's jobs while it is stuck;
//! * [`wait`]: those who wait for one thing, as nodes on their own stacks;
//! * [`seqlock`]: a small value that one thread publishes and many read.
//!
//! The rings are bounded: a full queue gives the value back ([`Full`]) and the caller decides.
//! Nothing here allocates after construction, blocks, or enters the kernel (only
//! [`seqlock::SeqLock::read`] and [`seqlock::SeqLock::write`] may yield the thread, when they have
//! to wait for another thread's write to end).

mod biased_lock;
mod ends;
mod event_count;
pub mod frames;
mod inbox;
mod layout;
pub mod mpsc;
pub mod seqlock;
#[cfg(not(loom))]
pub mod shm;
pub mod spsc;
mod steal;
mod sync;
pub mod wait;

pub use biased_lock::BiasedLock;
pub use crossbeam_utils::CachePadded;
pub use event_count::EventCount;
pub use inbox::{Inbox, Linked};
pub use layout::{AttachError, Corrupt, Layout};
pub use steal::StealRing;

/// Types of which every bit pattern is a value and every byte belongs to the value: they may be
/// read from memory that another process writes. Derive zerocopy's traits to get it.
pub trait Pod: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {}
impl<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy> Pod for T {}

/// The queue was full: the value that found no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> Full<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> std::fmt::Display for Full<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the queue is full")
    }
}

impl<T> std::error::Error for Full<T> {}
