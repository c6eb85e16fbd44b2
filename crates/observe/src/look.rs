//! A look at a server, and what happened since the look before.

use crate::shown::Shown;
use curtail::{ClassStats, Refusal, RequestState, RequestStats, StallPlace, Stats};
use curtail_report::{
    Counted, Live, LiveClass, LiveRequest, LiveStall, LiveWorker, Quantiles, Refused, SCHEMA, Ticks,
};
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// What was counted up to a moment.
pub(crate) struct Look {
    shown: Arc<Shown>,
    at: Instant,
    stats: Stats,
    threads: HashMap<u32, Thread>,
}

/// A worker's thread, as the kernel counts.
#[derive(Clone, Copy, Default)]
struct Thread {
    core: Option<u32>,
    on_core_ns: u64,
    kept_ns: u64,
}

impl Look {
    pub(crate) fn new(shown: Arc<Shown>, stats: Stats) -> Self {
        let threads = stats.workers.iter().filter_map(|worker| thread(worker.tid?)).collect();
        Self { shown, at: Instant::now(), stats, threads }
    }

    /// What happened since `before`, if that was a look at the same.
    pub(crate) fn since(&self, before: Option<&Self>) -> Live {
        let Self { shown, at, stats, .. } = self;
        let before = before.filter(|before| Arc::ptr_eq(&before.shown, shown));
        let since = before.map_or(shown.start, |before| before.at);
        let recent_s = at.duration_since(since).as_secs_f64();
        let earlier: Vec<_> = before.into_iter().flat_map(|before| rows(&before.stats)).collect();
        let class = |(index, class)| live_class(class, earlier.get(index).copied());
        Live {
            schema: SCHEMA,
            verb: "top".to_owned(),
            pid: std::process::id(),
            app: shown.name.clone(),
            listen: shown.listen.clone(),
            uptime_s: at.duration_since(shown.start).as_secs_f64(),
            recent_s,
            policy: stats.policy.clone(),
            quantum_ns: stats.quantum.map(|quantum| quantum.0),
            preempt: stats.preempt.to_string(),
            preempt_note: stats.preempt_note.clone(),
            decided: stats.decided.clone(),
            in_system: stats.in_system as u64,
            waiting: stats.waiting as u64,
            malformed: stats.malformed,
            unsent: stats.unsent,
            preemptions: stats.preemptions,
            ticks: ticks(&stats.ticks),
            classes: rows(stats).enumerate().map(class).collect(),
            workers: self.workers(before, recent_s),
            allocator: None,
            requests: stats.oldest.iter().map(|request| self.request(request)).collect(),
            stalls: stats.stalls.iter().map(live_stall).collect(),
            transports: stats.transports.iter().map(|&(name, n)| (name.to_owned(), n)).collect(),
        }
    }

    fn request(&self, request: &RequestStats) -> LiveRequest {
        let class = self.stats.classes.get(usize::from(request.class.0));
        LiveRequest {
            class: class.unwrap_or(&self.stats.unknown).name.clone(),
            age_ns: request.age.0,
            attained_ns: request.attained.0,
            state: match request.state {
                RequestState::Waiting => "waiting".to_owned(),
                RequestState::On(worker) => format!("on {worker}"),
                RequestState::Blocked(worker) => format!("blocked on {worker}"),
            },
        }
    }

    fn workers(&self, before: Option<&Self>, recent_s: f64) -> Vec<LiveWorker> {
        let share = |now: u64, before: u64| {
            (recent_s > 0.0).then(|| now.saturating_sub(before) as f64 / 1e9 / recent_s)
        };
        let look = |now: &curtail::WorkerStats| {
            let number = now.worker.0;
            let mut earlier = before.into_iter().flat_map(|before| &before.stats.workers);
            let was = earlier.find(|was| was.worker == now.worker);
            let thread = now.tid.and_then(|tid| self.threads.get(&tid));
            let earlier = before.and_then(|before| before.threads.get(&now.tid?).copied());
            let earlier = earlier.unwrap_or_default();
            LiveWorker {
                worker: number,
                core: thread.and_then(|thread| thread.core).filter(|_| now.has_core),
                holds: now.holds as u64,
                preemptions: now.preemptions,
                recent_preemptions: now.preemptions - was.map_or(0, |was| was.preemptions),
                cpu_share: thread.and_then(|now| share(now.on_core_ns, earlier.on_core_ns)),
                kept_share: thread.and_then(|now| share(now.kept_ns, earlier.kept_ns)),
            }
        };
        self.stats.workers.iter().map(look).collect()
    }
}

