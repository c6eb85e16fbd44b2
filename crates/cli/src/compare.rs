//! `curtail compare`: the runtime and the simulator under the same requests.

use crate::args::{Json, Offered, System};
use crate::failure::Failure;
use crate::measured::named;
use crate::output;
use crate::sim::CostArgs;
use crate::typed::Classifier;
use clap::Args;
use curtail_experiment::runtime::compare::{self, Pair};
use curtail_experiment::runtime::{Bench, Comparison};
use curtail_report::Run;
use curtail_sim::Costs;
use curtail_workload::format_rate;
use serde_json::json;

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
        let (workload, mix) = self.offered.workload.mix()?;
        let points = self.offered.points(mix.mean_ns(), Some(self.system.workers()))?;
        let mut comparison = Comparison::new(
            Bench {
                workload,
                mix,
                arrivals: self.offered.arrivals,
                duration_ns: self.offered.duration_ns(),
                warmup_ns: self.offered.warmup_ns()?,
                seed: self.offered.seed,
                system: self.system.runtime(),
                known: self.system.darc.knows(),
                record: None,
                classifier: Classifier::Own,
            },
            costs,
        );
        specs.iter().try_for_each(|spec| comparison.validate(spec))?;
        let preempts = self.system.preempts();
        let runs = self.repeat as usize * points.len() * specs.len() * preempts.len();
        // Drawn between runs only.
        let bar = output::bar(Some(runs as u64), output::RUNS);
        let (mut pairs, mut said) = (Vec::new(), Vec::new());
        // Every point so many times; what is to be compared runs one right after the other.
        for seed in (0..u64::from(self.repeat)).map(|i| self.offered.seed.wrapping_add(i)) {
            comparison.real.seed = seed;
            for &at in &points {
                for (spec, &preempt) in
                    specs.iter().flat_map(|spec| preempts.iter().map(move |how| (spec, how)))
                {
                    let rate = format_rate(at.rate_rps);
                    bar.set_message(format!("{} at {rate}/s", named(spec)));
                    bar.tick();
                    let (pair, notes) = comparison.pair(spec, preempt, at)?;
                    for note in notes {
                        if !said.contains(&note) {
                            bar.suspend(|| say!("note: {note}"));
                            said.push(note);
                        }
                    }
                    pairs.push(pair);
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        self.show(&pairs, costs)
    }

    fn show(&self, pairs: &[Pair], costs: Costs) -> Result<(), Failure> {
        let shown = compare::calmest(pairs);
        let lines = compare::lines(&shown);
        let runs: Vec<Run> =
            pairs.iter().flat_map(|pair| [pair.real.clone(), pair.simulated.clone()]).collect();
        let value = json!({
            "schema": 1, "verb": "compare", "costs": costs,
            "points": lines.iter().map(compare::Line::json).collect::<Vec<_>>(), "runs": runs,
        });
        if self.markdown && self.json.json.as_deref() != Some("-") {
            output::text(&compare::markdown(&lines))?;
            if let Some(file) = &self.json.json {
                curtail_report::write_text(file, &format!("{value:#}\n"))?;
            }
        } else {
            let heads = compare::heads();
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            let rows: Vec<_> = lines.iter().map(compare::Line::cells).collect();
            output::listing(&heads, &rows, &value, self.json.json.as_deref())?;
        }
        if let Some(file) = &self.html {
            curtail_report::write_text(file, &compare::page(&shown))?;
        }
        if let Some(file) = &self.svg {
            curtail_report::write_text(file, &compare::picture(&shown)?)?;
        }
        Ok(())
    }
}
