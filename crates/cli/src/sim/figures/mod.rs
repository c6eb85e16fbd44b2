//! `curtail sim --figure`: the papers' simulated figures, drawn again.
//!
//! A figure is data ([`figure`]): what is simulated, how it is plotted, what the paper says of it and
//! how that is checked. Its points are independent runs on all cores ([`simulate`]); what is read off
//! them ([`drawn`]) is held against the paper; [`write`] shows it. Simulations depend on the number
//! of requests and the seed, and on nothing else.
//!
//! [`auto`] is no paper's: the policy that chooses, beside the best of the others.

mod auto;
mod beside;
mod concord;
mod drawn;
mod figure;
mod persephone;
mod sharing;
mod shenango;
mod shenango_cores;
mod simulate;
mod tiny_quanta;
mod write;

use crate::failure::Failure;
use crate::output;
use curtail_report::{Unit, page, write_text};
use figure::{Figure, Scale};
use indicatif::ProgressBar;
use simulate::How;
use std::path::Path;
use write::Done;

/// All of them, paper by paper.
static FIGURES: &[&Figure] = &[
    &concord::FIG_5,
    &shenango::FIG_1,
    &shenango_cores::FIG_8,
    &shenango_cores::FIG_8_BATCH,
    &shenango_cores::PROGRAMS,
    &shenango_cores::PROGRAMS_TAIL,
    &tiny_quanta::FIG_1,
    &tiny_quanta::FIG_2,
    &tiny_quanta::FIG_4,
    &persephone::FIG_1,
    &persephone::FIG_10,
    &persephone::FIG_10_LONG,
    &persephone::TPCC,
];

const LOADS: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

/// Where it matters between which loads an objective is missed.
const FINE_LOADS: &[f64] = &[
    0.05, 0.1, 0.2, 0.3, 0.35, 0.375, 0.4, 0.425, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.925, 0.957, 0.97,
];

const SUSTAINED: Scale =
    Scale { name: "requests per second", unit: Unit::Rate, log: false, most: None };

const SLOWDOWN: Scale = Scale { name: "p99.9 slowdown", unit: Unit::Number, log: true, most: None };

/// What was asked for.
pub(super) struct Asked<'a> {
    /// A figure's name, `all` (of the papers'), or `auto`.
    pub(super) name: &'a str,
    /// Requests of each run.
    pub(super) jobs: Option<u64>,
    pub(super) seed: u64,
    pub(super) threads: usize,
    /// Where pictures and pages go.
    pub(super) dir: &'a Path,
    pub(super) json: Option<&'a str>,
}

impl Asked<'_> {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let figures = self.figures()?;
        std::fs::create_dir_all(self.dir)
            .map_err(|e| Failure::failed(format!("cannot make {}: {e}", self.dir.display())))?;
        if self.name == auto::NAME {
            return self.run_auto();
        }
        let bar = super::progress(figures.iter().map(|it| simulate::count(it) as u64).sum());
        let mut all = Vec::new();
        for figure in figures {
            let done = self.draw(figure, &bar)?;
            done.leave_in(self.dir)?;
            if self.json != Some("-") {
                bar.suspend(|| output::text(&format!("{}\n", done.text())))?;
            }
            all.push(done);
        }
        bar.finish_and_clear();
        if all.len() > 1 {
            let sections: Vec<_> = all.iter().map(Done::section).collect();
            let text = page("The papers' simulated figures", &sections)?;
            write_text(&self.dir.join("all.html").to_string_lossy(), &text)?;
        }
        if let Some(file) = self.json {
            let values: Vec<_> = all.iter().map(Done::json).collect();
            write_text(file, &format!("{:#}\n", serde_json::Value::from(values)))?;
        }
        if self.json != Some("-") {
            output::text(&format!("pictures and pages: {}\n", self.dir.display()))?;
        }
        Ok(())
    }

    fn figures(&self) -> Result<Vec<&'static Figure>, Failure> {
        if self.name == "all" {
            return Ok(FIGURES.to_vec());
        }
        if self.name == auto::NAME {
            return Ok(Vec::new());
        }
        let found = FIGURES.iter().find(|figure| figure.name == self.name);
        found.map(|figure| vec![*figure]).ok_or_else(|| {
            let known: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
            let name = self.name;
            Failure::usage(format!("no figure `{name}`; there are {}, all, auto", known.join(", ")))
        })
    }

    fn draw(&self, figure: &'static Figure, bar: &ProgressBar) -> Result<Done, Failure> {
        let jobs = self.jobs.unwrap_or(figure.jobs);
        let how = How { jobs, seed: self.seed, threads: self.threads };
        let drawn = simulate::draw(figure, how, |label| {
            bar.set_message(format!("{}: {label}", figure.name));
            bar.inc(1);
        })?;
        let findings = figure.statements.iter().map(|it| (it.check)(&drawn)).collect();
        Ok(Done { figure, drawn, findings, jobs, seed: self.seed })
    }
}
