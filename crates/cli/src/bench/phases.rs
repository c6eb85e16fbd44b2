//! `curtail bench --phases`: the runtime under a workload that changes, results by slices of time.

use super::generator::{Offer, Tally};
use super::measure::{Launch, launch};
use super::requests::ChangingRequests;
use super::{Bench, Setting};
use crate::failure::Failure;
use crate::output;
use crate::result::{self, Slowdowns};
use crate::typed::Changing;
use curtail::{Class, Handle, Preempt, Report};
use curtail_policy::Spec;
use curtail_report::Run;
use curtail_workload::spin::Calibration;
use spin::Spin;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

impl Bench {
    /// Every policy under the changing workload.
    pub(super) fn run_phases(&self, specs: &[Spec], changing: &Changing) -> Result<(), Failure> {
        let loads = self.offered.loads();
        let calibration = Calibration::measure();
        let mut runs = Vec::new();
        let partial = output::partial(self.json.json.as_deref())?;
        for spec in specs {
            for (&load, &preempt) in loads
                .iter()
                .flat_map(|load| self.system.preempts().iter().map(move |how| (load, how)))
            {
                let first = &changing.phases.phases()[0].mix;
                let spec = self.system.darc.inform(spec.clone(), first);
                let one = One { bench: self, changing, calibration: &calibration, load };
                let served = one.measure(&spec, preempt)?;
                for slice in 0..changing.slices.len() {
                    let run = one.result(slice, &served);
                    partial.add(&run)?;
                    runs.push(run);
                }
            }
        }
        output::results(&runs, true, self.json.json.as_deref())
    }
}

/// One run.
struct One<'a> {
    bench: &'a Bench,
    changing: &'a Changing,
    calibration: &'a Calibration,
    load: f64,
}

/// What one run gave, by slice.
struct Served {
    report: Report,
    tallies: Vec<Tally>,
    decided: Vec<Option<String>>,
}

impl One<'_> {
    fn measure(&self, spec: &Spec, preempt: Preempt) -> Result<Served, Failure> {
        let Self { bench, changing, .. } = self;
        let workers = bench.system.workers();
        let classes = changing.names();
        let phases = &changing.phases;
        let (arrivals, seed) = (bench.offered.arrivals, bench.offered.seed);
        let (ended, slices) = sync_channel(changing.slices.len());
        let offer = Offer {
            rate_rps: phases.peak_rps(self.load, workers),
            requests: ChangingRequests(phases.source(arrivals, self.load, workers, seed)),
            classes: classes.len(),
            duration_ns: phases.duration_ns(),
            slices: changing.slices.iter().map(|(_, time)| time.clone()).collect(),
            ended: Some(ended),
        };
        // The policy is not told what it is to find out by itself.
        let app = Spin::new(
            classes.into_iter().map(Class::named).collect(),
            self.calibration.iterations_per_us(),
        );
        let mut watcher = None;
        let steer = |handle: &Handle| {
            bench.misclassify(handle, changing.names().len())?;
            watcher = Some(watch(handle.clone(), slices, changing.slices.len()));
            Ok(())
        };
        let how = Launch { system: &bench.system, spec, preempt, record: None };
        let (report, tallies) = launch(&how, app, offer, steer)?;
        let decided = watcher.and_then(|watcher| watcher.join().ok());
        let mut decided = decided.unwrap_or_else(|| vec![None; changing.slices.len()]);
        // The last slice ends with the run.
        if let Some(last) = decided.last_mut() {
            last.clone_from(&report.decided);
        }
        Ok(Served { report, tallies, decided })
    }

    fn result(&self, slice: usize, served: &Served) -> Run {
        let Served { report, tallies, decided } = served;
        let tally = &tallies[slice];
        let names = self.changing.names();
        let mut run = Run {
            verb: "bench".to_owned(),
            offered: tally.offered,
            decided: decided[slice].clone(),
            ..self.changing.run(slice, self.load, self.bench.system.workers())
        };
        result::fill_runtime(&mut run, report);
        result::fill(&mut run, &tally.recorder, &names, &tally.dropped, Slowdowns::Known);
        result::fill_undisturbed(&mut run, &tally.recorder, &names);
        run.achieved_rps = run.completed as f64 / run.duration_s;
        Setting::judge(&mut run, tally, report.abandoned, self.bench.system.capacity());
        run
    }
}

/// Asks what the policy has decided whenever a slice has ended, until the generator is dropped.
fn watch(handle: Handle, ended: Receiver<usize>, slices: usize) -> JoinHandle<Vec<Option<String>>> {
    std::thread::spawn(move || {
        let mut decided = vec![None; slices];
        for slice in ended {
            decided[slice] = handle.stats().and_then(|stats| stats.decided);
        }
        decided
    })
}
