//! A picture of curves in a plane, as SVG: what is on which axis is the caller's. One thread draws;
//! the same chart gives the same text.

use curtail_report::{COLOURS, Error, duration, plain, rate, ratio, shape, trimmed};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What an axis measures, and so how its figures are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A share: `0.1`.
    #[default]
    Share,
    /// A plain number, such as a slowdown.
    Number,
    /// Nanoseconds.
    Duration,
    /// Requests per second.
    Rate,
}

impl Unit {
    /// A figure on this axis, for people.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Share => trimmed(&format!("{value:.2}")),
            Self::Number => trimmed(&ratio(value)),
            Self::Duration => trimmed(&duration(value)),
            Self::Rate => trimmed(&rate(value)),
        }
    }
}

/// One axis of a chart.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What is on it.
    pub name: String,
    /// How its figures are written.
    pub unit: Unit,
    /// Logarithmic: whole decades; otherwise from nought. Of effect on the upright axis alone.
    pub log: bool,
    /// Nothing beyond is drawn, and the axis ends there or earlier; `None`: it holds every point.
    pub most: Option<f64>,
}

/// A point of a curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartPoint {
    /// Along the level axis.
    pub x: f64,
    /// Along the upright one.
    pub y: f64,
    /// Drawn hollow and off the line.
    pub doubtful: bool,
    /// Written above it.
    pub note: String,
}

/// Points that belong together, by rising `x`.
#[derive(Clone, Debug, Default)]
pub struct ChartCurve {
    /// What it is called.
    pub label: String,
    /// Its points; those that an axis has no place for are not drawn.
    pub points: Vec<ChartPoint>,
}

/// Curves in a plane.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// A line below the title.
    pub subtitle: String,
    /// The level axis.
    pub x: Axis,
    /// The upright axis.
    pub y: Axis,
    /// What is drawn.
    pub curves: Vec<ChartCurve>,
    /// A horizontal line and what it is called.
    pub line: Option<(f64, String)>,
}

const SIZE: (u32, u32) = (860, 460);
const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const FAINT: RGBColor = RGBColor(0x5a, 0x63, 0x6d);
const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Said<T> = Result<T, String>;

fn said<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}

impl Chart {
    /// Draws it. The text depends on nothing else.
    ///
    /// # Errors
    /// Where no curve has a point that the axes have a place for.
    pub fn svg(&self) -> Result<String, Error> {
        let mut chart = self.clone();
        for curve in &mut chart.curves {
            curve.points.retain(|point| chart.y.holds(point.y) && chart.x.holds(point.x));
        }
        chart.curves.retain(|curve| !curve.points.is_empty());
        if chart.curves.is_empty() {
            return Err(Error::new("nothing to draw: no curve has a point"));
        }
        let mut out = String::new();
        {
            let area = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
            chart
                .draw(&area)
                .and_then(|()| area.present().map_err(said))
                .map_err(|e| Error::new(format!("cannot draw: {e}")))?;
        }
        Ok(out)
    }

    fn draw(&self, area: &Area<'_>) -> Said<()> {
        area.fill(&WHITE).map_err(said)?;
        area.draw(&Text::new(plain(&self.title), (20, 16), font(19, INK))).map_err(said)?;
        area.draw(&Text::new(plain(&self.subtitle), (20, 42), font(13, FAINT))).map_err(said)?;
        let (xs, ys) = self.ranges();
        if self.y.log {
            self.plot(area, xs, ys, (ys.0..ys.1).log_scale())
        } else {
            self.plot(area, xs, ys, ys.0..ys.1)
        }
    }

