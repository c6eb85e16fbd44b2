//! Figures that the papers measured on their prototypes, simulated here: once where nothing costs
//! anything, once with calibrated costs.
//!
//! A [`Measured`] is a figure and what the paper's text says of it in numbers: each [`Claim`] is a
//! reading of the curves ([`Reading`]), the paper's figure, and why ours is another one where it is.

mod concord;
mod persephone;
mod reading;
mod show;
mod systems;
mod tiny_quanta;

use super::figure::Figure;
use super::simulate::{self, How};
use super::write::Done;
use crate::Error;
use curtail_sim::Costs;
pub(super) use reading::{Reading, Tail};

/// All of them, paper by paper.
pub(super) static MEASURED: &[&Measured] = &[
    &persephone::FIG_3,
    &persephone::FIG_4_HIGH,
    &persephone::FIG_4_EXTREME,
    &persephone::FIG_5_HIGH,
    &persephone::FIG_5_EXTREME,
    &persephone::FIG_6,
    &persephone::FIG_9,
    &concord::FIG_6,
    &concord::FIG_7,
    &concord::FIG_8,
    &concord::FIG_8_TPCC,
    &concord::FIG_9,
    &concord::FIG_10,
    &concord::FIG_11,
    &concord::FIG_13,
    &tiny_quanta::FIG_5_6,
    &tiny_quanta::FIG_7,
    &tiny_quanta::FIG_7_HIGH,
    &tiny_quanta::FIG_8,
    &tiny_quanta::FIG_11,
    &tiny_quanta::FIG_12,
    &tiny_quanta::FIG_16,
];

/// What no simulation can show.
pub const ELSEWHERE: &str = "Not simulated, as they measure hardware: the overhead and timing of \
    safepoints (Concord's Figures 2, 12 and 15 and Table 1, Tiny Quanta's Table 3) is what ./x bench \
    safepoint measures, what a request and its pre-emption cost (Concord's Figure 3) what curtail \
    calibrate does. Of caches (Tiny Quanta's Figures 13 to 15) there is no model.";

/// The costs of the machine that the documentation's figures are from.
const REFERENCE: &str = include_str!("reference.toml");

/// A measured figure.
pub(super) struct Measured {
    /// Without statements.
    pub(super) figure: Figure,
    pub(super) claims: &'static [Claim],
}

/// What a paper's text says of its figure.
pub(super) struct Claim {
    /// In words of our own, without the number.
    pub(super) says: &'static str,
    pub(super) paper: Paper,
    pub(super) ours: Reading,
    /// Why ours, with calibrated costs, is another figure, as found by changing what is named; or
    /// [`UNKNOWN`]. Empty: it is not.
    pub(super) reason: &'static str,
}

/// A claim, in one line of a table.
const fn claim(says: &'static str, paper: Paper, ours: Reading, reason: &'static str) -> Claim {
    Claim { says, paper, ours, reason }
}

/// Of Shenango and Caladan: the papers do not say what a request's packets take of a worker. With one
/// figure for them, 1 µs, most of what they measured is found.
macro_rules! packets {
    ($with:literal) => {
        concat!("Our kthreads have no network stack: with 1 µs a request for it ", $with)
    };
}
pub(super) use packets;

/// Of a difference that is not understood.
pub(super) const UNKNOWN: &str = "Not explained.";

/// A paper's figure.
#[derive(Clone, Copy)]
pub(super) enum Paper {
    /// This one.
    Is(f64),
    /// It says no more than that it is above this.
    Above(f64),
    /// Or below.
    Below(f64),
}

impl Paper {
    /// Whether our figure is the paper's within a tenth, or on the same side.
    pub(super) fn agrees(self, ours: f64) -> bool {
        match self {
            Self::Is(paper) => (ours / paper - 1.0).abs() <= 0.1,
            Self::Above(least) => ours > least,
            Self::Below(most) => ours < most,
        }
    }
}

/// A measured figure, drawn.
pub(super) struct Both {
    pub(super) measured: &'static Measured,
    pub(super) ideal: Done,
    pub(super) calibrated: Done,
    pub(super) costs: Costs,
}

/// The costs that `named` are, or the documentation's machine's.
pub(super) fn calibrated(named: Option<&str>) -> Result<Costs, Error> {
    match named {
        Some(named) => Ok(crate::costs(named)?),
        None => Costs::parse("reference.toml", REFERENCE).map_err(Error::failed),
    }
}

impl Measured {
    /// How many points are simulated.
    pub(super) fn count(&self) -> usize {
        2 * simulate::count(&self.figure)
    }

    /// Simulates it under both; `done` is told of each point.
    pub(super) fn draw(
        &'static self,
        how: How,
        costs: Costs,
        done: impl Fn(&'static str) + Sync,
    ) -> Result<Both, Error> {
        let draw = |costs| {
            let drawn = simulate::draw(&self.figure, How { costs, ..how }, &done)?;
            let (figure, How { jobs, seed, .. }) = (&self.figure, how);
            Ok::<_, Error>(Done { figure, drawn, findings: Vec::new(), jobs, seed })
        };
        Ok(Both { measured: self, ideal: draw(None)?, calibrated: draw(Some(costs))?, costs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_papers_within_a_tenth() {
        let agrees = |ours: f64| Paper::Is(2.0).agrees(ours);
        assert_eq!([1.79, 1.81, 2.19, 2.21].map(agrees), [false, true, true, false]);
        assert!(Paper::Above(1.0).agrees(1.1) && !Paper::Above(1.0).agrees(f64::NAN));
        assert!(Paper::Below(1.0).agrees(0.9) && !Paper::Below(1.0).agrees(1.0));
    }

    #[test]
    fn the_documentations_costs_are_no_ideal_ones() {
        let costs = calibrated(None).unwrap();
        assert!(costs.dispatch > 0 && costs.switch > 0 && costs.instrumentation > 0.0);
    }

    #[test]
    fn every_reading_is_of_curves_that_are_there() {
        for it in MEASURED {
            let labels: Vec<&str> = it.figure.curves.iter().map(|curve| curve.label).collect();
            assert!(!it.claims.is_empty() && it.figure.statements.is_empty(), "{}", it.figure.name);
            for claim in it.claims {
                for label in claim.ours.labels() {
                    assert!(labels.contains(&label), "{}: no curve `{label}`", it.figure.name);
                }
            }
        }
    }
}
