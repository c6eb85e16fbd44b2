//! What came out of a figure's runs, and what can be read off it.

use curtail_report::Run;

/// A figure's curves.
pub(crate) struct Drawn {
    pub(crate) curves: Vec<DrawnCurve>,
    /// What DARC decided, by curve, where it did.
    pub(crate) decided: Vec<(&'static str, String)>,
}

/// One of them.
pub(crate) struct DrawnCurve {
    pub(crate) label: &'static str,
    pub(crate) points: Vec<DrawnPoint>,
}

/// A point.
pub(crate) struct DrawnPoint {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Requests were dropped, or none completed: the system was overloaded.
    pub(crate) overloaded: bool,
    pub(crate) note: String,
    /// The p99.9 sojourn time in nanoseconds, where `y` is something else and that is held.
    pub(crate) tail_ns: Option<f64>,
    /// The run it is from, where it is from one.
    pub(crate) run: Option<Run>,
}

/// How a paper's statement stands.
pub(crate) struct Finding {
    /// What ours is.
    pub(crate) ours: String,
    /// What the statement says, each thing that may hold without the others, and whether it does.
    /// One without a name where there is but one.
    pub(crate) parts: Vec<(&'static str, bool)>,
}

impl Finding {
    pub(crate) fn new(agrees: bool, ours: impl Into<String>) -> Self {
        Self::of(&[("", agrees)], ours)
    }

    /// A statement that says several things, an order and how large it is, say.
    pub(crate) fn of(parts: &[(&'static str, bool)], ours: impl Into<String>) -> Self {
        Self { ours: ours.into(), parts: parts.to_vec() }
    }

    /// All that the statement says holds.
    pub(crate) fn agrees(&self) -> bool {
        self.parts.iter().all(|part| part.1)
    }

    /// `agrees`, `differs`, or in what it does and in what not.
    pub(crate) fn verdict(&self) -> String {
        let list = |holds| {
            let names = self.parts.iter().filter(|part| part.1 == holds).map(|part| part.0);
            names.collect::<Vec<_>>().join(" and ")
        };
        match (self.agrees(), self.parts.iter().any(|part| part.1)) {
            (true, _) => "agrees".to_owned(),
            (_, false) => "differs".to_owned(),
            _ => format!("agrees in {}, not in {}", list(true), list(false)),
        }
    }
}

impl Drawn {
    /// The curve of that label.
    ///
    /// # Panics
    /// Where the figure has none.
    pub(crate) fn curve(&self, label: &str) -> &DrawnCurve {
        let found = self.curves.iter().find(|curve| curve.label == label);
        found.unwrap_or_else(|| panic!("the figure has no curve `{label}`"))
    }
}

impl DrawnCurve {
    /// Where the curve first crosses `limit` from below, between points by the logarithm of `y`.
    /// `None`: it never does. An overloaded point is beyond any limit.
    pub(crate) fn crosses(&self, limit: f64) -> Option<f64> {
        let beyond = |point: &DrawnPoint| point.overloaded || point.y > limit;
        let at = self.points.iter().position(beyond)?;
        let after = &self.points[at];
        let Some(before) = at.checked_sub(1).map(|at| &self.points[at]) else {
            return Some(after.x);
        };
        if after.overloaded && after.y <= limit {
            return Some(before.x);
        }
        let part = (limit / before.y).ln() / (after.y / before.y).ln();
        Some(before.x + (after.x - before.x) * part)
    }

    /// The highest `x` at which the curve is within `limit`: where it crosses, or its last.
    pub(crate) fn within(&self, limit: f64) -> f64 {
        let last = self.points.last().map_or(0.0, |point| point.x);
        self.crosses(limit).unwrap_or(last)
    }

    /// The point nearest to `x`.
    pub(crate) fn nearest(&self, x: f64) -> Option<&DrawnPoint> {
        let away = |point: &DrawnPoint| (point.x - x).abs();
        self.points.iter().min_by(|a, b| away(a).total_cmp(&away(b)))
    }

    /// Its `y`.
    pub(crate) fn near(&self, x: f64) -> f64 {
        self.nearest(x).map_or(f64::NAN, |point| point.y)
    }

    /// The point of the highest `y`.
    pub(crate) fn peak(&self) -> (f64, f64) {
        let by = |a: &&DrawnPoint, b: &&DrawnPoint| a.y.total_cmp(&b.y);
        self.points.iter().max_by(by).map_or((0.0, 0.0), |point| (point.x, point.y))
    }

    /// Both curves' `y` where both have a point that is not overloaded.
    pub(crate) fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = [f64; 3]> + 'a {
        let sure = |point: &&DrawnPoint| !point.overloaded;
        self.points.iter().filter(sure).filter_map(move |point| {
            let same = |it: &&DrawnPoint| (it.x - point.x).abs() <= 1e-9 * point.x;
            let there = other.points.iter().filter(sure).find(same)?;
            Some([point.x, point.y, there.y])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> DrawnCurve {
        let point = |&(x, y): &(f64, f64)| DrawnPoint {
            x,
            y,
            overloaded: y.is_infinite(),
            note: String::new(),
            tail_ns: None,
            run: None,
        };
        DrawnCurve { label: "a", points: points.iter().map(point).collect() }
    }

    #[test]
    fn crossings_lie_between_points() {
        let rising = curve(&[(1.0, 1.0), (2.0, 1.0), (3.0, 100.0)]);
        assert_eq!(rising.crosses(10.0), Some(2.5));
        assert_eq!((rising.crosses(100.0), rising.within(100.0)), (None, 3.0));
        assert_eq!(rising.crosses(0.5), Some(1.0));
        let ends = curve(&[(1.0, 1.0), (2.0, f64::INFINITY)]);
        assert_eq!(ends.crosses(10.0), Some(1.0));
    }

    #[test]
    fn verdicts_say_what_holds_and_what_does_not() {
        let verdict = |parts: &[(&'static str, bool)]| Finding::of(parts, "").verdict();
        assert_eq!(Finding::new(true, "").verdict(), "agrees");
        assert_eq!(Finding::new(false, "").verdict(), "differs");
        assert_eq!(verdict(&[("order", true), ("size", true)]), "agrees");
        assert_eq!(verdict(&[("order", false), ("size", false)]), "differs");
        let part = [("order", true), ("size", false), ("rate", true)];
        assert_eq!(verdict(&part), "agrees in order and rate, not in size");
        assert!(!Finding::of(&part, "").agrees());
    }

    #[test]
    fn points_are_compared_where_both_are() {
        let (a, b) = (curve(&[(1.0, 2.0), (2.0, 3.0)]), curve(&[(2.0, 5.0), (3.0, 7.0)]));
        assert_eq!(a.beside(&b).collect::<Vec<_>>(), [[2.0, 3.0, 5.0]]);
        assert_eq!((a.near(1.9), a.peak()), (3.0, (2.0, 3.0)));
    }
}
