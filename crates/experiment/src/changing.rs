//! Workloads that change: the policies under them, results by slices of time.

use crate::{Error, Measured, Setting, reclassified};
use curtail_load::{Slowdowns, fill};
use curtail_policy::{AnyPolicy, Spec};
use curtail_report::Run;
use curtail_sim::{Done, Observer, run_observed};
use curtail_workload::{Phases, Recorder, Request, Until, format_duration};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A workload that changes, and the stretches of time whose results stand apart.
#[derive(Clone, Debug)]
pub struct Changing {
    /// What arrives.
    pub phases: Phases,
    /// Each with its phase.
    pub slices: Vec<(usize, Range<u64>)>,
}

impl Changing {
    /// These phases, each cut into so many parts.
    #[must_use]
    pub fn new(phases: Phases, parts: u32) -> Self {
        let slices = phases.slices(parts);
        Self { phases, slices }
    }

    /// The names of its classes.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.phases.classes().into_iter().map(str::to_owned).collect()
    }

    /// The result of a slice, with what is known of it beforehand.
    #[must_use]
    pub fn run(&self, slice: usize, load: f64, workers: usize) -> Run {
        let (phase, time) = &self.slices[slice];
        let (from, to) = (format_duration(time.start), format_duration(time.end));
        let of = &self.phases.phases()[*phase];
        let load = of.load.unwrap_or(load);
        Run {
            workload: format!("phase {} ({from}–{to})", phase + 1),
            load: Some(load),
            offered_rps: of.mix.rate_rps(load, workers),
            duration_s: (time.end - time.start) as f64 / 1e9,
            ..Run::default()
        }
    }
}

/// What is seen of a run, by slice.
struct Watch<'a> {
    changing: &'a Changing,
    recorders: &'a mut [Recorder],
    decided: &'a mut Vec<Option<String>>,
}

impl Observer for Watch<'_> {
    fn completed(&mut self, done: &Done) {
        let slices = &self.changing.slices;
        let slice = slices.partition_point(|(_, time)| time.end <= done.arrived_ns);
        let class = usize::from(done.class.0);
        self.recorders[slice].record(class, done.sojourn_ns(), done.service_ns, false);
    }

    fn wants_to_look_ns(&self) -> u64 {
        self.changing.slices.get(self.decided.len()).map_or(u64::MAX, |(_, time)| time.end)
    }

    fn look(&mut self, policy: &AnyPolicy) {
        let decided = self.explain(policy);
        self.decided.push(decided);
    }
}

impl Watch<'_> {
    fn explain(&self, policy: &AnyPolicy) -> Option<String> {
        let names = self.changing.phases.classes();
        policy.explain(|class| {
            names.get(usize::from(class.0)).map_or_else(|| "unknown".into(), |&name| name.into())
        })
    }
}

impl Setting {
    /// One policy at one load under the changing workload: its slices.
    ///
    /// # Errors
    /// The policy cannot be simulated so.
    pub fn measure_phases(
        &self,
        changing: &Changing,
        spec: &Spec,
        load: f64,
        seed: u64,
    ) -> Result<Vec<Measured>, Error> {
        let phases = &changing.phases;
        let classes = phases.classes().len();
        let requests = phases.source(self.offer.arrivals, load, self.workers, seed);
        let requests = requests.map(|it| Request {
            at_ns: it.at_ns,
            class: it.class as u16,
            service_ns: it.service_ns,
        });
        let requests = reclassified(requests, self.offer.classifier, classes, seed);
        let mut recorders: Vec<_> =
            changing.slices.iter().map(|_| Recorder::new(classes)).collect();
        let mut decided = Vec::new();
        let watch = Watch { changing, recorders: &mut recorders, decided: &mut decided };
        let config = self.config(spec, seed);
        let outcome = run_observed(&config, requests, classes, Until::Jobs(0), watch)
            .map_err(Error::usage)?;
        self.events.fetch_add(outcome.events, Ordering::Relaxed);
        // After the last request there is no look at it, and it decides nothing else.
        decided.resize(changing.slices.len(), outcome.decided.clone());
        let slices = recorders.into_iter().zip(decided).enumerate();
        let measured = slices.map(|(slice, (recorder, decided))| {
            let mut run = Run {
                verb: "sim".to_owned(),
                policy: spec.name.clone(),
                preempt: spec.preempt.to_string(),
                quantum_ns: spec.quantum.map(|quantum| quantum.0),
                workers: u32::try_from(self.workers).ok(),
                seed: Some(seed),
                decided,
                ..changing.run(slice, load, self.workers)
            };
            fill(&mut run, &recorder, &changing.names(), &[], Slowdowns::Known);
            run.offered = run.completed;
            run.achieved_rps = run.completed as f64 / run.duration_s;
            if outcome.refused > 0 {
                run.invalidate(&format!("{} requests were dropped in all", outcome.refused));
            }
            Measured { run, recorder, notes: Vec::new() }
        });
        Ok(measured.collect())
    }
}
