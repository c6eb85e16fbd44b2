//! `curtail bench --phases`: the runtime under a workload that changes, results by slices of time.

use super::Bench;
use crate::failure::Failure;
use crate::output;
use crate::typed::Changing;
use curtail::{Class, Handle, Preempt, Report};
use curtail_experiment::runtime::{Launch, fill_runtime, judge, launch, misclassify};
use curtail_load::inside::{Offer, Slice, SpinRequests};
use curtail_load::{Slowdowns, fill_undisturbed};
use curtail_policy::Spec;
use curtail_report::Run;
use curtail_workload::Request;
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
        output::results(&runs, true, self.json.json.as_deref())?;
        output::all_valid(&runs)
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
    counted: Vec<Slice>,
    decided: Vec<Option<String>>,
}

impl One<'_> {
    fn measure(&self, spec: &Spec, preempt: Preempt) -> Result<Served, Failure> {
        let Self { bench, changing, .. } = self;
        let system = bench.system.runtime();
        let workers = system.workers;
        let classes = changing.names();
        let phases = &changing.phases;
        let (arrivals, seed) = (bench.offered.arrivals, bench.offered.seed);
        let (ended, slices) = sync_channel(changing.slices.len());
        let requests = phases.source(arrivals, self.load, workers, seed);
        let requests = requests.map(|it| Request {
            at_ns: it.at_ns,
            class: it.class as u16,
            service_ns: it.service_ns,
        });
        let offer = Offer {
            rate_rps: phases.peak_rps(self.load, workers),
            requests: SpinRequests(requests),
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
            misclassify(bench.types.classifier, handle, changing.names().len(), seed)?;
            watcher = Some(watch(handle.clone(), slices, changing.slices.len()));
            Ok(())
        };
        let how = Launch { system: &system, spec, preempt, record: None };
        let (report, counted) = launch(&how, app, offer, steer)?;
        let decided = watcher.and_then(|watcher| watcher.join().ok());
        let mut decided = decided.unwrap_or_else(|| vec![None; changing.slices.len()]);
        // The last slice ends with the run.
        if let Some(last) = decided.last_mut() {
            last.clone_from(&report.decided);
        }
        Ok(Served { report, counted, decided })
    }

    fn result(&self, slice: usize, served: &Served) -> Run {
        let Served { report, counted, decided } = served;
        let counted = &counted[slice];
        let names = self.changing.names();
        let mut run = Run {
            verb: "bench".to_owned(),
            decided: decided[slice].clone(),
            ..self.changing.run(slice, self.load, self.bench.system.workers())
        };
        fill_runtime(&mut run, report);
        let (_, window) = &self.changing.slices[slice];
        counted.tally.fill(&mut run, &names, window, Slowdowns::Known);
        fill_undisturbed(&mut run, &counted.tally.recorder, &names);
        // The next slice begins where this one ends, whatever is still under way.
        run.achieved_rps = run.completed as f64 / run.duration_s;
        judge(&mut run, counted, report.abandoned, self.bench.system.capacity());
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
