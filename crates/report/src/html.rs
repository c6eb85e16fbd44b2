//! The page: one HTML file with everything in it, for a double click, from any disk, offline.
//!
//! Rust writes the words, the table and the data; `assets/report.js` draws them with uPlot. Names
//! come from files of unknown origin: whatever goes into the page goes through [`escape`] or, in
//! the data, [`json`]; the page's own policy forbids it to fetch anything.

use crate::series::{COLOURS, series, shape};
use crate::table::{Block, blocks, plain};
use crate::{Metric, Quantile, Run};
use serde::Serialize;
use std::fmt::Write as _;

const UPLOT_JS: &str = include_str!("../assets/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../assets/uPlot.min.css");
const REPORT_JS: &str = include_str!("../assets/report.js");
/// The style sheet of pages.
pub const STYLE: &str = include_str!("../assets/report.css");

/// What the page shows besides the runs.
#[derive(Clone, Debug, Default)]
pub struct HtmlOptions {
    /// Its title; `None`: made of the workloads.
    pub title: Option<String>,
    /// Paragraphs below the title: what a reader should know first.
    pub summary: Vec<String>,
    /// Objectives, each a horizontal line.
    pub lines: Vec<Line>,
    /// Also a line for service alone: slowdown 1, or a class's mean service time.
    pub ideal: bool,
}

/// A horizontal line in the chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// What its value is.
    pub metric: Metric,
    /// The percentile that it is about; `None`: drawn for every one.
    pub quantile: Option<Quantile>,
    /// The class that it is about; `None`: all requests.
    pub class: Option<String>,
    /// Nanoseconds, or a slowdown.
    pub value: f64,
    /// What it is called.
    pub name: String,
}

/// The runs as one self-contained page. No run is left out: those without a load are in the table
/// alone, those that are not valid are drawn hollow.
#[must_use]
pub fn html(runs: &[Run], options: &HtmlOptions) -> String {
    let title = options.title.clone().unwrap_or_else(|| default_title(runs));
    let mut page = String::with_capacity(200_000);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    );
    let _ = write!(
        page,
        "<title>{}</title>\n<style>\n{UPLOT_CSS}\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{}</h1><p class=\"sub\">{}</p></header>\n<main>\n",
        escape(&title),
        escape(&title),
        escape(&subtitle(runs)),
    );
    for paragraph in &options.summary {
        let _ = writeln!(page, "<p>{}</p>", escape(paragraph));
    }
    page.push_str(
        "<div id=\"controls\" role=\"group\" aria-label=\"What the chart shows\"></div>\n<figure>\n\
         <figcaption><h2 id=\"title\"></h2><p class=\"sub\" id=\"what\"></p></figcaption>\n\
         <div id=\"chart\" role=\"img\" tabindex=\"0\" aria-label=\"Latency by load\">\
         <div id=\"tip\" role=\"status\"></div></div>\n<div id=\"curves\" role=\"group\" \
         aria-label=\"Curves\"></div>\n<noscript><p>The chart needs JavaScript; the table does \
         not.</p></noscript>\n</figure>\n<section aria-labelledby=\"how\"><h2 id=\"how\">How it was measured</h2>\n<dl>\n",
    );
    for (term, text) in method(runs) {
        let _ = writeln!(page, "<dt>{term}</dt><dd>{}</dd>", escape(&text));
    }
    page.push_str(
        "</dl></section>\n<section aria-labelledby=\"all\"><h2 id=\"all\">Every run</h2>\n",
    );
    for block in blocks(runs) {
        push_table(&mut page, &block, runs);
    }
    page.push_str(
        "</section>\n</main>\n<footer>Made by Curtail. Charts: uPlot, MIT licence.</footer>\n",
    );
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{UPLOT_JS}</script>\n\
         <script>{REPORT_JS}</script>\n</body>\n</html>\n",
        json(&data(runs, options)),
    );
    page
}

/// What the script gets.
#[derive(Serialize)]
struct Data<'a> {
    runs: &'a [Run],
    curves: Vec<Curve<'a>>,
    lines: Vec<LineData<'a>>,
    ideal: bool,
}

#[derive(Serialize)]
struct Curve<'a> {
    workload: &'a str,
    label: String,
    runs: Vec<usize>,
    colour: (&'static str, &'static str),
    shape: usize,
}

#[derive(Serialize)]
struct LineData<'a> {
    metric: &'static str,
    quantile: Option<String>,
    class: Option<&'a str>,
    value: f64,
    name: &'a str,
}

fn data<'a>(runs: &'a [Run], options: &'a HtmlOptions) -> Data<'a> {
    let mut workloads: Vec<&str> = Vec::new();
    for run in runs {
        if !workloads.contains(&run.workload.as_str()) {
            workloads.push(&run.workload);
        }
    }
    // A label keeps its colour from one workload to the next.
    let mut labels: Vec<String> = Vec::new();
    let mut curves = Vec::new();
    for workload in workloads {
        for series in series(runs, |run| run.workload == workload) {
            let known = labels.iter().position(|label| *label == series.label);
            let at = known.unwrap_or_else(|| {
                labels.push(series.label.clone());
                labels.len() - 1
            });
            let colour = COLOURS[at % COLOURS.len()];
            curves.push(Curve {
                workload,
                label: plain(&series.label),
                runs: series.runs,
                colour,
                shape: shape(at),
            });
        }
    }
    let line = |line: &'a Line| LineData {
        metric: match line.metric {
            Metric::Sojourn => "sojourn_ns",
            Metric::Slowdown => "slowdown",
        },
        quantile: line.quantile.map(|quantile| quantile.name().replace('.', "_")),
        class: line.class.as_deref(),
        value: line.value,
        name: &line.name,
    };
    Data { runs, curves, lines: options.lines.iter().map(line).collect(), ideal: options.ideal }
}

