//! What arrives in a simulation: requests of one mix, of mixes that change, or of a trace.

use crate::args::{Offered, Point};
use crate::failure::Failure;
use crate::typed::{Changing, Classifier, phases_of, reclassified};
use clap::Args;
use curtail_sim::{Config, Outcome, run};
use curtail_workload::{Arrivals, Mix, Phases, Request, Requests, Trace, Until};
use std::path::PathBuf;

/// Requests of a run where nobody says how many.
const JOBS: u64 = 1_000_000;

/// What arrives beyond what `bench` knows.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfferArgs {
    /// How many requests arrive, instead of --duration; the first tenth is not counted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["duration", "warmup"])]
    jobs: Option<u64>,
    /// A workload that changes: a FILE of phases, or a name (persephone), or '5s tpcc; 5s exp1'. It
    /// repeats where --jobs or --duration ask for more
    #[arg(long, value_name = "PHASES", conflicts_with_all = ["workload", "classes"])]
    phases: Option<String>,
    /// Cuts each phase into so many parts, whose results stand apart
    #[arg(long, value_name = "N", conflicts_with_all = ["jobs", "duration", "warmup", "slo"],
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parts: Option<u32>,
    /// A phase, given repeatedly: 1s:workload=NAME,load=0.9,arrivals=bursty or 1s:classes=…
    #[arg(long, value_name = "PHASE", conflicts_with_all = ["workload", "classes", "phases"])]
    phase: Vec<String>,
    /// Requests from a FILE with a line 'arrival,class,service' (in ns) for each; --load and --rate
    /// stretch its time
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["workload", "classes", "phases", "phase", "arrivals"])]
    trace: Option<PathBuf>,
}

/// What arrives, without its rate.
pub(crate) enum Source {
    Mix(Mix),
    Phases(Phases),
    Trace(Trace),
}

/// What arrives.
pub(crate) struct Offer {
    pub(crate) name: String,
    source: Source,
    pub(crate) arrivals: Arrivals,
    /// `None`: all there is.
    until: Option<Until>,
    pub(crate) warmup: Until,
    pub(crate) classifier: Classifier,
}

impl OfferArgs {
    pub(crate) fn offer(&self, offered: &Offered, by: Classifier) -> Result<Offer, Failure> {
        let (name, source) = self.source(offered)?;
        let (until, warmup) = if offered.asks_for_a_time() {
            let warmup_ns = offered.warmup_ns()?;
            (Some(Until::Time(offered.duration_ns())), Until::Time(warmup_ns))
        } else {
            match (self.jobs, &source) {
                (Some(jobs), _) => (Some(Until::Jobs(jobs)), Until::Jobs(jobs / 10)),
                (None, Source::Mix(_)) => (Some(Until::Jobs(JOBS)), Until::Jobs(JOBS / 10)),
                (None, Source::Phases(phases)) => (None, Until::Time(phases.duration_ns() / 10)),
                (None, Source::Trace(trace)) => (None, Until::Jobs(trace.count() / 10)),
            }
        };
        Ok(Offer { name, source, arrivals: offered.arrivals, until, warmup, classifier: by })
    }

    fn source(&self, offered: &Offered) -> Result<(String, Source), Failure> {
        if let Some(file) = &self.trace {
            let trace = Trace::open(file).map_err(Failure::failed)?;
            if trace.span_ns() == 0 {
                return Err(Failure::failed(format!("{}: all at one time", file.display())));
            }
            let name = file.file_name().unwrap_or(file.as_os_str());
            return Ok((name.to_string_lossy().into_owned(), Source::Trace(trace)));
        }
        let given = match &self.phases {
            Some(given) => given.clone(),
            None if !self.phase.is_empty() => self.phase.join("; "),
            None => {
                let (name, mix) = offered.workload.mix()?;
                return Ok((name, Source::Mix(mix)));
            }
        };
        let (name, phases) = phases_of(&given)?;
        Ok((name, Source::Phases(phases)))
    }

    /// The workload that changes, where its parts are asked for.
    pub(crate) fn changing(&self, offer: &Offer) -> Result<Option<Changing>, Failure> {
        match (self.parts, &offer.source) {
            (None, _) => Ok(None),
            (Some(parts), Source::Phases(phases)) => Ok(Some(Changing::new(phases.clone(), parts))),
            _ => Err(Failure::usage("--parts: parts of phases, say --phases")),
        }
    }
}

