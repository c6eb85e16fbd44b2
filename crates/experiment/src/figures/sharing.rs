//! Figures of programs that share cores: what is simulated, and what is read off it.

use super::drawn::DrawnPoint;
use super::simulate::How;
use crate::Error;
use curtail_alloc::{Detector, Machine, Nanos, Settings};
use curtail_sim::{Batch, Cores, Critical, HandOvers, Shared, share};
use curtail_workload::{Arrivals, Requests, Until, named};

/// A machine, and how its cores are allocated. Batch runs on all that are free.
#[derive(Clone, Copy)]
pub(crate) struct Sharing {
    pub(crate) workload: &'static str,
    pub(crate) cores: u32,
    pub(crate) siblings: bool,
    pub(crate) interval_ns: u64,
    pub(crate) costs: HandOvers,
    /// Kthreads without work give their cores back.
    pub(crate) parks: bool,
}

/// What of it is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Time used over time allocated.
    Efficiency,
    /// The highest p99.9 sojourn time of a program.
    Tail,
    /// The part of the machine that is left to batch.
    Left,
    /// That, and what is used.
    Sum,
}

impl Sharing {
    /// Flat, looked at every 5 µs.
    pub(crate) const fn new(workload: &'static str, cores: u32, costs: HandOvers) -> Self {
        Self { workload, cores, siblings: false, interval_ns: 5_000, costs, parks: true }
    }

    pub(crate) const fn interval(self, ns: u64) -> Self {
        Self { interval_ns: ns, ..self }
    }

    pub(crate) const fn never_parks(self) -> Self {
        Self { parks: false, ..self }
    }

    pub(crate) const fn siblings(self) -> Self {
        Self { siblings: true, ..self }
    }

    /// `programs` programs, each guaranteed its part of the cores, which together are offered
    /// `rate_rps`.
    fn run(&self, programs: u32, rate_rps: f64, how: How) -> Result<Shared, Error> {
        let mix = named(self.workload).map_err(Error::usage)?.mix();
        let cores = self.cores;
        let machine = if self.siblings { Machine::of_siblings(cores) } else { Machine::of(cores) };
        let settings = Settings {
            interval: Nanos(self.interval_ns),
            detector: Detector::Queues,
            grace: Nanos(20_000),
            ..Settings::default()
        };
        let batch = Batch::Looks;
        let how_cores = Cores { machine, settings, costs: self.costs, batch, seed: how.seed };
        // All end at one time.
        let end_ns = (how.jobs as f64 / rate_rps * 1e9) as u64;
        let program = |at: u32| {
            let (rate, until) = (rate_rps / f64::from(programs), Until::Time(end_ns));
            let seed = how.seed + u64::from(at);
            let guaranteed = cores / programs;
            Critical {
                kthreads: cores,
                guaranteed,
                burstable: cores - guaranteed,
                search_ns: self.parks.then_some(2_000),
                pinned: true,
                requests: Box::new(Requests::new(&mix, Arrivals::Poisson, rate, seed, until)),
            }
        };
        share(&how_cores, (0..programs).map(program).collect()).map_err(Error::failed)
    }

    /// One program at that rate.
    pub(super) fn at_rate(&self, rate_rps: f64, of: Of, how: How) -> Result<DrawnPoint, Error> {
        Ok(of.point(rate_rps, &self.run(1, rate_rps, how)?))
    }

    /// Several programs that together load the machine so much.
    pub(super) fn among(
        &self,
        programs: u32,
        load: f64,
        of: Of,
        how: How,
    ) -> Result<DrawnPoint, Error> {
        let mix = named(self.workload).map_err(Error::usage)?.mix();
        let rate_rps = mix.rate_rps(load, self.cores as usize);
        Ok(of.point(f64::from(programs), &self.run(programs, rate_rps, how)?))
    }
}

impl Of {
    fn point(self, x: f64, all: &Shared) -> DrawnPoint {
        let tails = all.programs.iter().map(|served| served.sojourn.percentile(99.9));
        let tail_ns = tails.fold(0.0, f64::max);
        let y = match self {
            Self::Efficiency => all.efficiency(),
            Self::Tail => tail_ns,
            Self::Left => all.left(),
            Self::Sum => all.used() + all.left(),
        };
        let note = String::new();
        DrawnPoint { x, y, overloaded: false, note, tail_ns: Some(tail_ns), run: None }
    }
}
