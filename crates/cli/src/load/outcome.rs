//! From what a client saw to a result, and whether that may be trusted.

use super::client::Tally;
use crate::args::Point;
use crate::result::{self, Slowdowns};
use curtail::clock::Clock;
use curtail_report::{Machine, Run};
use curtail_workload::{Mix, format_duration};

/// The client's side of a result; who serves, and how, is for the caller to fill in.
pub(crate) fn result(mix: &Mix, point: Point, tally: &Tally) -> Run {
    let names: Vec<String> = mix.classes().iter().map(|class| class.name.clone()).collect();
    let window_ns = tally.window_ns;
    let mut run = Run {
        offered_rps: point.rate_rps,
        load: point.load,
        duration_s: window_ns as f64 / 1e9,
        offered: tally.offered,
        machine: Machine { tsc_hz: Some(Clock::get().hz as u64), ..Machine::gather() },
        ..Run::default()
    };
    let slowdowns = if tally.unknown_service { Slowdowns::Unknown } else { Slowdowns::Known };
    // A request without an answer counts as refused, wherever it was lost.
    let gone: Vec<u64> = tally.overloaded.iter().zip(&tally.lost).map(|(a, b)| a + b).collect();
    result::fill(&mut run, &tally.recorder, &names, &gone, slowdowns);
    let took_ns = window_ns.max(tally.last_answer_ns);
    run.achieved_rps = run.completed as f64 * 1e9 / took_ns as f64;
    run
}

/// What became of the requests, in a line.
pub(crate) fn told(tally: &Tally) -> String {
    let late = |p| curtail_report::duration(tally.lateness_ns.value_at_percentile(p) as f64);
    format!(
        "sent {} of {} in time (late: p50 {}, p99 {}), {} overloaded, {} unanswered, {} failed",
        tally.sent_in_time,
        tally.offered,
        late(50.0),
        late(99.0),
        tally.overloaded.iter().sum::<u64>(),
        tally.lost.iter().sum::<u64>(),
        tally.failed,
    )
}

/// Marks the run as not valid where the client did not offer what it was to offer, or in time.
pub(crate) fn judge(run: &mut Run, tally: &Tally, max_lateness_ns: u64) {
    let lateness = tally.lateness_ns.value_at_percentile(99.0);
    // Losing pace: by the end of the schedule, one request in a hundred was still unsent.
    if (tally.sent_in_time as f64) < 0.99 * tally.offered as f64 {
        run.invalidate(&format!(
            "the client fell behind: {} of {} requests were sent by the end of the schedule",
            tally.sent_in_time, tally.offered
        ));
    }
    if lateness > max_lateness_ns {
        run.invalidate(&format!(
            "the client was late: one request in a hundred was sent {} or more after its time \
             (allowed: {})",
            curtail_report::duration(lateness as f64),
            format_duration(max_lateness_ns)
        ));
    }
    if tally.failed > 0 {
        run.invalidate(&format!("{} requests failed at the server", tally.failed));
    }
    if run.completed == 0 {
        run.invalidate("no request was answered after the warm-up");
    }
}
