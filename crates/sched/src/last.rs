//! Cancelled jobs that have begun: they run where they began, when nothing else is to run there, and
//! the policy knows nothing of them. So it is with what spare workers have taken.
//!
//! The invariant: `on` counts the jobs on each worker, `last` those of them that are cancelled, and
//! `waiting` has those that wait for a place there. The dispatcher's are kept apart.

use curtail_policy::{JobId, WorkerId};
use std::collections::VecDeque;

/// Of one worker.
#[derive(Default)]
struct Here {
    on: u32,
    last: u32,
    waiting: VecDeque<JobId>,
}

/// Cancelled jobs that have begun, by where they run.
pub(crate) struct Lasts {
    workers: Vec<Here>,
    dispatcher: Here,
    /// Cancelled jobs, the policy's not counted.
    count: usize,
    /// How many wait.
    waiting: usize,
    /// Workers that are to give up such a job, for others have come.
    urgent: VecDeque<WorkerId>,
}

impl Lasts {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Here::default()).collect(),
            dispatcher: Here::default(),
            count: 0,
            waiting: 0,
            urgent: VecDeque::with_capacity(workers),
        }
    }

    /// There are so many workers at least.
    pub(crate) fn grow(&mut self, workers: usize) {
        if workers > self.workers.len() {
            self.workers.resize_with(workers, Here::default);
        }
    }

    /// Whether a worker has nothing.
    pub(crate) fn is_free(&self, worker: usize) -> bool {
        let here = &self.workers[worker];
        here.on == 0 && here.waiting.is_empty()
    }

    #[inline]
    fn at(&mut self, on: WorkerId) -> &mut Here {
        match on {
            WorkerId::DISPATCHER => &mut self.dispatcher,
            on => &mut self.workers[on.index()],
        }
    }

    fn look(&self, on: WorkerId) -> &Here {
        match on {
            WorkerId::DISPATCHER => &self.dispatcher,
            on => &self.workers[on.index()],
        }
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count > 0
    }

    /// A job takes a place on `on`.
    #[inline]
    pub(crate) fn comes(&mut self, on: WorkerId) {
        self.at(on).on += 1;
    }

    /// A job leaves its place on `on`.
    #[inline]
    pub(crate) fn leaves(&mut self, on: WorkerId) {
        self.at(on).on -= 1;
    }

    /// Others have come to `on`: what runs there last is to make room.
    #[inline]
    pub(crate) fn urge(&mut self, on: WorkerId) {
        if self.count > 0 && self.runs_on(on) && !self.urgent.contains(&on) {
            self.urgent.push_back(on);
        }
    }

    #[inline]
    pub(crate) fn take_urgent(&mut self) -> Option<WorkerId> {
        if self.count == 0 { None } else { self.urgent.pop_front() }
    }

    /// Whether such a job has a place on `on`, which is a worker.
    #[inline]
    pub(crate) fn runs_on(&self, on: WorkerId) -> bool {
        self.count > 0 && on != WorkerId::DISPATCHER && self.look(on).last > 0
    }

    /// Whether other jobs have, too.
    pub(crate) fn others_on(&self, on: WorkerId) -> bool {
        let here = self.look(on);
        here.on > here.last
    }

    /// A job that has a place on `on` is such a one from now on; or it is blocked there.
    pub(crate) fn begin(&mut self, on: WorkerId, has_place: bool) {
        self.count += 1;
        self.at(on).last += u32::from(has_place);
    }

    /// One leaves its place on `on`.
    pub(crate) fn stops(&mut self, on: WorkerId) {
        let here = self.at(on);
        (here.on, here.last) = (here.on - 1, here.last - 1);
    }

    /// One gets its place on `on` back.
    pub(crate) fn goes_on(&mut self, on: WorkerId) {
        let here = self.at(on);
        (here.on, here.last) = (here.on + 1, here.last + 1);
    }

    /// One has ended.
    pub(crate) fn end(&mut self) {
        self.count -= 1;
    }

    /// One that was the policy's waits for `on`.
    pub(crate) fn wait(&mut self, job: JobId, on: WorkerId) {
        self.count += 1;
        self.queue(job, on);
    }

    /// One waits for `on`.
    pub(crate) fn queue(&mut self, job: JobId, on: WorkerId) {
        self.waiting += 1;
        self.at(on).waiting.push_back(job);
    }

    /// Whether one waits for `on`, which is a worker.
    pub(crate) fn waits_for(&self, on: WorkerId) -> bool {
        self.waiting > 0 && !self.look(on).waiting.is_empty()
    }

    /// One that may run now: nothing is on its worker. `goes_on`: whether a worker runs what has begun
    /// there.
    pub(crate) fn next(&mut self, goes_on: impl Fn(usize) -> bool) -> Option<(JobId, WorkerId)> {
        if self.waiting == 0 {
            return None;
        }
        let free = |&(index, here): &(usize, &Here)| {
            here.on == 0 && goes_on(index) && !here.waiting.is_empty()
        };
        let worker = self.workers.iter().enumerate().find(free);
        let on = match worker {
            Some((index, _)) => WorkerId(index as u16),
            None if !self.dispatcher.waiting.is_empty() => WorkerId::DISPATCHER,
            None => return None,
        };
        let job = self.at(on).waiting.pop_front()?;
        self.waiting -= 1;
        self.goes_on(on);
        Some((job, on))
    }
}
