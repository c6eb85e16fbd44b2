//! What the policies themselves cost: nanoseconds for a job (complete, arrive, decide until there
//! is nothing to do) and for a quantum (wants_place, yielded, decide until there is nothing to do
//! where there is a central queue; pick, ready where there is none), with every place taken and one
//! job a worker waiting, of four classes with hints.
//!
//! Each figure is the least of several short runs, because other load on the machine only ever
//! adds. One thread, warm caches, and the worker whose job leaves is random.
//!
//! `cargo run --release -p curtail-policy --example decision_cost`

use curtail_policy::*;
use std::hint::black_box;
use std::time::Instant;

const RUNS: u32 = 15;
const ROUNDS: u32 = 20_000;
const NOW: Nanos = Nanos::ZERO;
const CLASSES: u64 = 4;

/// A policy with every place taken and some jobs waiting.
struct Bench {
    policy: AnyPolicy,
    core: AnyCore,
    two_level: bool,
    /// On workers.
    placed: Vec<(Job, WorkerId)>,
    draws: u64,
    free: Vec<u32>,
}

impl Bench {
    /// `waits`: where each worker's waiting job may run.
    fn new(spec: &Spec, workers: usize, waits: fn(WorkerId) -> Option<WorkerId>) -> Self {
        let places = if spec.is_two_level() { 2 } else { usize::from(spec.jbsq) } * workers;
        let jobs = places + workers + 1;
        let mut bench = Self {
            policy: spec.build(workers, jobs, 1),
            core: spec.build_core(jobs),
            two_level: spec.is_two_level(),
            placed: Vec::with_capacity(jobs),
            draws: 1,
            free: (0..jobs as u32).rev().collect(),
        };
        for _ in 0..places {
            bench.arrive(None);
        }
        bench.decide();
        let waiting = if bench.two_level { 0 } else { workers };
        for worker in 0..waiting {
            bench.arrive(waits(WorkerId(worker as u16)));
        }
        for id in 0..workers.min(16) {
            bench.core.ready(NOW, Job::new(JobId(id as u32), ClassId(0), NOW));
        }
        bench
    }

    /// Below `n`.
    fn draw(&mut self, n: u64) -> u64 {
        self.draws = self.draws.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        ((u128::from(self.draws) * u128::from(n)) >> 64) as u64
    }

    fn arrive(&mut self, pinned: Option<WorkerId>) {
        let id = self.free.pop().expect("fewer jobs than slots");
        let class = self.draw(CLASSES);
        let hint = Some(Nanos(1_000 << class));
        let job = Job::new(JobId(id), ClassId(class as u16), NOW);
        self.policy.arrive(NOW, Job { pinned, hint, ..job }).expect("there is a slot");
    }

    fn decide(&mut self) {
        loop {
            match black_box(self.policy.decide(NOW)) {
                Decision::Run { job, on, .. } => self.placed.push((job, on)),
                Decision::Preempt { .. } => {}
                Decision::Idle => return,
            }
        }
    }

    /// Any of those on workers, so that the branches are as hard to predict as in service.
    fn leave(&mut self) -> (Job, WorkerId) {
        let nth = self.draw(self.placed.len() as u64);
        self.placed.swap_remove(nth as usize)
    }

    /// One job completes, another arrives, and the place is filled, where that is allowed.
    fn job(&mut self) {
        let (job, on) = self.leave();
        self.policy.completed(NOW, on, job.id, job.hint.unwrap_or(NOW));
        self.free.push(job.id.0);
        self.arrive(None);
        self.decide();
    }

    /// One quantum ends, and the first in the order has the place.
    fn quantum(&mut self) {
        if self.two_level {
            let (mut job, quantum) = self.core.pick(NOW).expect("jobs are ready");
            job.attained += quantum.unwrap_or(Nanos(1));
            return self.core.ready(NOW, black_box(job));
        }
        let (job, on) = self.leave();
        if !black_box(self.policy.wants_place(NOW, on)) {
            self.policy.renewed(NOW, on);
            return self.placed.push((job, on));
        }
        let attained = job.attained + Nanos(1);
        self.policy.yielded(NOW, on, Job { attained, pinned: Some(on), ..job });
        self.decide();
    }

    /// Nanoseconds for one `step`.
    fn cost(&mut self, step: impl Fn(&mut Self)) -> f64 {
        let runs = (0..RUNS).map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| step(self));
            start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
        });
        runs.fold(f64::INFINITY, f64::min)
    }
}

fn preset(name: &str) -> Spec {
    Spec::preset(name).expect("it is in the catalogue")
}

fn main() -> Result<(), SpecError> {
    let mut rows: Vec<_> = dispatched().map(|e| (e.name.to_owned(), preset(e.name))).collect();
    for ties in [Ties::Random, Ties::PowerOfTwo] {
        rows.push((format!("tq --ties {ties}"), preset("tq").with_ties(ties)?));
    }
    for core in [CoreKind::Fcfs, CoreKind::Las] {
        rows.push((format!("tq --core {core}"), preset("tq").with_core(core)?));
    }
    rows.push(("steal --victim longest".to_owned(), preset("steal").with_victim(Victim::Longest)?));
    for name in ["fp", "edf"] {
        rows.push((format!("{name} --preemptive"), preset(name).with_preemptive(true)?));
    }
    rows.push(("shinjuku --jbsq 1000".to_owned(), preset("shinjuku").with_jbsq(1_000)?));
    println!("{:<24} {:>8} {:>12} {:>14}", "policy", "workers", "ns per job", "ns per quantum");
    for (name, mut spec) in rows {
        for (class, (ns, occurrence)) in
            (0..CLASSES as usize).map(|class| (class, (1_000 << class, 1)))
        {
            let plan = spec.plan_mut(class);
            (plan.service, plan.occurrence) = (Some(Nanos(ns)), Some(occurrence));
        }
        for workers in [1, 16, 256] {
            let job = Bench::new(&spec, workers, |_| None).cost(Bench::job);
            let quantum = match spec.shares() {
                // A job that has started is pinned.
                true => format!("{:.1}", Bench::new(&spec, workers, Some).cost(Bench::quantum)),
                false => "–".to_owned(),
            };
            println!("{name:<24} {workers:>8} {job:>12.1} {quantum:>14}");
        }
    }
    Ok(())
}
