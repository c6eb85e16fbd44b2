//! What the dispatcher keeps of each job, in its slot of the scheduler's table, and the account of
//! the bytes that requests have.
//!
//! The dispatcher's alone. The invariants: `bytes` is the sum over the jobs in the system; `kept` is
//! the capacity of all buffers that hold no request.

use crate::message::Message;
use curtail_net::Peer;
use curtail_policy::JobId;
use curtail_sched::Scheduler;

/// What the dispatcher keeps of a job.
pub(crate) struct Held {
    /// What is sent to a worker; `resume` is set once it has started.
    pub message: Message,
    pub peer: Peer,
    pub transport: u16,
    pub tag: u64,
    /// Length of the request.
    pub bytes: u32,
}

/// Has the job's slot fetched into the cache: with thousands of jobs in the system, each slot has
/// long left it by the time its job ends.
#[inline]
pub(crate) fn prefetch(sched: &Scheduler<Held>, id: JobId) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in sched.slot_lines(id) {
        // SAFETY: a hint, which reads nothing; the address lies within the slot.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
}

/// A larger buffer is not kept when its request has left.
const KEEP_BYTES: usize = 16 << 10;
/// Nor is any beyond so many bytes in all.
const KEEP_IN_ALL: usize = 4 << 20;

/// The account of requests' bytes.
pub(crate) struct Account {
    /// Of the requests in the system, and the most that may be.
    bytes: usize,
    memory: usize,
    kept: usize,
}

impl Account {
    /// For requests of `memory` bytes in all.
    pub(crate) fn new(memory: usize) -> Self {
        Self { bytes: 0, memory, kept: 0 }
    }

    /// Whether those in the system and one of so many bytes have no more than they may.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= self.memory.saturating_sub(self.bytes)
    }

    /// A request of so many bytes came into the system.
    pub(crate) fn came(&mut self, bytes: u32) {
        self.bytes += bytes as usize;
    }

    /// One of so many has left.
    pub(crate) fn left(&mut self, bytes: u32) {
        self.bytes -= bytes as usize;
    }

    /// Puts a request's buffer into a vacant slot, in exchange for what that has kept.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, payload: &mut Vec<u8>) {
        self.kept -= buffer.capacity();
        std::mem::swap(buffer, payload);
    }

    /// The request in the buffer has left: keeps the buffer for another one, or gives it back.
    pub(crate) fn put_away(&mut self, buffer: &mut Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity <= KEEP_BYTES && self.kept + capacity <= KEEP_IN_ALL {
            self.kept += capacity;
        } else {
            *buffer = Vec::new();
        }
    }
}
