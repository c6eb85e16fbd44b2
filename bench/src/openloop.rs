//! The generator: requests at times fixed in advance, for every peer the same ones.

use crate::board::Board;
use crate::machine::{Cores, Pinned, Tsc, now};
use curtail_load::{Lateness, Pace, Slowdowns, fill};
use curtail_report::{Machine, Noise, Run};
use curtail_workload::{Arrivals, Recorder, Request, Requests, Until, named, spin::Calibration};
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// A hole in the counter of at least so long is a gap of the machine: the generator's loop takes a
/// hundredth of it.
const GAP_NS: u64 = 5_000;
/// A request that the generator brings later than this is late.
const LATE_NS: u64 = 10_000;
/// A run of which more than this share of requests are late does not count.
const LATE_SHARE: f64 = 0.01;

/// Requests in advance: when, which class, how much work.
#[derive(Debug)]
pub struct Plan {
    workload: String,
    classes: Vec<String>,
    requests: Vec<Request>,
    load: f64,
    rate_rps: f64,
    seconds: f64,
}

/// This machine's speed at the spin, measured once per process.
fn calibration() -> Calibration {
    static CALIBRATION: std::sync::OnceLock<Calibration> = std::sync::OnceLock::new();
    *CALIBRATION.get_or_init(Calibration::measure)
}

impl Plan {
    /// Poisson arrivals of a named workload at a share of one worker's capacity, for so long; the
    /// first tenth warms up and is not counted. The same seed gives the same requests.
    ///
    /// # Errors
    /// An unknown workload.
    pub fn new(workload: &str, load: f64, seconds: f64, seed: u64) -> Result<Self, String> {
        let mix = named(workload).map_err(|e| e.to_string())?.mix();
        let rate_rps = mix.rate_rps(load, 1);
        let until = Until::Time((seconds * 1e9) as u64);
        let requests = Requests::new(&mix, Arrivals::Poisson, rate_rps, seed, until).collect();
        let classes = mix.classes().iter().map(|class| class.name.clone()).collect();
        Ok(Self { workload: workload.to_owned(), classes, requests, load, rate_rps, seconds })
    }

    /// How long a step of the spin takes here, in nanoseconds.
    #[must_use]
    pub fn step_ns() -> f64 {
        1_000.0 / calibration().iterations_per_us()
    }

    /// A board with this plan's work on it.
    ///
    /// # Errors
    /// Where the kernel gives no memory.
    pub fn board(&self) -> std::io::Result<Board> {
        let calibration = calibration();
        Board::new(self.requests.iter().map(|request| calibration.iterations(request.service_ns)))
    }

    /// Brings the requests when they are due, on this thread, and waits for the rest.
    #[must_use]
    pub fn drive(&self, board: &Board, cores: Option<Cores>) -> Driven {
        let _pin = Pinned::to(cores.map(|cores| cores.here));
        let tsc = Tsc::get();
        let gap = tsc.cycles(GAP_NS);
        let started = now() + tsc.cycles(1_000_000);
        let mut driven = Driven { started, ..Driven::default() };
        let mut pace = Pace::new(self.requests.iter().copied(), u64::MAX);
        let mut late = Lateness::new(LATE_NS);
        let (mut last, mut published) = (now(), 0);
        while pace.due_ns().is_some() {
            let now_ns = || {
                let time = now();
                if time - last > gap {
                    driven.gaps += 1;
                    driven.lost_cycles += time - last;
                }
                last = time;
                tsc.ns(time.saturating_sub(started)) as u64
            };
            let Ok(_) = pace.send_due(now_ns, usize::MAX, |_, due_ns, now_ns| {
                late.record(due_ns, now_ns);
                published += 1;
                board.publish(published);
                Ok::<_, Infallible>(true)
            });
        }
        driven.late = late.over();
        driven.cycles = now().saturating_sub(started);
        let patience = Duration::from_secs_f64(0.5 + self.seconds / 2.0);
        await_completed(board, self.requests.len(), patience);
        driven
    }

    /// What came out, after the peer has stopped.
    #[must_use]
    pub fn outcome(&self, board: &Board, driven: &Driven) -> Run {
        let tsc = Tsc::get();
        let warm_ns = (self.seconds * 1e8) as u64;
        let mut recorder = Recorder::new(self.classes.len());
        let (mut offered, mut end) = (0u64, 0);
        for (at, request) in self.requests.iter().enumerate() {
            if request.at_ns < warm_ns {
                continue;
            }
            offered += 1;
            let Some(finished) = board.finished(at) else { continue };
            end = end.max(finished);
            let due = driven.started + tsc.cycles(request.at_ns);
            let sojourn_ns = tsc.ns(finished.saturating_sub(due)) as u64;
            recorder.record(usize::from(request.class), sojourn_ns, request.service_ns, false);
        }
        let measured_s = self.seconds * 0.9;
        let took_s = tsc.ns(end.saturating_sub(driven.started)) / 1e9 - self.seconds * 0.1;
        let mut run = Run {
            verb: "bench".to_owned(),
            workers: Some(1),
            workload: self.workload.clone(),
            offered_rps: self.rate_rps,
            load: Some(self.load),
            duration_s: measured_s,
            offered,
            noise: driven.noise(),
            machine: Machine { tsc_hz: Some(tsc.hz as u64), ..Machine::gather() },
            ..Run::default()
        };
        fill(&mut run, &recorder, &self.classes, &[], Slowdowns::Known);
        run.achieved_rps = run.completed as f64 / took_s.max(measured_s);
        self.judge(&mut run, driven);
        run
    }

