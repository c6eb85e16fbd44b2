//! What things cost on this machine, for the simulator.
//!
//! The real runtime serves requests made for the purpose, in many short runs, one kind after the
//! other and again from the start, so that what disturbs the machine for a while disturbs all kinds
//! alike. Every figure is a median over trials of a few microseconds.

mod app;
mod batches;
mod figures;
mod kthreads;
mod rivals;

use crate::Error;
use app::{Request, Stamped, Stamps, stamps};
use batches::{BATCH, Batches, Short};
use curtail::clock::Clock;
use curtail::{Preempt, Report, Server};
use curtail_net::{Peer, Reply, Transport};
use curtail_policy::{Nanos, Spec};
use curtail_report::Machine;
use curtail_sim::Costs;
use curtail_workload::spin::Calibration;
use figures::Measured;
pub use figures::{Figure, Trials};
use hdrhistogram::Histogram;
use rivals::{Plan, Rivals, Round};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::mpsc::channel;

const _: () = assert!(Request::BYTES == 8, "a request is its completion's tag");

/// Short requests in a run, of each kind.
const SHORT_TRIALS: u32 = 150;
/// Runs of long ones: so many, each for so long.
const LONG_TRIALS: u32 = 60;
const LONG_NS: u64 = 100_000;
/// Long enough never to end.
const NO_QUANTUM_NS: u64 = 1_000_000_000;

/// Quanta that can be measured with, in nanoseconds.
pub const QUANTA_NS: RangeInclusive<u64> = 200..=LONG_NS / 4;

/// What was found.
#[derive(Debug)]
pub struct Calibrated {
    /// The medians.
    pub costs: Costs,
    /// What they are made of.
    pub figures: Vec<Figure>,
    /// What is to be known beside them, in lines.
    pub notes: Vec<String>,
}

/// Measures everything so often, some 60 ms each. `cores`: the dispatcher's and the worker's.
///
/// # Errors
/// The runtime does not run.
pub fn calibrate(
    cores: Option<Vec<usize>>,
    quantum_ns: u64,
    rounds: u32,
) -> Result<Calibrated, Error> {
    let steps = Calibration::measure().iterations(LONG_NS) as u32;
    let mut bench = Bench { cores, quantum_ns, steps, lost: Vec::new(), notes: Vec::new() };
    let mut measured = Measured {
        cycles_per_ns: Clock::get().hz / 1e9,
        instrumented: app::is_instrumented(),
        ..Measured::default()
    };
    for _ in 0..rounds {
        bench.round(&mut measured)?;
    }
    let (costs, figures) = measured.costs();
    Ok(Calibrated { costs, figures, notes: bench.told(&measured) })
}

impl Calibrated {
    /// A table's heads.
    pub const HEADS: [&'static str; 5] =
        ["cost", "median", "trials", "middle half, ns", "what it is"];

    /// A row for each figure.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |figure: &Figure| {
            let trials = figure.trials.len().to_string();
            let cells = [figure.key, &figure.value, &trials, &figure.middle(), figure.meaning];
            cells.map(str::to_owned).to_vec()
        };
        self.figures.iter().map(row).collect()
    }

    /// All of it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "schema": 1, "verb": "calibrate", "costs": self.costs,
            "figures": self.figures.iter().map(Figure::json).collect::<Vec<_>>(),
            "notes": self.notes,
            "machine": Machine { tsc_hz: Some(Clock::get().hz as u64), ..Machine::gather() },
        })
    }

    /// Writes the file that `--costs` reads.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let mut text =
            String::from("# Measured by `curtail calibrate`; see the book on the simulator.\n");
        for line in &self.notes {
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str("#\n# cost: trials, middle half of them in ns\n");
        for figure in &self.figures {
            let (key, trials) = (figure.key, figure.trials.len());
            text.push_str(&format!("# {key}: {trials}, {}\n", figure.middle()));
        }
        text.push_str(&self.costs.to_toml());
        if let Some(directory) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|error| {
                Error::failed(format!("cannot make {}: {error}", directory.display()))
            })?;
        }
        Ok(curtail_report::write_text(&file.to_string_lossy(), &text)?)
    }
}

/// What runs the trials.
struct Bench {
    cores: Option<Vec<usize>>,
    quantum_ns: u64,
    /// Of a long request.
    steps: u32,
    /// The share of time that the machine took away, run by run.
    lost: Vec<f64>,
    notes: Vec<String>,
}

impl Bench {
    /// Everything once.
    fn round(&mut self, measured: &mut Measured) -> Result<(), Error> {
        self.short(&mut measured.short)?;
        let (clock, flag) = (Preempt::Clock, Preempt::Flag);
        let alone = Plan { rivals: 1, steps: self.steps, alternate: true, trials: LONG_TRIALS };
        let rivals = Plan { rivals: 2, alternate: false, ..alone };
        self.long(alone, clock, NO_QUANTUM_NS, &mut measured.alone)?;
        let late = self.long(rivals, clock, self.quantum_ns, &mut measured.rivals)?;
        add(&mut measured.late_ns, late);
        let quiet = Plan { alternate: false, ..alone };
        self.long(quiet, flag, NO_QUANTUM_NS, &mut measured.alone_watched)?;
        let late = self.long(rivals, flag, self.quantum_ns, &mut measured.rivals_watched)?;
        add(&mut measured.late_watched_ns, late);
        measured.kthreads.round(self.two_cores())
    }

