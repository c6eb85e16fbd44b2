//! The highest load that meets an objective, from measurements that scatter.
//!
//! First the load is raised (or lowered) by steps until it is bracketed: one end meets the
//! objective, the other does not. Then the bracket is halved until it is narrow enough. A load
//! whose figure is far from the limit is decided by one measurement; a close one is measured again,
//! and the majority decides, as soon as there is one.

/// What one run at a load gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The figure that the objective limits.
    pub value: f64,
    /// Whether the run counts; one that does not (a generator that fell behind, requests dropped)
    /// never meets the objective.
    pub valid: bool,
}

/// One load, as the search judged it.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The load.
    pub load: f64,
    /// What was measured there, in order.
    pub measurements: Vec<Measurement>,
    /// The verdict.
    pub meets: bool,
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The highest load found to meet the objective; `None`: not even the lowest allowed does.
    pub max_load: Option<f64>,
    /// The lowest load found not to; `None`: even the highest allowed meets it.
    pub fails_at: Option<f64>,
    /// Every load tried, in order.
    pub probes: Vec<Probe>,
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The limit: a measurement meets the objective if its value is at most this.
    pub limit: f64,
    /// Where to start; between the two bounds.
    pub start: f64,
    /// No lower load is tried.
    pub low: f64,
    /// No higher load is tried.
    pub high: f64,
    /// First step of the bracketing; it doubles with each further one.
    pub step: f64,
    /// Stop when the bracket is as narrow as this.
    pub tolerance: f64,
    /// A value beyond the limit by this factor, either way, is decided by one measurement.
    pub clear: f64,
    /// At most so many measurements of a load that is close; an odd number.
    pub tries: usize,
}

impl Search {
    /// The usual search for this limit: from 0.5, between 0.01 and 1, to 0.01, at most three
    /// measurements of one load, clear by a factor of 1.5.
    #[must_use]
    pub fn new(limit: f64) -> Self {
        Self {
            limit,
            start: 0.5,
            low: 0.01,
            high: 1.0,
            step: 0.1,
            tolerance: 0.01,
            clear: 1.5,
            tries: 3,
        }
    }

    /// Searches. `measure` is run at one load after another; its first error ends the search.
    ///
    /// # Errors
    /// The first of `measure`.
    ///
    /// # Panics
    /// Where `low <= start <= high`, `step > 0` and `tolerance > 0` do not all hold.
    pub fn run<E>(
        &self,
        mut measure: impl FnMut(f64) -> Result<Measurement, E>,
    ) -> Result<Found, E> {
        assert!(self.low <= self.start && self.start <= self.high, "no room to search in");
        assert!(self.step > 0.0 && self.tolerance > 0.0, "a search must get somewhere");
        let mut found = Found { max_load: None, fails_at: None, probes: Vec::new() };
        self.bracket(&mut found, &mut measure)?;
        while let (Some(meets), Some(fails)) = (found.max_load, found.fails_at)
            && fails - meets > self.tolerance
        {
            self.probe(meets + (fails - meets) / 2.0, &mut found, &mut measure)?;
        }
        Ok(found)
    }

    /// Ends with a load that meets the objective below one that does not, or at a bound.
    fn bracket<E>(
        &self,
        found: &mut Found,
        measure: &mut impl FnMut(f64) -> Result<Measurement, E>,
    ) -> Result<(), E> {
        let (mut load, mut step) = (self.start, self.step);
        let up = self.probe(load, found, measure)?;
        loop {
            let next = if up { (load + step).min(self.high) } else { (load - step).max(self.low) };
            if next == load || self.probe(next, found, measure)? != up {
                return Ok(());
            }
            (load, step) = (next, step * 2.0);
        }
    }

