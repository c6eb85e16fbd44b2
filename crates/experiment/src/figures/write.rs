//! A figure's results as a table, JSON, a picture and a page.

use super::drawn::{Drawn, Finding};
use super::figure::{Figure, Scale};
use crate::Error;
use curtail_chart::{Axis, Chart, ChartCurve, ChartPoint, Listing, Section, page};
use curtail_report::{SCHEMA, columns, write_text};
use serde_json::{Value, json};
use std::path::Path;

/// A figure, what was drawn, and how the paper's statements stand.
pub(super) struct Done {
    pub(super) figure: &'static Figure,
    pub(super) drawn: Drawn,
    pub(super) findings: Vec<Finding>,
    pub(super) jobs: u64,
    pub(super) seed: u64,
}

impl Scale {
    fn axis(&self) -> Axis {
        Axis { name: self.name.to_owned(), unit: self.unit, log: self.log, most: self.most }
    }
}

impl Done {
    pub(super) fn chart(&self) -> Chart {
        let figure = self.figure;
        let curves = self.drawn.curves.iter().map(|curve| {
            let mut last = "";
            let points = curve.points.iter().map(|point| {
                // A note is written where it changes.
                let note = if point.note == last { "" } else { &point.note };
                last = &point.note;
                ChartPoint { x: point.x, y: point.y, doubtful: point.overloaded, note: note.into() }
            });
            ChartCurve { label: curve.label.to_owned(), points: points.collect() }
        });
        let log = if figure.y.log { ", logarithmic" } else { "" };
        Chart {
            title: figure.title.to_owned(),
            subtitle: format!("{}{log} · after {}", figure.y.name, figure.source),
            x: figure.x.axis(),
            y: figure.y.axis(),
            curves: curves.collect(),
            line: figure.line.map(|(at, name)| (at, name.to_owned())),
        }
    }

    /// A row for each place on the level axis, a column for each curve.
    pub(super) fn points(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let (x, y) = (&self.figure.x, &self.figure.y);
        let curves = &self.drawn.curves;
        let heads = std::iter::once(x.name).chain(curves.iter().map(|curve| curve.label));
        let heads = heads.map(str::to_owned).collect();
        let mut places: Vec<f64> =
            curves.iter().flat_map(|curve| &curve.points).map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup_by(|a, b| (*a - *b).abs() <= 1e-9 * *b);
        let row = |&place: &f64| {
            let cell = |curve: &super::drawn::DrawnCurve| {
                let same = |it: &&super::drawn::DrawnPoint| (it.x - place).abs() <= 1e-9 * place;
                let Some(point) = curve.points.iter().find(same) else { return String::new() };
                let mut cell = y.unit.show(point.y);
                if point.overloaded {
                    cell.push_str(" (overloaded)");
                }
                if !point.note.is_empty() {
                    cell.push_str(&format!(" ({})", point.note));
                }
                cell
            };
            std::iter::once(x.unit.show(place)).chain(curves.iter().map(cell)).collect()
        };
        (heads, places.iter().map(row).collect())
    }

    fn statements(&self) -> Vec<[String; 3]> {
        let both = self.figure.statements.iter().zip(&self.findings);
        both.map(|(statement, finding)| {
            [finding.verdict(), statement.says.to_owned(), finding.ours.clone()]
        })
        .collect()
    }

    pub(super) fn text(&self) -> String {
        let figure = self.figure;
        let (heads, rows) = self.points();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut out = format!(
            "{}: {}\n{}\n{}: by {}\n\n{}\n",
            figure.name,
            figure.source,
            figure.title,
            figure.y.name,
            figure.x.name,
            columns(&heads, &rows)
        );
        for [verdict, says, ours] in self.statements() {
            // What agrees in part has a line to say it.
            let after = if verdict.len() <= 8 { "" } else { ":\n        " };
            out.push_str(&format!("{verdict:8}{after} {says}\n         ours: {ours}\n"));
        }
        out
    }

    /// All points of all curves.
    pub(super) fn curves(&self) -> Value {
        self
            .drawn
            .curves
            .iter()
            .map(|curve| {
                let points: Vec<Value> = curve
                    .points
                    .iter()
                    .map(|point| {
                        json!({ "x": point.x, "y": point.y, "overloaded": point.overloaded,
                                "note": point.note, "p99_9_sojourn_ns": point.tail_ns, "run": point.run })
                    })
                    .collect();
                json!({ "label": curve.label, "points": points })
            })
            .collect()
    }

    pub(super) fn json(&self) -> Value {
        let figure = self.figure;
        let statements: Vec<Value> = figure
            .statements
            .iter()
            .zip(&self.findings)
            .map(|(it, found)| {
                let named = found.parts.iter().filter(|part| !part.0.is_empty());
                let parts: serde_json::Map<_, _> =
                    named.map(|&(name, holds)| (name.to_owned(), json!(holds))).collect();
                json!({ "paper": it.says, "ours": found.ours, "agrees": found.agrees(),
                        "verdict": found.verdict(), "parts": parts })
            })
            .collect();
        json!({ "schema": SCHEMA, "verb": "figure", "figure": figure.name, "source": figure.source,
                "title": figure.title, "setting": figure.setting, "chosen": figure.chosen,
                "jobs": self.jobs, "seed": self.seed, "x": figure.x.name, "y": figure.y.name,
                "curves": self.curves(), "statements": statements })
    }

    pub(super) fn section(&self) -> Section {
        let (heads, rows) = self.points();
        let words = ["", "The paper", "Here"].map(str::to_owned).to_vec();
        let statements = self.statements().into_iter().map(|row| row.to_vec()).collect();
        Section {
            heading: self.figure.source.to_owned(),
            text: vec![
                self.figure.setting.to_owned(),
                format!("Chosen here: {}", self.figure.chosen),
                format!("{} requests a run, seed {}.", self.jobs, self.seed),
            ],
            chart: self.chart(),
            tables: vec![
                Listing {
                    caption: "What the paper says".to_owned(),
                    heads: words,
                    rows: statements,
                    figures: false,
                },
                Listing { caption: self.figure.y.name.to_owned(), heads, rows, figures: true },
            ],
        }
    }

    /// Leaves the picture, the JSON and the page of this figure in a directory.
    pub(super) fn leave_in(&self, dir: &Path) -> Result<(), Error> {
        let file = |kind: &str| dir.join(format!("{}.{kind}", self.figure.name));
        let write = |kind: &str, text: &str| write_text(&file(kind).to_string_lossy(), text);
        write("svg", &format!("{}\n", self.chart().svg()?.trim_end()))?;
        write("json", &format!("{:#}\n", self.json()))?;
        write("html", &page(self.figure.title, &[self.section()])?)?;
        Ok(())
    }
}
