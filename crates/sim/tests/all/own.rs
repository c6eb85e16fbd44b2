//! A policy of one's own in the simulator: it decides, and is asked when it wants to be.

use crate::common;

use common::{mix, simulate, spec};
use curtail_policy::*;
use curtail_sim::{Config, Done, run_observed};
use curtail_workload::{Request, Until};
use std::collections::VecDeque;

/// First come, first served, one job a worker; at first or only at the ends of periods.
struct Queue {
    waiting: VecDeque<Job>,
    free: Vec<bool>,
    period: Option<u64>,
    /// What waited when the last period ended may be sent.
    ripe: usize,
    ends: u64,
}

impl Queue {
    fn new(size: Size, period: Option<u64>) -> Self {
        let waiting = VecDeque::with_capacity(size.jobs);
        Self { waiting, free: vec![true; size.workers], period, ripe: 0, ends: 0 }
    }

    fn leave(&mut self, on: WorkerId) {
        self.free[on.index()] = true;
    }
}

impl Policy for Queue {
    fn arrive(&mut self, now: Nanos, job: Job) -> Result<(), Refused> {
        match self.period {
            Some(period) if self.waiting.is_empty() => self.ends = (now.0 / period + 1) * period,
            Some(_) => {}
            None => self.ripe += 1,
        }
        self.waiting.push_back(job);
        Ok(())
    }

    fn yielded(&mut self, _now: Nanos, on: WorkerId, job: Job) {
        self.waiting.push_back(job);
        self.ripe += 1;
        self.leave(on);
    }

    fn completed(&mut self, _now: Nanos, on: WorkerId, _job: JobId, _attained: Nanos) {
        self.leave(on);
    }

    fn blocked(&mut self, _now: Nanos, on: WorkerId, _job: JobId) {
        self.leave(on);
    }

    fn woken(&mut self, _now: Nanos, _on: WorkerId, job: Job) {
        self.waiting.push_back(job);
        self.ripe += 1;
    }

    fn resumed(&mut self, _now: Nanos, on: WorkerId, _job: JobId) {
        self.free[on.index()] = false;
    }

    fn decide(&mut self, now: Nanos) -> Decision {
        if self.period.is_some() && !self.waiting.is_empty() && now.0 >= self.ends {
            self.ripe = self.waiting.len();
        }
        let free = self.free.iter().position(|free| *free);
        let (Some(free), true) = (free, self.ripe > 0) else { return Decision::Idle };
        let Some(job) = self.waiting.pop_front() else { return Decision::Idle };
        self.ripe -= 1;
        self.free[free] = false;
        Decision::Run { job, on: WorkerId(free as u16), quantum: None }
    }

    fn wants_place(&self, _now: Nanos, _on: WorkerId) -> bool {
        false
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        (self.ripe == 0 && !self.waiting.is_empty()).then_some(Nanos(self.ends))
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn evict(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }

    fn adopt(&mut self, _now: Nanos, on: WorkerId, _job: Job) {
        self.free[on.index()] = false;
    }
}

fn own(period: Option<u64>) -> Spec {
    Spec::own("queue", move |_, size| Box::new(Queue::new(size, period)))
}

#[test]
fn what_it_decides_happens() {
    let (fcfs, own) = (Config::ideal(spec("fcfs", None), 4, 7), Config::ideal(own(None), 4, 7));
    let figures = |config: &Config| {
        let out = simulate(config, &mix("high-bimodal"), 0.8, 20_000);
        (out.recorder.overall().sojourn.mean(), out.completed, out.events)
    };
    assert_eq!(figures(&own), figures(&fcfs));
}

/// Times at which it wants to be asked are kept to the nanosecond, whatever else happens.
#[test]
fn it_is_asked_when_it_wants_to_be() {
    let config = Config::ideal(own(Some(1_000)), 1, 0);
    let requests = [(100, 50), (900, 50), (2_300, 700), (2_900, 50)];
    let requests = requests.map(|(at_ns, service_ns)| Request { at_ns, class: 0, service_ns });
    let mut done = Vec::new();
    let note = |it: &Done| done.push((it.arrived_ns, it.finished_ns));
    run_observed(&config, requests.into_iter(), 1, Until::Jobs(0), note).unwrap();
    assert_eq!(done, [(100, 1_050), (900, 1_100), (2_300, 3_700), (2_900, 3_750)]);
}

#[test]
fn a_specification_without_one_is_refused() {
    let spec = Spec { own: None, ..own(None) };
    let error = Config::ideal(spec, 1, 0).validate().unwrap_err().to_string();
    assert!(error.contains("a program's own"), "{error}");
    let spec = Spec { own: own(None).own, ..spec_of("fcfs") };
    assert!(Config::ideal(spec, 1, 0).validate().is_err());
}

fn spec_of(name: &str) -> Spec {
    spec(name, None)
}
