//! The report that a server leaves: what dispatcher and workers counted, put together.

use crate::dispatcher::Dispatcher;
use crate::engine::{Counts, GAP_NS};
use crate::stats::{Cpu, Noise, Report, split};
use crate::worker::WorkerReport;

pub(crate) fn make(
    dispatcher: Dispatcher,
    workers: Vec<WorkerReport>,
    own: Counts,
    watched_cycles: u64,
    notes: Vec<String>,
) -> Report {
    let unsent = dispatcher.unsent();
    let decided = dispatcher.decided();
    let tally = &dispatcher.tally;
    let total: u64 = workers.iter().map(|worker| worker.total_cycles).sum();
    let counts = || workers.iter().map(|worker| &worker.counts).chain([&own]);
    let gaps = tally.gaps + counts().map(|counts| counts.gaps).sum::<u64>();
    let lost = tally.gap_cycles + counts().map(|counts| counts.gap_cycles).sum::<u64>();
    let mut late_ns = Counts::default().late_ns;
    for counts in counts() {
        late_ns.add(&counts.late_ns).expect("same bounds");
    }
    let abandoned = dispatcher.jobs.len();
    let ticks = dispatcher.ticks();
    let (classes, unknown) = split(dispatcher.set.classes);
    Report {
        cpu: cpu(&workers, total),
        noise: Noise {
            gap_threshold_ns: GAP_NS,
            gaps,
            lost_share: share(lost, total + watched_cycles),
        },
        preemptions: counts().map(|counts| counts.preemptions).sum(),
        late_ns,
        ticks,
        policy: dispatcher.set.spec.name.clone(),
        preempt: dispatcher.set.choice.effective,
        preempt_note: dispatcher.set.choice.note.clone(),
        quantum: dispatcher.set.spec.quantum,
        workers: workers.len(),
        malformed: tally.malformed,
        unsent,
        abandoned,
        classes,
        unknown,
        decided,
        notes,
    }
}

fn cpu(workers: &[WorkerReport], total: u64) -> Cpu {
    let in_handlers = |counts: &Counts| counts.run_cycles.saturating_sub(counts.overhead_cycles);
    let app = share(workers.iter().map(|worker| in_handlers(&worker.counts)).sum(), total);
    let idle = share(workers.iter().map(|worker| worker.idle_cycles).sum(), total);
    let busy_s = workers.iter().map(|worker| worker.busy.as_secs_f64()).sum();
    Cpu { app, idle, switch: (1.0 - app - idle).max(0.0), busy_s }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
