//! From what the runtime says of a run to the result's JSON.

use curtail::Report;
use curtail::clock::Clock;
use curtail_report::{Cpu, Lateness, Machine, Quantiles, Run};
use hdrhistogram::Histogram;

/// Quantiles of times in a plain histogram; `None` of no times.
#[must_use]
pub fn histogram_quantiles(of: &Histogram<u64>) -> Option<Quantiles> {
    let ns = |p| of.value_at_percentile(p);
    (!of.is_empty()).then(|| Quantiles {
        p50: ns(50.0),
        p90: ns(90.0),
        p99: ns(99.0),
        p99_9: ns(99.9),
        max: of.max(),
        mean: of.mean(),
    })
}

/// How late pre-emptions came; `None` where there was none.
fn lateness(of: &Histogram<u64>) -> Option<Lateness> {
    let ns = |p| of.value_at_percentile(p);
    (!of.is_empty()).then(|| Lateness { p50: ns(50.0), p99: ns(99.0), max: of.max() })
}

/// What the runtime says of a run: how it was scheduled, pre-empted and disturbed, and on what.
pub fn fill_runtime(run: &mut Run, report: &Report) {
    run.policy.clone_from(&report.policy);
    run.preempt = report.preempt.to_string();
    run.quantum_ns = report.quantum.map(|quantum| quantum.0);
    run.workers = u32::try_from(report.workers).ok();
    run.preemptions = report.preemptions;
    run.preempt_late_ns = lateness(&report.late_ns);
    run.ticks = curtail_observe::ticks(&report.ticks);
    run.decided = run.decided.take().or_else(|| report.decided.clone());
    let cpu = report.cpu;
    run.cpu =
        Some(Cpu { app: cpu.app, switch: cpu.switch, idle: cpu.idle, busy_s: Some(cpu.busy_s) });
    run.noise.gap_threshold_ns = report.noise.gap_threshold_ns;
    run.noise.gaps = report.noise.gaps;
    run.noise.lost_share = report.noise.lost_share;
    run.machine = Machine { tsc_hz: Some(Clock::get().hz as u64), ..Machine::gather() };
}
