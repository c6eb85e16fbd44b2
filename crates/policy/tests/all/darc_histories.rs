//! DARC and its variants under any history: arrivals of any class, jobs that end, block, wake and are
//! given back at any time, live switches, profiles that change.
//!
//! A model of the machine keeps its own books and looks at every decision: no job is lost, doubled
//! or in two places; none runs where it may not, above all not on a worker that is reserved for a
//! shorter group; a class is served in the order of arrival; no worker is idle that a waiting job
//! may use.

use curtail_policy::*;
use proptest::prelude::*;

const CLASSES: u16 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Out,
    Waiting,
    On(WorkerId),
    Blocked(WorkerId),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Of that class, which is unknown where it is beyond the last.
    Arrive(u16),
    Complete(usize),
    GiveBack(usize),
    Block(usize),
    Wake(usize),
    Expire(usize),
    Switch(usize),
}

#[derive(Clone, Copy, Debug)]
struct Record {
    job: Job,
    at: At,
    /// In the order of queueing.
    seq: u64,
}

struct Model {
    spec: Spec,
    policy: AnyPolicy,
    jobs: Vec<Record>,
    workers: usize,
    pins: bool,
    now: Nanos,
    seq: u64,
    arrived: u64,
    completed: u64,
}

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for name in ["darc", "darc-static", "darc-ps", "fcfs", "ps"] {
        for k in [1, 3] {
            let mut spec = Spec::preset(name).unwrap().with_jbsq(k).unwrap();
            (spec.darc.window, spec.darc.slowdown) = (8, 1);
            spec.classes = vec![ClassPlan::default(); usize::from(CLASSES)];
            specs.push(spec.clone());
            for (class, ns) in [1_000, 1_500, 40_000].into_iter().enumerate() {
                let plan = spec.plan_mut(class);
                (plan.service, plan.occurrence) = (Some(Nanos(ns)), Some(10));
            }
            spec.darc.spillway = k;
            specs.push(spec);
        }
    }
    specs
}

impl Model {
    fn new(spec: &Spec, workers: usize, jobs: usize, pins: bool) -> Self {
        let job = Job::new(JobId(0), ClassId(0), Nanos::ZERO);
        Self {
            spec: spec.clone(),
            policy: spec.build(workers, jobs, 1),
            jobs: vec![Record { job, at: At::Out, seq: 0 }; jobs],
            workers,
            pins,
            now: Nanos::ZERO,
            seq: 0,
            arrived: 0,
            completed: 0,
        }
    }

    fn darc(&self) -> Option<&Darc> {
        match &self.policy {
            AnyPolicy::Darc(darc) => Some(darc),
            _ => None,
        }
    }

    fn held(&self, worker: usize) -> usize {
        let on = At::On(WorkerId(worker as u16));
        self.jobs.iter().filter(|record| record.at == on).count()
    }

    fn waiting(&self) -> impl Iterator<Item = &Record> {
        self.jobs.iter().filter(|record| record.at == At::Waiting)
    }

    /// The first worker that jobs of the class may use, and whether that is all about them.
    fn first_worker(&self, class: ClassId) -> usize {
        let Some(darc) = self.darc() else { return 0 };
        match darc.reservations().find(|it| it.class == class) {
            Some(it) => it.reserved.start.min(it.stealable.start),
            None if darc.reservations().next().is_none() => 0,
            None => darc.spillway().start,
        }
    }

    /// The nth job that `wanted` accepts.
    fn nth(&self, nth: usize, wanted: impl Fn(At) -> bool) -> Option<(usize, WorkerId)> {
        let all: Vec<_> = (0..self.jobs.len()).filter(|&slot| wanted(self.jobs[slot].at)).collect();
        let slot = *all.get(nth % all.len().max(1))?;
        match self.jobs[slot].at {
            At::On(on) | At::Blocked(on) => Some((slot, on)),
            At::Out | At::Waiting => None,
        }
    }