impl Offer {
    /// Its classes (of phases: with the shares of the first).
    pub(crate) fn mix(&self) -> &Mix {
        match &self.source {
            Source::Mix(mix) => mix,
            Source::Phases(phases) => &phases.phases()[0].mix,
            Source::Trace(trace) => trace.mix(),
        }
    }

    /// Where it is offered. Of phases, a load is that of those that do not say.
    pub(crate) fn points(&self, asked: &Offered, workers: usize) -> Result<Vec<Point>, Failure> {
        match &self.source {
            Source::Mix(mix) => asked.points(mix.mean_ns(), Some(workers)),
            Source::Phases(_) if asked.asks_for_a_rate() => {
                Err(Failure::usage("--rate: phases have loads, say --load"))
            }
            Source::Phases(phases) => {
                let at =
                    |load| Point { load: Some(load), rate_rps: phases.rate_rps(load, workers) };
                let all_say = phases.phases().iter().all(|phase| phase.load.is_some());
                let loads = if all_say { &[1.0][..] } else { asked.loads() };
                Ok(loads.iter().map(|&load| at(load)).collect())
            }
            Source::Trace(trace) if !asked.asks_for_a_load() => {
                let rate_rps = trace.rate_rps();
                Ok(vec![Point { load: Some(trace.mix().load(rate_rps, workers)), rate_rps }])
            }
            Source::Trace(trace) => asked.points(trace.mix().mean_ns(), Some(workers)),
        }
    }

    /// The point at that load.
    pub(crate) fn point(&self, load: f64, workers: usize) -> Point {
        let rate_rps = match &self.source {
            Source::Phases(phases) => phases.rate_rps(load, workers),
            _ => self.mix().rate_rps(load, workers),
        };
        Point { load: Some(load), rate_rps }
    }

    /// The load that is really offered at a point.
    pub(crate) fn load(&self, at: Point) -> Option<f64> {
        match &self.source {
            Source::Phases(phases) => at.load.map(|load| phases.load(load)),
            _ => at.load,
        }
    }

    /// How long requests arrive, the warm-up not counted, where that was said.
    pub(crate) fn window_ns(&self) -> Option<u64> {
        match (self.until, self.warmup) {
            (Some(Until::Time(until)), Until::Time(warmup)) => Some(until - warmup),
            _ => None,
        }
    }

    /// Simulates a system under it.
    pub(crate) fn simulate(&self, config: &Config, at: Point) -> Result<Outcome, Failure> {
        let (classes, seed) = (self.mix().classes().len(), config.seed);
        let invalid = |error| Failure::usage(error);
        match &self.source {
            Source::Mix(mix) => {
                let until = self.until.unwrap_or(Until::Jobs(JOBS));
                let requests = Requests::new(mix, self.arrivals, at.rate_rps, seed, until);
                let requests = reclassified(requests, self.classifier, classes, seed);
                run(config, requests, classes, self.warmup).map_err(invalid)
            }
            Source::Phases(phases) => {
                let load = at.load.unwrap_or(1.0);
                let source = phases.source(self.arrivals, load, config.workers, seed);
                let source = if self.until.is_some() { source.repeated() } else { source };
                let requests = source.map(|it| Request {
                    at_ns: it.at_ns,
                    class: it.class as u16,
                    service_ns: it.service_ns,
                });
                let requests = reclassified(requests, self.classifier, classes, seed);
                run(config, self.limited(requests), classes, self.warmup).map_err(invalid)
            }
            Source::Trace(trace) => {
                let stretch = trace.rate_rps() / at.rate_rps;
                let mut requests = trace.requests(stretch).map_err(Failure::failed)?;
                let limited = self.limited(requests.by_ref());
                let limited = reclassified(limited, self.classifier, classes, seed);
                let outcome = run(config, limited, classes, self.warmup).map_err(invalid)?;
                match requests.error() {
                    Some(error) => Err(Failure::failed(error)),
                    None => Ok(outcome),
                }
            }
        }
    }

    fn limited(&self, requests: impl Iterator<Item = Request>) -> impl Iterator<Item = Request> {
        let (jobs, end_ns) = match self.until {
            None => (u64::MAX, u64::MAX),
            Some(Until::Jobs(jobs)) => (jobs, u64::MAX),
            Some(Until::Time(ns)) => (u64::MAX, ns),
        };
        let jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
        requests.take(jobs).take_while(move |request| request.at_ns < end_ns)
    }
}
