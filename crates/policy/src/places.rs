//! The workers' inboxes: how many jobs each holds and whether it takes more ([`Inboxes`]), under every
//! policy; under a central one, which is the shortest, of at most *k* jobs (JBSQ(k), Concord §3.2), in
//! O(1), and a change in O(log workers) ([`Places`]).
//!
//! Workers may be divided into groups that have nothing to do with each other; usually there is one.
//! Of equally short inboxes, a job that may run anywhere is sent to one that no pinned job waits
//! for: that one has no alternative. The dispatcher's own jobs are counted nowhere.

use crate::WorkerId;
use crate::tournament::Tournament;
use std::ops::Range;

/// How many jobs each worker has, and which workers take more.
pub(crate) struct Inboxes {
    held: Vec<u32>,
    up: Vec<bool>,
    /// How many take none.
    down: usize,
}

impl Inboxes {
    pub(crate) fn new(workers: usize) -> Self {
        Self { held: vec![0; workers], up: vec![true; workers], down: 0 }
    }

    pub(crate) fn workers(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn held(&self, worker: usize) -> u32 {
        self.held[worker]
    }

    pub(crate) fn is_up(&self, worker: usize) -> bool {
        self.up[worker]
    }

    pub(crate) fn down(&self) -> usize {
        self.down
    }

    /// A job comes to `on`; the number of that worker, if it is one.
    #[inline]
    pub(crate) fn occupy(&mut self, on: WorkerId) -> Option<usize> {
        let worker = (on != WorkerId::DISPATCHER).then(|| on.index())?;
        self.held[worker] += 1;
        Some(worker)
    }

    /// A job leaves `on`; as above.
    #[inline]
    pub(crate) fn vacate(&mut self, on: WorkerId) -> Option<usize> {
        let worker = (on != WorkerId::DISPATCHER).then(|| on.index())?;
        self.held[worker] -= 1;
        Some(worker)
    }

    /// The worker takes jobs from now on, or none; whether that is new.
    pub(crate) fn set_up(&mut self, worker: usize, up: bool) -> bool {
        let is_new = std::mem::replace(&mut self.up[worker], up) != up;
        match (is_new, up) {
            (true, true) => self.down -= 1,
            (true, false) => self.down += 1,
            (false, _) => {}
        }
        is_new
    }
}

struct Group {
    first: usize,
    /// Twice the jobs held, plus one where pinned jobs wait; the most there is where the worker takes
    /// no jobs.
    shortest: Tournament<u32>,
}

/// See the module's head.
pub(crate) struct Places {
    /// Of JBSQ(k).
    k: u32,
    /// Blocked jobs are not counted.
    inboxes: Inboxes,
    /// Whether pinned jobs wait for it.
    wanted: Vec<bool>,
    group_of: Vec<u32>,
    groups: Vec<Group>,
}

impl Places {
    /// One group.
    pub(crate) fn new(workers: usize, k: u16) -> Self {
        Self::grouped(&[workers], k)
    }

    /// Groups of so many workers each, in order; none is empty.
    pub(crate) fn grouped(sizes: &[usize], k: u16) -> Self {
        let mut places = Self {
            k: u32::from(k),
            inboxes: Inboxes::new(sizes.iter().sum()),
            wanted: Vec::new(),
            group_of: Vec::new(),
            groups: Vec::new(),
        };
        for (group, &size) in sizes.iter().enumerate() {
            let first = places.group_of.len();
            places.groups.push(Group { first, shortest: Tournament::new(size, 0, u32::MAX) });
            places.group_of.resize(first + size, group as u32);
        }
        places.wanted = vec![false; places.group_of.len()];
        places
    }

    pub(crate) fn workers(&self) -> usize {
        self.inboxes.workers()
    }

    pub(crate) fn held(&self, worker: usize) -> u32 {
        self.inboxes.held(worker)
    }

    pub(crate) fn has_place(&self, worker: usize) -> bool {
        self.inboxes.is_up(worker) && self.inboxes.held(worker) < self.k
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.group_of[worker] as usize
    }

    /// The worker of that group with the shortest inbox, unless it is full.
    pub(crate) fn shortest(&self, group: usize) -> Option<WorkerId> {
        let group = &self.groups[group];
        let (worker, key) = group.shortest.best();
        (key / 2 < self.k).then_some(WorkerId((group.first + worker) as u16))
    }

    /// Where all are in one group: the worker with the shortest inbox of `range`, which is not empty,
    /// unless it holds `most` jobs or is full.
    pub(crate) fn shortest_in(&self, range: Range<usize>, most: u32) -> Option<usize> {
        let (worker, key) = self.groups[0].shortest.best_in(range);
        (key / 2 < most.min(self.k)).then_some(worker)
    }

    pub(crate) fn occupy(&mut self, on: WorkerId) {
        if let Some(worker) = self.inboxes.occupy(on) {
            self.refresh(worker);
        }
    }

    pub(crate) fn vacate(&mut self, on: WorkerId) {
        if let Some(worker) = self.inboxes.vacate(on) {
            self.refresh(worker);
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
        self.inboxes.set_up(worker, up);
        self.refresh(worker);
    }

    fn refresh(&mut self, worker: usize) {
        let group = &mut self.groups[self.group_of[worker] as usize];
        let length = 2 * self.inboxes.held(worker) + u32::from(self.wanted[worker]);
        let key = if self.inboxes.is_up(worker) { length } else { u32::MAX };
        group.shortest.set(worker - group.first, key);
    }
}
