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

/// How often each status came.
fn by_status(seen: &Seen) -> String {
    let all = seen.statuses.all().iter();
    all.map(|(name, count)| format!("{name}: {count}")).collect::<Vec<_>>().join(", ")
}

/// What became of the requests, in a line.
#[must_use]
pub fn told(seen: &Seen) -> String {
    let tally = &seen.tally;
    let statuses = by_status(seen);
    let answers = if statuses.is_empty() { "" } else { "; answers " };
    let late = |p| curtail_report::duration(seen.lateness.percentile_ns(p) as f64);
    let waited = match seen.waited {
        0 => String::new(),
        waited => format!("; {waited} waited for a connection: give more --connections"),
    };
    format!(
        "sent {} of {} by the end of the schedule, late by {} (p50) and {} (p99), {} overloaded, {} unanswered, {} failed{answers}{}{waited}",
        seen.sent_in_time,
        tally.offered,
        late(50.0),
        late(99.0),
        tally.refused.iter().sum::<u64>(),
        tally.lost(),
        tally.failed,
        statuses,
    )
}

/// Marks the run as not valid where the client did not offer what it was to offer, or in time, or more than
/// the server could do: its queue grew, so that times are of the run's length.
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
             (allowed: {}), so the times are the client's as well as the server's; --max-lateness \
             allows more",
            curtail_report::duration(lateness as f64),
            format_duration(max_lateness_ns)
        ));
    }
    if let Some((over, growth)) = seen.growth() {
        run.invalidate(&format!(
            "the server is saturated: it went on for {:.0}% of the time after that, and requests of the \
             last quarter took {growth:.1} times as long as those of the first",
            100.0 * over
        ));
    }
    if tally.failed > 0 {
        let by_status = by_status(seen);
        let by_status =
            if by_status.is_empty() { by_status } else { format!(" (answers {by_status})") };
        run.invalidate(&format!("{} requests failed at the server{by_status}", tally.failed));
    }
    run.judge_drops();
    if run.completed == 0 {
        run.invalidate("no request was answered after the warm-up");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::flight::Sent;
    use crate::client::{Outcome, Plan};
    use curtail_workload::{Arrivals, Class, Requests, Service, Until};

    const SECOND: u64 = 1_000_000_000;

    /// What a client sees in a second of a request each millisecond, which take what `sojourn_ns` says
    /// of when they are due.
    fn judged(sojourn_ns: impl Fn(u64) -> u64) -> Run {
        let service = Service::Constant(1_000);
        let class = Class { name: "all".to_owned(), share: 1.0, service };
        let mix = Mix::new(vec![class]).unwrap();
        let requests = Requests::new(&mix, Arrivals::Poisson, 1_000.0, 1, Until::Time(SECOND));
        let mut seen = Seen::new(&Plan {
            requests,
            services: vec![1_000],
            seed: 1,
            duration_ns: SECOND,
            warmup_ns: 0,
            timeout_ns: SECOND,
            spin: false,
        });
        for due_ns in (0..SECOND).step_by(1_000_000) {
            seen.tally.offered += 1;
            seen.sent_in_time += 1;
            seen.lateness.record(due_ns, due_ns);
            let sent = Sent { due_ns, class: 0, counts: true, service_ns: 1_000 };
            seen.answered(sent, Outcome::Done, due_ns + sojourn_ns(due_ns));
        }
        let mut run = result(&mix, &seen);
        judge(&mut run, &seen, SECOND);
        run
    }

    #[test]
    fn a_queue_that_grows_is_saturated() {
        let run = judged(|due_ns| due_ns / 4);
        let reason = run.invalid_reason.unwrap();
        assert!(reason.starts_with("the server is saturated: it went on for 25% of"), "{reason}");
        assert!(reason.contains("took 7.0 times as long"), "{reason}");
    }

    #[test]
    fn what_is_only_slow_is_not() {
        // Each takes a quarter of the run; the machine stalls at its end; and all wait for one that is long.
        assert!(judged(|_| SECOND / 4).valid);
        assert!(judged(|due_ns| (SECOND + 20_000_000).saturating_sub(due_ns).min(1_000)).valid);
        assert!(judged(|due_ns| if due_ns > SECOND / 2 { SECOND - due_ns } else { 1_000 }).valid);
    }
}
