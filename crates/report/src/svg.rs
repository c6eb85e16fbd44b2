//! The picture for documents: latency over load, one curve a policy, as SVG.

use crate::series::{COLOURS, Point, Series, points, series, shape};
use crate::table::plain;
use crate::units::trimmed;
use crate::{Error, Metric, Quantile, Run};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

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

const SIZE: (u32, u32) = (860, 460);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0x5a, 0x63, 0x6d);
const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

/// Draws the runs of the first run's workload; points of invalid runs are hollow and off the line.
///
/// # Errors
/// Where no run has a load and the figure asked for.
pub fn svg(runs: &[Run], options: &SvgOptions) -> Result<String, Error> {
    let workload = runs.first().map_or("", |run| run.workload.as_str());
    let curves: Vec<(Series, Vec<Point>)> = series(runs, |run| run.workload == workload)
        .into_iter()
        .map(|series| {
            let class = options.class.as_deref();
            let mut points = points(runs, &series, class, options.metric, options.quantile);
            points.retain(|point| point.y > 0.0); // a log axis has no place for nought
            (series, points)
        })
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if curves.is_empty() {
        return Err(Error::new(format!(
            "nothing to draw: no run has a load and a {} of {}",
            options.quantile.name(),
            options.metric.name()
        )));
    }
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        draw(&area, workload, &curves, options)
            .and_then(|()| area.present().map_err(|e| e.to_string()))
            .map_err(|e| Error::new(format!("cannot draw: {e}")))?;
    }
    Ok(out)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(
    area: &Area<'_>,
    workload: &str,
    curves: &[(Series, Vec<Point>)],
    options: &SvgOptions,
) -> Result<(), String> {
    let said = |e: DrawingAreaErrorKind<_>| e.to_string();
    area.fill(&WHITE).map_err(said)?;
    area.draw(&Text::new(title(workload, options), (20, 16), font(19, INK))).map_err(said)?;
    let unit = match options.metric {
        Metric::Sojourn => "logarithmic, from scheduled arrival to completion",
        Metric::Slowdown => "logarithmic, sojourn time ÷ service time",
    };
    area.draw(&Text::new(unit, (20, 42), font(13, FAINT))).map_err(said)?;

    let (xs, ys) = ranges(curves, options);
    let mut chart = ChartBuilder::on(area)
        .margin_top(68)
        .margin_right(170)
        .margin_bottom(12)
        .margin_left(12)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(xs.0..xs.1, (ys.0..ys.1).log_scale())
        .map_err(said)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(FAINT)
        .x_desc("offered load, share of the workers' capacity")
        .label_style(font(13, FAINT))
        .axis_desc_style(font(13, FAINT))
        .x_label_formatter(&|load| format!("{load:.1}"))
        .y_label_formatter(&|value| trimmed(&options.metric.show(*value)))
        .draw()
        .map_err(said)?;
    if let Some((value, name)) = &options.line {
        let ends = [(xs.0, *value), (xs.1, *value)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 5, FAINT.into())).map_err(said)?;
        let at = chart.backend_coord(&(xs.0, *value));
        let style = font(12, FAINT).pos(Pos::new(HPos::Left, VPos::Bottom));
        area.draw(&Text::new(plain(name), (at.0 + 6, at.1 - 3), style)).map_err(said)?;
    }
    for (at, (_, points)) in curves.iter().enumerate() {
        let colour = colour(at);
        let valid = points.iter().filter(|p| p.valid).map(|p| (p.x, p.y));
        chart.draw_series(LineSeries::new(valid, colour.stroke_width(2))).map_err(said)?;
        for point in points {
            let (x, y) = chart.backend_coord(&(point.x, point.y));
            mark(area, at, (x, y), point.valid).map_err(said)?;
        }
    }
    for (at, y) in label_places(curves, |x, y| chart.backend_coord(&(x, y)).1) {
        let style = font(13, colour(at)).pos(Pos::new(HPos::Left, VPos::Center));
        let x = i32::try_from(SIZE.0).expect("small") - 162;
        area.draw(&Text::new(plain(&curves[at].0.label), (x, y), style)).map_err(said)?;
    }
    Ok(())
}

/// A curve's own shape in its colour: circle, square, triangle or diamond; hollow if not valid.
fn mark(
    area: &Area<'_>,
    at: usize,
    (x, y): (i32, i32),
    valid: bool,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let inside = if valid { colour(at).filled() } else { WHITE.filled() };
    let line = colour(at).stroke_width(2);
    let corners: &[(i32, i32)] = match shape(at) {
        0 => {
            area.draw(&Circle::new((x, y), 4, inside))?;
            return area.draw(&Circle::new((x, y), 4, line));
        }
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)],
        2 => &[(0, -5), (5, 4), (-5, 4), (0, -5)],
        _ => &[(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)],
    };
    let outline: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    area.draw(&Polygon::new(outline.clone(), inside))?;
    area.draw(&PathElement::new(outline, line))
}

fn title(workload: &str, options: &SvgOptions) -> String {
    options.title.clone().unwrap_or_else(|| {
        let class =
            options.class.as_ref().map_or(String::new(), |class| format!(", {class} requests"));
        plain(&format!("{workload}{class}: {} {}", options.quantile.name(), options.metric.name()))
    })
}

/// Both axes: loads from nought, and whole decades that hold every point.
fn ranges(curves: &[(Series, Vec<Point>)], options: &SvgOptions) -> ((f64, f64), (f64, f64)) {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let most = all().map(|p| p.x).fold(0.0, f64::max);
    let line = options.line.as_ref().map(|(value, _)| *value);
    let ys = || all().map(|p| p.y).chain(line).filter(|y| *y > 0.0);
    let low = 10f64.powf(ys().fold(f64::INFINITY, f64::min).log10().floor());
    let high = 10f64.powf(ys().fold(0.0, f64::max).log10().ceil()).max(low * 10.0);
    ((0.0, if most > 0.0 { (most * 10.0).ceil() / 10.0 } else { 1.0 }), (low, high))
}

/// Where each curve's name stands: beside its last point, moved down where two would overlap.
fn label_places(
    curves: &[(Series, Vec<Point>)],
    pixel: impl Fn(f64, f64) -> i32,
) -> Vec<(usize, i32)> {
    let last = |points: &[Point]| *points.last().expect("a curve has points");
    let mut places: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(at, (_, points))| {
            let point = last(points);
            (at, pixel(point.x, point.y))
        })
        .collect();
    places.sort_by_key(|&(at, y)| (y, at));
    for at in 1..places.len() {
        places[at].1 = places[at].1.max(places[at - 1].1 + 17);
    }
    // Pushed out at the bottom: shove up from there.
    let mut floor = i32::try_from(SIZE.1).expect("small") - 60;
    for place in places.iter_mut().rev() {
        place.1 = place.1.min(floor);
        floor = place.1 - 17;
    }
    places
}

fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("system-ui, sans-serif", size).into_font().color(&colour)
}

fn colour(at: usize) -> RGBColor {
    let hex = COLOURS[at % COLOURS.len()].0;
    let part = |from| u8::from_str_radix(&hex[from..from + 2], 16).expect("written as #rrggbb");
    RGBColor(part(1), part(3), part(5))
}