    fn plot<Y>(&self, area: &Area<'_>, xs: (f64, f64), ys: (f64, f64), upright: Y) -> Said<()>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut plane = ChartBuilder::on(area)
            .margin_top(68)
            .margin_right(170)
            .margin_bottom(12)
            .margin_left(12)
            .x_label_area_size(44)
            .y_label_area_size(66)
            .build_cartesian_2d(xs.0..xs.1, upright)
            .map_err(said)?;
        plane
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(FAINT)
            .x_desc(plain(&self.x.name))
            .label_style(font(13, FAINT))
            .axis_desc_style(font(13, FAINT))
            .x_label_formatter(&|x| self.x.unit.show(*x))
            .y_label_formatter(&|y| self.y.unit.show(*y))
            .draw()
            .map_err(said)?;
        if let Some((value, name)) = self.line.as_ref().filter(|it| it.0 >= ys.0 && it.0 <= ys.1) {
            let ends = [(xs.0, *value), (xs.1, *value)];
            plane.draw_series(DashedLineSeries::new(ends, 6, 5, FAINT.into())).map_err(said)?;
            let at = plane.backend_coord(&(xs.0, *value));
            let style = font(12, FAINT).pos(Pos::new(HPos::Left, VPos::Bottom));
            area.draw(&Text::new(plain(name), (at.0 + 6, at.1 - 3), style)).map_err(said)?;
        }
        for (at, curve) in self.curves.iter().enumerate() {
            let sure = curve.points.iter().filter(|p| !p.doubtful).map(|p| (p.x, p.y));
            plane.draw_series(LineSeries::new(sure, colour(at).stroke_width(2))).map_err(said)?;
            for point in &curve.points {
                let (x, y) = plane.backend_coord(&(point.x, point.y));
                mark(area, at, (x, y), !point.doubtful).map_err(said)?;
                if !point.note.is_empty() {
                    let style = font(12, colour(at)).pos(Pos::new(HPos::Center, VPos::Bottom));
                    area.draw(&Text::new(plain(&point.note), (x, y - 7), style)).map_err(said)?;
                }
            }
        }
        for (at, y) in label_places(&self.curves, |x, y| plane.backend_coord(&(x, y)).1) {
            let style = font(13, colour(at)).pos(Pos::new(HPos::Left, VPos::Center));
            let x = i32::try_from(SIZE.0).expect("small") - 162;
            area.draw(&Text::new(plain(&self.curves[at].label), (x, y), style)).map_err(said)?;
        }
        Ok(())
    }

    /// Both axes: from nought, or whole decades that hold every point.
    fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let most = all().map(|p| p.x).fold(0.0, f64::max);
        let xs = (0.0, if most > 0.0 { self.x.end(most) } else { 1.0 });
        let line = self.line.as_ref().map(|(value, _)| *value).filter(|y| self.y.holds(*y));
        let ys = || all().map(|p| p.y).chain(line);
        let high = ys().fold(0.0, f64::max);
        if !self.y.log {
            return (xs, (0.0, if high > 0.0 { self.y.end(high) } else { 1.0 }));
        }
        let low = 10f64.powf(ys().fold(f64::INFINITY, f64::min).log10().floor());
        let high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
        (xs, (low, high))
    }
}

impl Axis {
    fn holds(&self, value: f64) -> bool {
        let from_nought = if self.log { value > 0.0 } else { value >= 0.0 };
        value.is_finite() && from_nought && self.most.is_none_or(|most| value <= most)
    }

    /// Where the axis ends: on a tenth of a power of ten.
    fn end(&self, most: f64) -> f64 {
        let step = 10f64.powf(most.log10().ceil()) / 10.0;
        let end = (most / step).ceil() * step;
        self.most.map_or(end, |most| end.min(most))
    }
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

/// Where each curve's name stands: beside its last point, moved down where two would overlap.
fn label_places(curves: &[ChartCurve], pixel: impl Fn(f64, f64) -> i32) -> Vec<(usize, i32)> {
    let mut places: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(at, curve)| {
            let point = curve.points.last().expect("a curve has points");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> Chart {
        let points = points.iter().map(|&(x, y)| ChartPoint { x, y, ..ChartPoint::default() });
        let curve = ChartCurve { label: "a<b".into(), points: points.collect() };
        Chart { title: "t".into(), curves: vec![curve], ..Chart::default() }
    }

    #[test]
    fn names_are_text_and_points_are_marks() {
        let svg = chart(&[(1.0, 2.0), (2.0, 3.0)]).svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("a&lt;b"));
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn what_an_axis_has_no_place_for_is_not_drawn() {
        let mut limited = chart(&[(1.0, 2.0), (2.0, 300.0), (3.0, f64::NAN)]);
        limited.y.most = Some(100.0);
        assert_eq!(limited.svg().unwrap().matches("<circle").count(), 2);
        let mut logarithmic = chart(&[(1.0, 0.0)]);
        logarithmic.y.log = true;
        assert!(logarithmic.svg().unwrap_err().to_string().contains("nothing to draw"));
        assert!(Chart::default().svg().is_err());
    }

    #[test]
    fn axes_end_near_the_last_point() {
        let axis = Axis::default();
        assert_eq!((axis.end(0.95), axis.end(5.1), axis.end(1.0)), (1.0, 6.0, 1.0));
        let (xs, ys) = chart(&[(0.3, 4.2)]).ranges();
        assert!((xs.1 - 0.3).abs() < 1e-9 && (ys.1 - 5.0).abs() < 1e-9, "{xs:?} {ys:?}");
    }
}