/// JSON that cannot end the script element it stands in.
fn json(data: &Data<'_>) -> String {
    let text = serde_json::to_string(data).expect("string keys, and nothing that fails");
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// A text as it stands in HTML, none of it markup.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

fn push_table(page: &mut String, block: &Block, runs: &[Run]) {
    let _ = write!(
        page,
        "<div class=\"wide\" tabindex=\"0\"><table class=\"runs\"><caption>{}</caption>\n<thead>",
        escape(&block.heading)
    );
    push_groups(page, block);
    page.push_str("<tr>");
    for column in &block.columns {
        let class = if column.figures { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}</th>", column.name);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &block.rows {
        let class = [(row.first, "first"), (!runs[row.run].valid, "invalid")];
        let class: Vec<_> = class.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        let _ = write!(page, "<tr class=\"{}\">", class.join(" "));
        for (at, (cell, column)) in row.cells.iter().zip(&block.columns).enumerate() {
            let class = match column.figures {
                true => " class=\"n\"",
                false if at + 1 == row.cells.len() => " class=\"verdict\"",
                false => "",
            };
            let _ = write!(page, "<td{class}>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    for line in &block.decided {
        let _ = writeln!(page, "<p class=\"sub\">{}</p>", escape(line));
    }
}

/// The line of headers over groups of columns.
fn push_groups(page: &mut String, block: &Block) {
    page.push_str("<tr>");
    let mut at = 0;
    while at < block.columns.len() {
        let name = block.columns[at].group;
        let span = if name.is_empty() { 1 } else { block.columns[at].span };
        if name.is_empty() {
            page.push_str("<td></td>");
        } else {
            let _ = write!(
                page,
                "<th scope=\"colgroup\" colspan=\"{span}\" class=\"group n\">{name}</th>"
            );
        }
        at += span;
    }
    page.push_str("</tr>\n");
}

fn default_title(runs: &[Run]) -> String {
    let mut names: Vec<_> = runs.iter().map(|run| run.workload.as_str()).collect();
    names.dedup();
    match names.as_slice() {
        [] => "No runs".to_owned(),
        [name] => format!("Latency under load: {name}"),
        _ => "Latency under load".to_owned(),
    }
}

fn subtitle(runs: &[Run]) -> String {
    let invalid = runs.iter().filter(|run| !run.valid).count();
    let mut parts = vec![format!("{} run{}", runs.len(), if runs.len() == 1 { "" } else { "s" })];
    if let Some(seconds) = span(runs.iter().map(|run| run.duration_s).filter(|s| *s > 0.0), |s| {
        crate::units::chosen(s * 1e9)
    }) {
        parts.push(format!("{seconds} each"));
    }
    parts.push(if invalid == 0 { "all valid".into() } else { format!("{invalid} not valid") });
    let mut machines: Vec<_> = runs.iter().map(|run| run.machine.describe()).collect();
    machines.dedup();
    if let [machine] = machines.as_slice()
        && !machine.is_empty()
    {
        parts.push(machine.clone());
    }
    parts.join(" · ")
}

/// `2 s`, or `2 s to 10 s`.
fn span(values: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
    let (from, to) = (show(low), show(high));
    (low <= high).then(|| if from == to { from } else { format!("{from} to {to}") })
}

/// Terms and texts: arrivals, times, validity, gaps, machines.
fn method(runs: &[Run]) -> Vec<(&'static str, String)> {
    let mut said = vec![
        (
            "Arrivals",
            "Open loop: requests arrive at times drawn in advance, whether or not earlier ones are \
             done."
                .to_owned(),
        ),
        (
            "Sojourn time",
            "From the scheduled arrival to the completion, so a late generator is charged to the \
             system."
                .to_owned(),
        ),
        ("Slowdown", "Sojourn time over the request’s own un-instrumented service time.".to_owned()),
        (
            "Validity",
            "A run in which the generator fell behind, or that failed otherwise, is not valid. It \
             is shown all the same, with the reason."
                .to_owned(),
        ),
    ];
    if runs.iter().any(|run| run.verb == "sim") {
        said.push((
            "Simulation",
            "Runs marked sim come from the simulator, in virtual time, with the same policy code \
             that serves requests."
                .to_owned(),
        ));
    }
    let noisy: Vec<_> = runs.iter().filter(|run| run.noise.gaps > 0).collect();
    if let Some(shares) = span(noisy.iter().map(|run| run.noise.lost_share * 100.0), percent) {
        let threshold = crate::units::chosen(noisy[0].noise.gap_threshold_ns as f64);
        said.push((
            "Gaps",
            format!(
                "The machine took the cores away for {threshold} or more at a time in {} of {} \
                 runs, {shares} of the time there. Undisturbed figures are over the requests that \
                 no such gap overlapped.",
                noisy.len(),
                runs.len()
            ),
        ));
    }
    let mut machines: Vec<_> = runs.iter().map(|run| run.machine.describe()).collect();
    machines.sort();
    machines.dedup();
    machines.retain(|machine| !machine.is_empty());
    said.extend(machines.into_iter().map(|machine| ("Machine", machine)));
    said
}

fn percent(share: f64) -> String {
    if share < 0.01 { "under 0.01%".to_owned() } else { format!("{share:.2}%") }
}
