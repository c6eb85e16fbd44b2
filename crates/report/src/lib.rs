//! What a run measured, as JSON, and how people see it: a text table, a Markdown table, one
//! offline HTML page. The crate `curtail-chart` draws pictures of it.
//!
//! The JSON is an interface: scripts read it. Fields are only ever added, and a reader ignores
//! those it does not know. Everything here runs after a measurement, on one thread, and no figure
//! is ever left out for being bad: invalid runs are marked and say why.
#![forbid(unsafe_code)]

mod columns;
mod error;
mod html;
mod io;
mod live;
mod machine;
mod partial;
mod pick;
mod schema;
mod series;
mod stacks;
mod table;
mod units;

pub use columns::{columns, figures};
pub use error::Error;
pub use html::{HtmlOptions, Line, STYLE, escape, html};
pub use io::{parse, read, write_run, write_runs, write_text};
pub use live::{
    CoresBefore, Counted, Live, LiveClass, LiveCore, LiveCores, LiveProgram, LiveRequest,
    LiveStall, LiveWorker,
};
pub use partial::Partial;
pub use pick::{Metric, Quantile};
pub use schema::{
    Class, Cpu, Lateness, Machine, Noise, Quantiles, Refused, Run, SCHEMA, Slowdown, Ticks,
    Undisturbed,
};
pub use series::{COLOURS, Series, series, shape};
pub use stacks::{Stacks, SuspendedFrames, ThreadFrames};
pub use table::{markdown, plain, table};
pub use units::{duration, rate, ratio, trimmed};
