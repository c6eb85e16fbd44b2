//! The papers' simulated figures, drawn again (`curtail sim --figure`).
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

use crate::Error;
use curtail_report::{Unit, page, write_text};
use figure::{Figure, Scale};
use serde_json::Value;
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
pub struct Asked<'a> {
    /// A figure's name, `all` (of the papers'), or `auto`.
    pub name: &'a str,
    /// Requests of each run; `None`: the figure's own.
    pub jobs: Option<u64>,
    /// Of all draws.
    pub seed: u64,
    /// Runs at a time.
    pub threads: usize,
    /// Where pictures and pages go.
    pub dir: &'a Path,
}

impl Asked<'_> {
    /// How many runs it takes.
    ///
    /// # Errors
    /// There is no such figure.
    pub fn count(&self) -> Result<usize, Error> {
        if self.name == auto::NAME {
            return Ok(auto::count());
        }
        Ok(self.figures()?.into_iter().map(simulate::count).sum())
    }

    /// Draws it, leaves pictures and pages in the directory, and gives each figure's JSON. `ran` is
    /// called after each run, from any thread; `show` gets each figure's text when it is drawn.
    ///
    /// # Errors
    /// There is no such figure, a file cannot be written, or `show` fails.
    pub fn draw(
        &self,
        ran: impl Fn(&str) + Sync,
        mut show: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<Vec<Value>, Error> {
        let figures = self.figures()?;
        std::fs::create_dir_all(self.dir)
            .map_err(|e| Error::failed(format!("cannot make {}: {e}", self.dir.display())))?;
        if self.name == auto::NAME {
            let done = self.beside(&ran)?;
            done.leave_in(self.dir)?;
            show(&done.text())?;
            return Ok(vec![done.json()]);
        }
        let mut all = Vec::new();
        for figure in figures {
            let done = self.drawn(figure, &ran)?;
            done.leave_in(self.dir)?;
            show(&done.text())?;
            all.push(done);
        }
        if all.len() > 1 {
            let sections: Vec<_> = all.iter().map(Done::section).collect();
            let text = page("The papers' simulated figures", &sections)?;
            write_text(&self.dir.join("all.html").to_string_lossy(), &text)?;
        }
        Ok(all.iter().map(Done::json).collect())
    }

    fn figures(&self) -> Result<Vec<&'static Figure>, Error> {
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
            Error::usage(format!("no figure `{name}`; there are {}, all, auto", known.join(", ")))
        })
    }

    fn how(&self, jobs: u64) -> How {
        How { jobs: self.jobs.unwrap_or(jobs), seed: self.seed, threads: self.threads }
    }

    fn drawn(&self, figure: &'static Figure, ran: &(impl Fn(&str) + Sync)) -> Result<Done, Error> {
        let how = self.how(figure.jobs);
        let name = figure.name;
        let drawn = simulate::draw(figure, how, |label| ran(&format!("{name}: {label}")))?;
        let findings = figure.statements.iter().map(|it| (it.check)(&drawn)).collect();
        Ok(Done { figure, drawn, findings, jobs: how.jobs, seed: self.seed })
    }
}
