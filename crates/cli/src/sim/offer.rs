//! Options that say what arrives in a simulation: requests of one mix, of mixes that change, or of a
//! trace.

use crate::args::Offered;
use crate::failure::Failure;
use crate::typed::{Changing, Classifier, phases_of};
use clap::Args;
use curtail_experiment::{Length, Offer, Source};
use curtail_workload as workload;
use std::path::PathBuf;

/// What arrives beyond what `bench` knows.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfferArgs {
    /// How many requests arrive, instead of --duration; the first tenth is not counted
    #[arg(long, value_name = "N", value_parser = workload::count,
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

impl OfferArgs {
    pub(crate) fn jobs(&self) -> Option<u64> {
        self.jobs
    }

    pub(crate) fn offer(&self, offered: &Offered, by: Classifier) -> Result<Offer, Failure> {
        let (name, source) = self.source(offered)?;
        let length = match self.jobs {
            _ if offered.asks_for_a_time() => {
                Length::Time { duration_ns: offered.duration_ns(), warmup_ns: offered.warmup_ns()? }
            }
            Some(jobs) => Length::Jobs(jobs),
            None => Length::Unsaid,
        };
        Ok(Offer::new(name, source, offered.arrivals, length).classified(by))
    }

    fn source(&self, offered: &Offered) -> Result<(String, Source), Failure> {
        if let Some(file) = &self.trace {
            return Ok(Source::trace(file)?);
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
        match (self.parts, offer.phases()) {
            (None, _) => Ok(None),
            (Some(parts), Some(phases)) => Ok(Some(Changing::new(phases.clone(), parts))),
            _ => Err(Failure::usage("--parts: parts of phases, say --phases")),
        }
    }
}
