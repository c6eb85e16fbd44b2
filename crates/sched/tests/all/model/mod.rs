//! Workers and a dispatcher in slow motion around a scheduler, which check what it does.
//!
//! Every job has a number of its own. The model knows where each job is by what it was told to do
//! with it: a job on two workers, one that ends twice or never, an inbox filled beyond a worker's
//! being down, and an idle worker beside a job that it may run all show.
#![allow(dead_code, reason = "each test file uses a part of it")]

use curtail_policy::*;
use curtail_sched::*;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Complete,
    QuantumEnd,
    Block,
    GiveWay,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Arrive(u16),
    /// What runs on that worker stops; beyond the last: on the dispatcher.
    Stop(usize, How),
    Wake(usize),
    Down(usize),
    Up(usize),
    Quantum(Option<u64>),
    Switch(usize),
    Pass(u64),
}

/// What the model knows of a job in the system.
#[derive(Clone, Copy, Debug)]
struct Known {
    serial: usize,
    attained: Nanos,
    /// Where it ran first.
    home: Option<WorkerId>,
}

pub(crate) struct Model {
    pub(crate) sched: Scheduler<usize>,
    pub(crate) now: Nanos,
    cores: Vec<AnyCore>,
    running: Vec<Option<JobId>>,
    here: Option<JobId>,
    blocked: Vec<(JobId, WorkerId)>,
    looking: Vec<JobId>,
    up: Vec<bool>,
    known: HashMap<JobId, Known>,
    /// How often each job that was let in has ended.
    pub(crate) ended: Vec<u32>,
}

pub(crate) fn setup(spec: &Spec, workers: usize, jobs: usize, pins: bool) -> Setup {
    Setup { spec: spec.clone(), workers, jobs, seed: 5, pins, keeps_room: pins }
}

impl Model {
    pub(crate) fn new(setup: Setup, tap: Option<curtail_sched::record::Tap>) -> Self {
        let workers = setup.workers;
        Self {
            cores: (0..workers).map(|_| setup.spec.build_core(setup.jobs)).collect(),
            sched: Scheduler::new(setup, tap),
            now: Nanos(1_000),
            running: vec![None; workers],
            here: None,
            blocked: Vec::new(),
            looking: Vec::new(),
            up: vec![true; workers],
            known: HashMap::new(),
            ended: Vec::new(),
        }
    }

