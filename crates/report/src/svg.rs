//! The picture for documents: latency over load, one curve a policy, as SVG.

use crate::chart::{Axis, Chart, ChartCurve, ChartPoint, Unit};
use crate::series::{Series, points, series};
use crate::{Error, Metric, Quantile, Run};

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
