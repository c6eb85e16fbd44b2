//! What the dispatcher keeps of each job, in its slot of the scheduler's table, and the account of
//! the bytes that requests have.
//!
//! The dispatcher's alone. The invariants: `shares` and `bytes` are sums over the jobs in the system;
//! `kept` is the capacity of all buffers in `spare`, and no other buffer is kept that holds no request.

use crate::message::Message;
use curtail_net::{PeakTrim, Peer};
use curtail_policy::{ClassId, JobId};
use curtail_sched::{Scheduler, Shares};

/// What the dispatcher keeps of a job.
pub(crate) struct JobRecord {
    /// What is sent to a worker; `resume` is set once it has started.
    pub message: Message,
    pub peer: Peer,
    pub transport: u16,
    pub tag: u64,
    /// Length of the request.
    pub bytes: u32,
    /// When it is cancelled; `NEVER`: not by time.
    pub deadline_tsc: u64,
}

/// Has the job's slot fetched into the cache: with thousands of jobs in the system, each slot has
/// long left it by the time its job ends.
#[inline]
pub(crate) fn prefetch(sched: &Scheduler<JobRecord>, id: JobId) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in sched.slot_lines(id) {
        // SAFETY: a hint, which reads nothing; the address lies within the slot.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
}

/// A larger buffer is not kept when its request has left.
const KEEP_BYTES: usize = 16 << 10;
/// Buffers are not kept beyond so many bytes in all.
pub(crate) const KEEP_IN_ALL: usize = 512 << 10;

/// The account of requests' bytes.
pub(crate) struct ByteQuota {
    /// Of the requests in the system, by class, and the most that may be.
    shares: Shares,
    bytes: usize,
    /// Buffers for the next requests, the one that was used last at the end.
    spare: Vec<Vec<u8>>,
    kept: usize,
    trim: PeakTrim,
}

impl ByteQuota {
    /// For requests of `memory` bytes in all, and so many known classes. `keeps`: each has part of
    /// them for itself.
    pub(crate) fn new(memory: usize, classes: usize, keeps: bool) -> Self {
        let shares = if keeps { Shares::new } else { Shares::in_common };
        let shares = shares((memory as u64).min(1 << 62), classes);
        Self { shares, bytes: 0, spare: Vec::new(), kept: 0, trim: PeakTrim::default() }
    }

    /// Whether those in the system and one of that class with so many bytes have no more than they
    /// may.
    pub(crate) fn has_room_for(&self, class: ClassId, bytes: usize) -> bool {
        self.shares.fits(class, bytes as u64)
    }

    /// A request of that class, with so many bytes, came into the system.
    pub(crate) fn came(&mut self, class: ClassId, bytes: u32) {
        self.shares.take(class, u64::from(bytes));
        self.bytes += bytes as usize;
        self.trim.note(self.bytes);
    }

    /// One with so many has left.
    pub(crate) fn left(&mut self, class: ClassId, bytes: u32) {
        self.shares.give(class, u64::from(bytes));
        self.bytes -= bytes as usize;
        self.trim.note(self.bytes);
    }

    /// Whether no request has any.
    #[cfg(all(test, curtail_virtual_time))]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Puts a request's buffer into a vacant slot, which has none, in exchange for one that was kept.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, payload: &mut Vec<u8>) {
        let spare = self.spare.pop().unwrap_or_default();
        self.kept -= spare.capacity();
        *buffer = std::mem::replace(payload, spare);
    }

    /// The request in the buffer has left: keeps the buffer for another one, or gives it back.
    pub(crate) fn put_away(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        let capacity = buffer.capacity();
        if capacity <= KEEP_BYTES && self.kept + capacity <= KEEP_IN_ALL {
            buffer.clear();
            self.kept += capacity;
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_peak_little_is_kept_and_used_again() {
        let class = ClassId(0);
        let mut byte_quota = ByteQuota::new(usize::MAX, 1, true);
        let mut slots = vec![Vec::new(); 16_384];
        for slot in &mut slots {
            byte_quota.fill(slot, &mut vec![7; 2_000]);
            byte_quota.came(class, 2_000);
        }
        assert_eq!(byte_quota.kept, 0);
        for slot in &mut slots {
            byte_quota.put_away(slot);
            byte_quota.left(class, 2_000);
        }
        assert!(slots.iter().all(|slot| slot.capacity() == 0), "a vacant slot has none");
        let spare = byte_quota.spare.iter().map(Vec::capacity).sum::<usize>();
        assert_eq!((byte_quota.bytes, byte_quota.kept), (0, spare));
        assert!(spare > 0 && spare <= KEEP_IN_ALL, "{spare}");
        let mut next = b"another".to_vec();
        byte_quota.fill(&mut slots[9], &mut next);
        assert!(slots[9] == b"another" && next.is_empty() && next.capacity() > 0);
        let kept = spare - next.capacity();
        assert_eq!(byte_quota.kept, kept);
        // A large one is not kept.
        let mut large = vec![0; KEEP_BYTES + 1];
        byte_quota.put_away(&mut large);
        assert_eq!((large.capacity(), byte_quota.kept), (0, kept));
    }
}
