//! Options around types of requests: what DARC does with them, workloads whose types change
//! (Perséphone §5.5), classifiers that are wrong (§5.6).

use clap::{Args, ValueEnum};
use curtail_experiment::informed;
pub(crate) use curtail_experiment::{Changing, Classifier, phases as phases_of};
use curtail_policy::{DarcOptions, Spec};
use curtail_workload::Mix;

fn percent(text: &str) -> Result<u32, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1e6).contains(factor));
    let factor = factor.ok_or_else(|| format!("`{text}` is no factor from 1 on"))?;
    Ok((factor * 100.0).round() as u32)
}

/// Options of DARC and its variants.
#[derive(Args, Clone, Debug)]
pub(crate) struct DarcArgs {
    /// Classes whose mean service times are within this factor share workers [default: 2]
    #[arg(long, value_name = "FACTOR", value_parser = percent, help_heading = "DARC")]
    delta: Option<u32>,
    /// Completions that a profile is made from at least [default: 50000]
    #[arg(long, value_name = "N", help_heading = "DARC",
          value_parser = clap::value_parser!(u32).range(1..))]
    profile_window: Option<u32>,
    /// For how many of its mean service times a class may queue before reservations are reconsidered
    /// [default: 10]
    #[arg(long, value_name = "N", help_heading = "DARC",
          value_parser = clap::value_parser!(u32).range(1..))]
    profile_slowdown: Option<u32>,
    /// By how much of it a class's demand must have changed for new reservations, in per cent
    /// [default: 10]
    #[arg(long, value_name = "PERCENT", help_heading = "DARC")]
    profile_deviation: Option<u32>,
    /// Workers that serve what has none of its own, and unknown requests [default: 1]
    #[arg(long, value_name = "N", help_heading = "DARC",
          value_parser = clap::value_parser!(u16).range(1..))]
    spillway: Option<u16>,
    /// Where the first profile comes from
    #[arg(long, value_name = "HOW", default_value = "measured", help_heading = "DARC")]
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
        let DarcOptions { delta_percent, window, slowdown, deviation_percent, spillway } =
            spec.darc;
        spec.darc = DarcOptions {
            delta_percent: self.delta.unwrap_or(delta_percent),
            window: self.profile_window.unwrap_or(window),
            slowdown: self.profile_slowdown.unwrap_or(slowdown),
            deviation_percent: self.profile_deviation.unwrap_or(deviation_percent),
            spillway: self.spillway.unwrap_or(spillway),
        };
        spec
    }

    /// The policy, told of the workload where it is to know it.
    pub(crate) fn inform(&self, spec: Spec, mix: &Mix) -> Spec {
        if self.knows() { informed(spec, mix) } else { spec }
    }

    /// Whether it is to know the workload.
    pub(crate) fn knows(&self) -> bool {
        self.profile == Profile::Known
    }
}

/// What classifies requests.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClassifierArgs {
    /// What says of which class a request is: own (the application), random (any class, at random)
    #[arg(long, value_name = "WHO", default_value_t)]
    pub(crate) classifier: Classifier,
}