    fn judge(&self, run: &mut Run, driven: &Driven) {
        let late = driven.late as f64 / self.requests.len().max(1) as f64;
        if late > LATE_SHARE {
            run.invalidate(&format!(
                "the generator brought {:.1}% of the requests more than {} µs late",
                late * 100.0,
                LATE_NS / 1_000
            ));
        }
        if run.completed < run.offered {
            let left = run.offered - run.completed;
            run.invalidate(&format!("{left} requests were not finished long after the end"));
        }
    }
}

/// What the generator saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Driven {
    /// The beginning, as TSC.
    started: u64,
    cycles: u64,
    late: u64,
    gaps: u64,
    lost_cycles: u64,
}

impl Driven {
    /// Gaps on the generator's core. The server's core cannot watch itself, so requests that a gap
    /// there overlapped are not known, and there are no undisturbed figures.
    fn noise(&self) -> Noise {
        let lost_share = self.lost_cycles as f64 / self.cycles.max(1) as f64;
        Noise { gap_threshold_ns: GAP_NS, gaps: self.gaps, lost_share, disturbed_share: 0.0 }
    }
}

/// Empty requests as fast as the peer takes them, at most `window` under way: completions a second.
///
/// # Errors
/// A peer that stands still.
pub fn saturate(board: &Board, window: usize, cores: Option<Cores>) -> Result<f64, String> {
    let _pin = Pinned::to(cores.map(|cores| cores.here));
    let slots = board.slots();
    let start = Instant::now();
    let (mut published, mut idle) = (0, 0u32);
    while published < slots {
        let upto = slots.min(board.completed() + window);
        if published == upto {
            idle += 1;
            if idle.is_multiple_of(4_096) {
                std::thread::yield_now();
                if start.elapsed() > Duration::from_secs(60) {
                    return Err("stood still".to_owned());
                }
            }
            std::hint::spin_loop();
        }
        while published < upto {
            published += 1;
            board.publish(published);
        }
    }
    await_completed(board, slots, Duration::from_secs(10));
    let took = start.elapsed();
    if board.completed() < slots {
        return Err(format!("left {} requests unfinished", slots - board.completed()));
    }
    Ok(slots as f64 / took.as_secs_f64())
}

fn await_completed(board: &Board, count: usize, patience: Duration) {
    let start = Instant::now();
    while board.completed() < count && start.elapsed() < patience {
        for _ in 0..64 {
            std::hint::spin_loop();
        }
        if Cores::pair().is_none() {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::new("extreme-bimodal", 0.5, 0.02, 1).unwrap()
    }

    /// A board on which everything took a microsecond.
    fn served(plan: &Plan, left_out: usize) -> (Board, Driven) {
        let board = Board::new(plan.requests.iter().map(|_| 0)).unwrap();
        let tsc = Tsc::get();
        let driven = Driven { started: now(), cycles: 1_000, ..Driven::default() };
        for (at, request) in plan.requests.iter().enumerate().skip(left_out) {
            board.finish_at(at, driven.started + tsc.cycles(request.at_ns + 1_000));
        }
        (board, driven)
    }

    #[test]
    fn a_seed_gives_the_same_requests_at_the_load_asked_for() {
        let (a, b) = (plan(), plan());
        let times = |plan: &Plan| plan.requests.iter().map(|r| r.at_ns).collect::<Vec<_>>();
        assert_eq!(times(&a), times(&b));
        assert!((a.rate_rps * 2_997.5e-9 - 0.5).abs() < 1e-9);
        assert!(a.requests.iter().all(|r| r.at_ns < 20_000_000 && r.class < 2));
        assert!(Plan::new("nothing", 0.5, 1.0, 1).unwrap_err().contains("nothing"));
    }

    #[test]
    fn sojourn_counts_from_the_scheduled_arrival_and_warm_up_is_left_out() {
        let plan = plan();
        let (board, driven) = served(&plan, 0);
        let run = plan.outcome(&board, &driven);
        assert!(run.valid, "{:?}", run.invalid_reason);
        let counted = plan.requests.iter().filter(|r| r.at_ns >= 2_000_000).count() as u64;
        assert_eq!((run.offered, run.completed), (counted, counted));
        assert!(counted < plan.requests.len() as u64);
        let sojourn = run.sojourn_ns.unwrap();
        assert!(
            sojourn.p50.abs_diff(1_000) <= 2 && sojourn.max.abs_diff(1_000) <= 2,
            "{sojourn:?}"
        );
        assert!((run.classes[0].slowdown.unwrap().p50 - 2.0).abs() < 0.02);
    }

    #[test]
    fn unfinished_requests_and_a_late_generator_make_a_run_invalid() {
        let plan = plan();
        let last_warm = plan.requests.iter().take_while(|r| r.at_ns < 2_000_000).count();
        let (board, mut driven) = served(&plan, last_warm + 3);
        let run = plan.outcome(&board, &driven);
        assert_eq!(
            run.invalid_reason.as_deref(),
            Some("3 requests were not finished long after the end")
        );
        assert_eq!(run.offered - run.completed, 3);
        driven.late = plan.requests.len() as u64 / 2;
        let run = plan.outcome(&served(&plan, 0).0, &driven);
        assert!(run.invalid_reason.unwrap().contains("more than 10 µs late"));
    }
}
