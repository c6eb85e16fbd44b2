//! What the machine takes away: gaps in the time-stamp counter while a thread does nothing but
//! read it.

use super::Finding;
use curtail::clock::{self, Clock};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::Duration;

/// How long each core is watched.
const WATCH: Duration = Duration::from_millis(100);
/// Shorter gaps are the reading itself.
const GAP_NS: u64 = 5_000;

/// Watches every allowed core in turn.
pub(super) fn measure() -> Finding {
    let cores = curtail::allowed_cores();
    let watched = cores.iter().filter_map(|&core| {
        // A thread of its own, so that this one's affinity stays as it was.
        std::thread::spawn(move || watch(core)).join().ok().flatten()
    });
    let (mut gaps, mut lost_ns, mut longest_ns, mut count) = (0, 0, 0, 0u64);
    for core in watched {
        gaps += core.gaps;
        lost_ns += core.lost_ns;
        longest_ns = longest_ns.max(core.longest_ns);
        count += 1;
    }
    let total_ns = count * WATCH.as_nanos() as u64;
    if total_ns == 0 {
        let used = "runs report their own gaps";
        return Finding::poor("noise", "no core could be watched", used, "");
    }
    let here = format!(
        "{gaps} gaps above 5us in {count} × 100ms, longest {}, {:.2}% lost",
        curtail_report::duration(longest_ns as f64),
        lost_ns as f64 * 100.0 / total_ns as f64
    );
    let used = "counted in every run; figures without disturbed requests stand beside the others";
    if lost_ns * 1_000 < total_ns && longest_ns < 100_000 {
        return Finding::good("noise", here, used);
    }
    let better =
        "an idle machine with isolated cores (isolcpus, nohz_full), not shared with others";
    Finding::poor("noise", here, used, better)
}

#[derive(Default)]
struct Watched {
    gaps: u64,
    lost_ns: u64,
    longest_ns: u64,
}

fn watch(core: usize) -> Option<Watched> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).ok()?;
    let clock = Clock::get();
    let threshold = clock.cycles(GAP_NS);
    let mut watched = Watched::default();
    let mut last = clock::now();
    let end = last + clock.cycles(WATCH.as_nanos() as u64);
    while last < end {
        let now = clock::now();
        let gap = now.saturating_sub(last);
        if gap > threshold {
            let ns = clock.ns(gap);
            watched.gaps += 1;
            watched.lost_ns += ns;
            watched.longest_ns = watched.longest_ns.max(ns);
        }
        last = now;
    }
    Some(watched)
}
