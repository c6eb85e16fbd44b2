//! Pictures of what was measured: curves in a plane as SVG, and pages of such charts.
//!
//! A crate of its own beside `curtail-report`, so that what shows a running program does not link
//! what draws. One thread draws; nothing is kept.
#![forbid(unsafe_code)]

mod chart;
mod page;
mod svg;

pub use chart::{Axis, Chart, ChartCurve, ChartPoint, Unit};
pub use page::{Listing, Section, page};
pub use svg::{SvgOptions, svg};