    fn probe<E>(
        &self,
        load: f64,
        found: &mut Found,
        measure: &mut impl FnMut(f64) -> Result<Measurement, E>,
    ) -> Result<bool, E> {
        let mut measurements = Vec::new();
        let (mut good, mut bad) = (0, 0);
        let majority = self.tries / 2 + 1;
        while good < majority && bad < majority {
            let m = measure(load)?;
            measurements.push(m);
            // Not-a-number is no figure and meets nothing.
            if m.valid && m.value <= self.limit {
                good += 1
            } else {
                bad += 1
            }
            let clear = m.value * self.clear <= self.limit || m.value >= self.limit * self.clear;
            if measurements.len() == 1 && (clear || m.value.is_nan()) {
                break;
            }
        }
        let meets = good > bad;
        found.probes.push(Probe { load, measurements, meets });
        if meets {
            found.max_load = Some(found.max_load.map_or(load, |best| best.max(load)));
        } else {
            found.fails_at = Some(found.fails_at.map_or(load, |worst| worst.min(load)));
        }
        Ok(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;
    use proptest::prelude::*;
    use rand::Rng;
    use std::convert::Infallible;

    /// The slowdown of M/M/1 in the mean, 1 / (1 − load): meets a limit of L up to 1 − 1/L.
    fn queue(load: f64) -> Measurement {
        Measurement { value: 1.0 / (1.0 - load).max(1e-9), valid: true }
    }

    fn exact(search: Search) -> Found {
        search.run(|load| Ok::<_, Infallible>(queue(load))).unwrap()
    }

    #[test]
    fn finds_the_knee() {
        for (limit, knee) in [(10.0, 0.9), (2.0, 0.5), (1.25, 0.2), (50.0, 0.98)] {
            let found = exact(Search::new(limit));
            let (max, fails) = (found.max_load.unwrap(), found.fails_at.unwrap());
            assert!(max <= knee + 1e-9 && fails > knee - 1e-9, "{limit}: {max} {fails}");
            assert!(fails - max <= 0.01 + 1e-12);
            assert!(found.probes.len() < 16, "{} probes", found.probes.len());
        }
    }

    #[test]
    fn says_so_at_the_bounds() {
        let found = exact(Search { high: 0.8, ..Search::new(100.0) });
        assert_eq!((found.max_load, found.fails_at), (Some(0.8), None));
        let found = exact(Search { low: 0.2, ..Search::new(1.1) });
        assert_eq!((found.max_load, found.fails_at), (None, Some(0.2)));
    }

    #[test]
    fn invalid_or_missing_figures_do_not_meet() {
        let search = Search::new(10.0);
        let run = |value, valid| {
            search.run(|_| Ok::<_, Infallible>(Measurement { value, valid })).unwrap().max_load
        };
        assert_eq!(run(1.0, false), None);
        assert_eq!(run(f64::NAN, true), None);
    }

    #[test]
    fn close_loads_are_measured_again_and_clear_ones_are_not() {
        let found = exact(Search::new(10.0));
        for probe in &found.probes {
            let value = probe.measurements[0].value;
            let close = value > 10.0 / 1.5 && value < 15.0;
            assert_eq!(probe.measurements.len(), if close { 2 } else { 1 }, "{probe:?}");
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut runs = 0;
        let result = Search::new(10.0).run(|_| {
            runs += 1;
            if runs == 3 { Err("broken") } else { Ok(queue(0.1)) }
        });
        assert_eq!((result, runs), (Err("broken"), 3));
    }

    proptest! {
        #[test]
        fn noise_moves_the_answer_a_little(limit in 2.0f64..50.0, seed in 0u64..1_000) {
            let mut noise = random(seed, 9);
            let found = Search::new(limit).run(|load| {
                let factor = 0.95 + 0.1 * noise.random::<f64>();
                Ok::<_, Infallible>(Measurement { value: queue(load).value * factor, valid: true })
            }).unwrap();
            // ±5% of the value is the load at a limit of 0.95 or 1.05 times as much, and the
            // tolerance on top.
            let max = found.max_load.unwrap();
            prop_assert!(max <= 1.0 - 1.0 / (limit * 1.06), "{max}");
            prop_assert!(max >= 1.0 - 1.0 / (limit * 0.94) - 0.011, "{max}");
        }
    }
}
