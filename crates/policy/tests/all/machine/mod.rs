//! A machine of workers and a dispatcher in slow motion, played against the policies.
//!
//! It keeps its own books: where each job is, in which order jobs were queued. Before every
//! decision it works out from them, by scanning, what the answer must be, and it accepts no other.
//!
//! So no property is left to chance: lost or doubled jobs, jobs in two places, overfull inboxes, a
//! pinned job elsewhere, a wrong worker on a tie, a wrong order and an idle place that a waiting
//! job could have had all show as an answer that differs.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod classes;
pub(crate) mod expect;
pub(crate) mod job;
mod switch;

use classes::{Mean, Occupant};
use curtail_policy::*;
use expect::Answer;
pub(crate) use job::{At, How, Op, Record};
use std::collections::VecDeque;

pub(crate) struct Machine {
    pub(crate) spec: Spec,
    pub(crate) policy: AnyPolicy,
    pub(crate) cores: Vec<AnyCore>,
    /// Jobs that have started stay where they are.
    pins: bool,
    pub(crate) now: Nanos,
    pub(crate) quantum: Option<Nanos>,
    pub(crate) jobs: Vec<Record>,
    /// What waits in the policy, oldest first.
    pub(crate) queue: VecDeque<usize>,
    /// What is ready on each worker, in the order of readiness.
    pub(crate) ready: Vec<VecDeque<usize>>,
    pub(crate) running: Vec<Option<usize>>,
    pub(crate) dispatcher: Option<usize>,
    /// Decisions since the policy was built that a round robin counts.
    pub(crate) turns: usize,
    /// By class, the unknown ones last.
    pub(crate) means: Vec<Mean>,
    /// What runs alone on each worker since it was placed there.
    pub(crate) occupants: Vec<Option<Occupant>>,
    /// Whose place has been asked for.
    pub(crate) asked: Vec<bool>,
    tickets: u64,
    pub(crate) arrived: u64,
    pub(crate) completed: u64,
}

