//! Runs to show: a sweep of two policies, one point of which is not to be trusted.

use curtail_report::{Class, Machine, Noise, Quantiles, Run, Slowdown, Undisturbed};

fn class(name: &str, service: f64, p99: u64) -> Class {
    let q = Quantiles { p50: p99 / 4, p90: p99 / 2, p99, p99_9: p99 * 3, max: p99 * 4, mean: 1.5 };
    let s = |ns: u64| ns as f64 / service;
    let slowdown =
        Slowdown { p50: s(q.p50), p99: s(q.p99), p99_9: s(q.p99_9), max: s(q.max), mean: 1.5 };
    Class {
        name: name.into(),
        count: 1_000,
        service_ns_mean: service,
        sojourn_ns: Some(q),
        slowdown: Some(slowdown),
        dropped: None,
    }
}

/// One run.
pub(crate) fn run(policy: &str, quantum_ns: Option<u64>, load: f64, p99: u64) -> Run {
    let short = class("short", 500.0, p99);
    Run {
        verb: "bench".into(),
        policy: policy.into(),
        preempt: if quantum_ns.is_some() { "clock".into() } else { "never".into() },
        quantum_ns,
        workers: Some(1),
        workload: "extreme-bimodal".into(),
        offered_rps: load * 333_000.0,
        achieved_rps: load * 333_000.0,
        load: Some(load),
        duration_s: 10.0,
        offered: 1_000_000,
        completed: 1_000_000,
        sojourn_ns: short.sojourn_ns,
        slowdown: short.slowdown,
        classes: vec![short, class("long", 500_000.0, p99 / 2 + 600_000)],
        preemptions: if quantum_ns.is_some() { 1_234_567 } else { 0 },
        machine: Machine { cpu: Some("Test CPU".into()), cores: Some(2), ..Machine::default() },
        ..Run::default()
    }
}

/// Two policies at three loads.
pub(crate) fn sweep() -> Vec<Run> {
    let mut runs = vec![
        run("fcfs", None, 0.3, 1_047_000),
        run("fcfs", None, 0.5, 1_641_000),
        run("fcfs", None, 0.7, 2_854_000),
        run("tq", Some(2_000), 0.3, 6_400),
        run("tq", Some(2_000), 0.5, 11_000),
        run("tq", Some(2_000), 0.7, 21_000),
    ];
    runs[2].invalidate("the generator fell behind");
    runs[2].dropped = 500;
    runs[5].noise =
        Noise { gap_threshold_ns: 5_000, gaps: 12, lost_share: 0.001, disturbed_share: 0.02 };
    runs[5].undisturbed = Undisturbed {
        sojourn_ns: runs[5].sojourn_ns,
        slowdown: runs[5].slowdown,
        classes: vec![class("short", 500.0, 19_000)],
    };
    runs
}
