//! What arrives in a simulation: requests of one mix, of mixes that change, or of a trace.

use crate::{Classifier, Error, reclassified};
use curtail_sim::{Config, Outcome, run};
use curtail_workload::{Arrivals, Mix, Phases, Request, Requests, Trace, Until};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests of a run whose number is not given.
const JOBS: u64 = 1_000_000;

/// How long requests arrive where a time is said to be asked for, and none is.
pub const DEFAULT_DURATION_NS: u64 = 5_000_000_000;

/// One offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// As a fraction of the workers' capacity, where that is known.
    pub load: Option<f64>,
    /// In requests per second.
    pub rate_rps: f64,
}

/// Which loads were asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked<'a> {
    /// None: the usual one.
    Nothing,
    /// Fractions of the workers' capacity.
    Loads(&'a [f64]),
    /// Requests per second.
    Rates(&'a [f64]),
}

impl<'a> Asked<'a> {
    /// The loads, or the usual one.
    #[must_use]
    pub fn loads(self) -> &'a [f64] {
        match self {
            Self::Loads(loads) => loads,
            _ => &[0.7],
        }
    }

    /// These on so many workers (`None`: unknown), where the mean service time is `mean_ns`.
    ///
    /// # Errors
    /// Loads of a capacity that is not known, or that is endless.
    pub fn points(self, mean_ns: f64, workers: Option<usize>) -> Result<Vec<Point>, Error> {
        let capacity_rps = workers.map(|n| n as f64 * 1e9 / mean_ns).filter(|c| c.is_finite());
        if let Self::Rates(rates) = self {
            let point =
                |&rate_rps: &f64| Point { load: capacity_rps.map(|c| rate_rps / c), rate_rps };
            return Ok(rates.iter().map(point).collect());
        }
        let capacity_rps = capacity_rps.ok_or_else(|| {
            Error::usage(if mean_ns == 0.0 {
                "requests without service make no load: say how many a second with --rate"
            } else {
                "a load is a fraction of the server's capacity: say --workers N, or --rate instead"
            })
        })?;
        let point = |&load: &f64| Point { load: Some(load), rate_rps: load * capacity_rps };
        Ok(self.loads().iter().map(point).collect())
    }
}

/// How long requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As many as there are; a million of a mix. The first tenth is not counted.
    Unsaid,
    /// So many, the first tenth of which is not counted.
    Jobs(u64),
    /// So long.
    Time {
        /// The warm-up included.
        duration_ns: u64,
        /// What arrives before this is not counted.
        warmup_ns: u64,
    },
}

/// The warm-up of a run of that duration: what was asked for, or a tenth.
///
/// # Errors
/// A duration of nothing, or one that is not longer than the warm-up.
pub fn warmup_ns(duration_ns: u64, asked_ns: Option<u64>) -> Result<u64, Error> {
    let warmup_ns = asked_ns.unwrap_or(duration_ns / 10);
    if duration_ns == 0 {
        return Err(Error::usage("--duration: nothing arrives in no time"));
    }
    if warmup_ns >= duration_ns {
        return Err(Error::usage("--warmup must be shorter than --duration"));
    }
    Ok(warmup_ns)
}

/// What arrives, without its rate.
#[derive(Clone, Debug)]
pub enum Source {
    /// Requests of one mix.
    Mix(Mix),
    /// Of mixes that change.
    Phases(Phases),
    /// As they were recorded.
    Trace(Trace),
}

impl Source {
    /// A file's requests, and what to call them.
    ///
    /// # Errors
    /// It cannot be read or has lines that are none, or all arrive at one time.
    pub fn trace(file: &Path) -> Result<(String, Self), Error> {
        let trace = Trace::open(file).map_err(Error::failed)?;
        if trace.span_ns() == 0 {
            return Err(Error::failed(format!("{}: all at one time", file.display())));
        }
        let name = file.file_name().unwrap_or(file.as_os_str());
        Ok((name.to_string_lossy().into_owned(), Self::Trace(trace)))
    }
}

/// A workload that changes, from a file, by name, or written out; and what to call it.
///
/// # Errors
/// The file cannot be read, or it is none.
pub fn phases(given: &str) -> Result<(String, Phases), Error> {
    let (name, text) = if Path::new(given).is_file() {
        let text = std::fs::read_to_string(given)
            .map_err(|error| Error::failed(format!("cannot read {given}: {error}")))?;
        let name = Path::new(given).file_stem().unwrap_or_default();
        (name.to_string_lossy().into_owned(), text)
    } else {
        (given.to_owned(), given.to_owned())
    };
    Ok((name, Phases::parse(&text).map_err(Error::usage)?))
}

/// What arrives.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What to call it.
    pub name: String,
    source: Source,
    /// By which process they arrive.
    pub arrivals: Arrivals,
    /// `None`: all there is.
    until: Option<Until>,
    warmup: Until,
    pub(crate) classifier: Classifier,
}

