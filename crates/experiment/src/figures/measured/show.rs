//! A measured figure as text, JSON, Markdown, pictures and a page.

use super::{Both, Claim, Paper};
use crate::Error;
use curtail_chart::{Listing, Section, page};
use curtail_report::{SCHEMA, columns, write_text};
use serde_json::{Value, json};
use std::path::Path;

const HEADS: [&str; 5] = ["", "the paper", "ideal", "calibrated", "why it differs"];

impl Claim {
    /// The paper's figure, for people.
    fn papers(&self) -> String {
        match self.paper {
            Paper::Is(it) => self.ours.show(it),
            Paper::Above(it) => format!("above {}", self.ours.show(it)),
            Paper::Below(it) => format!("below {}", self.ours.show(it)),
        }
    }
}

impl Both {
    /// Each claim with what ours is, ideal and calibrated.
    fn read(&self) -> impl Iterator<Item = (&'static Claim, f64, f64)> + '_ {
        self.measured.claims.iter().map(|claim| {
            let [ideal, calibrated] =
                [&self.ideal, &self.calibrated].map(|it| claim.ours.read(&it.drawn));
            (claim, ideal, calibrated)
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |(claim, ideal, calibrated): (&Claim, f64, f64)| {
            let mark = |value| {
                let same = if claim.paper.agrees(value) { "" } else { " *" };
                format!("{}{same}", claim.ours.show(value))
            };
            let differs = !claim.paper.agrees(calibrated);
            let reason = if differs { claim.reason } else { "" };
            let [ideal, calibrated] = [ideal, calibrated].map(mark);
            vec![claim.says.to_owned(), claim.papers(), ideal, calibrated, reason.to_owned()]
        };
        self.read().map(row).collect()
    }

    pub(in super::super) fn text(&self) -> String {
        let figure = &self.measured.figure;
        let mut out = format!("{}: {}\n{}\n", figure.name, figure.source, figure.title);
        for (kind, done) in [("ideal", &self.ideal), ("calibrated", &self.calibrated)] {
            let (heads, rows) = done.points();
            let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
            let table = columns(&heads, &rows);
            out.push_str(&format!("\n{}, {kind}: by {}\n{table}", figure.y.name, figure.x.name));
        }
        out.push('\n');
        for row in self.rows() {
            let [says, paper, ideal, calibrated, reason] = row.try_into().expect("five columns");
            out.push_str(&format!(
                "{says}\n    paper {paper}; ideal {ideal}; calibrated {calibrated}\n"
            ));
            if !reason.is_empty() {
                out.push_str(&format!("    {reason}\n"));
            }
        }
        out
    }

    /// Rows of a Markdown table.
    pub(in super::super) fn markdown(&self) -> String {
        let source = self.measured.figure.source;
        let line = |row: Vec<String>| format!("| {} |\n", row.join(" | ").replace('*', "\\*"));
        format!("\n{source} (`{}`)\n\n", self.measured.figure.name)
            + &line(HEADS.map(str::to_owned).to_vec())
            + "|---|---|---|---|---|\n"
            + &self.rows().into_iter().map(line).collect::<String>()
    }

    pub(in super::super) fn json(&self) -> Value {
        let figure = &self.measured.figure;
        let claims: Vec<Value> = self
            .read()
            .map(|(claim, ideal, calibrated)| {
                let (kind, paper) = match claim.paper {
                    Paper::Is(it) => ("is", it),
                    Paper::Above(it) => ("above", it),
                    Paper::Below(it) => ("below", it),
                };
                json!({ "says": claim.says, "paper": paper, "paper_is": kind, "ideal": ideal,
                        "calibrated": calibrated, "ideal_agrees": claim.paper.agrees(ideal),
                        "calibrated_agrees": claim.paper.agrees(calibrated),
                        "reason": claim.reason })
            })
            .collect();
        json!({ "schema": SCHEMA, "verb": "figure", "figure": figure.name, "source": figure.source,
                "title": figure.title, "setting": figure.setting, "chosen": figure.chosen,
                "jobs": self.ideal.jobs, "seed": self.ideal.seed, "costs": self.costs,
                "x": figure.x.name, "y": figure.y.name, "ideal": self.ideal.curves(),
                "calibrated": self.calibrated.curves(), "claims": claims })
    }

    /// Ideal, and calibrated.
    pub(in super::super) fn sections(&self) -> [Section; 2] {
        [("ideal", &self.ideal), ("calibrated", &self.calibrated)].map(|(kind, done)| {
            let mut section = done.section();
            section.heading = format!("{}: {kind} costs", section.heading);
            section.chart.title = format!("{}: {kind} costs", section.chart.title);
            section.tables.remove(0);
            if kind == "ideal" {
                let caption = "What the paper says".to_owned();
                let heads = HEADS.map(str::to_owned).to_vec();
                let listing = Listing { caption, heads, rows: self.rows(), figures: false };
                section.tables.insert(0, listing);
            }
            section
        })
    }

    /// Leaves the pictures, the JSON and the page of this figure in a directory.
    pub(in super::super) fn leave_in(&self, dir: &Path) -> Result<(), Error> {
        let figure = &self.measured.figure;
        let write = |name: String, text: &str| {
            write_text(&dir.join(name).to_string_lossy(), text).map_err(Error::from)
        };
        let sections = self.sections();
        for (section, kind) in sections.iter().zip(["ideal", "calibrated"]) {
            let svg = section.chart.svg()?;
            write(format!("{}-{kind}.svg", figure.name), &format!("{}\n", svg.trim_end()))?;
        }
        write(format!("{}.json", figure.name), &format!("{:#}\n", self.json()))?;
        write(format!("{}.html", figure.name), &page(figure.title, &sections)?)
    }
}
