//! The report that a server leaves: what dispatcher and workers counted, put together.

use crate::dispatcher::Dispatcher;
use crate::engine::Counts;
use crate::server::WorkerReports;
use crate::stats::{Cpu, Noise, Report, Stats, add_counts, split};
use curtail_policy::Spec;
use curtail_rt::clock::GAP_NS;
use curtail_rt::thread::{GapCounts, KthreadReport};

/// One dispatcher's part of it.
pub(crate) struct Part {
    report: Report,
    /// Of the workers' time, and of that of all watched cores (TSC): what shares are of.
    total_cycles: u64,
    watched_cycles: u64,
}

impl Part {
    pub(crate) fn new(
        dispatcher: Dispatcher,
        workers: WorkerReports,
        own: Counts,
        watched_cycles: u64,
        notes: Vec<String>,
    ) -> Self {
        let (unsent, gaps) = (dispatcher.base.unsent(), dispatcher.base.kthread.gaps());
        let decided = dispatcher.decided();
        let total = total_cycles(&workers.lives);
        let counts = || workers.counts.iter().chain([&own]);
        let in_handlers =
            |counts: &Counts| counts.run_cycles.saturating_sub(counts.overhead_cycles);
        let app_cycles = workers.counts.iter().map(in_handlers).sum();
        let mut late_ns = Counts::default().late_ns;
        for counts in counts() {
            late_ns.add(&counts.late_ns).expect("same bounds");
        }
        let abandoned = dispatcher.in_system();
        let ticks = dispatcher.ticks();
        let Spec { name, quantum, .. } = dispatcher.sched.setup().spec.clone();
        let (classes, unknown) = split(dispatcher.base.entry.classes);
        let watched_cycles = total + watched_cycles;
        let report = Report {
            cpu: cpu(&workers.lives, app_cycles),
            noise: noise(&workers.lives, gaps, watched_cycles),
            preemptions: counts().map(|counts| counts.preemptions).sum(),
            late_ns,
            ticks,
            policy: name,
            preempt: dispatcher.base.config.choice.effective,
            preempt_note: dispatcher.base.config.choice.note.clone(),
            quantum,
            workers: dispatcher.sched.setup().workers,
            malformed: dispatcher.base.entry.malformed,
            unsent,
            abandoned,
            classes,
            unknown,
            decided,
            notes,
        };
        Self { report, total_cycles: total, watched_cycles }
    }

    fn add(&mut self, more: Self) {
        let weighted = |(a, of_a): (f64, u64), (b, of_b): (f64, u64)| match of_a + of_b {
            0 => 0.0,
            all => (a * of_a as f64 + b * of_b as f64) / all as f64,
        };
        let (all, part) = (&mut self.report, more.report);
        let of = (self.total_cycles, more.total_cycles);
        all.cpu = Cpu {
            app: weighted((all.cpu.app, of.0), (part.cpu.app, of.1)),
            switch: weighted((all.cpu.switch, of.0), (part.cpu.switch, of.1)),
            idle: weighted((all.cpu.idle, of.0), (part.cpu.idle, of.1)),
            busy_s: all.cpu.busy_s + part.cpu.busy_s,
        };
        let lost = (all.noise.lost_share, self.watched_cycles);
        all.noise.lost_share = weighted(lost, (part.noise.lost_share, more.watched_cycles));
        all.noise.gaps += part.noise.gaps;
        all.preemptions += part.preemptions;
        all.late_ns.add(&part.late_ns).expect("same bounds");
        all.ticks.add(&part.ticks);
        all.workers += part.workers;
        all.malformed += part.malformed;
        all.unsent += part.unsent;
        all.abandoned += part.abandoned;
        all.unknown.add(&part.unknown);
        all.classes.iter_mut().zip(&part.classes).for_each(|(all, part)| all.add(part));
        all.decided = both(all.decided.take(), part.decided);
        for note in part.notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
        self.total_cycles += more.total_cycles;
        self.watched_cycles += more.watched_cycles;
    }
}

/// What one dispatcher decided, and what the next did, as one line.
fn both(one: Option<String>, next: Option<String>) -> Option<String> {
    match (one, next) {
        (Some(one), Some(next)) => Some(format!("{one} | {next}")),
        (one, next) => one.or(next),
    }
}

/// All dispatchers' parts, the first one's first; there is one.
pub(crate) fn merge(parts: Vec<Part>) -> Report {
    let all = parts.into_iter().reduce(|mut all, part| {
        all.add(part);
        all
    });
    all.expect("a server has a dispatcher").report
}

/// Merges looks at running dispatchers.
pub(crate) fn merge_stats(parts: Vec<Stats>) -> Stats {
    let all = parts.into_iter().reduce(|mut all, part| {
        all.classes.iter_mut().zip(&part.classes).for_each(|(all, part)| all.add(part));
        all.unknown.add(&part.unknown);
        all.decided = both(all.decided.take(), part.decided);
        all.malformed += part.malformed;
        all.in_system += part.in_system;
        all.waiting += part.waiting;
        all.preemptions += part.preemptions;
        all.workers.extend(part.workers);
        all.ticks.add(&part.ticks);
        all.oldest.extend(part.oldest);
        all.unsent += part.unsent;
        add_counts(&mut all.transports, part.transports);
        all
    });
    all.expect("a server has a dispatcher")
}

/// `app_cycles`: in handlers.
pub(crate) fn cpu(kthreads: &[KthreadReport], app_cycles: u64) -> Cpu {
    let total = total_cycles(kthreads);
    let app = share(app_cycles, total);
    let idle = share(kthreads.iter().map(|kthread| kthread.idle_cycles).sum(), total);
    let busy_s = kthreads.iter().map(|kthread| kthread.busy.as_secs_f64()).sum();
    Cpu { app, idle, switch: (1.0 - app - idle).max(0.0), busy_s }
}

/// `own`: the gaps of the thread that polls the transports; `watched_cycles`: of all threads.
pub(crate) fn noise(kthreads: &[KthreadReport], own: GapCounts, watched_cycles: u64) -> Noise {
    let all = || kthreads.iter().map(|kthread| kthread.gaps).chain([own]);
    Noise {
        gap_threshold_ns: GAP_NS,
        gaps: all().map(|gaps| gaps.gaps).sum(),
        lost_share: share(all().map(|gaps| gaps.cycles).sum(), watched_cycles),
    }
}

pub(crate) fn total_cycles(kthreads: &[KthreadReport]) -> u64 {
    kthreads.iter().map(|kthread| kthread.total_cycles).sum()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
