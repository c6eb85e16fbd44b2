//! What [`super::auto`] found, as a table, JSON, a picture and a page.

use super::auto::{Cell, NAME, POLICIES, show, workloads};
use crate::Error;
use curtail_chart::{Axis, Chart, ChartCurve, ChartPoint, Listing, Section, Unit, page};
use curtail_report::{SCHEMA, columns, write_text};
use serde_json::{Value, json};
use std::path::Path;

const TITLE: &str = "auto beside the best of the others";

/// What it may be worse.
const ROOM: f64 = 1.05;

const HEADS: [&str; 6] = ["workload", "load", "auto", "best", "which", "auto/best"];

/// What was found.
pub(super) struct Beside {
    pub(super) cells: Vec<Cell>,
    pub(super) jobs: u64,
    pub(super) seed: u64,
}

fn row(cell: &Cell) -> Vec<String> {
    let (which, best) = cell.best();
    let mark = if (0.0..=ROOM).contains(&cell.ratio()) { "" } else { " *" };
    vec![
        cell.workload.to_owned(),
        cell.load.to_string(),
        show(cell.tails[0]),
        show(best),
        which.to_owned(),
        format!("{:.3}{mark}", cell.ratio()),
    ]
}

impl Beside {
    fn beyond(&self) -> impl Iterator<Item = &Cell> {
        // What is no number is beyond, too.
        self.cells.iter().filter(|cell| !(0.0..=ROOM).contains(&cell.ratio()))
    }

    /// How it stands, in a line.
    fn finding(&self) -> String {
        let (beyond, of) = (self.beyond().count(), self.cells.len());
        let most = self.cells.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let most = most.map_or(String::new(), |it| {
            format!("; at most {:.3} times it, {} at {}", it.ratio(), it.workload, it.load)
        });
        format!("within 5% of the best at {} of {of} points{most}", of - beyond)
    }

    pub(super) fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.cells.iter().map(row).collect();
        format!(
            "{NAME}: {TITLE}\np99.9 slowdown, 16 workers, no costs; *: more than 5% above the best\n\n\
             {}\n{}\n",
            columns(&HEADS, &rows),
            self.finding()
        )
    }

    fn chart(&self) -> Chart {
        let curves = workloads().into_iter().map(|workload| {
            let own = self.cells.iter().filter(|cell| cell.workload == workload);
            let points = own.map(|cell| ChartPoint {
                x: cell.load,
                y: cell.ratio(),
                doubtful: false,
                note: String::new(),
            });
            ChartCurve { label: workload.to_owned(), points: points.collect() }
        });
        let axis = |name: &str, unit| Axis { name: name.to_owned(), unit, log: false, most: None };
        Chart {
            title: TITLE.to_owned(),
            subtitle: "p99.9 slowdown over that of the best fixed policy".to_owned(),
            x: axis("load", Unit::Share),
            y: axis("auto / best", Unit::Share),
            curves: curves.collect(),
            line: Some((ROOM, "5% above".to_owned())),
        }
    }

    fn section(&self) -> Section {
        let own = |heads: &[&str]| heads.iter().map(|&head| head.to_owned()).collect();
        let all = self.cells.iter().map(|cell| {
            let first = [cell.workload.to_owned(), cell.load.to_string()];
            first.into_iter().chain(cell.tails.map(show)).collect()
        });
        let heads: Vec<&str> = HEADS[..2].iter().chain(&POLICIES).copied().collect();
        let table = |caption: &str, heads, rows| Listing {
            caption: caption.to_owned(),
            heads,
            rows,
            figures: true,
        };
        Section {
            heading: TITLE.to_owned(),
            text: vec![
                "16 workers, no costs, Poisson arrivals. Policies that profile know workloads that \
                 do not change; auto is told nothing."
                    .to_owned(),
                format!("{} requests a run, seed {}: {}.", self.jobs, self.seed, self.finding()),
            ],
            chart: self.chart(),
            tables: vec![
                table("p99.9 slowdown", own(&HEADS), self.cells.iter().map(row).collect()),
                table("p99.9 slowdown of all", own(&heads), all.collect()),
            ],
        }
    }

    pub(super) fn json(&self) -> Value {
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|cell| {
                let tails = POLICIES.into_iter().zip(cell.tails);
                let tails: serde_json::Map<_, _> =
                    tails.map(|(policy, tail)| (policy.to_owned(), json!(tail))).collect();
                json!({ "workload": cell.workload, "load": cell.load, "p99_9_slowdown": tails,
                        "best": cell.best().0, "ratio": cell.ratio() })
            })
            .collect();
        json!({ "schema": SCHEMA, "verb": "figure", "figure": NAME, "title": TITLE,
                "jobs": self.jobs, "seed": self.seed, "cells": cells,
                "beyond": self.beyond().count() })
    }

    /// Leaves the picture, the JSON and the page in a directory.
    pub(super) fn leave_in(&self, dir: &Path) -> Result<(), Error> {
        let write = |kind: &str, text: &str| {
            write_text(&dir.join(format!("{NAME}.{kind}")).to_string_lossy(), text)
        };
        write("svg", &format!("{}\n", self.chart().svg()?.trim_end()))?;
        write("json", &format!("{:#}\n", self.json()))?;
        write("html", &page(TITLE, &[self.section()])?)?;
        Ok(())
    }
}
