//! One worker's or a few workers' policy, played by hand, with times of a microsecond.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use curtail_policy::*;

pub const NOW: Nanos = Nanos::ZERO;
pub const W0: WorkerId = WorkerId(0);

pub fn preset(name: &str) -> Spec {
    Spec::preset(name).unwrap()
}

pub fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

pub fn job(id: u32, class: u16) -> Job {
    Job::new(JobId(id), ClassId(class), NOW)
}

pub fn arrive(policy: &mut AnyPolicy, jobs: &[(u32, u16)]) {
    jobs.iter().for_each(|&(id, class)| policy.arrive(NOW, job(id, class)).unwrap());
}

/// All placements at `now`: which job on which worker.
pub fn all(policy: &mut AnyPolicy, now: Nanos) -> Vec<(u32, u16)> {
    let next = || match policy.decide(now) {
        Decision::Run { job, on, .. } => Some((job.id.0, on.0)),
        Decision::Idle => None,
        Decision::Preempt { on } => panic!("{on} is asked for its place"),
    };
    std::iter::from_fn(next).collect()
}

/// One worker serves what waits, each job for so long: the order.
pub fn serve(policy: &mut AnyPolicy, service: impl Fn(u32) -> Nanos) -> Vec<u32> {
    let mut order = Vec::new();
    while let [(id, 0)] = all(policy, NOW)[..] {
        order.push(id);
        policy.completed(NOW, W0, JobId(id), service(id));
    }
    order
}
