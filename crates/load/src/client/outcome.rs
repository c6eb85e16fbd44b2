//! From what a client saw to a result, and whether that may be trusted.

use super::Seen;
use crate::Slowdowns;
use curtail::clock::Clock;
use curtail_report::{Machine, Run};
use curtail_workload::{Mix, format_duration};

/// The client's side of a result; who serves, how, and at what load is for the caller to fill in.
#[must_use]
pub fn result(mix: &Mix, seen: &Seen) -> Run {
    let names: Vec<String> = mix.classes().iter().map(|class| class.name.clone()).collect();
    let machine = Machine { tsc_hz: Some(Clock::get().hz as u64), ..Machine::gather() };
    let mut run = Run { machine, ..Run::default() };
    let known = if seen.unknown_service { Slowdowns::Unknown } else { Slowdowns::Known };
    // A request without an answer counts as refused, wherever it was lost.
    seen.tally.fill(&mut run, &names, &seen.window, known);
    run.statuses = seen.statuses.all().clone();
    run
}

/// What became of the requests, in a line.
#[must_use]
pub fn told(seen: &Seen) -> String {
    let tally = &seen.tally;
    let statuses: Vec<_> =
        seen.statuses.all().iter().map(|(name, count)| format!("{name}: {count}")).collect();
    let answers = if statuses.is_empty() { "" } else { "; answers " };
    let late = |p| curtail_report::duration(seen.lateness.percentile_ns(p) as f64);
    format!(
        "sent {} of {} in time (late: p50 {}, p99 {}), {} overloaded, {} unanswered, {} failed{answers}{}",
        seen.sent_in_time,
        tally.offered,
        late(50.0),
        late(99.0),
        tally.refused.iter().sum::<u64>(),
        tally.lost(),
        tally.failed,
        statuses.join(", "),
    )
}

/// Marks the run as not valid where the client did not offer what it was to offer, or in time.
pub fn judge(run: &mut Run, seen: &Seen, max_lateness_ns: u64) {
    let (tally, lateness) = (&seen.tally, seen.lateness.percentile_ns(99.0));
    // Losing pace: by the end of the schedule, one request in a hundred was still unsent.
    if (seen.sent_in_time as f64) < 0.99 * tally.offered as f64 {
        run.invalidate(&format!(
            "the client fell behind: {} of {} requests were sent by the end of the schedule",
            seen.sent_in_time, tally.offered
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
    run.judge_drops();
    if run.completed == 0 {
        run.invalidate("no request was answered after the warm-up");
    }
}
