//! The workers' inboxes under a central policy: how many jobs each holds, of at most *k* (JBSQ(k),
//! Concord §3.2), and which is the shortest, in O(1); a change in O(log workers).
//!
//! Workers may be divided into groups that have nothing to do with each other; usually there is one.
//! Of equally short inboxes, a job that may run anywhere is sent to one that no pinned job waits
//! for: that one has no alternative. The dispatcher's own jobs are counted nowhere.

use crate::WorkerId;
use crate::tournament::Tournament;

struct Group {
    first: usize,
    /// Twice the jobs held, plus one where pinned jobs wait; the most there is where the worker takes
    /// no jobs.
    shortest: Tournament<u32>,
}

/// See the module's head.
pub(crate) struct Places {
    bound: u32,
    /// How many jobs each worker has, blocked ones not counted.
    held: Vec<u32>,
    /// Which workers take jobs.
    up: Vec<bool>,
    /// Whether pinned jobs wait for it.
    wanted: Vec<bool>,
    group_of: Vec<u32>,
    groups: Vec<Group>,
}

impl Places {
    /// One group.
    pub(crate) fn new(workers: usize, bound: u16) -> Self {
        Self::grouped(&[workers], bound)
    }

    /// Groups of so many workers each, in order; none is empty.
    pub(crate) fn grouped(sizes: &[usize], bound: u16) -> Self {
        let mut places = Self {
            bound: u32::from(bound),
            held: Vec::new(),
            up: Vec::new(),
            wanted: Vec::new(),
            group_of: Vec::new(),
            groups: Vec::new(),
        };
        for (group, &size) in sizes.iter().enumerate() {
            let first = places.group_of.len();
            places.groups.push(Group { first, shortest: Tournament::new(size, 0, u32::MAX) });
            places.group_of.resize(first + size, group as u32);
        }
        let workers = places.group_of.len();
        (places.held, places.wanted) = (vec![0; workers], vec![false; workers]);
        places.up = vec![true; workers];
        places
    }

    pub(crate) fn workers(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn held(&self, worker: usize) -> u32 {
        self.held[worker]
    }

    pub(crate) fn has_place(&self, worker: usize) -> bool {
        self.up[worker] && self.held[worker] < self.bound
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.group_of[worker] as usize
    }

    /// The worker of that group with the shortest inbox, unless it is full.
    pub(crate) fn shortest(&self, group: usize) -> Option<WorkerId> {
        let group = &self.groups[group];
        let (worker, key) = group.shortest.best();
        (key / 2 < self.bound).then_some(WorkerId((group.first + worker) as u16))
    }

    pub(crate) fn occupy(&mut self, on: WorkerId) {
        if on != WorkerId::DISPATCHER {
            self.held[on.index()] += 1;
            self.refresh(on.index());
        }
    }

    pub(crate) fn vacate(&mut self, on: WorkerId) {
        if on != WorkerId::DISPATCHER {
            self.held[on.index()] -= 1;
            self.refresh(on.index());
        }
    }

    /// Whether pinned jobs wait for that worker, as it was said last.
    pub(crate) fn is_wanted(&self, worker: usize) -> bool {
        self.wanted[worker]
    }

    /// Pinned jobs wait for that worker, or none do.
    pub(crate) fn set_wanted(&mut self, worker: usize, wanted: bool) {
        if self.wanted[worker] != wanted {
            self.wanted[worker] = wanted;
            self.refresh(worker);
        }
    }

    /// The worker takes jobs from now on, or none.
    pub(crate) fn set_up(&mut self, worker: usize, up: bool) {
        self.up[worker] = up;
        self.refresh(worker);
    }

    fn refresh(&mut self, worker: usize) {
        let group = &mut self.groups[self.group_of[worker] as usize];
        let length = 2 * self.held[worker] + u32::from(self.wanted[worker]);
        let key = if self.up[worker] { length } else { u32::MAX };
        group.shortest.set(worker - group.first, key);
    }
}