impl Machine {
    pub(crate) fn new(spec: &Spec, workers: usize, jobs: usize, pins: bool) -> Self {
        let empty = Record {
            job: Job::new(JobId(0), ClassId(0), Nanos::ZERO),
            at: At::Out,
            started: false,
            quanta: 0,
            told: Nanos::ZERO,
            rank: 0,
            ticket: 0,
        };
        Self {
            policy: spec.build(workers, jobs, 1),
            cores: (0..workers).map(|_| spec.build_core(jobs)).collect(),
            quantum: spec.quantum,
            spec: spec.clone(),
            pins,
            now: Nanos::ZERO,
            jobs: vec![empty; jobs],
            queue: VecDeque::new(),
            ready: vec![VecDeque::new(); workers],
            running: vec![None; workers],
            dispatcher: None,
            turns: 0,
            means: vec![Mean::default(); spec.class_count() + 1],
            occupants: vec![None; workers],
            asked: vec![false; workers],
            tickets: 0,
            arrived: 0,
            completed: 0,
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.cores.len()
    }

    /// One thing happens, and the workers and the dispatcher react to it.
    pub(crate) fn apply(&mut self, op: Op, specs: &[Spec]) {
        self.now += Nanos(100);
        match op {
            Op::Arrive => self.arrive(),
            Op::Stop(worker, how) => self.stop(worker % self.workers(), how),
            Op::StopDispatcher(how) => self.stop_dispatcher(how),
            Op::Wake(nth) => self.wake(nth),
            Op::Quantum(ns) => self.set_quantum(ns.map(Nanos)),
            Op::Switch(to) => self.switch(&specs[to % specs.len()]),
        }
        self.settle();
    }

    /// A job of some class, known, without a plan, or unknown, and with or without a hint.
    fn arrive(&mut self) {
        let slot = self.jobs.iter().position(|record| record.at == At::Out);
        let id = JobId(slot.unwrap_or(self.jobs.len()) as u32);
        let draw = (self.now.0 / 100).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let class = [0, 1, 2, 0, 1, 2, 17, ClassId::UNKNOWN.0][draw as usize % 8];
        let hint = (draw / 8).is_multiple_of(3).then_some(Nanos(draw / 24 % 4 * 700));
        let job = Job { hint, ..Job::new(id, ClassId(class), self.now) };
        let Some(slot) = slot else {
            assert_eq!(self.policy.arrive(self.now, job), Err(Refused(job)));
            return;
        };
        let fresh = Record { at: At::Waiting, started: false, quanta: 0, job, ..self.jobs[slot] };
        self.jobs[slot] = fresh;
        self.ticket(slot);
        self.enqueue(slot, false);
        self.arrived += 1;
        assert_eq!(self.policy.arrive(self.now, job), Ok(()));
    }

    fn ticket(&mut self, slot: usize) {
        self.jobs[slot].ticket = self.tickets;
        self.tickets += 1;
    }

    /// A job waits in the policy from now on.
    fn enqueue(&mut self, slot: usize, first: bool) {
        self.jobs[slot].at = At::Waiting;
        self.jobs[slot].told = self.jobs[slot].job.attained;
        self.jobs[slot].rank = classes::rank(self, &self.jobs[slot]);
        if first { self.queue.push_front(slot) } else { self.queue.push_back(slot) }
    }

    /// A job comes to `on`, or (`None`) one leaves.
    fn shift(&mut self, on: WorkerId, comes: Option<usize>) {
        if on == WorkerId::DISPATCHER {
            return;
        }
        let alone = comes.filter(|_| expect::held(self, on.index()) == 0);
        self.occupants[on.index()] = alone.map(|slot| classes::occupant(self, slot));
        self.asked[on.index()] = false;
    }

    /// The job that runs on `worker` stops.
    fn stop(&mut self, worker: usize, how: How) {
        let Some(slot) = self.running[worker] else { return };
        let on = WorkerId(worker as u16);
        let whole = matches!(how, How::QuantumEnd);
        if whole && expect::slice(self, on).is_none() {
            return;
        }
        self.jobs[slot].job.attained += Nanos(if whole { 1_000 } else { 300 });
        self.jobs[slot].quanta += u64::from(whole);
        if whole {
            let wanted = self.policy.wants_place(self.now, on);
            let own = classes::is_darc(&self.spec) || classes::is_auto(&self.spec);
            let right = wanted == expect::wanted(self, worker) || own;
            assert!(right, "{:?} {worker}", self.spec);
            if !wanted {
                self.policy.renewed(self.now, on);
                return self.report(worker);
            }
        }
        self.running[worker] = None;
        let local = self.spec.is_two_level();
        match how {
            How::Complete => self.complete(slot, on),
            How::Block => self.block(slot, on),
            How::QuantumEnd if local => self.make_ready(slot, worker),
            How::QuantumEnd | How::GiveBack => self.give_back(slot, on),
        }
        self.report(worker);
    }

    /// The job that runs on the dispatcher stops; it never goes on without a decision.
    fn stop_dispatcher(&mut self, how: How) {
        let Some(slot) = self.dispatcher.take() else { return };
        let on = WorkerId::DISPATCHER;
        self.jobs[slot].job.attained += Nanos(500);
        match how {
            How::Complete => self.complete(slot, on),
            How::Block => self.block(slot, on),
            How::QuantumEnd | How::GiveBack => self.give_back(slot, on),
        }
    }

    fn complete(&mut self, slot: usize, on: WorkerId) {
        self.jobs[slot].at = At::Out;
        self.completed += 1;
        let (job, class) = (self.jobs[slot].job, classes::class(self, &self.jobs[slot]));
        self.means[class].record(job.attained);
        self.shift(on, None);
        self.policy.completed(self.now, on, job.id, job.attained);
    }

    fn block(&mut self, slot: usize, on: WorkerId) {
        self.jobs[slot].at = At::Blocked(on);
        self.shift(on, None);
        self.policy.blocked(self.now, on, JobId(slot as u32));
    }

    fn give_back(&mut self, slot: usize, on: WorkerId) {
        self.enqueue(slot, self.spec.dispatch == Dispatch::MultiQueue);
        self.shift(on, None);
        self.policy.yielded(self.now, on, self.jobs[slot].job);
    }

    fn make_ready(&mut self, slot: usize, worker: usize) {
        self.jobs[slot].at = At::Ready(WorkerId(worker as u16));
        self.ready[worker].push_back(slot);
        self.cores[worker].ready(self.now, self.jobs[slot].job);
    }

    fn wake(&mut self, nth: usize) {
        let blocked = |slot: &usize| matches!(self.jobs[*slot].at, At::Blocked(_));
        let all: Vec<usize> = (0..self.jobs.len()).filter(blocked).collect();
        let Some(&slot) = all.get(nth % all.len().max(1)) else { return };
        let At::Blocked(on) = self.jobs[slot].at else { unreachable!() };
        let job = self.jobs[slot].job;
        // A worker that has not heard of a switch yet may go on by itself under any policy.
        let by_itself = on != WorkerId::DISPATCHER && nth.is_multiple_of(4);
        if by_itself {
            self.policy.resumed(self.now, on, job.id);
        } else {
            self.policy.woken(self.now, on, job);
        }
        if by_itself || self.spec.is_two_level() && on != WorkerId::DISPATCHER {
            self.shift(on, Some(slot));
            self.make_ready(slot, on.index());
        } else {
            self.enqueue(slot, false);
        }
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>) {
        self.quantum = quantum;
        self.policy.set_quantum(quantum);
        self.cores.iter_mut().for_each(|core| core.set_quantum(quantum));
    }

    /// What a worker publishes for MSQ.
    fn report(&mut self, worker: usize) {
        let quanta = expect::quanta(self, worker);
        self.policy.serviced(WorkerId(worker as u16), quanta);
    }

    /// Workers pick and the dispatcher decides until neither has anything to do.
    fn settle(&mut self) {
        loop {
            assert_eq!(self.policy.waiting(), self.queue.len());
            (0..self.workers()).for_each(|worker| self.start(worker));
            // The dispatcher has one thread: no decisions while it runs a job.
            if self.dispatcher.is_some() || !self.dispatch() {
                break;
            }
        }
    }

    /// One decision; false when it was to do nothing.
    fn dispatch(&mut self) -> bool {
        let expected = expect::decisions(self);
        let decision = self.policy.decide(self.now);
        let (job, on) = match decision {
            Decision::Run { job, on, quantum } => {
                let fits = |answer: &Answer| match answer {
                    Answer::Run { slot, on: allowed } => {
                        self.jobs[*slot].job == job && allowed.contains(&on)
                    }
                    Answer::Idle => false,
                };
                let right = expected.iter().any(fits);
                assert!(right, "{:?}: {decision:?} instead of {expected:?}", self.spec);
                // How long it may run is what `auto` chooses.
                let own = classes::is_auto(&self.spec) && on != WorkerId::DISPATCHER;
                let same = if own {
                    quantum.is_some() == self.spec.shares()
                } else {
                    quantum == expect::slice(self, on)
                };
                assert!(same, "{:?}: {quantum:?}", self.spec);
                (job, on)
            }
            Decision::Idle => {
                assert!(expected.contains(&Answer::Idle), "{:?}: {expected:?}", self.spec);
                assert!(classes::all_asked(self), "{:?}", self.spec);
                return false;
            }
            Decision::Preempt { on } => {
                assert!(expected.contains(&Answer::Idle) || self.only_parked(&expected));
                assert!(classes::may_preempt(self, on.index()), "{:?} {on}", self.spec);
                self.asked[on.index()] = true;
                return true;
            }
        };
        let slot = job.id.0 as usize;
        self.queue.retain(|&waiting| waiting != slot);
        if on == WorkerId::DISPATCHER {
            self.dispatcher = Some(slot);
            self.run(slot, on);
        } else {
            self.turns += usize::from(job.pinned.is_none());
            self.shift(on, Some(slot));
            self.make_ready(slot, on.index());
            self.report(on.index());
        }
        true
    }

    /// All that could be done is for the dispatcher to run a job itself.
    fn only_parked(&self, expected: &[Answer]) -> bool {
        let here = |on: &[WorkerId]| on == [WorkerId::DISPATCHER];
        expected.iter().all(|answer| matches!(answer, Answer::Run { on, .. } if here(on)))
    }

    /// A worker without a job takes the next of those it holds.
    fn start(&mut self, worker: usize) {
        assert_eq!(self.cores[worker].len(), self.ready[worker].len());
        if self.running[worker].is_some() {
            return;
        }
        let on = WorkerId(worker as u16);
        let expected = expect::pick(self, worker);
        let picked = self.cores[worker].pick(self.now);
        assert_eq!(picked, expected.map(|slot| (self.jobs[slot].job, expect::slice(self, on))));
        if let Some(slot) = expected {
            self.ready[worker].retain(|&other| other != slot);
            self.running[worker] = Some(slot);
            self.run(slot, on);
        }
    }

    fn run(&mut self, slot: usize, on: WorkerId) {
        let record = &mut self.jobs[slot];
        assert!(record.job.pinned.is_none_or(|place| place == on));
        record.at = At::Running(on);
        record.started = true;
        if self.pins {
            record.job.pinned = Some(on);
        }
    }

    /// Everything that has arrived completes.
    pub(crate) fn drain(&mut self) {
        let bound = 4 * self.jobs.len();
        for _ in 0..bound {
            while self.jobs.iter().any(|record| matches!(record.at, At::Blocked(_))) {
                self.apply(Op::Wake(0), &[]);
            }
            (0..self.workers()).for_each(|w| self.apply(Op::Stop(w, How::Complete), &[]));
            self.apply(Op::StopDispatcher(How::Complete), &[]);
        }
        assert_eq!(self.completed, self.arrived, "{:?}: {:?}", self.spec, self.jobs);
        assert!(self.jobs.iter().all(|record| record.at == At::Out));
        assert_eq!(self.policy.waiting(), 0);
    }
}
