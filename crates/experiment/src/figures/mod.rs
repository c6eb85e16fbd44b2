//! The papers' figures, drawn again (`curtail sim --figure`).
//!
//! A figure is data (`figure`): what is simulated, how it is plotted, what the paper says of it and
//! how that is checked. Its points are independent runs on all cores (`simulate`); what is read off
//! them (`drawn`) is held against the paper; [`write`] shows it. Simulations depend on the number
//! of requests, the seed, and the costs that are called calibrated.
//!
//! Those that the papers measured on prototypes are in `measured`: drawn twice, without costs and
//! with calibrated ones.
//!
//! `auto` is no paper's: the policy that chooses, beside the best of the others.

mod auto;
mod beside;
mod concord;
mod drawn;
mod figure;
mod measured;
mod persephone;
mod sharing;
mod shenango;
mod shenango_cores;
mod simulate;
mod system;
mod tiny_quanta;
mod write;

use crate::Error;
use curtail_chart::{Section, Unit, page};
use curtail_report::write_text;
use curtail_sim::Costs;
use figure::{Figure, Scale};
pub use measured::ELSEWHERE;
use measured::{Both, MEASURED, Measured};
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

/// A figure that there is.
#[derive(Clone, Copy)]
enum Kind {
    /// The paper simulates it.
    Simulated(&'static Figure),
    /// The paper measures it.
    Measured(&'static Measured),
}

/// It, drawn.
enum Drawing {
    Simulated(Done),
    Measured(Box<Both>),
}

impl Kind {
    /// All, paper by paper, those that are simulated first.
    fn all() -> impl Iterator<Item = Self> {
        let measured = MEASURED.iter().map(|it| Self::Measured(it));
        FIGURES.iter().map(|it| Self::Simulated(it)).chain(measured)
    }

    fn figure(self) -> &'static Figure {
        match self {
            Self::Simulated(figure) => figure,
            Self::Measured(it) => &it.figure,
        }
    }

    fn count(self) -> usize {
        match self {
            Self::Simulated(figure) => simulate::count(figure),
            Self::Measured(it) => it.count(),
        }
    }
}

impl Drawing {
    fn text(&self) -> String {
        match self {
            Self::Simulated(it) => it.text(),
            Self::Measured(it) => it.text(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Simulated(it) => it.json(),
            Self::Measured(it) => it.json(),
        }
    }

    fn sections(&self) -> Vec<Section> {
        match self {
            Self::Simulated(it) => vec![it.section()],
            Self::Measured(it) => it.sections().into(),
        }
    }

    fn leave_in(&self, dir: &Path) -> Result<(), Error> {
        match self {
            Self::Simulated(it) => it.leave_in(dir),
            Self::Measured(it) => it.leave_in(dir),
        }
    }
}

/// What was asked for.
pub struct Asked<'a> {
    /// A figure's name, `all` of the papers', `simulated` or `measured` there, or `auto`.
    pub name: &'a str,
    /// Requests of each run; `None`: the figure's own.
    pub jobs: Option<u64>,
    /// Of all draws.
    pub seed: u64,
    /// Runs at a time.
    pub threads: usize,
    /// What calibrated costs are; `None`: those of the documentation's machine.
    pub costs: Option<&'a str>,
    /// Where pictures and pages go.
    pub dir: &'a Path,
    /// Where what the papers say of measured figures goes, beside ours, as Markdown.
    pub markdown: Option<&'a str>,
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
        Ok(self.kinds()?.into_iter().map(Kind::count).sum())
    }

    /// Draws it, leaves pictures and pages in the directory, and gives each figure's JSON. `ran` is
    /// called after each run, from any thread; `show` gets each figure's text when it is drawn.
    ///
    /// # Errors
    /// There is no such figure, a file cannot be read or written, or `show` fails.
    pub fn draw(
        &self,
        ran: impl Fn(&str) + Sync,
        mut show: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<Vec<Value>, Error> {
        let kinds = self.kinds()?;
        let costs = measured::calibrated(self.costs)?;
        std::fs::create_dir_all(self.dir)
            .map_err(|e| Error::failed(format!("cannot make {}: {e}", self.dir.display())))?;
        if self.name == auto::NAME {
            let done = self.beside(&ran)?;
            done.leave_in(self.dir)?;
            show(&done.text())?;
            return Ok(vec![done.json()]);
        }
        let mut all = Vec::new();
        for kind in kinds {
            let done = self.drawn(kind, costs, &ran)?;
            done.leave_in(self.dir)?;
            show(&done.text())?;
            all.push(done);
        }
        if all.len() > 1 {
            let sections: Vec<_> = all.iter().flat_map(Drawing::sections).collect();
            let text = page("The papers' figures", &sections)?;
            write_text(&self.dir.join("all.html").to_string_lossy(), &text)?;
        }
        if let Some(file) = self.markdown {
            write_text(file, &markdown(&all))?;
        }
        Ok(all.iter().map(Drawing::json).collect())
    }

    fn kinds(&self) -> Result<Vec<Kind>, Error> {
        let among = |which: fn(&Kind) -> bool| Ok(Kind::all().filter(which).collect());
        match self.name {
            "all" => among(|_| true),
            "simulated" => among(|it| matches!(it, Kind::Simulated(_))),
            "measured" => among(|it| matches!(it, Kind::Measured(_))),
            auto::NAME => Ok(Vec::new()),
            name => {
                let found = Kind::all().find(|it| it.figure().name == name);
                found.map(|it| vec![it]).ok_or_else(|| {
                    let known: Vec<&str> = Kind::all().map(|it| it.figure().name).collect();
                    let known = known.join(", ");
                    Error::usage(format!(
                        "no figure `{name}`; there are {known}, all, simulated, measured, auto"
                    ))
                })
            }
        }
    }

    fn how(&self, jobs: u64) -> How {
        let Self { seed, threads, .. } = *self;
        How { jobs: self.jobs.unwrap_or(jobs), seed, threads, costs: None }
    }

    fn drawn(
        &self,
        kind: Kind,
        costs: Costs,
        ran: &(impl Fn(&str) + Sync),
    ) -> Result<Drawing, Error> {
        let figure = kind.figure();
        let how = self.how(figure.jobs);
        let ran = |label: &str| ran(&format!("{}: {label}", figure.name));
        Ok(match kind {
            Kind::Simulated(figure) => {
                let drawn = simulate::draw(figure, how, ran)?;
                let findings = figure.statements.iter().map(|it| (it.check)(&drawn)).collect();
                Drawing::Simulated(Done { figure, drawn, findings, jobs: how.jobs, seed: how.seed })
            }
            Kind::Measured(it) => Drawing::Measured(Box::new(it.draw(how, costs, ran)?)),
        })
    }
}

/// The claims of measured figures, as a table each.
fn markdown(all: &[Drawing]) -> String {
    let tables = all.iter().filter_map(|it| match it {
        Drawing::Simulated(_) => None,
        Drawing::Measured(it) => Some(it.markdown()),
    });
    tables.chain([format!("\n{ELSEWHERE}\n")]).collect::<String>().trim_start().to_owned()
}