    fn workers(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn apply(&mut self, op: Op, specs: &[Spec]) {
        self.now += Nanos(100);
        match op {
            Op::Arrive(class) => self.arrive(class),
            Op::Stop(at, how) => self.stop(at % (self.workers() + 1), how),
            Op::Wake(nth) => self.wake(nth),
            Op::Down(worker) => self.set_up(worker % self.workers(), false),
            Op::Up(worker) => self.set_up(worker % self.workers(), true),
            Op::Quantum(ns) => {
                let quantum = ns.map(Nanos);
                self.sched.handle_command(self.now, Command::Quantum(quantum));
                self.cores.iter_mut().for_each(|core| core.set_quantum(quantum));
            }
            Op::Switch(to) => self.switch(&specs[to % specs.len()]),
            Op::Pass(ns) => self.now += Nanos(ns),
        }
        self.settle();
    }

    fn arrive(&mut self, class: u16) {
        let serial = self.ended.len();
        let hint = serial.is_multiple_of(3).then_some(Nanos(serial as u64 % 5 * 700));
        let arrival = Arrival { class: ClassId(class), at: self.now, hint };
        let full = self.sched.is_full();
        let answer = self.sched.handle_arrival(self.now, arrival, |_| serial);
        assert!(!(full && answer.is_ok()), "there is no slot");
        let Ok(id) = answer else { return };
        let new = Known { serial, attained: Nanos::ZERO, home: None };
        assert!(self.known.insert(id, new).is_none(), "the slot of {id:?} was taken");
        self.ended.push(0);
    }

    fn tell(&mut self, on: WorkerId, job: JobId, what: EventKind) {
        let attained = self.known[&job].attained;
        self.sched.handle_event(self.now, on, Event { job, attained, what });
    }

    /// What runs there stops.
    fn stop(&mut self, at: usize, how: How) {
        let here = at == self.workers();
        let on = if here { WorkerId::DISPATCHER } else { WorkerId(at as u16) };
        let held = if here { self.here } else { self.running[at].filter(|_| self.up[at]) };
        let Some(job) = held else { return };
        self.known.get_mut(&job).unwrap().attained += Nanos(500);
        let two_level = self.sched.is_two_level() && !here;
        let how = match how {
            How::QuantumEnd if self.sched.quantum_over(self.now, on) == Expiry::Continue => return,
            how => how,
        };
        if here {
            self.here = None;
        } else {
            self.running[at] = None;
        }
        match how {
            How::Complete => {
                self.tell(on, job, EventKind::Ended);
                let known = self.known.remove(&job).unwrap();
                assert_eq!(*self.sched.data(job), known.serial);
                self.ended[known.serial] += 1;
            }
            How::QuantumEnd | How::GiveWay if two_level => self.ready(at, job),
            How::QuantumEnd => self.tell(on, job, EventKind::Preempted),
            How::GiveWay => {
                self.tell(on, job, EventKind::Yielded);
                self.looking.push(job);
            }
            How::Block => {
                self.tell(on, job, EventKind::Blocked);
                self.blocked.push((job, on));
            }
        }
        if !here {
            self.sched.handle_serviced(on, self.now.0 / 1_000);
        }
    }

    fn ready(&mut self, worker: usize, job: JobId) {
        let Known { attained, .. } = self.known[&job];
        let job = Job { attained, ..self.sched.get(job).0 };
        self.cores[worker].ready(self.now, job);
    }

    fn wake(&mut self, nth: usize) {
        if self.blocked.is_empty() {
            return;
        }
        let (job, on) = self.blocked.remove(nth % self.blocked.len());
        // A worker that has not heard of a switch yet may do either.
        let by_itself =
            on != WorkerId::DISPATCHER && (self.sched.is_two_level() != nth.is_multiple_of(5));
        if by_itself {
            self.tell(on, job, EventKind::Resumed);
            self.ready(on.index(), job);
        } else {
            self.tell(on, job, EventKind::Woken);
        }
    }

    fn set_up(&mut self, worker: usize, up: bool) {
        self.up[worker] = up;
        let on = WorkerId(worker as u16);
        if up {
            self.sched.worker_up(self.now, on);
        } else {
            self.sched.worker_down(self.now, on);
            if self.ended.len().is_multiple_of(2) {
                self.take_back(worker);
            }
        }
    }

    /// What has not started on a worker that is down goes elsewhere.
    fn take_back(&mut self, worker: usize) {
        let mut stay = Vec::new();
        while let Some((job, _)) = self.cores[worker].pick(self.now) {
            match self.known[&job.id].home {
                None => self.tell(WorkerId(worker as u16), job.id, EventKind::Returned),
                Some(_) => stay.push(job),
            }
        }
        stay.into_iter().for_each(|job| self.cores[worker].ready(self.now, job));
    }

    fn switch(&mut self, spec: &Spec) {
        let pins = self.sched.setup().pins;
        let command = Command::Policy { spec: Box::new(spec.clone()), pins };
        self.sched.handle_command(self.now, command);
        for core in &mut self.cores {
            let mut next = spec.build_core(64);
            while let Some((job, _)) = core.pick(self.now) {
                next.ready(self.now, job);
            }
            *core = next;
        }
    }

    /// Until neither the scheduler nor a worker has anything to do.
    fn settle(&mut self) {
        while let Some(action) = self.sched.poll_action(self.now) {
            match action {
                Action::Preempt { on } => assert!(on.index() < self.workers()),
                Action::Run { job, on, quantum } => self.run(job, on, quantum),
                Action::Drop { job } => panic!("{job:?} was not cancelled"),
            }
        }
        for worker in 0..self.workers() {
            if self.up[worker] && self.running[worker].is_none() {
                self.running[worker] = self.cores[worker].pick(self.now).map(|(job, _)| job.id);
            }
            if let Some(job) = self.running[worker] {
                let home = &mut self.known.get_mut(&job).unwrap().home;
                home.get_or_insert(WorkerId(worker as u16));
            }
        }
        self.check();
    }

    fn run(&mut self, job: JobId, on: WorkerId, quantum: Option<Nanos>) {
        let known = self.known[&job];
        assert_eq!(self.sched.whereabouts(job), Some(Where::On(on)));
        assert!(self.running.iter().flatten().all(|it| *it != job) && self.here != Some(job));
        assert!(self.blocked.iter().all(|(it, _)| *it != job));
        self.looking.retain(|it| *it != job);
        if let Some(home) = known.home
            && (self.sched.setup().pins || home == WorkerId::DISPATCHER)
        {
            assert_eq!(on, home, "it has started there");
        }
        if on == WorkerId::DISPATCHER {
            assert!(self.here.replace(job).is_none(), "it has one thread");
            assert!(quantum.is_some(), "it must come back");
            self.known.get_mut(&job).unwrap().home.get_or_insert(on);
        } else {
            let returns = known.attained > Nanos::ZERO;
            assert!(self.up[on.index()] || returns, "{on} is down");
            assert!(!self.sched.is_two_level() || quantum.is_none());
            self.ready(on.index(), job);
        }
    }

    fn check(&self) {
        let mut waiting = 0;
        let idle = |worker: &usize| {
            self.up[*worker] && self.running[*worker].is_none() && self.cores[*worker].is_empty()
        };
        let idle: Vec<WorkerId> =
            (0..self.workers()).filter(idle).map(|worker| WorkerId(worker as u16)).collect();
        let mut in_system = 0;
        for (job, place) in self.sched.jobs() {
            in_system += 1;
            assert!(self.known.contains_key(&job.id));
            if place == Where::Waiting {
                waiting += 1;
                let may = |on: &WorkerId| job.pinned.is_none_or(|pinned| pinned == *on);
                // A dispatcher that runs a job decides when that has stopped.
                let free = keeps_places_free(&self.sched.setup().spec) || self.here.is_some();
                let idles = idle.iter().find(|on| may(on)).filter(|_| !free);
                assert_eq!(idles, None, "{job:?} waits under {}", self.sched.setup().spec.name);
            }
        }
        assert_eq!((in_system, in_system), (self.known.len(), self.sched.len()));
        assert_eq!(waiting, self.sched.waiting());
    }

    /// Everything comes to an end, by events and by the times that the scheduler names.
    pub(crate) fn drain(&mut self) {
        (0..self.workers()).for_each(|worker| self.apply(Op::Up(worker), &[]));
        for _ in 0..20 * (self.ended.len() + 1) {
            (0..=self.workers()).for_each(|at| self.apply(Op::Stop(at, How::Complete), &[]));
            if !self.blocked.is_empty() {
                self.apply(Op::Wake(1), &[]);
            }
            let runs = self.here.is_some() || self.running.iter().any(Option::is_some);
            if self.sched.is_empty() {
                break;
            } else if !runs && self.blocked.is_empty() {
                let timeout = self.sched.poll_timeout().expect("it has a time for what is left");
                self.now = self.now.max(timeout);
                self.settle();
            }
        }
        assert!(self.sched.is_empty(), "{} are left", self.sched.len());
        assert!(!self.sched.is_short(), "all room is back");
        assert!(self.ended.iter().all(|times| *times == 1), "{:?}", self.ended);
    }
}

/// Whether a worker may be idle while a job waits that is bound to no other.
fn keeps_places_free(spec: &Spec) -> bool {
    use Dispatch::{Auto, Cscq, Darc, DarcStatic, StaticPartition};
    matches!(spec.dispatch, Darc | DarcStatic | StaticPartition | Cscq | Auto)
}

pub(crate) fn specs() -> Vec<Spec> {
    let presets = dispatched().map(|entry| Spec::preset(entry.name).unwrap());
    let mut specs: Vec<Spec> = presets.collect();
    let preset = |name| Spec::preset(name).unwrap();
    for &ties in Ties::ALL {
        specs.push(preset("tq").with_ties(ties).unwrap());
    }
    specs.push(Spec { dispatch: Dispatch::RoundRobin, ..preset("dfcfs") });
    specs.push(preset("steal").with_victim(Victim::Longest).unwrap());
    specs.push(preset("ps").with_jbsq(3).unwrap());
    specs.push(preset("jbsq").with_work_conserving(true).unwrap());
    for policy in ["darc-ps", "tq"] {
        let mut bounded = preset(policy);
        bounded.plan_mut(1).bound = Some(2);
        specs.push(bounded);
    }
    specs
}