/// All classes, and requests of none of them.
fn rows(stats: &Stats) -> impl Iterator<Item = &ClassStats> {
    stats.classes.iter().chain([&stats.unknown])
}

fn live_class(now: &ClassStats, before: Option<&ClassStats>) -> LiveClass {
    let total = counted(now);
    let recent = before.map_or(total, |before| {
        let less = |now: &Histogram<u64>, before: &Histogram<u64>| {
            let mut less = now.clone();
            // What was counted stays counted, so there is always something to take it from.
            let _ = less.subtract(before);
            histogram_quantiles(&less)
        };
        Counted {
            completed: now.completed - before.completed,
            failed: now.failed - before.failed,
            dropped: now.dropped - before.dropped,
            sojourn_ns: less(&now.sojourn_ns, &before.sojourn_ns),
            queueing_ns: less(&now.queueing_ns, &before.queueing_ns),
            service_ns: less(&now.service_ns, &before.service_ns),
        }
    });
    LiveClass { name: now.name.clone(), total, recent }
}

fn counted(class: &ClassStats) -> Counted {
    Counted {
        completed: class.completed,
        failed: class.failed,
        dropped: class.dropped,
        sojourn_ns: histogram_quantiles(&class.sojourn_ns),
        queueing_ns: histogram_quantiles(&class.queueing_ns),
        service_ns: histogram_quantiles(&class.service_ns),
    }
}

fn live_stall(place: &StallPlace) -> LiveStall {
    LiveStall {
        function: place.function.clone(),
        count: place.count,
        longest_ns: place.longest.as_nanos() as u64,
        stack: place.stack.clone(),
    }
}

/// The figures of a histogram; `None` where nothing was counted.
fn histogram_quantiles(of: &Histogram<u64>) -> Option<Quantiles> {
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

/// What became of the signals that pre-empt; `None` where there was none.
#[must_use]
pub fn ticks(of: &curtail::Ticks) -> Option<Ticks> {
    let refused = |why: Refusal| of.refused[why as usize];
    (of.received > 0).then(|| Ticks {
        received: of.received,
        taken: of.taken,
        early: of.early,
        refused: Refused {
            critical: refused(Refusal::Critical),
            library: refused(Refusal::Library),
            runtime: refused(Refusal::Runtime),
            stack: refused(Refusal::Stack),
            registers: refused(Refusal::Registers),
        },
    })
}

/// A thread of this process, with its number. What the kernel does not tell is left out.
fn thread(tid: u32) -> Option<(u32, Thread)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok();
    let (on_core_ns, kept_ns) = schedstat(&read("schedstat")?)?;
    Some((tid, Thread { core: read("stat").and_then(|stat| core(&stat)), on_core_ns, kept_ns }))
}

/// Of "time on a core, time waiting for one, time slices", in nanoseconds.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut figures = text.split_whitespace().map(str::parse);
    Some((figures.next()?.ok()?, figures.next()?.ok()?))
}

/// The 39th field of proc(5)'s `stat`. The second one is a name in parentheses, which may contain
/// anything.
fn core(text: &str) -> Option<u32> {
    text.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert_eq!(schedstat("7 1500 3\n"), Some((7, 1_500)));
        assert_eq!(schedstat("7"), None);
        let after: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(core(&format!("12 (a) b) {}\n", after.join(" "))), Some(39));
        assert_eq!(core("12 (a) R 1"), None);
        assert_eq!(core(""), None);
    }

    #[test]
    fn recent_is_what_came_since() {
        let histogram = |values: &[u64]| {
            let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2).unwrap();
            values.iter().for_each(|&value| histogram.record(value).unwrap());
            histogram
        };
        let class = |completed, values: &[u64]| ClassStats {
            name: "a".to_owned(),
            completed,
            failed: 0,
            dropped: 1,
            orphaned: 0,
            cancelled_queued: 0,
            cancelled_running: 0,
            abandoned: 0,
            sojourn_ns: histogram(values),
            queueing_ns: histogram(&[]),
            service_ns: histogram(values),
        };
        let live = live_class(&class(3, &[1_000, 1_000, 9]), Some(&class(2, &[1_000, 1_000])));
        assert_eq!((live.total.completed, live.total.dropped), (3, 1));
        assert_eq!((live.recent.completed, live.recent.dropped), (1, 0));
        let times = live.recent.sojourn_ns.unwrap();
        assert_eq!((times.p50, times.max), (9, 9));
        assert_eq!(live.recent.queueing_ns, None);
        let first = live_class(&class(3, &[5, 5, 5]), None);
        assert_eq!(first.recent, first.total);
    }
}