impl Offer {
    /// Requests from `source`, which arrive by that process for so long and know their classes. (A
    /// trace has arrivals of its own.)
    #[must_use]
    pub fn new(name: String, source: Source, arrivals: Arrivals, length: Length) -> Self {
        let (until, warmup) = match (length, &source) {
            (Length::Time { duration_ns, warmup_ns }, _) => {
                (Some(Until::Time(duration_ns)), Until::Time(warmup_ns))
            }
            (Length::Jobs(jobs), _) => (Some(Until::Jobs(jobs)), Until::Jobs(jobs / 10)),
            (Length::Unsaid, Source::Mix(_)) => (Some(Until::Jobs(JOBS)), Until::Jobs(JOBS / 10)),
            (Length::Unsaid, Source::Phases(phases)) => {
                (None, Until::Time(phases.duration_ns() / 10))
            }
            (Length::Unsaid, Source::Trace(trace)) => (None, Until::Jobs(trace.count() / 10)),
        };
        Self { name, source, arrivals, until, warmup, classifier: Classifier::Own }
    }

    /// The offer, its requests classified by that classifier.
    #[must_use]
    pub fn classified(mut self, by: Classifier) -> Self {
        self.classifier = by;
        self
    }

    /// Its classes (of phases: with the shares of the first).
    #[must_use]
    pub fn mix(&self) -> &Mix {
        match &self.source {
            Source::Mix(mix) => mix,
            Source::Phases(phases) => &phases.phases()[0].mix,
            Source::Trace(trace) => trace.mix(),
        }
    }

    /// What changes, if something does.
    #[must_use]
    pub fn phases(&self) -> Option<&Phases> {
        match &self.source {
            Source::Phases(phases) => Some(phases),
            Source::Mix(_) | Source::Trace(_) => None,
        }
    }

    /// Where it is offered. Of phases, a load is that of those that do not say; where all say, and
    /// for a trace at its own speed, there is one point.
    ///
    /// # Errors
    /// Rates of phases, or loads of requests that take no time.
    pub fn points(&self, asked: Asked<'_>, workers: usize) -> Result<Vec<Point>, Error> {
        match (&self.source, asked) {
            (Source::Mix(mix), _) => asked.points(mix.mean_ns(), Some(workers)),
            (Source::Phases(_), Asked::Rates(_)) => {
                Err(Error::usage("--rate: phases have loads, say --load"))
            }
            (Source::Phases(phases), _) => {
                let all_say = phases.phases().iter().all(|phase| phase.load.is_some());
                let loads = if all_say { &[1.0][..] } else { asked.loads() };
                Ok(loads.iter().map(|&load| self.point(load, workers)).collect())
            }
            (Source::Trace(trace), Asked::Nothing) => {
                let rate_rps = trace.rate_rps();
                Ok(vec![Point { load: Some(trace.mix().load(rate_rps, workers)), rate_rps }])
            }
            (Source::Trace(trace), _) => asked.points(trace.mix().mean_ns(), Some(workers)),
        }
    }

    /// The point at that load.
    #[must_use]
    pub fn point(&self, load: f64, workers: usize) -> Point {
        let rate_rps = match &self.source {
            Source::Phases(phases) => phases.rate_rps(load, workers),
            _ => self.mix().rate_rps(load, workers),
        };
        Point { load: Some(load), rate_rps }
    }

    /// The load that is really offered at a point.
    #[must_use]
    pub fn load(&self, at: Point) -> Option<f64> {
        match &self.source {
            Source::Phases(phases) => at.load.map(|load| phases.load(load)),
            _ => at.load,
        }
    }

    /// How long requests arrive, the warm-up not counted, where that was said.
    #[must_use]
    pub fn window_ns(&self) -> Option<u64> {
        match (self.until, self.warmup) {
            (Some(Until::Time(until)), Until::Time(warmup)) => Some(until - warmup),
            _ => None,
        }
    }

    /// Simulates a system under it, until its end or until `stop` is set: then no more requests
    /// arrive, those in the system are served, and there is no result.
    ///
    /// # Errors
    /// The system makes no sense, a trace's file has changed, or it was stopped.
    pub fn simulate(
        &self,
        config: &Config,
        at: Point,
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let outcome = match &self.source {
            Source::Mix(mix) => {
                let until = self.until.unwrap_or(Until::Jobs(JOBS));
                let rate_rps = at.rate_rps;
                self.serve(
                    config,
                    Requests::new(mix, self.arrivals, rate_rps, config.seed, until),
                    stop,
                )?
            }
            Source::Phases(phases) => {
                let load = at.load.unwrap_or(1.0);
                let source = phases.source(self.arrivals, load, config.workers, config.seed);
                let source = if self.until.is_some() { source.repeated() } else { source };
                let requests = source.map(|it| Request {
                    at_ns: it.at_ns,
                    class: it.class as u16,
                    service_ns: it.service_ns,
                });
                self.serve(config, self.limited(requests), stop)?
            }
            Source::Trace(trace) => {
                let stretch = trace.rate_rps() / at.rate_rps;
                let mut requests = trace.requests(stretch).map_err(Error::failed)?;
                let outcome = self.serve(config, self.limited(requests.by_ref()), stop)?;
                if let Some(error) = requests.error() {
                    return Err(Error::failed(error));
                }
                outcome
            }
        };
        if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(outcome) }
    }

    fn serve(
        &self,
        config: &Config,
        requests: impl Iterator<Item = Request>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Error> {
        let requests = requests.take_while(|_| !stop.load(Ordering::Relaxed));
        let classes = self.mix().classes().len();
        let requests = reclassified(requests, self.classifier, classes, config.seed);
        run(config, requests, classes, self.warmup).map_err(Error::usage)
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
