//! What a run measured, as JSON, and how people see it: a text table, a Markdown table, one
//! offline HTML page, an SVG picture.
//!
//! The JSON is an interface: scripts read it. Fields are only ever added, and a reader ignores
//! those it does not know. Everything here runs after a measurement, on one thread, and no figure
//! is ever left out for being bad: invalid runs are marked and say why.
//!
//! Feature `pictures`, on by default: charts, as SVG and in pages.
#![forbid(unsafe_code)]

#[cfg(feature = "pictures")]
mod chart;
mod columns;
mod error;
mod html;
mod io;
mod live;
mod machine;
#[cfg(feature = "pictures")]
mod page;
mod partial;
mod pick;
mod schema;
mod series;
mod stacks;
#[cfg(feature = "pictures")]
mod svg;
mod table;
mod units;

#[cfg(feature = "pictures")]
pub use chart::{Axis, Chart, ChartCurve, ChartPoint, Unit};
pub use columns::{columns, figures};
pub use error::Error;
pub use html::{HtmlOptions, Line, html};
pub use io::{parse, read, write_run, write_runs, write_text};
pub use live::{
    CoresBefore, Counted, Live, LiveClass, LiveCore, LiveCores, LiveProgram, LiveRequest,
    LiveStall, LiveWorker,
};
#[cfg(feature = "pictures")]
pub use page::{Listing, Section, page};
pub use partial::Partial;
pub use pick::{Metric, Quantile};
pub use schema::{
    Class, Cpu, Lateness, Machine, Noise, Quantiles, Refused, Run, SCHEMA, Slowdown, Ticks,
    Undisturbed,
};
pub use stacks::{Stacks, SuspendedFrames, ThreadFrames};
#[cfg(feature = "pictures")]
pub use svg::{SvgOptions, svg};
pub use table::{markdown, table};
pub use units::{duration, rate, ratio};
