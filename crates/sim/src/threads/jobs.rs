//! The jobs in the system: a slot for each, reused when the job has left, last in first
//! out, so that few of them stay warm.

use curtail_policy::{Job, JobId};
use curtail_sched::Room;

/// A job in the system.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// As policies see it.
    pub(super) job: Job,
    /// What it still has to run, inflated by instrumentation, in nanoseconds.
    pub(super) remaining: u64,
    /// Its un-inflated service time in nanoseconds.
    pub(super) service: u64,
    /// Quanta it has completed.
    pub(super) quanta: u32,
    /// It has been on a core.
    pub(super) started: bool,
    /// It arrived after the warm-up.
    pub(super) counted: bool,
}

pub(super) struct Jobs {
    slots: Vec<Slot>,
    free: Vec<u32>,
    capacity: usize,
    room: Room,
}

impl Jobs {
    pub(super) fn new(capacity: usize, room: Room) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), capacity, room }
    }

    /// How many are in the system.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts a job into a free slot, of which it gets its id; `None`: there is none for its class.
    #[inline]
    pub(super) fn insert(&mut self, mut slot: Slot) -> Option<JobId> {
        let class = slot.job.class;
        if !self.room.admits(class) {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.capacity => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        self.room.comes(class);
        slot.job.id = JobId(index);
        self.slots[index as usize] = slot;
        Some(JobId(index))
    }

    #[inline]
    pub(super) fn get(&mut self, id: JobId) -> &mut Slot {
        &mut self.slots[id.0 as usize]
    }

    /// The job has left.
    #[inline]
    pub(super) fn remove(&mut self, id: JobId) {
        let class = self.get(id).job.class;
        self.room.placed(class);
        self.room.leaves(class);
        self.free.push(id.0);
    }
}
