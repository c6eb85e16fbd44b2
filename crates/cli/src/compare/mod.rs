//! `curtail compare`: the runtime and the simulator under the same policy, the same workload, the
//! same requests at the same times.
//!
//! Each point is measured in the runtime, and simulated with this machine's costs, as many workers,
//! and requests that stay where they started. What pre-emption the runtime could do is what the
//! simulator does.

mod table;

use crate::args::{Json, Offered, Point, System};
use crate::bench::{Application, Setting as Bench};
use crate::failure::Failure;
use crate::measured::named;
use crate::output;
use crate::sim::CostArgs;
use crate::typed::Classifier;
use clap::Args;
use curtail::Preempt;
use curtail_experiment::{Length, Offer, Setting as Simulation, Source};
use curtail_policy::{PreemptKind, Spec};
use curtail_report::{HtmlOptions, Run, SvgOptions, Undisturbed};
use curtail_sim::{Costs, Hints};
use curtail_workload::format_rate;
use curtail_workload::spin::Calibration;
use serde_json::json;
use table::Pair;

/// `curtail compare`.
#[derive(Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    offered: Offered,
    #[command(flatten)]
    costs: CostArgs,
    /// How often each point is measured, in turns, with seeds from --seed on; shown is the run that
    /// lost the least time to the machine's gaps
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Write one offline page with both curves to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
    /// Write a picture to FILE: p99 of the first class, undisturbed against simulated
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// A table for documents, instead of the one for terminals
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    json: Json,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let specs = self.system.specs()?;
        let costs = self.costs.costs("calibrated")?;
        let real = self.bench()?;
        let simulation = self.simulation(&real, costs);
        let points = self.offered.points(real.mix.mean_ns(), Some(real.workers))?;
        for spec in &specs {
            simulation.config(spec, 0).validate().map_err(Failure::usage)?;
        }
        let pairs = self.measure(real, &simulation, &specs, &points)?;
        self.show(&pairs, costs)
    }

    fn bench(&self) -> Result<Bench, Failure> {
        let (workload, mix) = self.offered.workload.mix()?;
        Ok(Bench {
            workload,
            mix,
            told: Vec::new(),
            arrivals: self.offered.arrivals,
            duration_ns: self.offered.duration_ns(),
            warmup_ns: self.offered.warmup_ns()?,
            seed: self.offered.seed,
            workers: self.system.workers(),
            system: self.system.clone(),
            record: None,
            classifier: Classifier::Own,
            application: Application::Spin(Calibration::measure()),
        })
    }

    fn simulation(&self, real: &Bench, costs: Costs) -> Simulation {
        let (name, source) = (real.workload.clone(), Source::Mix(real.mix.clone()));
        let length = Length::Time { duration_ns: real.duration_ns, warmup_ns: real.warmup_ns };
        Simulation {
            dispatchers: self.system.dispatchers(),
            balance: self.system.balance,
            capacity: self.system.capacity() as usize,
            pinned: true,
            // As the requests of `spin` say it themselves.
            hints: Hints::Exact,
            known: self.system.darc.knows(),
            costs,
            ..Simulation::ideal(Offer::new(name, source, real.arrivals, length), real.workers)
        }
    }

    /// Every point so many times; what is to be compared runs one right after the other.
    fn measure(
        &self,
        mut real: Bench,
        simulation: &Simulation,
        specs: &[Spec],
        points: &[Point],
    ) -> Result<Vec<Pair>, Failure> {
        let preempts = self.system.preempts();
        let runs = self.repeat as usize * points.len() * specs.len() * preempts.len();
        // Drawn between runs only.
        let bar = output::bar(Some(runs as u64), output::RUNS);
        let (mut pairs, mut said) = (Vec::new(), Vec::new());
        for seed in (0..u64::from(self.repeat)).map(|i| self.offered.seed.wrapping_add(i)) {
            real.seed = seed;
            for &at in points {
                for (spec, &preempt) in
                    specs.iter().flat_map(|spec| preempts.iter().map(move |how| (spec, how)))
                {
                    let rate = format_rate(at.rate_rps);
                    bar.set_message(format!("{} at {rate}/s", named(spec)));
                    bar.tick();
                    let measured = real.measure(spec, preempt, at)?;
                    for note in measured.notes {
                        if !said.contains(&note) {
                            bar.suspend(|| say!("note: {note}"));
                            said.push(note);
                        }
                    }
                    let spec = spec.clone().with_preempt(done(&measured.run.preempt));
                    let simulated = simulation.measure(&spec, at, seed)?.run;
                    pairs.push(Pair { real: measured.run, simulated });
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(pairs)
    }

    fn show(&self, pairs: &[Pair], costs: Costs) -> Result<(), Failure> {
        let shown = table::calmest(pairs);
        let lines = table::lines(&shown);
        let runs: Vec<Run> =
            pairs.iter().flat_map(|pair| [pair.real.clone(), pair.simulated.clone()]).collect();
        let value = json!({
            "schema": 1, "verb": "compare", "costs": costs,
            "points": lines.iter().map(table::Line::json).collect::<Vec<_>>(), "runs": runs,
        });
        if self.markdown && self.json.json.as_deref() != Some("-") {
            output::text(&table::markdown(&lines))?;
            if let Some(file) = &self.json.json {
                curtail_report::write_text(file, &format!("{value:#}\n"))?;
            }
        } else {
            let heads = table::heads();
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            let rows: Vec<_> = lines.iter().map(table::Line::cells).collect();
            output::listing(&heads, &rows, &value, self.json.json.as_deref())?;
        }
        if let Some(file) = &self.html {
            curtail_report::write_text(file, &page(&shown))?;
        }
        if let Some(file) = &self.svg {
            curtail_report::write_text(file, &picture(&shown)?)?;
        }
        Ok(())
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

/// Both curves. In the simulator every request is undisturbed.
fn page(pairs: &[&Pair]) -> String {
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

fn picture(pairs: &[&Pair]) -> Result<String, Failure> {
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
    Ok(curtail_report::svg(&runs, &options)?)
}
