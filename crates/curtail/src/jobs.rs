//! The dispatcher's table of jobs: a slot for each that is in the system.
//!
//! The dispatcher's alone. Free slots are used last in, first out, so that few of them stay warm.
//!
//! It also keeps account of the bytes of requests: of those in the system, which are bounded, and of
//! the buffers that are kept for the next ones. The invariant: `bytes` is the sum over the entries;
//! `kept` is the capacity of all buffers that hold no request.

use crate::message::Message;
use curtail_net::Peer;
use curtail_policy::{Job, JobId, Nanos, WorkerId};

/// Where a job is, as far as the dispatcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With the policy.
    Waiting,
    /// On that worker (or on its way there or back).
    On(WorkerId),
    /// Blocked on that worker.
    Blocked(WorkerId),
}

pub(crate) struct Entry {
    pub job: Job,
    /// What is sent to a worker; `resume` is set once it has started.
    pub message: Message,
    pub place: Place,
    pub peer: Peer,
    pub transport: u16,
    pub tag: u64,
    /// Length of the request.
    pub bytes: u32,
}

/// A larger buffer is not kept when its request has left.
const KEEP_BYTES: usize = 16 << 10;
/// Nor is any beyond so many bytes in all.
const KEEP_IN_ALL: usize = 4 << 20;

pub(crate) struct Jobs {
    entries: Vec<Option<Entry>>,
    free: Vec<JobId>,
    /// Bytes of the requests in the system, and the most that may be.
    bytes: usize,
    memory: usize,
    kept: usize,
}

impl Jobs {
    /// For `capacity` jobs whose requests have `memory` bytes in all.
    pub(crate) fn new(capacity: usize, memory: usize) -> Self {
        Self {
            entries: (0..capacity).map(|_| None).collect(),
            free: (0..capacity as u32).rev().map(JobId).collect(),
            bytes: 0,
            memory,
            kept: 0,
        }
    }

    /// How many are in the system.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The slot that the next job gets; `None`: all taken.
    pub(crate) fn vacant(&self) -> Option<JobId> {
        self.free.last().copied()
    }

    /// The same for a request of so many bytes; `None`, too, where those in the system have as many
    /// as they may.
    pub(crate) fn vacant_for(&self, bytes: usize) -> Option<JobId> {
        self.vacant().filter(|_| bytes <= self.memory.saturating_sub(self.bytes))
    }

    /// Copies a request into the buffer of a vacant slot.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, payload: &[u8]) {
        self.kept -= buffer.capacity();
        buffer.clear();
        buffer.extend_from_slice(payload);
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

    /// Puts a job into the slot that [`Jobs::vacant_for`] named.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let id = self.free.pop().expect("vacant_for() was asked first");
        debug_assert_eq!(id, entry.job.id);
        self.bytes += entry.bytes as usize;
        self.entries[id.0 as usize] = Some(entry);
    }

    /// Has the slot fetched into the cache: with thousands of jobs in the system, each slot has
    /// long left it by the time its job ends.
    #[inline]
    pub(crate) fn prefetch(&self, id: JobId) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        if let Some(slot) = self.entries.get(id.0 as usize) {
            let lines = size_of::<Option<Entry>>().div_ceil(64);
            for line in 0..lines {
                // SAFETY: a hint, which reads nothing; the address lies within the slot.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>((&raw const *slot).byte_add(line * 64).cast())
                };
            }
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Entry {
        let entry = self.entries[id.0 as usize].take().expect("only jobs in the system end");
        self.free.push(id);
        self.bytes -= entry.bytes as usize;
        entry
    }

    pub(crate) fn get(&mut self, id: JobId) -> &mut Entry {
        self.entries[id.0 as usize].as_mut().expect("events are about jobs in the system")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }
}

impl Entry {
    /// The job has run for `ran` on `on` and comes back with its activation.
    pub(crate) fn came_back(
        &mut self,
        resume: *mut crate::activation::Activation,
        attained: Nanos,
        pinned: Option<WorkerId>,
    ) -> Job {
        debug_assert!(!resume.is_null());
        self.message.resume = resume;
        self.place = Place::Waiting;
        self.job.attained = attained;
        self.job.pinned = pinned;
        self.job
    }
}