    fn apply(&mut self, op: Op, specs: &[Spec]) {
        self.now += Nanos(700);
        let running = |at| matches!(at, At::On(_));
        match op {
            Op::Arrive(class) => self.arrive(ClassId(class)),
            Op::Complete(nth) => {
                let Some((slot, on)) = self.nth(nth, running) else { return };
                self.run_for(slot, Nanos(300));
                self.jobs[slot].at = At::Out;
                self.completed += 1;
                let job = self.jobs[slot].job;
                self.policy.completed(self.now, on, job.id, job.attained);
            }
            Op::GiveBack(nth) => {
                let Some((slot, on)) = self.nth(nth, running) else { return };
                self.give_back(slot, on);
            }
            Op::Block(nth) => {
                let Some((slot, on)) = self.nth(nth, running) else { return };
                self.run_for(slot, Nanos(300));
                self.jobs[slot].at = At::Blocked(on);
                self.policy.blocked(self.now, on, JobId(slot as u32));
            }
            Op::Wake(nth) => self.wake(nth),
            Op::Expire(nth) => {
                let Some((slot, on)) = self.nth(nth, running) else { return };
                let yields = self.policy.wants_place(self.now, on);
                assert!(self.spec.shares() || !yields, "it runs to completion");
                if yields {
                    self.give_back(slot, on);
                }
            }
            Op::Switch(to) => self.switch(&specs[to % specs.len()]),
        }
        self.settle();
    }

    fn run_for(&mut self, slot: usize, time: Nanos) {
        let class = self.jobs[slot].job.class.0 % 8;
        self.jobs[slot].job.attained += Nanos(time.0 << (2 * class));
    }

    fn queue(&mut self, slot: usize) -> Job {
        self.seq += 1;
        (self.jobs[slot].at, self.jobs[slot].seq) = (At::Waiting, self.seq);
        self.jobs[slot].job
    }

    fn arrive(&mut self, class: ClassId) {
        let Some(slot) = self.jobs.iter().position(|record| record.at == At::Out) else { return };
        let job = Job::new(JobId(slot as u32), class, self.now);
        if slot.is_multiple_of(5) {
            self.policy.refused(self.now, class);
        }
        self.jobs[slot].job = job;
        self.queue(slot);
        self.arrived += 1;
        assert_eq!(self.policy.arrive(self.now, job), Ok(()));
    }

    fn give_back(&mut self, slot: usize, on: WorkerId) {
        self.run_for(slot, Nanos(1_000));
        let job = self.queue(slot);
        self.policy.yielded(self.now, on, job);
    }

    fn wake(&mut self, nth: usize) {
        let Some((slot, on)) = self.nth(nth, |at| matches!(at, At::Blocked(_))) else { return };
        if nth.is_multiple_of(4) {
            self.jobs[slot].at = At::On(on);
            self.policy.resumed(self.now, on, JobId(slot as u32));
        } else {
            let job = self.queue(slot);
            self.policy.woken(self.now, on, job);
        }
    }

    fn switch(&mut self, spec: &Spec) {
        let mut policy = spec.build(self.workers, self.jobs.len(), 2);
        for record in &self.jobs {
            match record.at {
                At::On(on) => policy.adopt(self.now, on, record.job),
                At::Blocked(on) => {
                    policy.adopt(self.now, on, record.job);
                    policy.blocked(self.now, on, record.job.id);
                }
                At::Out | At::Waiting => {}
            }
        }
        let mut queued: Vec<Record> = self.waiting().copied().collect();
        queued.sort_by_key(|record| record.seq);
        for Record { job, .. } in queued {
            assert_eq!(self.policy.evict(), Some(job), "oldest first");
            policy.inherit(self.now, job);
        }
        assert_eq!(self.policy.evict(), None);
        (self.policy, self.spec) = (policy, spec.clone());
    }

    fn settle(&mut self) {
        loop {
            assert_eq!(self.policy.waiting(), self.waiting().count());
            match self.policy.decide(self.now) {
                Decision::Run { job, on, quantum } => self.sent(job, on, quantum),
                Decision::Idle => break,
                Decision::Preempt { .. } => panic!("it pre-empts by quanta only"),
            }
        }
        self.nobody_could_run();
    }

