//! A worker's side: it takes the next of the jobs it holds, runs it for a quantum, and says what
//! became of it.

use super::links::News;
use super::timers::Lost;
use super::{Domain, Sink, id};
use crate::agenda::NEVER;
use crate::jobs::Progress;
use curtail_policy::{AnyCore, CorePolicy, JobId, Nanos};
use curtail_sched::{EventKind, Expiry};

/// What a worker's pending event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// None: it waits for a job.
    Nothing,
    /// Its job completes or blocks.
    Complete,
    /// Its job's quantum ends.
    QuantumEnd,
    /// Its job comes by a safepoint, having been asked to yield.
    Yield,
    /// The switch away from a pre-empted job is over.
    Switched,
    /// What is to be done after a completion is over.
    Finished,
    /// The switch away from a job that blocks is over.
    Blocked,
}

pub(super) struct Worker {
    pub(super) core: AnyCore,
    /// The job that runs, or ran last and is being put away.
    pub(super) job: JobId,
    pub(super) next: Next,
    /// When its quantum began, in nanoseconds.
    started: u64,
    /// The length of the quantum in nanoseconds; 0: to completion.
    quantum: u64,
    /// Counts quanta begun, so that a late order finds out that it is too late.
    pub(super) slice: u32,
    /// Quanta completed by its unfinished jobs.
    pub(super) quanta: u64,
    pub(super) unreported: bool,
    /// It has no core.
    pub(super) lost: Option<Lost>,
}

impl Worker {
    pub(super) fn new(core: AnyCore) -> Self {
        Self {
            core,
            job: JobId(0),
            next: Next::Nothing,
            started: 0,
            quantum: 0,
            slice: 0,
            quanta: 0,
            unreported: false,
            lost: None,
        }
    }

    /// It may take a job.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.next == Next::Nothing && self.lost.is_none()
    }

    /// What it does stood still for so long.
    pub(super) fn delay(&mut self, lost: u64) {
        self.started += lost;
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.next, Next::Complete | Next::QuantumEnd | Next::Yield)
    }
}

impl Domain {
    #[inline]
    pub(super) fn worker_event(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        match self.workers[worker].next {
            Next::Complete => self.complete(worker, now, sink),
            Next::QuantumEnd => self.quantum_end(worker, now, sink),
            Next::Yield => self.give_up(worker, now, sink),
            Next::Switched => self.switched(worker, now, sink),
            Next::Finished => self.finished(worker, now, sink),
            Next::Blocked => self.blocked(worker, now, sink),
            Next::Nothing => unreachable!("a worker without a job has no events"),
        }
    }

    /// A job gets to its worker.
    #[inline]
    pub(super) fn deliver(&mut self, worker: usize, job: JobId, now: u64) {
        let (known, &Progress { quanta, .. }) = self.job(job);
        // One that goes on brings its past along.
        if quanta > 0 {
            self.workers[worker].quanta += u64::from(quanta);
            self.unreport(worker);
        }
        let at = &mut self.workers[worker];
        if at.is_free() {
            // It holds no other, so that this one would be picked at once.
            let quantum = at.core.quantum();
            self.run(worker, job, quantum, now);
        } else {
            at.core.ready(Nanos(now), known);
        }
    }

    /// A worker without a job takes the next, if it holds any. (If not, its caller sees to the
    /// agenda.)
    #[inline(always)]
    pub(super) fn start(&mut self, worker: usize, now: u64) {
        let at = &mut self.workers[worker];
        match at.core.pick(Nanos(now)) {
            Some((job, quantum)) => self.run(worker, job.id, quantum, now),
            None => at.next = Next::Nothing,
        }
    }

    #[inline(always)]
    fn run(&mut self, worker: usize, job: JobId, quantum: Option<Nanos>, now: u64) {
        let at = &mut self.workers[worker];
        let progress = self.sched.data_mut(job);
        at.job = job;
        at.started = now;
        at.quantum = match (progress.quantum, quantum) {
            (0, Some(quantum)) => quantum.0,
            (own, _) => own,
        };
        if self.never {
            at.quantum = 0;
        }
        if !progress.started {
            progress.started = true;
            at.started += self.costs.start;
            self.counts.overhead_ns += self.costs.start;
        }
        self.begin(worker);
    }

    /// A quantum begins.
    #[inline(always)]
    fn begin(&mut self, worker: usize) {
        let at = &mut self.workers[worker];
        at.slice = at.slice.wrapping_add(1);
        let stretch = self.sched.data(at.job).stretch();
        let (started, mut length) = (at.started, at.quantum);
        if length > 0
            && !self.watched
            && let Some(overshoot) = &mut self.overshoot
        {
            length += overshoot.draw();
        }
        if length == 0 || stretch <= length {
            self.schedule(worker, Next::Complete, started + stretch);
        } else {
            self.schedule(worker, Next::QuantumEnd, started + length);
        }
    }

