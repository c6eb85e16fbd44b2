//! From a figure to its points: one task a point, all independent.

use super::drawn::{Drawn, DrawnCurve, DrawnPoint};
use super::figure::{Figure, Of, Sweep};
use super::system::{System, mix};
use crate::{Error, Setting};
use curtail_policy::AnyPolicy;
use curtail_report::{Metric, Quantile, Run};
use curtail_sim::{Allocation, Costs, Done, Observer, by_intervals, run_observed, sweep};
use curtail_workload::{Arrivals, Request, Requests, Slo, Until};

/// Of so many requests DARC profiles enough, with its window of 50,000.
const PROFILED: u64 = 150_000;

/// At this load: Perséphone's, where it tells what DARC reserves for TPC-C.
const PROFILED_LOAD: f64 = 0.85;

/// How it is simulated.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) jobs: u64,
    pub(super) seed: u64,
    pub(super) threads: usize,
    /// What everything costs beside what is a system's own; `None`: nothing.
    pub(super) costs: Option<Costs>,
}

/// How many points a figure has.
pub(super) fn count(figure: &Figure) -> usize {
    figure.curves.iter().map(|curve| curve.sweep.len()).sum()
}

/// Simulates all points of a figure; `done` is told of each.
pub(super) fn draw(
    figure: &Figure,
    how: How,
    done: impl Fn(&'static str) + Sync,
) -> Result<Drawn, Error> {
    let tasks = figure.curves.iter().enumerate();
    let mut tasks: Vec<(usize, usize)> =
        tasks.flat_map(|(curve, it)| (0..it.sweep.len()).map(move |at| (curve, at))).collect();
    // High loads take longest: they start first.
    tasks.sort_by_key(|&(_, at)| std::cmp::Reverse(at));
    let points = sweep(&tasks, how.threads, |&(curve, at)| {
        let curve = &figure.curves[curve];
        let point = curve.sweep.point(at, how)?;
        done(curve.label);
        Ok::<_, Error>(point)
    })?;
    let mut found: Vec<((usize, usize), DrawnPoint)> = tasks.into_iter().zip(points).collect();
    found.sort_by_key(|&(task, _)| task);
    let mut curves: Vec<DrawnCurve> = figure
        .curves
        .iter()
        .map(|curve| DrawnCurve { label: curve.label, points: Vec::new() })
        .collect();
    for ((curve, _), point) in found {
        curves[curve].points.push(point);
    }
    let mut decided = Vec::new();
    // No others are asked what they decided.
    let asked = if figure.statements.is_empty() { &[][..] } else { figure.curves };
    for curve in asked {
        if let Sweep::Loads { system, .. } = &curve.sweep
            && let Some(line) = system.decides(how)?
        {
            decided.push((curve.label, line));
        }
    }
    Ok(Drawn { curves, decided })
}

impl Sweep {
    fn len(&self) -> usize {
        match self {
            Self::Loads { loads, .. } => loads.len(),
            Self::Rates { quanta_ns, .. } | Self::Workers { quanta_ns, .. } => quanta_ns.len(),
            Self::Reserved { reserved, .. } => reserved.len(),
            Self::Intervals { rates_k, .. } | Self::Shared { rates_k, .. } => rates_k.len(),
            Self::Among { programs, .. } => programs.len(),
        }
    }

    fn point(&self, at: usize, run: How) -> Result<DrawnPoint, Error> {
        match *self {
            Self::Loads { ref system, loads, of } => system.slowdown(loads[at], of, run),
            Self::Rates { ref system, quanta_ns, limit } => {
                system.quantum(quanta_ns[at]).highest_rate(limit, run)
            }
            Self::Reserved { ref system, reserved, load } => {
                let reserved = reserved[at];
                let point = system.reserved(reserved).slowdown(load, Of::All, run)?;
                Ok(DrawnPoint { x: f64::from(reserved), ..point })
            }
            Self::Workers { ref system, quanta_ns } => {
                system.quantum(quanta_ns[at]).workers_kept_busy(quanta_ns[at], run)
            }
            Self::Intervals { workload, rates_k, interval_ns, limit_ns } => {
                let rate_rps = f64::from(rates_k[at]) * 1e3;
                for cores in 1..=1_024 {
                    let requests = requests(workload, rate_rps, run)?;
                    let served = by_intervals(requests, cores, interval_ns);
                    if served.sojourn.percentile(99.9) <= limit_ns as f64 {
                        return Ok(efficiency(rate_rps, &served, cores.to_string()));
                    }
                }
                Err(Error::failed(format!("{rate_rps} requests a second need too many cores")))
            }
            Self::Shared { ref how, rates_k, of } => {
                how.at_rate(f64::from(rates_k[at]) * 1e3, of, run)
            }
            Self::Among { ref how, programs, load, of } => how.among(programs[at], load, of, run),
        }
    }
}

fn requests(
    workload: &str,
    rate_rps: f64,
    how: How,
) -> Result<impl Iterator<Item = Request>, Error> {
    Ok(Requests::new(&mix(workload)?, Arrivals::Poisson, rate_rps, how.seed, Until::Jobs(how.jobs)))
}

fn efficiency(rate_rps: f64, served: &Allocation, note: String) -> DrawnPoint {
    let tail_ns = Some(served.sojourn.percentile(99.9));
    DrawnPoint { x: rate_rps, y: served.efficiency(), overloaded: false, note, tail_ns, run: None }
}

impl System {
    fn slowdown(&self, load: f64, of: Of, how: How) -> Result<DrawnPoint, Error> {
        let setting = self.setting(how.jobs, how.costs.as_ref())?;
        let at = setting.offer.point(load, self.workers);
        let run = setting.measure(&self.spec()?, at, how.seed)?.run;
        let figure = |class| run.figure(class, Metric::Slowdown, Quantile::P99_9);
        let y = match of {
            Of::All => figure(None),
            Of::Class(name) => figure(Some(name)),
            Of::Worst => {
                let classes = run.classes.iter().filter_map(|class| figure(Some(&class.name)));
                classes.reduce(f64::max)
            }
        };
        Ok(DrawnPoint {
            x: run.offered_rps,
            y: y.unwrap_or(f64::NAN),
            overloaded: run.dropped > 0 || !run.valid,
            note: String::new(),
            tail_ns: None,
            run: Some(run),
        })
    }

    fn highest_rate(&self, limit: f64, how: How) -> Result<DrawnPoint, Error> {
        let setting = self.setting(how.jobs, how.costs.as_ref())?;
        let slo = Slo::parse(&format!("p99.9 slowdown {limit}")).map_err(Error::usage)?;
        let (runs, found) = setting.find_max(&self.spec()?, (&slo, None), how.seed, |_| {})?;
        let best = found.max_load.unwrap_or(0.0);
        let rate_rps = setting.offer.point(best, self.workers).rate_rps;
        let quantum = runs.first().and_then(|it| it.run.quantum_ns).unwrap_or(0);
        let run = runs.into_iter().map(|it| it.run).find(|run: &Run| run.offered_rps == rate_rps);
        let (x, note) = (quantum as f64, String::new());
        Ok(DrawnPoint { x, y: rate_rps, overloaded: false, note, tail_ns: None, run })
    }

    /// With how many workers the average quantum is at most a tenth of it longer than with one.
    fn workers_kept_busy(&self, quantum_ns: u64, how: How) -> Result<DrawnPoint, Error> {
        let (mut least, mut most) = (1, self.workers);
        let limit = self.workers(1).mean_quantum(how)? + 0.1 * quantum_ns as f64;
        while least < most {
            let workers = (least + most).div_ceil(2);
            let quantum = self.workers(workers).mean_quantum(how)?;
            if quantum <= limit {
                least = workers;
            } else {
                most = workers - 1;
            }
        }
        let (x, y) = (quantum_ns as f64, least as f64);
        Ok(DrawnPoint { x, y, overloaded: false, note: String::new(), tail_ns: None, run: None })
    }

    /// The average quantum where each worker always has four requests to share.
    fn mean_quantum(&self, how: How) -> Result<f64, Error> {
        let jobs = 4 * self.workers as u64;
        let setting = self.setting(jobs, how.costs.as_ref())?;
        // All come at once: much faster than they are served.
        let at = setting.offer.point(1_000.0, self.workers);
        let run = setting.measure(&self.spec()?, at, how.seed)?.run;
        let longer = 1.0 + setting.costs.instrumentation;
        let served_ns = jobs as f64 * setting.offer.mix().mean_ns() * longer;
        Ok(served_ns / (run.preemptions + jobs) as f64)
    }

    /// What DARC decides by itself, from what it measures in a run that is long enough.
    fn decides(&self, how: How) -> Result<Option<String>, Error> {
        if self.policy != "darc" {
            return Ok(None);
        }
        let how = How { jobs: how.jobs.max(PROFILED), ..how };
        let setting = Setting { known: false, ..self.setting(how.jobs, how.costs.as_ref())? };
        let rate_rps = setting.offer.point(PROFILED_LOAD, self.workers).rate_rps;
        let mix = setting.offer.mix();
        let names = mix.classes().iter().map(|class| class.name.clone()).collect();
        // When nine tenths have come.
        let look_ns = (0.9 * how.jobs as f64 / rate_rps * 1e9) as u64;
        let mut watch = Watch { look_ns, names, decided: None };
        let config = setting.config(&self.spec()?, how.seed);
        let requests = requests(self.workload, rate_rps, how)?;
        run_observed(&config, requests, mix.classes().len(), Until::Jobs(0), &mut watch)
            .map_err(Error::usage)?;
        Ok(watch.decided)
    }
}

/// Asks a policy once what it has decided.
struct Watch {
    look_ns: u64,
    names: Vec<String>,
    decided: Option<String>,
}

impl Observer for &mut Watch {
    fn completed(&mut self, _: &Done) {}

    fn wants_to_look_ns(&self) -> u64 {
        self.look_ns
    }

    fn look(&mut self, policy: &AnyPolicy) {
        self.look_ns = u64::MAX;
        self.decided = policy.explain(|class| {
            let name = self.names.get(usize::from(class.0));
            name.cloned().unwrap_or_else(|| "unknown".to_owned())
        });
    }
}