    fn sent(&mut self, job: Job, on: WorkerId, quantum: Option<Nanos>) {
        let slot = job.id.0 as usize;
        assert_eq!((self.jobs[slot].at, self.jobs[slot].job), (At::Waiting, job));
        assert_eq!(quantum, self.spec.quantum.filter(|_| self.spec.shares()));
        let held = self.held(on.index());
        assert!(held < usize::from(self.spec.jbsq), "an inbox has its bound");
        match job.pinned {
            Some(place) => assert_eq!(place, on),
            None => assert!(on.index() >= self.first_worker(job.class), "{job:?} on {on}"),
        }
        if let (Some(darc), None) = (self.darc(), job.pinned) {
            let own = |it: Reservation| it.class == job.class && it.reserved.contains(&on.index());
            let behind = held == 0 || darc.reservations().any(own) || self.spec.shares();
            let has_own =
                darc.reservations().any(|it| it.class == job.class && !it.reserved.is_empty());
            assert!(behind || !has_own, "{job:?} steals {on}, which isn't idle");
        }
        if self.darc().is_some() && job.attained == Nanos::ZERO && job.pinned.is_none() {
            let like = |other: &&Record| {
                let other = other.job;
                other.class == job.class && other.attained == Nanos::ZERO && other.pinned.is_none()
            };
            let oldest = self.waiting().filter(like).map(|record| record.seq).min();
            assert_eq!(oldest, Some(self.jobs[slot].seq), "a class is served in order");
        }
        self.jobs[slot].at = At::On(on);
        if self.pins {
            self.jobs[slot].job.pinned = Some(on);
        }
    }

    /// No job that waits has a free place that it may use.
    fn nobody_could_run(&self) {
        let bound = usize::from(self.spec.jbsq);
        for Record { job, .. } in self.waiting() {
            if let Some(on) = job.pinned {
                assert!(self.held(on.index()) >= bound, "{job:?} could run");
                continue;
            }
            // One that has run may have turned out to be longer than its class.
            let longest = self.darc().and_then(|darc| darc.reservations().last());
            let started = job.attained > Nanos::ZERO && self.spec.shares();
            let first = match longest {
                Some(longest) if started => {
                    self.first_worker(longest.class).max(self.first_worker(job.class))
                }
                _ => self.first_worker(job.class),
            };
            let idle = (first..self.workers).find(|&worker| self.held(worker) == 0);
            assert_eq!(idle, None, "{job:?} could run");
        }
    }

    fn drain(&mut self) {
        for _ in 0..self.jobs.len() {
            while self.nth(0, |at| matches!(at, At::Blocked(_))).is_some() {
                self.apply(Op::Wake(1), &[]);
            }
            (0..self.workers).for_each(|_| self.apply(Op::Complete(0), &[]));
        }
        assert_eq!(self.completed, self.arrived);
        assert!(self.jobs.iter().all(|record| record.at == At::Out));
        assert_eq!((self.policy.waiting(), self.policy.evict()), (0, None));
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => (0..CLASSES + 1).prop_map(Op::Arrive),
        1 => Just(Op::Arrive(ClassId::UNKNOWN.0)),
        20 => (0..20_usize).prop_map(Op::Complete),
        3 => (0..20_usize).prop_map(Op::GiveBack),
        12 => (0..20_usize).prop_map(Op::Expire),
        4 => (0..20_usize).prop_map(Op::Block),
        5 => (0..20_usize).prop_map(Op::Wake),
        1 => any::<usize>().prop_map(Op::Switch),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history(
        which in any::<prop::sample::Index>(),
        workers in 1..7_usize,
        pins in any::<bool>(),
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let specs = specs();
        let mut model = Model::new(which.get(&specs), workers, 24, pins);
        ops.into_iter().for_each(|op| model.apply(op, &specs));
        model.drain();
    }
}
