//! The picture for documents: latency over load, one curve a policy, as SVG.

use crate::chart::{Axis, Chart, ChartCurve, ChartPoint, Unit};
use curtail_report::{Error, Metric, Quantile, Run, Series, series};

/// What the picture shows.
#[derive(Clone, Debug, Default)]
pub struct SvgOptions {
    /// Its title; `None`: made of workload, class, metric and percentile.
    pub title: Option<String>,
    /// The class; `None`: all requests.
    pub class: Option<String>,
    /// Sojourn time or slowdown.
    pub metric: Metric,
    /// Which percentile.
    pub quantile: Quantile,
    /// A horizontal line and what it is called: an objective, in the metric's unit.
    pub line: Option<(f64, String)>,
}

/// Draws the runs of the first run's workload; points of invalid runs are hollow and off the line.
///
/// # Errors
/// Where no run has a load and the figure asked for.
pub fn svg(runs: &[Run], options: &SvgOptions) -> Result<String, Error> {
    let workload = runs.first().map_or("", |run| run.workload.as_str());
    let curve = |series: Series| {
        let class = options.class.as_deref();
        let points = points(runs, &series, class, options.metric, options.quantile);
        let points = points.into_iter().map(|it| ChartPoint {
            x: it.x,
            y: it.y,
            doubtful: !it.valid,
            note: String::new(),
        });
        // A log axis has no place for nought.
        let points: Vec<_> = points.filter(|it| it.y > 0.0).collect();
        ChartCurve { label: series.label, points }
    };
    let curves = series(runs, |run| run.workload == workload).into_iter().map(curve);
    let curves: Vec<_> = curves.filter(|curve| !curve.points.is_empty()).collect();
    if curves.is_empty() {
        return Err(Error::new(format!(
            "nothing to draw: no run has a load and a {} of {}",
            options.quantile.name(),
            options.metric.name()
        )));
    }
    let (what, unit) = match options.metric {
        Metric::Sojourn => ("from scheduled arrival to completion", Unit::Duration),
        Metric::Slowdown => ("sojourn time ÷ service time", Unit::Number),
    };
    let chart = Chart {
        title: title(workload, options),
        subtitle: format!("logarithmic, {what}"),
        x: Axis {
            name: "offered load, share of the workers' capacity".to_owned(),
            ..Axis::default()
        },
        y: Axis { name: what.to_owned(), unit, log: true, most: None },
        curves,
        line: options.line.clone(),
    };
    chart.svg()
}

fn title(workload: &str, options: &SvgOptions) -> String {
    options.title.clone().unwrap_or_else(|| {
        let class =
            options.class.as_ref().map_or(String::new(), |class| format!(", {class} requests"));
        format!("{workload}{class}: {} {}", options.quantile.name(), options.metric.name())
    })
}

/// A point of a curve: the median over the valid runs at one load, or, where none is valid, over
/// the invalid ones.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: f64,
    y: f64,
    valid: bool,
}

/// The points of one curve by rising load; runs without the figure have none.
fn points(
    runs: &[Run],
    series: &Series,
    class: Option<&str>,
    metric: Metric,
    quantile: Quantile,
) -> Vec<Point> {
    let mut all: Vec<Point> = series
        .runs
        .iter()
        .filter_map(|&at| {
            let run = &runs[at];
            let y = run.figure(class, metric, quantile)?;
            Some(Point { x: run.load?, y, valid: run.valid })
        })
        .collect();
    all.sort_by(|a, b| (a.x, a.y).partial_cmp(&(b.x, b.y)).expect("figures are finite"));
    all.chunk_by(|a, b| (a.x - b.x).abs() < 1e-9)
        .map(|same| {
            let valid = same.iter().any(|point| point.valid);
            let of: Vec<_> = same.iter().filter(|point| point.valid == valid).collect();
            let (low, high) = (of[(of.len() - 1) / 2].y, of[of.len() / 2].y);
            Point { x: same[0].x, y: (low + high) / 2.0, valid }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_report::{Class, Quantiles};

    fn run(policy: &str, load: f64, p99: u64, valid: bool) -> Run {
        let sojourn_ns = Some(Quantiles { p99, ..Quantiles::default() });
        let short = Class { name: "short".into(), sojourn_ns, ..Class::default() };
        Run {
            policy: policy.into(),
            workload: "extreme-bimodal".into(),
            load: Some(load),
            sojourn_ns,
            classes: vec![short],
            valid,
            ..Run::default()
        }
    }

    fn sweep() -> Vec<Run> {
        vec![
            run("fcfs", 0.3, 1_047_000, true),
            run("fcfs", 0.5, 1_641_000, true),
            run("fcfs", 0.7, 2_854_000, false),
            run("tq", 0.3, 6_400, true),
            run("tq", 0.5, 11_000, true),
            run("tq", 0.7, 21_000, true),
        ]
    }

    #[test]
    fn the_picture_has_every_curve_and_marks_invalid_points() {
        let options = SvgOptions { class: Some("short".into()), ..SvgOptions::default() };
        let picture = svg(&sweep(), &options).unwrap();
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        for text in
            ["extreme-bimodal, short requests: p99 sojourn time", "fcfs", "tq", "offered load"]
        {
            assert!(picture.contains(text), "no {text}");
        }
        // Six points: fcfs has circles, one of them hollow; tq has squares.
        let circles: Vec<_> =
            picture.match_indices("<circle").map(|(at, _)| &picture[at..]).collect();
        assert_eq!(circles.len(), 2 * 3);
        let white =
            circles.iter().filter(|c| c[..c.find('>').unwrap()].contains("fill=\"#FFFFFF\""));
        assert_eq!(white.count(), 1);
        assert_eq!(picture.matches("<polygon").count(), 3);
    }

    #[test]
    fn names_cannot_become_markup_in_the_picture() {
        let picture = svg(&[run("<b>&\"", 0.5, 1_000, true)], &SvgOptions::default()).unwrap();
        assert!(!picture.contains("<b>") && picture.contains("&lt;b&gt;&amp;"), "{picture}");
    }

    #[test]
    fn nothing_to_draw_is_an_error_that_says_so() {
        let options = SvgOptions {
            metric: Metric::Slowdown,
            quantile: Quantile::P90,
            ..SvgOptions::default()
        };
        let error = svg(&sweep(), &options).unwrap_err().to_string();
        assert_eq!(error, "nothing to draw: no run has a load and a p90 of slowdown");
        assert!(svg(&[], &SvgOptions::default()).is_err());
    }

    #[test]
    fn a_point_is_the_median_of_the_valid_runs() {
        let runs = [
            run("a", 0.5, 30, true),
            run("a", 0.5, 10, true),
            run("a", 0.5, 900, false),
            run("a", 0.5, 20, true),
            run("a", 0.3, 7, false),
            run("a", 0.3, 9, false),
        ];
        let series = series(&runs, |_| true);
        let points = points(&runs, &series[0], None, Metric::Sojourn, Quantile::P99);
        assert_eq!(
            points,
            [Point { x: 0.3, y: 8.0, valid: false }, Point { x: 0.5, y: 20.0, valid: true }]
        );
    }
}
