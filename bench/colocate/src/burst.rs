//! A load that steps up and down (Shenango §7.3, Fig. 5): what the service's tail is in the windows
//! around the steps, of all cycles together, beside batch work.

use crate::generator::Steps;
use crate::service::{WINDOW_NS, Window};
use crate::stage::{How, Load, Programs, Stage};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of work: its name, and what it is.
    pub work: (String, String),
    /// The load and what it steps to, of the core's capacity.
    pub loads: [f64; 2],
    /// How long each is offered, in windows of 10 ms.
    pub windows: u64,
    /// Steps up, and as many down.
    pub cycles: u64,
    /// The programs.
    pub programs: Programs,
    /// How often the core allocator looks.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            work: ("exp10".to_owned(), "exp10".to_owned()),
            loads: [0.05, 0.8],
            windows: 5,
            cycles: 50,
            programs: Programs::default(),
            interval: Duration::from_micros(5),
        }
    }
}

/// One way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// The kind of work.
    pub work: String,
    /// By which way the core is shared; `alone`: it is not, and the service parks under the core
    /// allocator.
    pub how: String,
    /// The loads that it steps between, of the core's capacity.
    pub loads: [f64; 2],
    /// How many cycles were pooled.
    pub cycles: u64,
    /// The windows of a cycle: half of them have the first load.
    pub windows: Vec<Window>,
    /// The batch work's share of the core.
    pub batch: f64,
}

/// Measures all of it. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a program fails.
pub fn measure(itself: &Path, options: &Options) -> Result<Vec<Burst>, String> {
    let stage = Stage::new(itself, &options.programs)?;
    let step_ns = options.windows * WINDOW_NS;
    let steps = Steps { loads: options.loads, step_ns, cycles: options.cycles };
    let load = Load {
        mix: options.work.1.clone(),
        load: options.loads[0],
        steps: Some(steps),
        seconds: 0.0,
        seed: 1,
        interval: options.interval,
        parks: true,
    };
    let burst = |how: &str, windows, batch| Burst {
        work: options.work.0.clone(),
        how: how.to_owned(),
        loads: options.loads,
        cycles: options.cycles,
        windows,
        batch,
    };
    let process = How::Process { looks: true };
    let mut all = vec![burst("alone", stage.alone(&load, process)?.windows, 0.0)];
    for how in [process, How::Inside { cut: true }, How::Linux { nice: false }] {
        if stage.has(how) {
            let rate = stage.batch_rate(how)?;
            let (served, batch) = stage.beside(&load, how)?;
            all.push(burst(how.name(), served.windows, batch / rate));
        }
    }
    Ok(all)
}

/// For people.
#[must_use]
pub fn table(bursts: &[Burst]) -> String {
    let mut text = String::new();
    for Burst { work, how, loads: [low, high], cycles, windows, batch } in bursts {
        let _ = writeln!(
            text,
            "{work}, {how}: load {low} and {high} in turn, {cycles} cycles; batch {batch:.3}\n\
             {:>9}{:>9}{:>9}{:>9}",
            "at ms", "requests", "p50 µs", "p99 µs"
        );
        for Window { at_ms, sojourn_us, count } in windows {
            let (p50, p99) = (sojourn_us.p50, sojourn_us.p99);
            let _ = writeln!(text, "{at_ms:>9.0}{count:>9}{p50:>9.1}{p99:>9.1}");
        }
    }
    text
}
