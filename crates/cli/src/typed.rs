//! Options around types of requests: what DARC does with them, workloads whose types change
//! (Perséphone §5.5), classifiers that are wrong (§5.6).

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use curtail_policy::{Nanos, Spec};
use curtail_report::Run;
use curtail_workload::{Mix, Phases, Request, format_duration, numbers};
use std::ops::Range;
use std::path::Path;

fn percent(text: &str) -> Result<u32, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1e6).contains(factor));
    let factor = factor.ok_or_else(|| format!("`{text}` is no factor from 1 on"))?;
    Ok((factor * 100.0).round() as u32)
}

/// Options of DARC and its variants.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "DARC")]
pub(crate) struct DarcArgs {
    /// Classes whose mean service times are within this factor share workers [default: 2]
    #[arg(long, value_name = "FACTOR", value_parser = percent)]
    delta: Option<u32>,
    /// Completions that a profile is made from at least [default: 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    profile_window: Option<u32>,
    /// Where the first profile comes from
    #[arg(long, value_name = "HOW", default_value = "measured")]
    profile: Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// It is measured, and until then there are no reservations
    Measured,
    /// The workload's service times and shares are known from the start
    Known,
}

impl DarcArgs {
    /// The policy with these options.
    pub(crate) fn apply(&self, mut spec: Spec) -> Spec {
        spec.darc.delta_percent = self.delta.unwrap_or(spec.darc.delta_percent);
        spec.darc.window = self.profile_window.unwrap_or(spec.darc.window);
        spec
    }

    /// The policy, told of the workload where it is to know it.
    pub(crate) fn inform(&self, mut spec: Spec, mix: &Mix) -> Spec {
        if self.profile == Profile::Measured {
            return spec;
        }
        for (index, class) in mix.classes().iter().enumerate().take(Spec::MAX_CLASSES) {
            let plan = spec.plan_mut(index);
            plan.service = Some(Nanos(class.service.mean_ns().round() as u64));
            plan.occurrence = Some((mix.fraction(index) * 1e6).round() as u32);
        }
        spec
    }
}

/// Who says of which class a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Classifier {
    /// The application
    Own,
    /// Nobody who knows: any class, all equally likely (Perséphone §5.6)
    Random,
}

/// Any of `classes` classes, all equally likely.
pub(crate) fn any_class(classes: usize, seed: u64) -> impl FnMut() -> u16 + Send {
    let mut random = numbers(seed);
    move || ((u128::from(random()) * classes as u128) >> 64) as u16
}

/// Requests as `who` classifies them. The class that a simulated request is counted for is that one.
pub(crate) fn reclassified(
    requests: impl Iterator<Item = Request>,
    who: Classifier,
    classes: usize,
    seed: u64,
) -> impl Iterator<Item = Request> {
    let mut draw = any_class(classes, seed);
    requests.map(move |request| match who {
        Classifier::Own => request,
        Classifier::Random => Request { class: draw(), ..request },
    })
}

/// Who classifies requests.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClassifierArgs {
    /// Who says of which class a request is
    #[arg(long, value_name = "WHO", default_value = "own")]
    pub(crate) classifier: Classifier,
}

/// A workload that changes, from a file, by name, or written out; and what to call it.
pub(crate) fn phases_of(given: &str) -> Result<(String, Phases), Failure> {
    let (name, text) = if Path::new(given).is_file() {
        let text = std::fs::read_to_string(given)
            .map_err(|error| Failure::failed(format!("cannot read {given}: {error}")))?;
        let name = Path::new(given).file_stem().unwrap_or_default();
        (name.to_string_lossy().into_owned(), text)
    } else {
        (given.to_owned(), given.to_owned())
    };
    Ok((name, Phases::parse(&text).map_err(Failure::usage)?))
}

/// A workload that changes, and the stretches of time whose results stand apart.
#[derive(Clone, Debug)]
pub(crate) struct Changing {
    pub(crate) phases: Phases,
    /// Each with its phase.
    pub(crate) slices: Vec<(usize, Range<u64>)>,
}

impl Changing {
    /// These phases, each cut into so many parts.
    pub(crate) fn new(phases: Phases, parts: u32) -> Self {
        let slices = phases.slices(parts);
        Self { phases, slices }
    }

    /// The names of its classes.
    pub(crate) fn names(&self) -> Vec<String> {
        self.phases.classes().into_iter().map(str::to_owned).collect()
    }

    /// The result of a slice, with what is known of it beforehand.
    pub(crate) fn run(&self, slice: usize, load: f64, workers: usize) -> Run {
        let (phase, time) = &self.slices[slice];
        let (from, to) = (format_duration(time.start), format_duration(time.end));
        let of = &self.phases.phases()[*phase];
        let load = of.load.unwrap_or(load);
        Run {
            workload: format!("phase {} ({from}–{to})", phase + 1),
            load: Some(load),
            offered_rps: of.mix.rate_rps(load, workers),
            duration_s: (time.end - time.start) as f64 / 1e9,
            ..Run::default()
        }
    }

    /// What the policy had decided at the end of slices, in lines: where it was another thing than
    /// before.
    pub(crate) fn told(&self, who: &str, decided: &[Option<String>]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut before = None;
        for ((_, time), now) in self.slices.iter().zip(decided) {
            if let Some(line) = now.as_ref().filter(|line| before != Some(*line)) {
                lines.push(format!("{who} at {}: {line}", format_duration(time.end)));
                before = now.as_ref();
            }
        }
        lines
    }
}