    /// The dispatcher's core and the worker's; `None`: there are no two.
    fn two_cores(&self) -> Option<[usize; 2]> {
        let cores = self.cores.clone().unwrap_or_else(curtail::allowed_cores);
        cores.get(..2).and_then(|two| two.try_into().ok())
    }

    fn short(&mut self, into: &mut Short) -> Result<(), Error> {
        let stamps = stamps(Batches::requests(SHORT_TRIALS));
        let (out, results) = channel();
        let transport = Batches::new(SHORT_TRIALS, stamps.clone(), out);
        self.serve(stamps, Box::new(transport), Preempt::Never, self.quantum_ns)?;
        for short in results.try_iter() {
            into.turn.extend(short.turn);
            into.receive.extend(short.receive);
            into.dispatch.extend(short.dispatch);
            into.hear.extend(short.hear);
            into.between.extend(short.between);
            into.there.extend(short.there);
            into.back.extend(short.back);
        }
        Ok(())
    }

    /// How late safepoints were, where quanta ended.
    fn long(
        &mut self,
        plan: Plan,
        preempt: Preempt,
        quantum_ns: u64,
        into: &mut Vec<Round>,
    ) -> Result<Histogram<u64>, Error> {
        let stamps = stamps(plan.trials as usize * plan.rivals);
        let (out, results) = channel();
        let transport = Rivals::new(plan, stamps.clone(), out);
        let report = self.serve(stamps, Box::new(transport), preempt, quantum_ns)?;
        if report.preempt == preempt {
            into.extend(results.try_iter().flatten());
        }
        Ok(report.late_ns)
    }

    /// Serves what the transport brings, to its end, by a worker with queue and quanta of its own.
    fn serve(
        &mut self,
        stamps: Stamps,
        transport: Box<dyn Transport>,
        preempt: Preempt,
        quantum_ns: u64,
    ) -> Result<Report, Error> {
        let spec = Spec::preset("tq").map_err(Error::failed)?;
        let spec = spec.with_quantum(Nanos(quantum_ns)).map_err(Error::failed)?;
        let mut server = Server::builder(Stamped::new(stamps))
            .transport(transport)
            .policy(spec)
            .preempt(preempt)
            .workers(1)
            .capacity(4 * BATCH);
        if !app::is_instrumented() {
            server = server.safepoints_by_hand();
        }
        if let Some(cores) = &self.cores {
            server = server.cores(cores.clone());
        }
        // A thread of its own: the runtime pins the one it runs on.
        let run = || server.build().map_err(Error::failed)?.run().map_err(Error::failed);
        let report = std::thread::scope(|scope| {
            let thread = scope.spawn(run);
            thread.join().map_err(|_| Error::failed("the dispatcher's thread panicked"))?
        })?;
        self.lost.push(report.noise.lost_share);
        for note in report.preempt_note.iter().chain(&report.notes) {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        Ok(report)
    }

    /// What is to be known beside the figures, in lines.
    fn told(&self, measured: &Measured) -> Vec<String> {
        let runs = self.lost.len();
        let lost = self.lost.iter().sum::<f64>() / runs.max(1) as f64;
        let rounds =
            || measured.alone.iter().chain(&measured.rivals).chain(&measured.rivals_watched);
        let disturbed = rounds().filter(|round| round.disturbed).count();
        let mut told = vec![format!(
            "{runs} runs; the machine took {:.2}% of their time in gaps, and {disturbed} of {} long \
             trials are left out for them",
            lost * 100.0,
            rounds().count()
        )];
        let Short { turn, there, back, .. } = &measured.short;
        if let (Some(turn), Some(there), Some(back)) =
            (turn.median(), there.median(), back.median())
        {
            told.push(format!(
                "in an idle system a request takes {there:.0} ns to its handler, and its end {back:.0} ns \
                 to the dispatcher; a turn of the dispatcher with nothing to do takes {turn:.0} ns"
            ));
        }
        if !measured.instrumented {
            told.push(
                "this program has no safepoints (cargo curtail build): pre-emption was measured at \
                 some set by hand, instrumentation is not known"
                    .to_owned(),
            );
        }
        told.extend(self.notes.iter().cloned());
        told
    }
}

fn add(all: &mut Option<Histogram<u64>>, more: Histogram<u64>) {
    match all {
        // All of a server's histograms have the same bounds.
        Some(all) => drop(all.add(&more)),
        None => *all = Some(more),
    }
}

/// Drops responses: no client waits for one here.
struct NoClient;

impl Reply for NoClient {
    fn reply(&self, _: Peer, _: &[u8]) {}

    fn dropped(&self) -> u64 {
        0
    }
}