    #[inline(always)]
    pub(super) fn quantum_end(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        if self.watched && !(self.ideal && self.links.is_free()) {
            // The dispatcher will see, sooner or later; until it does, the job runs.
            let at = &self.workers[worker];
            let (due, slice) = (at.started + self.sched.data(at.job).stretch(), at.slice);
            self.schedule(worker, Next::Complete, due);
            return self.watch(now, worker, slice, sink);
        }
        if self.wants_place(worker, now) {
            self.give_up(worker, now, sink);
        } else {
            self.go_on(worker, now);
        }
    }

    /// Whether anybody wants the place of the job whose quantum ended.
    pub(super) fn wants_place(&mut self, worker: usize, now: u64) -> bool {
        if self.two_level && !self.watched {
            let at = &self.workers[worker];
            let attained = self.sched.data(at.job).attained + now - at.started;
            return at.core.wants_place(Nanos(attained));
        }
        self.sched.quantum_over(Nanos(now), id(worker)) == Expiry::Yield
    }

    /// What ran until now counts as a quantum of its job.
    #[inline]
    fn account(&mut self, worker: usize, now: u64) {
        let at = &mut self.workers[worker];
        let progress = self.sched.data_mut(at.job);
        let ran = now - at.started;
        if let Some(late) = &mut self.counts.late
            && at.quantum > 0
        {
            late.record(ran.saturating_sub(at.quantum));
        }
        progress.ran(ran);
        progress.quanta += 1;
        at.quanta += 1;
        at.started = now;
        self.counts.app_ns += ran;
        self.unreport(worker);
    }

    /// No job waits: another whole quantum.
    #[inline]
    pub(super) fn go_on(&mut self, worker: usize, now: u64) {
        self.account(worker, now);
        self.begin(worker);
    }

    /// Another job is to have the running one's place, before or at its completion.
    pub(super) fn preempt(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        if self.never {
            return;
        }
        let at = &self.workers[worker];
        let due = at.started + self.sched.data(at.job).stretch();
        let overshoot = self.overshoot.as_mut().map_or(0, |overshoot| overshoot.draw());
        let seen = now.max(at.started) + overshoot;
        if due <= seen {
            self.schedule(worker, Next::Complete, due);
        } else if seen > now {
            self.schedule(worker, Next::Yield, seen);
        } else {
            self.give_up(worker, now, sink);
            if self.workers[worker].next == Next::Nothing {
                self.agenda.set(worker, NEVER);
            }
        }
    }

    #[inline]
    fn give_up(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        self.account(worker, now);
        self.counts.preemptions += 1;
        if self.costs.switch > 0 {
            self.counts.overhead_ns += self.costs.switch;
            self.schedule(worker, Next::Switched, now + self.costs.switch);
        } else {
            self.switched(worker, now, sink);
        }
    }

    #[inline]
    fn switched(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        let job = self.workers[worker].job;
        if self.two_level {
            let (known, _) = self.job(job);
            self.workers[worker].core.ready(Nanos(now), known);
            return self.start(worker, now);
        }
        self.workers[worker].quanta -= u64::from(self.sched.data(job).quanta);
        self.start(worker, now);
        self.tell(now, News { on: id(worker), job, what: EventKind::Preempted }, sink);
    }

    #[inline]
    fn complete(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        let Worker { job, started, .. } = self.workers[worker];
        let ran = now - started;
        self.counts.app_ns += ran;
        let progress = self.sched.data_mut(job);
        progress.ran(ran);
        if progress.blocks_at > 0 {
            return self.block(worker, now, sink);
        }
        self.completes(job, now, sink);
        if self.costs.finish > 0 {
            self.counts.overhead_ns += self.costs.finish;
            self.schedule(worker, Next::Finished, now + self.costs.finish);
        } else {
            self.finished(worker, now, sink);
        }
    }

    #[inline]
    fn finished(&mut self, worker: usize, now: u64, sink: &mut impl Sink) {
        let at = &mut self.workers[worker];
        let job = at.job;
        let quanta = self.sched.data(job).quanta;
        if quanta > 0 {
            at.quanta -= u64::from(quanta);
            self.unreport(worker);
        }
        self.start(worker, now);
        self.tell(now, News { on: id(worker), job, what: EventKind::Ended }, sink);
    }

    fn unreport(&mut self, worker: usize) {
        let at = &mut self.workers[worker];
        if self.reports && !at.unreported {
            at.unreported = true;
            self.unreported.push(worker as u16);
        }
    }
}
