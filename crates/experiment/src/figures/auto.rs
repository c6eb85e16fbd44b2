//! `auto` beside the policies that it is to choose among: no paper's figure. Every named workload and
//! one that changes, at every load; a point is `auto`'s tail over that of the best of the others for
//! this workload at this load.

use super::Asked;
use super::beside::Beside;
use super::simulate::How;
use crate::{Error, Length, Offer, Setting, Source};
use curtail_chart::Unit;
use curtail_policy::Spec;
use curtail_report::{Metric, Quantile};
use curtail_sim::sweep;
use curtail_workload::{Arrivals, NAMED, Phases};

/// What it is called on the command line.
pub(super) const NAME: &str = "auto";

/// First `auto`, then what it is held against.
pub(super) const POLICIES: [&str; 7] =
    ["auto", "fcfs", "concord", "tq", "darc", "shinjuku", "darc-ps"];

const LOADS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
const WORKERS: usize = 16;

/// Requests of each run.
const JOBS: u64 = 200_000;

/// Another workload every second, with [`JOBS`]: each has a policy of its own that is best for it,
/// and the classes' service times change places. Shorter runs have shorter phases.
const CHANGING: &str = "1s tpcc; 1s short:1us:50,long:100us:50; 1s short:100us:50,long:1us:50; \
                        1s request:10us:1; 1s request:exp(10us):1";

/// A workload at a load.
pub(super) struct Cell {
    pub(super) workload: &'static str,
    pub(super) load: f64,
    /// The p99.9 slowdown under each of [`POLICIES`]; without end where requests were dropped.
    pub(super) tails: [f64; POLICIES.len()],
}

impl Cell {
    /// The best of those that `auto` is held against: which, and its tail.
    pub(super) fn best(&self) -> (&'static str, f64) {
        let others = POLICIES.into_iter().zip(self.tails).skip(1);
        others.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are some")
    }

    pub(super) fn ratio(&self) -> f64 {
        self.tails[0] / self.best().1
    }
}

/// How many runs there are.
pub(super) fn count() -> usize {
    workloads().len() * LOADS.len() * POLICIES.len()
}

pub(super) fn workloads() -> Vec<&'static str> {
    NAMED.iter().map(|workload| workload.name).chain(["changing"]).collect()
}

/// Policies that profile know the workload from the start, where it does not change; `auto` is told
/// nothing.
fn setting(workload: &str, jobs: u64) -> Result<Setting, Error> {
    if let Some(named) = NAMED.iter().find(|it| it.name == workload) {
        let source = Source::Mix(named.mix());
        let offer = Offer::new(workload.to_owned(), source, Arrivals::Poisson, Length::Jobs(jobs));
        return Ok(Setting { known: true, ..Setting::ideal(offer, WORKERS) });
    }
    let phases = Phases::parse(CHANGING).map_err(Error::usage)?;
    let duration = phases.duration_ns() as f64 * jobs as f64 / JOBS as f64;
    let source = Source::Phases(phases.within(duration as u64));
    let offer = Offer::new(workload.to_owned(), source, Arrivals::Poisson, Length::Unsaid);
    Ok(Setting::ideal(offer, WORKERS))
}

fn tail(workload: &str, load: f64, policy: &str, how: How) -> Result<f64, Error> {
    let setting = setting(workload, how.jobs)?;
    let spec = Spec::preset(policy).map_err(Error::usage)?;
    let known = setting.known && policy != POLICIES[0];
    let setting = Setting { known, ..setting };
    let at = setting.offer.point(load, WORKERS);
    let run = setting.measure(&spec, at, how.seed)?.run;
    let tail = run.figure(None, Metric::Slowdown, Quantile::P99_9);
    Ok(if run.dropped > 0 { f64::INFINITY } else { tail.unwrap_or(f64::NAN) })
}

/// All cells, simulated.
fn cells(how: How, ran: &(impl Fn(&str) + Sync)) -> Result<Vec<Cell>, Error> {
    let workloads = workloads();
    let mut tasks = Vec::new();
    // High loads take longest: they start first.
    for load in (0..LOADS.len()).rev() {
        for workload in (0..workloads.len()).rev() {
            tasks.extend((0..POLICIES.len()).map(|policy| (workload, load, policy)));
        }
    }
    let tails = sweep(&tasks, how.threads, |&(workload, load, policy)| {
        let found = tail(workloads[workload], LOADS[load], POLICIES[policy], how)?;
        ran(&format!("{}: {}", workloads[workload], POLICIES[policy]));
        Ok::<_, Error>(found)
    })?;
    let mut cells: Vec<Cell> = Vec::new();
    for &workload in &workloads {
        cells.extend(LOADS.map(|load| Cell { workload, load, tails: [0.0; POLICIES.len()] }));
    }
    for ((workload, load, policy), tail) in tasks.into_iter().zip(tails) {
        cells[workload * LOADS.len() + load].tails[policy] = tail;
    }
    Ok(cells)
}

/// A table's figure.
pub(super) fn show(value: f64) -> String {
    if value.is_finite() { Unit::Number.show(value) } else { "dropped".to_owned() }
}

impl Asked<'_> {
    pub(super) fn beside(&self, ran: &(impl Fn(&str) + Sync)) -> Result<Beside, Error> {
        let how = self.how(JOBS);
        Ok(Beside { cells: cells(how, ran)?, jobs: how.jobs, seed: self.seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_the_others_is_not_auto() {
        let cell = Cell { workload: "x", load: 0.5, tails: [1.0, 9.0, 4.0, 2.0, 3.0, 5.0, 6.0] };
        assert_eq!((cell.best(), cell.ratio()), (("tq", 2.0), 0.5));
    }

    #[test]
    fn shorter_runs_have_shorter_phases() {
        let length = |jobs| {
            let setting = setting("changing", jobs).unwrap();
            setting.offer.phases().unwrap().duration_ns()
        };
        assert_eq!((length(JOBS), length(JOBS / 10)), (5_000_000_000, 500_000_000));
    }
}
