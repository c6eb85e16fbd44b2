//! The runtime and the simulator under the same policy, the same workload, the same requests at the
//! same times.
//!
//! Each point is measured in the runtime, and simulated with this machine's costs, as many workers,
//! and requests that stay where they started. What pre-emption the runtime could do is what the
//! simulator does.

mod table;

use super::Bench;
use crate::{Error, Length, Offer, Point, Setting, Source};
use curtail::Preempt;
use curtail_chart::SvgOptions;
use curtail_policy::{PreemptKind, Spec};
use curtail_report::{HtmlOptions, Run, Undisturbed};
use curtail_sim::{Costs, Hints};
use curtail_workload::spin::Calibration;
pub use table::{Figure, Line, Pair, QUANTILES, calmest, heads, lines, markdown};

/// What is compared.
#[derive(Debug)]
pub struct Comparison {
    /// The runs in the runtime; their seed is that of the simulation.
    pub real: Bench,
    calibration: Calibration,
    simulation: Setting,
}

impl Comparison {
    /// Of these runs, simulated at these costs.
    #[must_use]
    pub fn new(real: Bench, costs: Costs) -> Self {
        let source = Source::Mix(real.mix.clone());
        let length = Length::Time { duration_ns: real.duration_ns, warmup_ns: real.warmup_ns };
        let offer = Offer::new(real.workload.clone(), source, real.arrivals, length);
        let simulation = Setting {
            dispatchers: real.system.dispatchers,
            capacity: real.system.capacity as usize,
            pinned: true,
            // As the requests of `spin` say it themselves.
            hints: Hints::Exact,
            known: real.known,
            costs,
            ..Setting::ideal(offer, real.system.workers)
        };
        Self { real, calibration: Calibration::measure(), simulation }
    }

    /// Whether the policy can be simulated so.
    ///
    /// # Errors
    /// It cannot.
    pub fn validate(&self, spec: &Spec) -> Result<(), Error> {
        self.simulation.config(spec, 0).validate().map_err(Error::usage)
    }

    /// One point, and what the runtime wants the user to know.
    ///
    /// # Errors
    /// One of both does not run.
    pub fn pair(
        &self,
        spec: &Spec,
        preempt: Preempt,
        at: Point,
    ) -> Result<(Pair, Vec<String>), Error> {
        let measured = self.real.spin(&self.calibration, (spec, preempt), at)?;
        let spec = spec.clone().with_preempt(done(&measured.run.preempt));
        let simulated = self.simulation.measure(&spec, at, self.real.seed)?.run;
        Ok((Pair { real: measured.run, simulated }, measured.notes))
    }
}

/// What the runtime did, as the policy has it.
fn done(preempt: &str) -> PreemptKind {
    match preempt.parse() {
        Ok(Preempt::Flag) => PreemptKind::Flag,
        Ok(Preempt::Clock) => PreemptKind::Clock,
        Ok(Preempt::Signal) => PreemptKind::Signal,
        _ => PreemptKind::Never,
    }
}

/// A page with both curves. In the simulator every request is undisturbed.
#[must_use]
pub fn page(pairs: &[&Pair]) -> String {
    let calm = |run: &Run| Run {
        undisturbed: Undisturbed {
            sojourn_ns: run.sojourn_ns,
            slowdown: run.slowdown,
            classes: run.classes.clone(),
        },
        ..run.clone()
    };
    let runs: Vec<Run> =
        pairs.iter().flat_map(|pair| [pair.real.clone(), calm(&pair.simulated)]).collect();
    let workload = runs.first().map_or("", |run| run.workload.as_str());
    let options = HtmlOptions {
        title: Some(format!("Runtime and simulator: {workload}")),
        summary: vec![
            "The same policies and requests, measured in the runtime (bench) and simulated with this \
             machine’s costs (sim). Choose the undisturbed requests to leave out those that a gap of \
             the machine overlapped."
                .to_owned(),
        ],
        ..HtmlOptions::default()
    };
    curtail_report::html(&runs, &options)
}

/// A picture: p99 of the first class, undisturbed beside simulated.
///
/// # Errors
/// There is nothing to draw.
pub fn picture(pairs: &[&Pair]) -> Result<String, Error> {
    let undisturbed = |run: &Run| Run {
        verb: "undisturbed".to_owned(),
        sojourn_ns: run.undisturbed.sojourn_ns,
        slowdown: run.undisturbed.slowdown,
        classes: run.undisturbed.classes.clone(),
        ..run.clone()
    };
    let runs: Vec<Run> =
        pairs.iter().flat_map(|pair| [undisturbed(&pair.real), pair.simulated.clone()]).collect();
    let class = pairs.first().and_then(|pair| pair.simulated.classes.first());
    let options =
        SvgOptions { class: class.map(|class| class.name.clone()), ..SvgOptions::default() };
    Ok(curtail_chart::svg(&runs, &options)?)
}
